"""Who may reach the API: no web page by any route, nobody of the network unless the operator says so, and over a Unix socket
those whom its mode and group let in.
"""
import contextlib
import json
import os
import pathlib
import socket
import stat
import subprocess
import tempfile
import unittest

from harness import PREFIX, HttpError, Worker, WorkerTest

HELLO = "def handler(e, c): return 'hello'"
ROUTES = [
    ("GET", "/livez"), ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics"), ("GET", "/v1/version"),
    ("GET", "/v1/functions"), ("GET", "/v1/functions/good/log"), ("GET", "/v1/functions/good/pipeline"),
    ("POST", "/v1/functions/good/invocations"), ("POST", "/v1/functions/good/profile"),
    ("GET", "/v1/invocations/00000000-0000-4000-8000-000000000000"),
    ("GET", "/v1/invocations/00000000-0000-4000-8000-000000000000/trace"), ("GET", "/v1/sandboxes"), ("GET", "/v1/slices"),
    ("GET", "/"), ("GET", "/dashboard/app.js"), ("GET", "/v1/activity/events"), ("GET", "/v1/activity/functions"),
    ("GET", "/v1/invocations/00000000-0000-4000-8000-000000000000/why"), ("POST", "/v1/what-if"), ("GET", "/v1/settings"),
    ("GET", "/v1/devices"), ("POST", "/v1/devices/0/drain"), ("POST", "/v1/devices/0/undrain"), ("PUT", "/v1/objects"),
    ("POST", "/v1/objects?datatype=FP32&shape=1"), ("GET", "/v1/objects"), ("GET", "/no/such/path"), ("OPTIONS", "/v1/functions")]
LAMBDA_ROUTES = [
    ("GET", "/2015-03-31/functions"), ("POST", "/2015-03-31/functions"), ("GET", "/2015-03-31/functions/good"),
    ("DELETE", "/2015-03-31/functions/good"), ("PUT", "/2015-03-31/functions/good/code"),
    ("PUT", "/2015-03-31/functions/good/configuration"), ("POST", "/2015-03-31/functions/good/invocations"),
    ("GET", "/2017-03-31/tags/arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3Agood"),
    ("OPTIONS", "/2015-03-31/functions")]
