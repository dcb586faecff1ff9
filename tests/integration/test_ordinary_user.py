"""The worker of an ordinary user: the same functions, with the weaker limits that it tells of."""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import PREFIX, Worker, make_zip, stop_without_leftovers
from test_secrets import expect_no_plaintext

USER = 64123  # has no account, no groups, no home


def reachable(path):
    """Whether everybody may go there."""
    return all(parent.stat().st_mode & 0o001 for parent in [pathlib.Path(path).resolve(), *pathlib.Path(path).resolve().parents])


class UserWorker(Worker):
    def start(self):
        setpriv = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
        real = subprocess.Popen
        subprocess.Popen = lambda command, *rest, **options: real(setpriv + command, *rest, **options)
        try:
            super().start()
        finally:
            subprocess.Popen = real


@unittest.skipUnless(os.geteuid() == 0, "only root can start it as somebody else")
class OrdinaryUserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("setpriv") is None:
            raise unittest.SkipTest("setpriv is not installed")
        if not reachable(PREFIX / "bin"):
            raise unittest.SkipTest(f"{PREFIX} is not readable for an ordinary user")
        probe = subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "unshare", "-Urn", "true"],
                               capture_output=True)
        if probe.returncode != 0:
            raise unittest.SkipTest("this machine gives no user namespaces to ordinary users")
        cls.folder = tempfile.mkdtemp(prefix="lambent-user-")
        os.chown(cls.folder, USER, USER)
        try:
            cls.worker = UserWorker("--concurrency", "2", folder=cls.folder)
        except BaseException:
            shutil.rmtree(cls.folder)
            raise

    @classmethod
    def tearDownClass(cls):
        stop_without_leftovers(cls.worker, lambda: shutil.rmtree(cls.folder, ignore_errors=True))

    def answer(self, name, event=None):
        reply = self.worker.invoke(name, event or {})
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
        return reply.json

    def test_it_runs_without_any_rights_and_tells_which_limits_are_weaker(self):
        status = pathlib.Path(f"/proc/{self.worker.process.pid}/status").read_text()
        self.assertIn(f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}", status)
        warnings = [json.loads(line) for line in self.worker.log().splitlines() if '"weaker_limit"' in line]
        self.assertTrue(any("memory" in each["what"] for each in warnings), warnings)

    def test_files_with_secrets_are_on_no_disk_also_after_kill_9(self):
        folder = tempfile.mkdtemp(prefix="lambent-user-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        os.chown(folder, USER, USER)
        worker = UserWorker(folder=folder)
        self.addCleanup(worker.close)
        expect_no_plaintext(self, worker)

    def test_python_functions_run(self):
        self.worker.create_python("who", """
import os
def handler(event, context):
    return [os.getuid(), os.path.exists("/root"), os.path.exists("/etc/shadow"), sorted(os.listdir("/tmp"))]
""")
        self.assertEqual(self.answer("who"), [65534, False, False, []])

    def test_programs_that_listen_run_and_are_asked_to_end(self):
        source = """
import http.server, os, signal
def end(*_):
    print("asked to end", flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
        self.worker.create("web", make_zip({"server.py": source}), handler="python3 server.py", tags={"lambent:kind": "http"})
        self.assertEqual(self.worker.request("GET", "/f/web/").status, 204)
        changed = base64.b64encode(make_zip({"server.py": source + "#"})).decode()
        self.worker.request("PUT", "/2015-03-31/functions/web/code", json.dumps({"ZipFile": changed}))
        log = "/v1/functions/web/log?offset=0"
        self.worker.wait_for(lambda: b"asked to end" in self.worker.request("GET", log).body, what="its last words")

    def test_native_functions_run_with_the_gpu(self):
        done = subprocess.run([str(PREFIX / "bin/lambent"), "deploy", str(PREFIX / "examples/05_native_handler"),
                               "--endpoint", self.worker.endpoint], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = self.answer("native", {"kernel": "matmul", "check": True})
        self.assertIs(answer["correct"], True)

    def test_python_functions_run_with_the_gpu_within_their_limit(self):
        self.worker.create_python("limited", """
import lambent_cuda as cuda
device = cuda.Device()
def handler(event, context):
    try:
        device.buffer(event["mib"] << 20); return "allocated"
    except cuda.CudaError as error:
        return error.name
""", tags={"lambent:gpu-memory": "32MiB"})
        self.assertEqual(self.answer("limited", {"mib": 33}), "CUDA_ERROR_OUT_OF_MEMORY")
        self.assertEqual(self.answer("limited", {"mib": 31}), "allocated")

    def test_memory_and_processes_and_time_are_limited(self):
        self.worker.create_python("eater", "import time\ndef handler(e, c):\n  hoard = []\n  while True:\n    hoard.append(b'x' * (1 << 22)); time.sleep(0.005)",
                                  memory=128)
        error = self.worker.invoke("eater")
        self.assertIn(error.json["errorType"], ("Runtime.OutOfMemory", "MemoryError"), error.body)
        self.worker.create_python("forker", """
import os, time
def handler(event, context):
    forked = 0
    try:
        while True:
            if os.fork() == 0:
                time.sleep(30); os._exit(0)
            forked += 1
    except OSError:
        return forked
""", memory=4096)  # 256 interpreters hold more than a gibibyte that they do not share
        self.assertLess(self.answer("forker"), 300)
        self.worker.delete("forker")
        self.worker.create_python("sleeper", "import time\ndef handler(e, c): time.sleep(60)", timeout=1)
        self.assertEqual(self.worker.invoke("sleeper").json["errorType"], "Sandbox.Timeout")

    def test_the_files_of_the_user_are_out_of_sight(self):
        secret = pathlib.Path(self.folder) / "secret"
        secret.write_text("x")
        os.chown(secret, USER, USER)
        self.worker.create_python("spy", """
import os
def handler(event, context):
    seen = []
    for path in (event["path"], "/proc/1/environ", "/proc/1/root" + event["path"], "/var/task/../../" + event["path"]):
        try:
            open(path, "rb").read(); seen.append(path)
        except OSError:
            pass
    try:
        os.kill(-1, 0); reached = len([n for n in os.listdir("/proc") if n.isdigit()])
    except OSError:
        reached = 0
    return [seen, reached < 10]
""")
        seen, alone = self.answer("spy", {"path": str(secret)})
        self.assertNotIn(str(secret), "".join(seen))
        self.assertIs(alone, True)


if __name__ == "__main__":
    unittest.main()
