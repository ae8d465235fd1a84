// Names its process as soon as it has read a request, and finishes the answer after a while. No signal handling.
'use strict';
require('node:http')
  .createServer((request, response) => {
    response.writeHead(200, { 'x-process': process.pid, 'content-length': 2 });
    response.flushHeaders();
    setTimeout(() => response.end('ok'), 20);
  })
  .listen(process.env.PORT);
