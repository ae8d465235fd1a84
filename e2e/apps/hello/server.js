// A web app without dependencies, for tests. It knows nothing of the operator.
//
//   /            who answers: process, worker, host
//   /cpu?ms=1    the same after burning that much CPU time
//   /sleep?ms=1  the same after waiting
//   /exit?code=1 ends the process
//
// HELLO_LISTENS_ON   the port, instead of PORT; HELLO_PORT belongs to Kubernetes where a Service is called hello
// HELLO_HOST         the address, instead of HOSTNAME
// HELLO_LISTEN=no    start, but never listen
// HELLO_START_MS     wait before listening
'use strict'

const http = require('node:http')
const { hostname } = require('node:os')

const env = process.env
const LIMIT_MS = 60_000

function whoami() {
  return {
    pid: process.pid,
    worker: env.WORKER_ID ?? env.NODE_APP_INSTANCE ?? null,
    workers: env.WORKERS ?? null,
    host: hostname(),
    node: process.version
  }
}

function burn(ms) {
  const start = process.cpuUsage()
  for (;;) {
    const { user, system } = process.cpuUsage(start)
    if (user + system >= ms * 1000) return
    for (let i = 0; i < 1000; i++) Math.sqrt(i)
  }
}

function number(url, name) {
  const value = Number(url.searchParams.get(name) ?? 1)
  return Number.isFinite(value) ? Math.min(Math.max(value, 0), LIMIT_MS) : NaN
}

function answer(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body) + '\n')
}

const server = http.createServer((request, response) => {
  const url = new URL(request.url, 'http://localhost')
  const ms = number(url, 'ms')
  if (Number.isNaN(ms)) return answer(response, 400, { error: 'ms is not a number' })
  switch (url.pathname) {
    case '/':
      return answer(response, 200, whoami())
    case '/cpu':
      burn(ms)
      return answer(response, 200, whoami())
    case '/sleep':
      return setTimeout(() => answer(response, 200, whoami()), ms)
    case '/exit':
      answer(response, 200, whoami())
      return response.on('finish', () => process.exit(number(url, 'code')))
    default:
      return answer(response, 404, { error: `no such path: ${url.pathname}` })
  }
})

function listen() {
  const port = Number(env.HELLO_LISTENS_ON ?? env.PORT ?? 3000)
  const host = env.HELLO_HOST ?? env.HOSTNAME ?? '0.0.0.0'
  server.listen(port, host, () => console.log(`process ${process.pid} listens on ${host}:${port}`))
}

if (env.HELLO_LISTEN === 'no') {
  setInterval(() => {}, LIMIT_MS)
} else {
  setTimeout(listen, Number(env.HELLO_START_MS ?? 0))
}

process.on('SIGTERM', () => {
  console.log(`process ${process.pid} was asked to stop`)
  server.close(() => process.exit(0))
  if (!server.listening) process.exit(0)
})
