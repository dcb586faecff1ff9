"""The main road: deploy, invoke, look, change, remove."""
import json
import unittest

from harness import WorkerTest, make_zip

ECHO = """
import json
def handler(event, context):
    print("hello from", context.aws_request_id)
    return {"event": event, "name": context.function_name}
"""


class BasicsTest(WorkerTest):
    def test_a_python_handler_answers_and_the_second_time_it_is_warm(self):
        self.worker.create_python("echo", ECHO)
        first = self.worker.invoke("echo", {"a": [1, 2, "ü"]})
        self.assertEqual(first.status, 200)
        self.assertEqual(first.json, {"event": {"a": [1, 2, "ü"]}, "name": "echo"})
        self.assertEqual(first.headers["x-lambent-start"], "cold")
        second = self.worker.invoke("echo", {})
        self.assertEqual(second.headers["x-lambent-start"], "warm")
        self.assertEqual(second.headers["x-lambent-sandbox-us"], "0")

    def test_a_native_handler_is_an_executable_named_bootstrap(self):
        script = ("#!/bin/sh\nset -e\nexec /usr/bin/python3 -m lambent_runtime app.handler\n", 0o755)
        code = make_zip({"bootstrap": (script[0].encode(), 0o755), "app.py": ECHO})
        self.worker.create("native", code, runtime="provided.al2023", handler="none",
                           environment={"PYTHONPATH": "/var/task"})
        # Without our runtime client on its path this bootstrap fails, and says so.
        reply = self.worker.invoke("native", {})
        self.assertEqual(reply.headers["x-amz-function-error"], "Unhandled")
        self.assertIn("exit status 1", reply.json["errorMessage"])

    def test_a_function_says_its_time_zone_and_where_programs_are_looked_for(self):
        source = ("import os, time\ndef handler(e, c): return [time.tzname[0], "
                  "os.environ['PATH'].split(':')[0], os.environ['AWS_REGION']]")
        self.worker.create_python("zoned", source, environment={"TZ": "JST-9", "PATH": "/var/task/bin", "AWS_REGION": "mars"})
        self.assertEqual(self.worker.invoke("zoned").json, ["JST", "/var/task/bin", "us-east-1"])
        self.worker.create_python("plain", source)
        self.assertEqual(self.worker.invoke("plain").json[:2], ["UTC", "/usr/local/bin"])

    def test_a_copy_of_the_handler_that_comes_back_from_it_answers_nothing(self):
        self.worker.create_python("forking", "import os\ndef handler(e, c):\n    if os.fork() == 0: return 'copy'\n    os.wait()\n    return e")
        for number in range(4):
            self.assertEqual(self.worker.invoke("forking", number).json, number)
        log = self.worker.request("GET", "/v1/functions/forking/log?offset=0").body
        self.assertEqual(log.count(b"a process that the handler forked came back from it"), 4)

    def test_the_log_of_an_invocation_comes_with_it_if_asked_for(self):
        import base64
        self.worker.create_python("talker", ECHO)
        reply = self.worker.invoke("talker", {}, headers={"X-Amz-Log-Type": "Tail"})
        tail = base64.b64decode(reply.headers["x-amz-log-result"]).decode()
        self.assertIn("START RequestId", tail)
        self.assertIn("hello from", tail)
        self.assertIn("REPORT RequestId", tail)
        log = self.worker.request("GET", "/v1/functions/talker/log?offset=0")
        self.assertIn(b"hello from", log.body)

    def test_an_update_serves_the_new_code_at_once(self):
        import base64
        self.worker.create_python("changing", "def handler(e, c): return 1")
        self.assertEqual(self.worker.invoke("changing").json, 1)
        zipped = base64.b64encode(make_zip({"app.py": "def handler(e, c): return 2"})).decode()
        self.worker.request("PUT", "/2015-03-31/functions/changing/code", json.dumps({"ZipFile": zipped}))
        self.assertEqual(self.worker.invoke("changing").json, 2)

    def test_a_removed_function_is_gone(self):
        self.worker.create_python("fleeting", ECHO)
        self.worker.delete("fleeting")
        error = self.error_of(self.worker.invoke, "fleeting")
        self.assertEqual(error.status, 404)
        self.assertEqual(error.error_type, "ResourceNotFoundException")

    def test_an_asynchronous_invocation_is_acknowledged_and_its_result_kept(self):
        self.worker.create_python("later", "import time\ndef handler(e, c):\n  time.sleep(0.2)\n  return e")
        reply = self.worker.invoke("later", {"n": 5}, kind="Event")
        self.assertEqual((reply.status, reply.body), (202, b""))
        request_id = reply.headers["x-amzn-requestid"]
        result = self.worker.wait_for(
            lambda: (lambda r: r if r.status == 200 else None)(
                self.worker.request("GET", f"/v1/invocations/{request_id}")), what="the result")
        self.assertEqual(result.json, {"n": 5})

    def test_a_dry_run_runs_nothing(self):
        self.worker.create_python("dry", ECHO)
        self.assertEqual(self.worker.invoke("dry", kind="DryRun").status, 204)

    def test_an_invocation_that_waited_says_why(self):
        import threading
        self.worker.create_python("one-at-a-time", "import time\ndef handler(e, c): time.sleep(2)",
                                  tags={"lambent:max-concurrency": "1"})
        self.worker.invoke("one-at-a-time")
        replies = []
        callers = [threading.Thread(target=lambda: replies.append(self.worker.invoke("one-at-a-time"))) for _ in range(2)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        waited = max(replies, key=lambda reply: int(reply.headers["x-lambent-queue-us"]))
        self.assertEqual(waited.headers["x-lambent-wait-reason"], "concurrency_limit")

    def test_status_shows_functions_and_sandboxes(self):
        self.worker.create_python("shown", ECHO)
        self.worker.invoke("shown")
        functions = self.worker.request("GET", "/v1/functions").json["functions"]
        self.assertIn("shown", [each["name"] for each in functions])
        shown = [each for each in self.worker.sandboxes() if each["function"] == "shown"]
        self.assertEqual(len(shown), 1)
        self.assertGreater(shown[0]["host_memory_bytes"], 1 << 20)
        total = next(line for line in self.worker.metrics().splitlines() if line.startswith("lambent_sandbox_host_memory_bytes "))
        self.assertGreater(float(total.split()[1]), 1 << 20)


if __name__ == "__main__":
    unittest.main()
