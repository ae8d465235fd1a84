import { hostname } from 'node:os'
import { threadId } from 'node:worker_threads'

// Read at request time through a variable name, so that the bundler does not inline what the build machine had.
const env = (name) => process.env[name]

// Which copy of the app answers: WORKER_ID under the supervisor, NODE_APP_INSTANCE under pm2, the thread under Watt.
export function whoami() {
  return {
    worker: env('WORKER_ID') ?? env('NODE_APP_INSTANCE') ?? String(threadId),
    workers: env('WORKERS') ?? '1',
    pid: process.pid,
    thread: threadId,
    host: hostname(),
    node: process.version
  }
}
