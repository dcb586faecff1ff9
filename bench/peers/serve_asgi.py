"""asgi_app under uvicorn on $PORT, for an HTTP function. Usage: serve_asgi.py PROCESSES"""
import os
import sys

import uvicorn

if __name__ == "__main__":
    uvicorn.run("asgi_app:app", host="127.0.0.1", port=int(os.environ["PORT"]), workers=int(sys.argv[1]), access_log=False, log_level="warning")
