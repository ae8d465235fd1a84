// What the page shows. Computed, so that each request costs some CPU time as a real page does.

const WORDS = ['amber', 'basalt', 'cedar', 'delta', 'ember', 'fjord', 'granite', 'harbour', 'indigo', 'juniper']

function next(seed) {
  return (Math.imul(seed, 1664525) + 1013904223) >>> 0
}

export function products(count, seed) {
  const list = []
  for (let id = 1; id <= count; id++) {
    seed = next(seed)
    const name = `${WORDS[seed % WORDS.length]} ${WORDS[(seed >>> 8) % WORDS.length]}`
    list.push({ id, name, price: ((seed >>> 4) % 9900) + 100, stock: (seed >>> 16) % 50 })
  }
  return list.sort((a, b) => a.price - b.price)
}
