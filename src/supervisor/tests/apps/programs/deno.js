// The answer names the process.
Deno.serve({ port: Number(Deno.env.get('PORT')), hostname: '0.0.0.0' }, () => new Response(`${Deno.pid}`));
