// Makes its own workers with node:cluster, as many as WORKERS says.
'use strict';
const cluster = require('node:cluster');
if (cluster.isPrimary) {
  for (let i = 0; i < Number(process.env.WORKERS); i++) cluster.fork();
} else {
  require('node:http').createServer((request, response) => response.end(`${process.pid}`)).listen(process.env.PORT);
}
