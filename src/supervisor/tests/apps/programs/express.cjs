// The answer names the process.
const express = require('express');
const app = express();
app.get('/', (request, response) => response.send(`${process.pid}`));
app.listen(Number(process.env.PORT));
