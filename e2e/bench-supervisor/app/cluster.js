// The same app with Node's own cluster module, as its documentation has it: WORKERS copies behind one primary. SIGHUP
// replaces them one after the other.
'use strict'

const cluster = require('node:cluster')
const { once } = require('node:events')

if (cluster.isPrimary) {
  const replaced = new Set()
  for (let n = Number(process.env.WORKERS); n > 0; n--) cluster.fork()
  cluster.on('exit', (worker) => {
    if (!replaced.delete(worker.id)) cluster.fork()
  })
  process.on('SIGHUP', async () => {
    for (const old of Object.values(cluster.workers)) {
      await once(cluster.fork(), 'listening')
      replaced.add(old.id)
      old.disconnect()
    }
  })
  process.on('SIGTERM', () => {
    cluster.removeAllListeners('exit')
    for (const worker of Object.values(cluster.workers)) worker.process.kill()
    process.exit(0)
  })
} else {
  require('./server.js')
}
