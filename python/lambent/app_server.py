"""python3 -m lambent.app_server ENTRY: calls a function of the app and serves at PORT what it returns: an ASGI application by uvicorn, a
WSGI application by waitress or else the standard library, a server by its serve_forever(). The program of @app.http functions."""
from __future__ import annotations

import asyncio
import inspect
import os
import re
import sys
import threading
from collections.abc import Callable
from typing import Any


def is_asgi(application: Any) -> bool:
    return any(map(inspect.iscoroutinefunction, (application, getattr(application, "__call__", None))))


def is_wsgi(application: Any) -> bool:
    try:
        inspect.signature(application).bind({}, None)
    except (TypeError, ValueError):  # it takes others, or does not say
        return False
    return True


def serve_asgi(application: Any, port: int) -> None:
    try:
        import uvicorn
    except ImportError:
        sys.exit("lambent.app_server: uvicorn is not among the function's requirements")
    uvicorn.run(application, host="127.0.0.1", port=port, log_level="warning", lifespan="auto")


def serve_wsgi(application: Any, port: int) -> None:
    try:
        import waitress
    except ImportError:
        waitress = None
    if waitress is not None:
        waitress.serve(application, host="127.0.0.1", port=port)
        return
    import socketserver
    import wsgiref.simple_server

    class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
        daemon_threads = True
        request_queue_size = 128

    class Handler(wsgiref.simple_server.WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """The worker has an access log."""

    with Server(("127.0.0.1", port), Handler) as server:
        server.set_app(application)
        server.serve_forever()


def serve(made: Any, port: int, name: str) -> None:
    """Returns when it serves no more."""
    if inspect.iscoroutine(made):  # async def: of what it returns, or it serves itself
        made = asyncio.run(made)
    if made is None:
        if not any(each is not threading.current_thread() and not each.daemon for each in threading.enumerate()):
            sys.exit("lambent.app_server: %s returned nothing, and nothing listens: it returns an ASGI or WSGI application or a server, or "
                     "serves at 127.0.0.1, port PORT, until it is stopped" % name)
    elif callable(getattr(made, "serve_forever", None)):
        made.serve_forever()
    elif is_asgi(made):
        serve_asgi(made, port)
    elif is_wsgi(made):
        serve_wsgi(made, port)
    else:
        sys.exit("lambent.app_server: %s returned a %s, which is neither an ASGI nor a WSGI application, nor a server with serve_forever()"
                 % (name, type(made).__name__))


def main() -> None:
    folder = os.environ.get("LAMBDA_TASK_ROOT", os.getcwd())
    sys.path.insert(0, folder)
    with open(os.path.join(folder, "_lambent_app.py"), encoding="utf-8") as launcher:
        module = re.search(r"handler_of\('(\w+)'", launcher.read())
    if module is None or len(sys.argv) != 2:
        sys.exit("lambent.app_server: this is no package of an app")
    from . import app_calls

    make: Callable[[], Any] = getattr(app_calls.imported(module[1]), sys.argv[1])
    serve(make(), int(os.environ["PORT"]), sys.argv[1])


if __name__ == "__main__":
    main()
