// Loaded into Node before the app, by NODE_OPTIONS. It changes nothing until the supervisor asks this process to finish
// what it has begun; then each answer ends its connection, so that no client sends a request to a process that is about
// to stop. The same for a few connections, when this process has more of them than the other workers, and for those that have
// been open for as long as they may. Only public interfaces are used; where Node is too old for them, nothing happens.
'use strict';
(() => {
  const generation = process.env.WORKER_GENERATION;
  const port = Number(process.env.WORKERAPP_ADMIN_PORT);
  if (!generation || !port) return;
  let channels;
  try {
    channels = require('diagnostics_channel');
  } catch {
    return;
  }
  const servers = new Set();
  let latest;
  let draining = false;
  let requests = 0;
  let accepted = 0;
  // What each connection has open. It is found by a property of the socket: a map with an entry per answer took a tenth of the time
  // that Node needs for a trivial request.
  const exchanges = new Set();
  let sweepAt = 1000;
  const EXCHANGE = Symbol('workerapp');
  // Connections that never end keep their client with this pod, however many others there are by now.
  const mostRequests = Number(process.env.WORKERAPP_CONNECTION_REQUESTS) || Infinity;
  const mostMs = Number(process.env.WORKERAPP_CONNECTION_MS) || Infinity;
  // Reading the clock costs more than all the rest here. Beyond 1,000 requests a second one of 16 is timed, and counts as 16.
  const [STEP, MANY] = [256, 16];
  let every = 1;
  let stepped = 0;
  // How many answers took at most so many milliseconds, and not less; those that took longer come last.
  const bounds = [5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10000];
  const durations = new Array(bounds.length + 1).fill(0);
  let seconds = 0;
  // Loaded with the first request: it takes some of the time in which the app is to start.
  let performance;
  let link;
  let utilisation;
  // So many of the next answers end their connections, until then.
  let shed = 0;
  let shedUntil = 0;

  channels.subscribe?.('http.server.request.start', ({ socket, response, server }) => {
    requests += 1;
    performance = performance || require('perf_hooks').performance;
    if (requests % STEP === 0) adapt();
    const exchange = socket[EXCHANGE] || begin(socket, response.shouldKeepAlive);
    exchange.open += 1;
    exchange.left -= 1;
    // Of requests sent before the last one was answered only the first is timed.
    if (requests % every === 0 && exchange.open === 1) exchange.began = performance.now();
    if (server !== latest) meet(server);
    if (draining || exchange.left < 1 || isOld(exchange) || (shed > 0 && response.shouldKeepAlive && sheds())) {
      response.shouldKeepAlive = false;
    }
  });

  // The bounds vary by a tenth, so that connections which began together don't end together.
  function begin(socket, kept) {
    const share = 0.9 + 0.2 * Math.random();
    // `open`: answers that have begun and not ended; `began`: when one did that is timed, else 0.
    const until = mostMs < Infinity ? Date.now() + mostMs * share : Infinity;
    const exchange = { socket, kept, open: 0, began: 0, left: Math.round(mostRequests * share), until };
    socket[EXCHANGE] = exchange;
    exchanges.add(exchange);
    // A listener costs more than the rest of this, so a connection for a single request has none: its answer's end is its own.
    if (kept) socket.once('close', () => exchanges.delete(exchange));
    return exchange;
  }

  // An answer whose client has gone never ends.
  function sweep() {
    for (const exchange of exchanges) if (exchange.socket.destroyed) exchanges.delete(exchange);
    sweepAt = Math.max(1000, 2 * exchanges.size);
  }

  function isOld({ until }) {
    return until < Infinity && Date.now() >= until;
  }

  channels.subscribe?.('http.server.response.finish', ({ socket }) => {
    const exchange = socket[EXCHANGE];
    if (!exchange) return;
    exchange.open -= 1;
    if (!exchange.kept && exchange.open === 0) exchanges.delete(exchange);
    if (exchange.began === 0) return;
    const time = performance.now() - exchange.began;
    exchange.began = 0;
    seconds += (every * time) / 1000;
    const at = bounds.findIndex((bound) => time <= bound);
    durations[at < 0 ? bounds.length : at] += every;
  });

  function adapt() {
    const now = performance.now();
    every = now - stepped < STEP ? MANY : 1;
    stepped = now;
    if (exchanges.size > sweepAt) sweep();
  }

  channels.subscribe?.('net.server.socket', () => {
    accepted += 1;
  });

  // Where the supervisor may not hand out sockets, the kernel can still spread connections over several that ask for it.
  const shared = (process.env.WORKERAPP_REUSE_PORTS || '').split(',').map(Number).filter(Boolean);
  const sharing = shared.length > 0 && canReusePort() && !require('cluster').isWorker;
  if (sharing) share();

  function canReusePort() {
    const [major, minor] = process.versions.node.split('.').map(Number);
    return major > 23 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12);
  }

  function share() {
    const { prototype } = require('net').Server;
    const { listen } = prototype;
    prototype.listen = function (...args) {
      const options = reusing(args);
      if (!options) return listen.apply(this, args);
      this.once('listening', () => {
        meet(this);
        const { address, family, port } = this.address();
        link.write(`listens ${family === 'IPv6' ? `[${address}]` : address}:${port}\n`);
      });
      return listen.call(this, options, ...args.filter((value) => typeof value === 'function'));
    };
  }

  // listen({ port, … }) or listen(port, host, backlog), as far as it is about a declared port.
  function reusing([first, ...rest]) {
    if (first !== null && typeof first === 'object') {
      const { port, fd, _handle } = first;
      return shared.includes(Number(port)) && fd === undefined && !_handle ? { ...first, reusePort: true } : undefined;
    }
    if (!/^(number|string)$/.test(typeof first) || !shared.includes(Number(first))) return undefined;
    const host = rest.find((value) => typeof value === 'string');
    const backlog = rest.find((value) => typeof value === 'number');
    return { port: Number(first), host, backlog, reusePort: true };
  }

  // npm, build steps and the like never serve a request, so they never connect.
  function meet(server) {
    latest = server;
    if (servers.has(server)) return;
    servers.add(server);
    server.once('close', () => servers.delete(server));
    if (!link) connect();
  }

  function connect() {
    link = require('net').connect(port, '127.0.0.1');
    link.unref();
    link.on('error', () => {});
    link.setEncoding('latin1');
    link.write(`GET /channel?generation=${generation} HTTP/1.1\r\nHost: supervisor\r\nUpgrade: workerapp\r\n\r\n`);
    let text = '';
    link.on('data', (part) => {
      text += part;
      const lines = text.split('\n');
      text = lines.pop();
      for (const line of lines) obey(line.trim());
    });
  }

  function obey(line) {
    const [word, value] = line.split(' ');
    if (word === 'drain' && !draining) drain(Number(value));
    if (word === 'stats') report();
    if (word === 'shed') {
      shed = Number(value);
      shedUntil = Date.now() + 1500;
    }
  }

  // Other workers have fewer connections, and the client's next one gets to them. What was asked for long ago may not hold any more.
  function sheds() {
    shed = Date.now() < shedUntil ? shed - 1 : -1;
    return shed >= 0;
  }

  // Clients that go on sending end their connections with their next answer. Those that stay silent until `patience` has
  // almost passed are cut off; that they send something in this very moment is as good as impossible.
  function drain(patience) {
    draining = true;
    // Nobody else keeps new connections away from this process; those that it has go on.
    if (sharing) for (const server of servers) require('net').Server.prototype.close.call(server);
    const cut = Date.now() + patience * 0.8;
    const timer = setInterval(async () => {
      if (Date.now() >= cut) for (const server of servers) server.closeIdleConnections?.();
      if ((await connections()) === 0) {
        clearInterval(timer);
        link.write('drained\n');
      }
    }, 40);
    timer.unref();
  }

  async function connections() {
    const count = (server) => new Promise((resolve) => server.getConnections((error, n) => resolve(error ? 0 : n)));
    const counts = await Promise.all([...servers].map(count));
    return counts.reduce((sum, n) => sum + n, 0);
  }

  async function report() {
    performance = performance || require('perf_hooks').performance;
    const now = performance.eventLoopUtilization?.();
    const busy = now ? performance.eventLoopUtilization(now, utilisation).utilization : NaN;
    utilisation = now;
    const heap = process.memoryUsage().heapUsed;
    sweep();
    let open = 0;
    for (const exchange of exchanges) open += exchange.open;
    const counts = `requests=${requests} inflight=${open} accepted=${accepted} connections=${await connections()}`;
    link.write(`stats ${counts} elu=${busy} heap=${heap} seconds=${seconds} durations=${durations.join()}\n`);
  }
})();
