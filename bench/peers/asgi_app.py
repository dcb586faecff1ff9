"""The work as a bare ASGI application: no framework. Run by uvicorn, by itself and as an HTTP function."""
import asyncio
import json

import work


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    event = json.loads(b"".join(parts))
    # Work that takes long leaves the loop, as uvicorn's users do it.
    result = await asyncio.to_thread(work.answer, event) if event["work"] == "cpu" else work.answer(event)
    body = json.dumps(result).encode()
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
