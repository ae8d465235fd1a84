// The function behind /tests/simple.
exports.handler = (event, context, callback) => callback(null, 'Hello from a function!')
