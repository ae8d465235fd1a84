# The answer names the process.
import os


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = str(os.getpid()).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
