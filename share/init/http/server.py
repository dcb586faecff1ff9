"""Greets who asks, over HTTP. Listens where PORT says."""
import http.server
import json
import os


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept, which is faster

    def do_GET(self):
        self.answer({"message": "Hello"})

    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.answer({"message": f"Hello {event['name']}"})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
