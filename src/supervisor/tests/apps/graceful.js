// Ends properly on SIGTERM, and says so.
'use strict';
const server = require('node:http').createServer((request, response) => response.end(`${process.pid}`));
server.listen(process.env.PORT);
process.on('SIGTERM', () => {
  console.log(`graceful ${process.pid}`);
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});
