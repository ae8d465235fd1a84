// Clients that never retry: load.mjs PORT both|short PATH. `both`: half of them open a connection for each request, half keep
// theirs; `short`: all of them open one for each request.
// Says `started` when it got its first answer. Prints what was answered and what was lost, as JSON, when it is told to stop (standard input ends).
import http from 'node:http';

const port = Number(process.argv[2]);
const kinds = process.argv[3];
const path = process.argv[4];
const counts = { short: 0, kept: 0, lost: [] };
let running = true;
process.stdin.resume().on('end', () => (running = false));

function ask(agent) {
  return new Promise((resolve, reject) => {
    http
      .get({ port, path, host: '127.0.0.1', agent, timeout: 60_000 }, (response) => {
        let text = '';
        response.on('data', (part) => (text += part));
        response.on('end', () => (response.complete && response.statusCode === 200 ? resolve(text) : reject(new Error('short'))));
        response.on('error', reject);
      })
      .on('error', reject)
      .on('timeout', function () {
        this.destroy(new Error('timeout'));
      });
  });
}

async function client(kind) {
  const agent = kind === 'kept' ? new http.Agent({ keepAlive: true, maxSockets: 1 }) : false;
  while (running) {
    try {
      await ask(agent);
      if (counts.short + counts.kept === 0) console.log('started');
      counts[kind] += 1;
    } catch (error) {
      counts.lost.push(`${kind}: ${error.code ?? error.message}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
  agent?.destroy?.();
}

await Promise.all(Array.from({ length: 16 }, (_, i) => client(kinds === 'both' && i % 2 ? 'kept' : 'short')));
console.log(JSON.stringify(counts));
