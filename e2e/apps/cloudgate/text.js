// Writes the file that the suite asks for: 68,000 bytes of words, always the same ones.
'use strict'

const WORDS = ['amber', 'basalt', 'cedar', 'delta', 'ember', 'fjord', 'granite', 'harbour', 'indigo', 'juniper']
let seed = 7
let text = ''
while (text.length < 68_000) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
  text += WORDS[(seed >>> 8) % WORDS.length] + ((seed >>> 16) % 12 === 0 ? '\n' : ' ')
}
process.stdout.write(text.slice(0, 68_000))
