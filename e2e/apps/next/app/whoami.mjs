import { hostname } from 'node:os'
import { threadId } from 'node:worker_threads'

// Read at request time through a variable name, so that the bundler does not inline what the build machine had.
const env = (name) => process.env[name]

// Which copy of the app answers: the thread under Watt, pm2's number, the supervisor's number.
function worker() {
  if (threadId > 0) return String(threadId - 1)
  return env('NODE_APP_INSTANCE') ?? env('WORKER_ID') ?? '0'
}

export function whoami() {
  return {
    worker: worker(),
    workers: env('WORKERS') ?? '1',
    pid: process.pid,
    thread: threadId,
    host: hostname(),
    node: process.version
  }
}
