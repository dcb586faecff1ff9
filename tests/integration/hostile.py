"""What the tests of hostile code and clients share: a worker that, whatever is done to it, goes on serving others."""
import os
import pathlib

from harness import WorkerTest

MIB = 1 << 20


def worker_memory(worker):
    """The worker's resident memory in bytes."""
    for line in pathlib.Path(f"/proc/{worker.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the worker is gone")


class HostileTest(WorkerTest):
    flags = ("--concurrency", "4")
    secret = "do-not-tell"

    @classmethod
    def setUpClass(cls):
        os.environ["LAMBENT_TEST_SECRET"] = cls.secret
        try:
            super().setUpClass()
        finally:
            del os.environ["LAMBENT_TEST_SECRET"]
        cls.worker.create_python("good", "def handler(e, c): return 'good'")

    def tearDown(self):
        self.assertEqual(self.worker.invoke("good").json, "good")
        self.assertEqual(self.worker.request("GET", "/readyz").status, 200)

    def pids(self, name):
        return [each["pid"] for each in self.worker.sandboxes() if each["function"] == name]

    def ask(self, name, source, event=None, **options):
        """What a new function answers; it must answer."""
        self.worker.create_python(name, source, **options)
        reply = self.worker.invoke(name, event or {})
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
        return reply.json
