// Keeps a megabyte of each request.
'use strict';
const kept = [];
require('node:http')
  .createServer((request, response) => {
    kept.push(Buffer.alloc(1 << 20, 1));
    response.end(`${process.pid}`);
  })
  .listen(process.env.PORT);
