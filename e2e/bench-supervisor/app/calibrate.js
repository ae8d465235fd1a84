// Prints how many iterations of burn take a millisecond of CPU on this machine when nothing disturbs it.
'use strict'

const burn = require('./burn.js')
const COUNT = 1_000_000

let best = Infinity
for (let round = 0; round < 200; round++) {
  const start = process.hrtime.bigint()
  burn(COUNT)
  best = Math.min(best, Number(process.hrtime.bigint() - start))
}
console.log(Math.round((COUNT * 1e6) / best))
