// The answer names the process.
const app = require('fastify')();
app.get('/', async () => `${process.pid}`);
app.listen({ port: Number(process.env.PORT), host: '::' });
