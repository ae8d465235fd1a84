// The same app with Node's own cluster module: WORKERS copies behind one primary.
'use strict'

const cluster = require('node:cluster')

if (cluster.isPrimary) {
  let stopping = false
  const workers = Number(process.env.WORKERS ?? 1)
  for (let id = 0; id < workers; id++) cluster.fork({ WORKER_ID: id })
  cluster.on('exit', () => {
    if (!stopping) cluster.fork()
    else if (Object.keys(cluster.workers).length === 0) process.exit(0)
  })
  process.on('SIGTERM', () => {
    stopping = true
    for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGTERM')
  })
} else {
  require('./server.js')
}
