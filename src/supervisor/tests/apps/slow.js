// Answers each request after a while, so that there always is one in flight. No signal handling whatsoever.
'use strict';
require('node:http')
  .createServer((request, response) => setTimeout(() => response.end(`${process.pid}`), 20))
  .listen(process.env.PORT);
