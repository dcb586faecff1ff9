"""A server as there are many: a page, an upload of any size, and events that are sent as they come.

    python3 server.py 8080            # without Lambent
    lambent deploy 19_http_server     # with it
"""
import hashlib
import http.server
import json
import os
import sys
import time

PAGE = b"""<!doctype html>
<title>Events</title>
<h1>Events</h1>
<ul id="list"></ul>
<script>
  new EventSource("events").onmessage = event => {
    document.getElementById("list").innerHTML += "<li>" + event.data + "</li>";
  };
</script>
"""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/healthz":
            self.answer(200, "text/plain", b"ok\n")
        elif path == "/":
            self.answer(200, "text/html", PAGE)
        elif path == "/events":
            self.send_events()
        else:
            self.answer(404, "text/plain", b"there is no such page\n")

    def do_POST(self):
        """The digest of what is uploaded, which is never held as a whole."""
        digest, size = hashlib.sha256(), 0
        for piece in self.body():
            digest.update(piece)
            size += len(piece)
        answer = json.dumps({"bytes": size, "sha256": digest.hexdigest()}) + "\n"
        self.answer(200, "application/json", answer.encode())

    def body(self):
        """The request's body in pieces, with a Content-Length or chunked."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length", 0))
        while left > 0 and (piece := self.rfile.read(min(left, 65536))):
            left -= len(piece)
            yield piece

    def send_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(5):
            event = b"data: event %d\n\n" % number
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            time.sleep(0.2)
        self.wfile.write(b"0\r\n\r\n")

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    port = int(os.environ.get("PORT") or sys.argv[1])
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
