// The answer names the process.
Bun.serve({ port: Number(process.env.PORT), fetch: () => new Response(`${process.pid}`) });
