"""A hostile page in headless Chromium tries to reach a worker on loopback, as a site that it is not (CSRF) and under a name
that now leads to the worker (DNS rebinding).

Between browser and worker stands a relay that counts what the browser sent. It passes requests on as they are; in the
last test it takes off what the worker looks at, and the same page then deploys a function: the attack is real, and it is
the worker's check that stops it.
"""
import http.client
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from harness import Worker, make_zip

import base64

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PAGE = pathlib.Path(__file__).with_name("hostile_page.html")
PAGE_PATH, REPORT_PATH = "/hostile-page.html", "/hostile-report"


class Relay:
    """Serves the hostile page and passes all other requests to the worker. `requests`: (method, path, headers, status)."""

    def __init__(self, worker, target="", disguise=False):
        self.requests, self.report, self.reported = [], None, threading.Event()
        relay = self
        zip_file = base64.b64encode(make_zip({"app.py": "def handler(e, c): return 'stolen'"})).decode()
        page = PAGE.read_text().replace("@ZIP@", zip_file)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, kind, body, more=()):
                self.send_response(status)
                for name, value in more:
                    self.send_header(name, value)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path = self.path.partition("?")[0]
                if path == PAGE_PATH:
                    return self.answer(200, "text/html", page.replace("@TARGET@", relay.target).encode())
                if path == REPORT_PATH:
                    relay.report = json.loads(body)
                    relay.reported.set()
                    return self.answer(200, "text/plain", b"ok")
                headers = dict(self.headers.items())
                if disguise:
                    headers = {name: value for name, value in headers.items()
                               if name.lower() != "origin" and not name.lower().startswith("sec-fetch")}
                    headers["Host"] = "localhost"
                connection = http.client.HTTPConnection(*worker.address, timeout=30)
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in headers.items():
                    connection.putheader(name, value)
                connection.endheaders(body)
                response = connection.getresponse()
                answer = response.read()
                connection.close()
                relay.requests.append((self.command, path, dict(self.headers.items()), response.status))
                self.answer(response.status, response.getheader("Content-Type", "text/plain"), answer,
                            [(name, value) for name, value in response.getheaders() if name.lower().startswith("access-control-")])

            do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = serve

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):  # the browser is killed while it has connections open
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.target = target or f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class HostilePageTest(unittest.TestCase):
    def setUp(self):
        self.worker = Worker(gpu="emulated:tiny")
        self.addCleanup(self.worker.close)
        self.worker.create_python("good", "def handler(e, c): return 'good'")

    def relay(self, **options):
        relay = Relay(self.worker, **options)
        self.addCleanup(relay.close)
        return relay

    def browse(self, url, reported):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-test-"))
        said = open(folder / "stderr", "w+", errors="replace")
        browser = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", f"--user-data-dir={folder}", "--remote-debugging-port=0",
             "--host-resolver-rules=MAP *.evil.test 127.0.0.1", url],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
            env={**os.environ, "HOME": str(folder), "TMPDIR": str(folder)})
        try:
            if not reported.wait(90):
                said.seek(0)
                self.fail(f"the page did not run to its end; the browser's errors:\n{said.read()[-3000:]}")
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait(30)
            said.close()
            shutil.rmtree(folder, ignore_errors=True)

    def functions(self):
        return [each["FunctionName"] for each in self.worker.request("GET", "/2015-03-31/functions").json["Functions"]]

    def is_drained(self):
        device, = self.worker.request("GET", "/v1/devices").json["devices"]
        return device["state"] == "drained"

    def assert_untouched(self):
        self.assertEqual(self.functions(), ["good"])
        self.assertFalse(self.is_drained())
        self.assertEqual(self.worker.invoke("good").json, "good")

    def test_a_page_of_another_site_reaches_nothing(self):
        relay = self.relay()
        self.browse(f"http://pages.evil.test:{relay.port}{PAGE_PATH}", relay.reported)
        sent = {(method, path) for method, path, _, _ in relay.requests}
        self.assertLessEqual({("POST", "/2015-03-31/functions"), ("GET", "/v1/devices"), ("GET", "/v1/functions"),
                              ("POST", "/v1/devices/0/drain"), ("POST", "/2015-03-31/functions/good/invocations")}, sent)
        for method, path, headers, status in relay.requests:
            self.assertEqual(status, 403, (method, path, headers))
        self.assertEqual(relay.report["read"], {})
        self.assert_untouched()

    def test_a_page_whose_name_was_rebound_reaches_nothing(self):
        relay = self.relay()
        relay.target = f"http://rebind.evil.test:{relay.port}"
        self.browse(relay.target + PAGE_PATH, relay.reported)
        self.assertGreaterEqual(len(relay.requests), 5)
        for method, path, headers, status in relay.requests:
            self.assertEqual(headers["Host"], f"rebind.evil.test:{relay.port}")
            self.assertEqual(status, 403, (method, path, headers))
        # The page could read the answers, and read refusals alone.
        self.assertTrue(relay.report["read"])
        for path, text in relay.report["read"].items():
            self.assertIn("does not answer to the host", text, path)
        self.assert_untouched()

    def test_a_page_that_a_function_allows_reaches_that_function_and_nothing_else(self):
        relay = self.relay()
        page = f"http://pages.evil.test:{relay.port}"
        self.worker.create_python("open", "def handler(e, c): return {'statusCode': 200, 'body': 'for pages'}")
        self.worker.tag("open", {"lambent:url-cors": json.dumps({"allow_origins": [page], "allow_methods": ["PUT"], "allow_headers": ["x-a"]})})
        self.addCleanup(self.worker.delete, "open")
        self.browse(page + PAGE_PATH, relay.reported)
        self.assertEqual(relay.report["read"], {"/f/open/": "for pages"})
        allowed = {(method, path) for method, path, _, status in relay.requests if status != 403}
        self.assertEqual(allowed, {("OPTIONS", "/f/open/"), ("PUT", "/f/open/")})
        self.assertFalse(self.is_drained())
        self.assertEqual(self.functions(), ["good", "open"])

    def test_the_same_page_would_get_in_without_the_check(self):
        relay = self.relay(disguise=True)
        self.browse(f"http://pages.evil.test:{relay.port}{PAGE_PATH}", relay.reported)
        self.assertIn("stolen", self.functions())
        self.assertTrue(self.is_drained())


if __name__ == "__main__":
    if CHROMIUM is None:
        print("SKIPPED: there is no Chromium here; './dev test --all' installs one and runs this")
        sys.exit(77)
    unittest.main(verbosity=2)
