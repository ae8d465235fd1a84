// An ordinary server: it knows nothing about workers, slots or signals. Its answer names the process.
'use strict';
require('node:http')
  .createServer((request, response) => response.end(`${process.pid}`))
  .listen({ port: process.env.PORT, host: process.env.HOST, ipv6Only: process.env.V6ONLY === '1' });