FORGED = [
    {"Origin": "http://evil.test"}, {"Origin": "null"}, {"Origin": "http://localhost:3000"}, {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"}, {"Host": "rebind.evil.test"}, {"Host": "127.0.0.1.evil.test:8980"},
    {"Host": "rebind.evil.test", "Origin": "http://rebind.evil.test", "Sec-Fetch-Site": "same-origin"}]


class WebPageTest(WorkerTest):
    gpu = "none"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.worker.create_python("good", HELLO)

    def test_every_route_refuses_a_page_and_nothing_is_done(self):
        for method, target in ROUTES + LAMBDA_ROUTES:
            for headers in FORGED:
                with self.subTest(method=method, target=target, headers=headers):
                    error = self.error_of(self.worker.request, method, target, "{}" if method != "GET" else None,
                                          {"Content-Type": "text/plain", **headers})
                    self.assertEqual(error.status, 403)
                    if (method, target) in LAMBDA_ROUTES:
                        self.assertEqual(error.error_type, "AccessDeniedException")
                    else:
                        self.assertEqual(error.json["error"]["code"], "PERMISSION_DENIED")
                    self.assertFalse([name for name in error.headers if name.startswith("access-control-")])
        self.assertNotIn("lambent_invocations_total{", self.worker.metrics())
        self.assertEqual(self.worker.invoke("good").json, "hello")
        self.assertIn('lambent_invocations_total{function="good"', self.worker.metrics())
        names = [each["FunctionName"] for each in self.worker.request("GET", "/2015-03-31/functions").json["Functions"]]
        self.assertEqual(names, ["good"])

    def test_a_page_served_by_the_worker_itself_would_be_let_in(self):
        own = f"http://{self.worker.address[0]}:{self.worker.address[1]}"
        reply = self.worker.request("GET", "/v1/version", headers={"Origin": own, "Sec-Fetch-Site": "same-origin"})
        self.assertEqual(reply.status, 200)

    def test_a_refusal_says_what_to_do(self):
        error = self.error_of(self.worker.request, "GET", "/v1/version", headers={"Host": "gpu-1.example:8980"})
        self.assertIn("gpu-1.example:8980", error.json["error"]["message"])
        self.assertIn("--host", error.json["error"]["message"])

    def test_a_request_without_a_host_is_refused(self):
        with socket.create_connection(self.worker.address, timeout=30) as connection:
            connection.sendall(b"GET /v1/version HTTP/1.0\r\n\r\n")
            answer = connection.makefile("rb").read()
        self.assertTrue(answer.startswith(b"HTTP/1.1 403 "), answer)


class ConfiguredNameTest(WorkerTest):
    gpu = "none"
    flags = ("--host", "gpu-1.example", "--host", "lambent.test:443")

    def test_names_that_were_configured_are_answered_to(self):
        for host in ("gpu-1.example", "GPU-1.example:1234", "lambent.test:443", "localhost"):
            self.assertEqual(self.worker.request("GET", "/v1/version", headers={"Host": host}).status, 200)
        self.assertEqual(self.error_of(self.worker.request, "GET", "/v1/version", headers={"Host": "lambent.test"}).status, 403)


class ListenTest(unittest.TestCase):
    def start(self, *flags):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-test-"))
        self.addCleanup(subprocess.run, ["rm", "-rf", str(folder)])
        return folder, subprocess.run(
            [str(PREFIX / "bin/lambent"), "serve", "--gpu", "none", "--state", str(folder / "state"), "--run", str(folder / "run"),
             *flags], capture_output=True, text=True, timeout=60)

    def test_the_network_is_let_in_only_by_a_flag_that_says_so(self):
        for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0"):
            with self.subTest(address=address):
                _, done = self.start("--listen", address)
                self.assertEqual(done.returncode, 2)
                for word in ("--insecure-open-to-network", "--listen none", "deploy and run code"):
                    self.assertIn(word, done.stderr)
        worker = Worker("--insecure-open-to-network", listen="0.0.0.0:0", gpu="none")
        try:
            self.assertIn("open_to_network", worker.log())
            self.assertEqual(worker.request("GET", "/v1/version", headers={"Host": "10.1.2.3:80"}).status, 200)
            with self.assertRaises(HttpError):
                worker.request("GET", "/v1/version", headers={"Host": "rebind.evil.test"})
        finally:
            worker.close()

    def test_flags_that_make_no_sense_are_refused(self):
        for flags, said in ((("--listen", "localhost:0"), "--listen is ADDRESS:PORT"), (("--listen", "nothing"), "--listen is ADDRESS:PORT"),
                            (("--listen", "8080"), "did you mean '127.0.0.1:8080'?"),
                            (("--listen", "localhost:8080"), "did you mean '127.0.0.1:8080'?"),
                            (("--listen", "127.0.0.1"), "--listen is ADDRESS:PORT"), (("--host", "a b"), "--host is NAME"),
                            (("--socket-mode", "rw"), "--socket-mode is an octal mode"), (("--socket-mode", "1777"), "--socket-mode"),
                            (("--socket-group", "no-such-group"), "there is no group 'no-such-group'")):
            with self.subTest(flags=flags):
                _, done = self.start(*flags)
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)

    def test_without_tcp_the_unix_socket_serves_with_its_mode_and_group(self):
        worker = Worker("--socket-mode", "0600", "--socket-group", str(os.getegid()), listen="none", gpu="none")
        self.addCleanup(worker.close)
        path = worker.folder / "run/lambent.sock"
        self.assertEqual(worker.endpoint, f"unix:{path}")
        status = path.stat()
        self.assertEqual((stat.S_IMODE(status.st_mode), status.st_gid), (0o600, os.getegid()))
        open_files = []
        for each in pathlib.Path(f"/proc/{worker.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it was closed since
                open_files.append(os.readlink(each))
        self.assertTrue(any(each.startswith("socket:") for each in open_files))
        for table in ("tcp", "tcp6"):
            for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                self.assertNotIn(f"socket:[{line.split()[9]}]", open_files, "it has a TCP socket")
        self.assertEqual(worker.request("GET", "/v1/version", headers={"Host": "any.name"}).status, 200)
        with self.assertRaises(HttpError) as refused:
            worker.request("GET", "/v1/version", headers={"Origin": "http://evil.test"})
        self.assertEqual(refused.exception.status, 403)
        done = subprocess.run([str(PREFIX / "bin/lambent"), "version", "--json", "--endpoint", worker.endpoint],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        json.loads(done.stdout)


if __name__ == "__main__":
    unittest.main()
