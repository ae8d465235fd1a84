// Keeps the requests to /wait until there is one to /go; answers all others at once.
'use strict';
const waiting = [];
require('node:http')
  .createServer((request, response) => {
    if (request.url === '/wait') return waiting.push(response);
    if (request.url === '/go') for (const held of waiting.splice(0)) held.end('at last');
    response.end(`${process.pid}`);
  })
  .listen(process.env.PORT);
