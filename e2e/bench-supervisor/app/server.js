// The app that is measured. /N burns N milliseconds of CPU; the header X-Worker names the process and thread that answered. It
// handles no signals and knows nothing of who runs it.
'use strict'

const http = require('node:http')
const { threadId } = require('node:worker_threads')
const burn = require('./burn.js')

const worker = `${process.pid}-${threadId}`
const perMillisecond = Number(process.env.ITERATIONS_PER_MS ?? 0)

const server = http.createServer((request, response) => {
  const milliseconds = Number(request.url.slice(1)) || 0
  const body = JSON.stringify({ result: burn(milliseconds * perMillisecond) })
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': body.length,
    'x-worker': worker
  })
  response.end(body)
})

server.listen(Number(process.env.PORT), process.env.HOST ?? '127.0.0.1')
