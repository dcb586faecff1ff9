"""Builds of Python packages reach the index and nothing else: an index that this test serves, honest and hostile, and a program in the
place of uv that looks for ways out. ./dev test installs uv into .venv."""
import contextlib
import http.server
import json
import os
import pathlib
import shutil
import socket
import tempfile
import threading
import unittest
import urllib.parse

from harness import HttpError, Worker, make_zip
from python_wheels import write_wheel

OWN_UV = pathlib.Path(__file__).resolve().parents[2] / ".venv/bin/uv"
UV = shutil.which("uv") or str(OWN_UV)
HANDLER = "import pear\ndef handler(event, context):\n    return pear.VERSION\n"
# In the place of uv: looks for what it can reach, directly and by the proxy.
LOOKS_AROUND = """#!/usr/bin/python3
import json, os, socket, sys, urllib.parse
if "pip" not in sys.argv:
    sys.exit(0)
def connects(host, port):
    try:
        socket.create_connection((host, port), 2).close()
        return True
    except OSError:
        return False
def asks(line):
    with socket.create_connection(("127.0.0.1", 3128), 5) as proxy:
        proxy.sendall(line.encode() + b"\\r\\n\\r\\n")
        return proxy.recv(100).split(b" ")[1].decode()
places = {places!r}
found = [[connects(*place), asks("CONNECT %s:%d HTTP/1.1" % place), asks("GET http://%s:%d/ HTTP/1.1" % place)] for place in places]
found.append([name for _, name in socket.if_nameindex()])
# What it found it tells the only one that it reaches.
asks("GET http://%s:%d/found?" % places[0] + urllib.parse.quote(json.dumps(found)) + " HTTP/1.1")
sys.exit(1)
"""
# In the place of uv: has many connections at once, and tells how many of them lead to the index.
ASKS_AT_ONCE = """#!/usr/bin/python3
import socket, sys
if "pip" not in sys.argv:
    sys.exit(0)
place = {place!r}
held = []
for _ in range({count}):
    held.append(socket.create_connection(("127.0.0.1", 3128), 30))
    held[-1].sendall(b"CONNECT %s:%d HTTP/1.1\\r\\n\\r\\n" % (place[0].encode(), place[1]))
led = sum(each.recv(100).startswith(b"HTTP/1.1 200") for each in held)
with socket.create_connection(("127.0.0.1", 3128), 30) as last:
    last.sendall(b"GET http://%s:%d/led?%d HTTP/1.1\\r\\n\\r\\n" % (place[0].encode(), place[1], led))
    last.recv(100)
sys.exit(1)
"""


class Index(http.server.ThreadingHTTPServer):
    """Serves `pages`: {path: bytes, or a URL to be sent to}; keeps the paths that were asked for."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages, self.asked = {}, []
        self.place = ("127.0.0.1", self.server_address[1])
        self.url = "http://127.0.0.1:%d" % self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def offer(self, wheel, url=""):
        """A wheel's project, with the file at `url` or here."""
        project = wheel.name.partition("-")[0]
        link = f"{url or self.url}/files/{wheel.name}"
        self.pages[f"/simple/{project}/"] = f'<!DOCTYPE html><html><body><a href="{link}">{wheel.name}</a></body></html>'.encode()
        if not url:
            self.pages[f"/files/{wheel.name}"] = wheel.read_bytes()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append(self.path)
        page = self.server.pages.get(self.path)
        if isinstance(page, str):
            self.send_response(302)
            self.send_header("Location", page)
            page = b""
        else:
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
        self.send_header("Content-Length", str(len(page or b"")))
        self.end_headers()
        self.wfile.write(page or b"")

    do_HEAD = do_GET

    def log_message(self, *words):
        pass


