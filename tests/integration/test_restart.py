"""The sceptic unplugs the worker: what was acknowledged is there afterwards, and nothing else is."""
import base64
import json
import os
import signal
import threading
import time
import unittest

from harness import HttpError, Worker, descendants, make_zip, process_exists

COUNT = "def handler(e, c): return e['n'] * 2"


class RestartTest(unittest.TestCase):
    def setUp(self):
        self.worker = Worker()
        self.addCleanup(self.worker.close)

    def result_of(self, request_id):
        def ask():
            reply = self.worker.request("GET", f"/v1/invocations/{request_id}")
            return reply if reply.status == 200 else None
        return self.worker.wait_for(ask, 60, f"the result of {request_id}")

    def test_functions_and_queued_invocations_survive_kill_9(self):
        self.worker.create_python("double", COUNT)
        self.worker.create_python("slow", "import time\ndef handler(e, c):\n  time.sleep(0.3)\n  return e['n'] * 2")
        ids = {}
        for n in range(20):
            reply = self.worker.invoke("slow" if n % 4 == 0 else "double", {"n": n}, kind="Event")
            ids[reply.headers["x-amzn-requestid"]] = n
        below = descendants(self.worker.process.pid)
        self.worker.kill()
        deadline = time.monotonic() + 10
        while any(process_exists(pid) for pid in below) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual([pid for pid in below if process_exists(pid)], [], "sandboxes outlived their worker")
        self.worker.start()
        for request_id, n in ids.items():
            self.assertEqual(self.result_of(request_id).json, n * 2)
        self.assertEqual(self.worker.invoke("double", {"n": 21}).json, 42)

    def test_nothing_acknowledged_is_lost_however_often_it_is_killed(self):
        self.worker.create_python("double", COUNT)
        acknowledged, stop = {}, threading.Event()

        def submit():
            n = 0
            while not stop.is_set():
                try:
                    reply = self.worker.invoke("double", {"n": n}, kind="Event", timeout=5)
                    acknowledged[reply.headers["x-amzn-requestid"]] = n
                except (OSError, HttpError):
                    time.sleep(0.01)
                n += 1
                time.sleep(0.002)

        sender = threading.Thread(target=submit)
        sender.start()
        for pause in (0.4, 0.15, 0.7):
            time.sleep(pause)
            self.worker.kill()
            self.worker.start()
        time.sleep(0.3)
        stop.set()
        sender.join()
        self.assertGreater(len(acknowledged), 20)
        for request_id, n in acknowledged.items():
            self.assertEqual(self.result_of(request_id).json, n * 2)

    def test_ctrl_c_which_reaches_all_of_its_processes_stops_it_as_sigterm_does(self):
        self.worker.create_python("slow", "import time\ndef handler(e, c):\n  time.sleep(1)\n  return 'finished'",
                                  tags={"lambent:gpu-memory": "1M"})
        replies = []
        caller = threading.Thread(target=lambda: replies.append(self.worker.invoke("slow").json))
        caller.start()
        self.worker.wait_for(lambda: any(each["state"] == "busy" for each in self.worker.sandboxes()), what="the call at work")
        os.killpg(self.worker.process.pid, signal.SIGINT)
        caller.join()
        self.assertEqual(self.worker.process.wait(30), 0)
        self.assertEqual(replies, ["finished"])
        self.assertEqual([line for line in self.worker.log().splitlines() if json.loads(line)["level"] in ("warning", "error")], [])

    def test_stopping_lets_running_invocations_finish(self):
        self.worker.create_python("slow", "import time\ndef handler(e, c):\n  time.sleep(1)\n  return 'finished'")
        self.worker.invoke("slow")
        replies = []
        caller = threading.Thread(target=lambda: replies.append(self.worker.invoke("slow").json))
        busy = lambda: any(each["function"] == "slow" and each["state"] == "busy" for each in self.worker.sandboxes())
        self.worker.wait_for(lambda: not busy(), what="the first call's end")
        caller.start()
        self.worker.wait_for(busy, what="the second call at work")
        self.assertEqual(self.worker.stop(), 0)
        caller.join()
        self.assertEqual(replies, ["finished"])

    def test_a_repeat_of_a_request_joins_it_or_gets_its_success(self):
        self.worker.create_python("once", "import time, os\ncalls = 0\ndef handler(e, c):\n  global calls\n  calls += 1\n  time.sleep(0.5)\n  return calls")
        repeat = {"amz-sdk-invocation-id": "11111111-2222-3333-4444-555555555555"}
        replies = []
        threads = [threading.Thread(target=lambda: replies.append(self.worker.invoke("once", {}, headers=repeat).json))
                   for _ in range(3)]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
        for thread in threads:
            thread.join()
        self.assertEqual(replies, [1, 1, 1])
        self.assertEqual(self.worker.invoke("once", {}, headers=repeat).json, 1)
        other = {"amz-sdk-invocation-id": "99999999-2222-3333-4444-555555555555"}
        self.assertEqual(self.worker.invoke("once", {}, headers=other).json, 2)


class FullDiskTest(unittest.TestCase):
    @unittest.skipUnless(os.geteuid() == 0, "mounting a small disk needs root")
    def test_a_full_disk_is_told_and_loses_nothing(self):
        import subprocess
        import tempfile
        folder = tempfile.mkdtemp(prefix="lambent-disk-")
        os.makedirs(folder + "/state")
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder + "/state"]).returncode != 0:
            self.skipTest("this machine does not let us mount")
        worker = None
        try:
            worker = Worker(folder=folder)
            worker.create_python("double", COUNT)
            statuses, acknowledged = [], {}
            padding = base64.b64encode(os.urandom(150_000)).decode()
            for n in range(40):
                try:
                    reply = worker.invoke("double", {"n": n, "padding": padding}, kind="Event")
                    acknowledged[reply.headers["x-amzn-requestid"]] = n
                    statuses.append(202)
                except HttpError as error:
                    statuses.append(error.status)
            self.assertTrue(acknowledged)
            for status in set(statuses) - {202}:
                self.assertIn(status, (429, 503, 507, 500))
            with self.assertRaises(HttpError):
                worker.create("large", make_zip({"app.py": COUNT, "large": os.urandom(4_000_000)}))
            self.assertEqual(worker.invoke("double", {"n": 4}).json, 8)
        finally:
            if worker:
                worker.stop()
            subprocess.run(["umount", folder + "/state"])
            subprocess.run(["rm", "-rf", folder])


if __name__ == "__main__":
    unittest.main()
