// A small JSON handler, the app of the suite pm2-vs-watt. It handles no signals and knows nothing of who runs it.
'use strict'

const http = require('node:http')

const server = http.createServer((request, response) => {
  const body = JSON.stringify({ message: 'Hello, World!', method: request.method, path: request.url })
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) })
  response.end(body)
})

server.listen(Number(process.env.PORT ?? 3000), process.env.HOSTNAME ?? '0.0.0.0')