# The node's proxies would be asked instead.
NO_PROXIES = {name: "" for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")}


@unittest.skipUnless(os.path.exists(UV), "there is no uv")
class PackageIndexTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-index-")))
        self.index, self.elsewhere = Index(), Index()
        for server in (self.index, self.elsewhere):
            self.addCleanup(server.server_close)
            self.addCleanup(server.shutdown)
        wheels = self.folder / "wheels"
        wheels.mkdir()
        write_wheel(wheels, "pear")
        self.wheel = next(wheels.iterdir())

    def start(self, *urls, uv=UV, within=()):
        self.worker = Worker("--uv", str(uv), "--python-index", " ".join(urls), gpu="none", environment=NO_PROXIES, within=within)
        self.addCleanup(self.worker.close)

    def deploy(self, name="fruit"):
        return self.worker.create(name, make_zip({"app.py": HANDLER, ".lambent/python.json": json.dumps({"version": "", "requirements": ["pear"]})}))

    def refused(self):
        with self.assertRaises(HttpError) as caught:
            self.deploy()
        return caught.exception.body.decode()

    def test_packages_come_from_the_index(self):
        self.index.offer(self.wheel)
        self.start(self.index.url + "/simple")
        self.deploy()
        self.assertEqual(self.worker.invoke("fruit").json, "1.0")
        self.assertIn("/simple/pear/", self.index.asked)

    def test_an_index_that_leads_elsewhere_is_refused_with_the_place(self):
        self.index.offer(self.wheel, self.elsewhere.url)
        self.elsewhere.offer(self.wheel)
        self.start(self.index.url + "/simple")
        self.assertIn("127.0.0.1:%d" % self.elsewhere.place[1], self.refused())
        self.assertEqual(self.elsewhere.asked, [])

    def test_nor_does_it_send_a_build_elsewhere(self):
        self.index.pages["/simple/pear/"] = self.elsewhere.url + "/simple/pear/"
        self.elsewhere.offer(self.wheel)
        self.start(self.index.url + "/simple")
        self.assertIn("127.0.0.1:%d" % self.elsewhere.place[1], self.refused())
        self.assertEqual(self.elsewhere.asked, [])

    def test_where_the_operator_says_its_files_lie_is_open(self):
        self.index.offer(self.wheel, self.elsewhere.url)
        self.elsewhere.offer(self.wheel)
        self.start(self.index.url + "/simple", self.elsewhere.url)
        self.deploy()
        self.assertEqual(self.worker.invoke("fruit").json, "1.0")

    def test_a_hostile_build_reaches_the_index_alone(self):
        with socket.create_server(("0.0.0.0", 0)) as listener:
            own = next((each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)), "127.0.0.1")
            places = [self.index.place, self.elsewhere.place, (own, listener.getsockname()[1])]
            program = self.folder / "uv"
            program.write_text(LOOKS_AROUND.replace("{places!r}", repr(places)))
            program.chmod(0o755)
            self.index.pages["/"] = b"here"
            self.start(self.index.url + "/simple", uv=program)
            said = self.refused()
        log = [json.loads(line) for line in self.worker.log().splitlines() if line.startswith("{")]
        self.assertIn("the index leads to", said, log[-3:])
        for host, port in places[1:]:
            self.assertIn(f"{host}:{port}", said)
        self.assertEqual(self.elsewhere.asked, [])
        first, told = self.index.asked
        self.assertEqual(first, "/")
        found = json.loads(urllib.parse.unquote(told.partition("?")[2]))
        self.assertEqual(found, [[False, "200", "200"], [False, "403", "403"], [False, "403", "403"], ["lo"]])

    def test_a_hundred_connections_at_once_reach_it_whatever_stacks_the_node_gives_threads(self):
        program = self.folder / "uv"
        program.write_text(ASKS_AT_ONCE.replace("{place!r}", repr(self.index.place)).replace("{count}", "100"))
        program.chmod(0o755)
        self.start(self.index.url + "/simple", uv=program, within=("prlimit", "--stack=%d:%d" % (64 << 20, 64 << 20)))
        with contextlib.suppress(HttpError):  # it is no uv
            self.deploy()
        self.worker.wait_for(lambda: self.index.asked, what="the program to tell")
        self.assertEqual(self.index.asked, ["/led?100"])


if __name__ == "__main__":
    unittest.main()
