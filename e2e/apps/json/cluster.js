// The same with Node's own cluster module: WORKERS copies behind one primary, a new one for each that ends.
'use strict'

const cluster = require('node:cluster')

if (cluster.isPrimary) {
  for (let n = Number(process.env.WORKERS ?? 1); n > 0; n--) cluster.fork()
  cluster.on('exit', () => cluster.fork())
  process.on('SIGTERM', () => {
    cluster.removeAllListeners('exit')
    cluster.disconnect(() => process.exit(0))
  })
} else {
  require('./server.js')
}
