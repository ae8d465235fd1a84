// The same work for every request, not the same time: a slower server takes longer for it.
'use strict'

module.exports = function burn(iterations) {
  let x = 1
  for (let i = 0; i < iterations; i++) x = (Math.imul(x, 1103515245) + 12345) & 0x7fffffff
  return x
}
