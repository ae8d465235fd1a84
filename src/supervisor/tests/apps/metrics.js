// Counts its requests, and tells as a library for metrics would.
'use strict';
let requests = 0;
require('node:http')
  .createServer((request, response) => {
    if (request.url === '/metrics') {
      return response.end(`# HELP requests_total Requests.\n# TYPE requests_total counter\nrequests_total{process="${process.pid}"} ${requests}\n`);
    }
    requests += 1;
    response.end(`${process.pid}`);
  })
  .listen(process.env.PORT);
