// Blocks its event loop for good when it is asked to, as an endless loop or a bad regular expression does.
'use strict';
require('node:http')
  .createServer((request, response) => {
    if (request.url === '/hang') for (;;);
    response.end(`${process.pid}`);
  })
  .listen(process.env.PORT);
