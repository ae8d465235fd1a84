// Writes numbered lines without end, and waits when it has to.
'use strict';
require('node:http').createServer((request, response) => response.end('ok')).listen(process.env.PORT);
let n = 0;
function talk() {
  for (let i = 0; i < 100; i += 1) process.stdout.write(`line ${n++}\n`);
  setTimeout(talk, 1);
}
setTimeout(talk, 500);
