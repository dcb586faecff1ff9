"""AWS's own Python runtime client, unmodified, as the runtime of a function."""
import os
import pathlib
import unittest

from harness import WorkerTest, make_zip

HANDLER = """
import os
def handler(event, context):
    if event.get("fail"):
        raise ValueError("as asked")
    return {"left_ms": context.get_remaining_time_in_millis(), "arn": context.invoked_function_arn,
            "pid": os.getpid(), "event": event}
"""


def package():
    """The handler with awslambdaric beside it, started by a bootstrap of three words."""
    site = next(pathlib.Path(os.environ["VENV"]).glob("lib/python3*/site-packages"))
    files = {"app.py": HANDLER,
             "bootstrap": (b"#!/bin/sh\nexec /usr/bin/python3 -m awslambdaric app.handler\n", 0o755)}
    for name in ("awslambdaric", "snapshot_restore_py", "simplejson"):
        for path in (site / name).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                files[str(path.relative_to(site))] = (path.read_bytes(), 0o755 if path.suffix == ".so" else 0o644)
    for path in site.glob("runtime_client*.so"):
        files[path.name] = (path.read_bytes(), 0o755)
    return make_zip(files)


class AwsLambdaRicTest(WorkerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.worker.create("ric", package(), runtime="provided.al2023", handler="app.handler", timeout=20)

    def test_it_serves_a_hundred_invocations_in_one_process(self):
        processes = set()
        for number in range(100):
            reply = self.worker.invoke("ric", {"n": number})
            self.assertEqual(reply.json["event"], {"n": number})
            self.assertTrue(0 < reply.json["left_ms"] <= 20_000, reply.json)
            self.assertTrue(reply.json["arn"].endswith(":function:ric"))
            processes.add(reply.json["pid"])
        self.assertEqual(len(processes), 1)

    def test_its_errors_come_through(self):
        reply = self.worker.invoke("ric", {"fail": True})
        self.assertEqual(reply.headers["x-amz-function-error"], "Unhandled")
        self.assertEqual((reply.json["errorType"], reply.json["errorMessage"]), ("ValueError", "as asked"))


if __name__ == "__main__":
    unittest.main()
