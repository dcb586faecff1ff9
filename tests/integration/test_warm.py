"""What is kept ready of functions: min_instances, keep_alive_s and warm_up, in a real worker that is updated, killed and short of
room."""
import subprocess
import tempfile
import time
import unittest

from harness import PREFIX, Worker, make_zip

LAMBENT = str(PREFIX / "bin/lambent")
INVALID_ARGUMENT, FAILED_PRECONDITION = 13, 19  # exit statuses of the command

# Says how often its code was loaded and what it was sent before.
COUNTS = """
import os

seen = []

def handler(event, context):
    seen.append(event)
    return {"pid": os.getpid(), "seen": seen}
"""

CRASHES = "raise SystemExit('no')\n"

SERVES = """
import http.server
import os

seen = []

class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        seen.append(self.path)
        body = " ".join(seen).encode()
        self.send_response(500 if self.path == "/broken" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Server).serve_forever()
"""


class WarmTest(unittest.TestCase):
    def start(self, *flags, **options):
        worker = Worker(*flags, gpu="none", **options)
        self.addCleanup(worker.close)
        return worker

    def deploy(self, worker, manifest, files, expect=0):
        with tempfile.TemporaryDirectory(prefix="lambent-warm-") as folder:
            for name, text in files.items():
                with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                    file.write(text)
            with open(f"{folder}/lambent.toml", "w", encoding="utf-8") as file:
                file.write(manifest)
            done = subprocess.run([LAMBENT, "deploy", folder, "--endpoint", worker.endpoint], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def status(self, worker, name):
        return next(row for row in worker.request("GET", "/v1/functions").json["functions"] if row["name"] == name)

    def wait_for(self, worker, name, ready, seconds=30):
        deadline = time.monotonic() + seconds
        while True:
            row = self.status(worker, name)
            if row["instances_ready"] == ready:
                return row
            self.assertLess(time.monotonic(), deadline, row)
            time.sleep(0.05)

    def pids(self, worker, name):
        return {row["pid"] for row in worker.request("GET", "/v1/sandboxes").json["sandboxes"] if row["function"] == name}

    def start_of(self, reply):
        return reply.headers["x-lambent-start"]

    HANDLER = 'name = "f"\nruntime = "python3"\nhandler = "app.handler"\n'

    def test_instances_are_there_before_any_call_and_stay(self):
        worker = self.start("--keep-alive", "1")
        self.deploy(worker, self.HANDLER + "min_instances = 2\n", {"app.py": COUNTS})
        self.wait_for(worker, "f", 2)
        before = self.pids(worker, "f")
        self.assertEqual(self.start_of(worker.invoke("f", {})), "warm")
        time.sleep(3)
        self.assertEqual(self.pids(worker, "f"), before)

    def test_they_are_there_again_after_a_worker_was_killed(self):
        worker = self.start()
        self.deploy(worker, self.HANDLER + "min_instances = 1\n", {"app.py": COUNTS})
        self.wait_for(worker, "f", 1)
        before = self.pids(worker, "f")
        worker.kill()
        worker.start()
        self.wait_for(worker, "f", 1)
        self.assertNotEqual(self.pids(worker, "f"), before)
        self.assertEqual(self.start_of(worker.invoke("f", {})), "warm")

    def test_the_new_revision_is_ready_when_its_deployment_is_answered(self):
        worker = self.start()
        self.deploy(worker, self.HANDLER + "min_instances = 1\n", {"app.py": COUNTS})
        self.wait_for(worker, "f", 1)
        self.deploy(worker, self.HANDLER + "min_instances = 1\n", {"app.py": COUNTS.replace('"pid"', '"new"')})
        reply = worker.invoke("f", {})
        self.assertIn("new", reply.json)
        self.assertEqual(self.start_of(reply), "warm")
        self.deploy(worker, self.HANDLER, {"app.py": COUNTS.replace('"pid"', '"new"')})
        self.assertEqual(self.status(worker, "f")["min_instances"], 0)

    def test_what_crashes_at_its_start_is_started_ever_more_seldom(self):
        worker = self.start()
        self.deploy(worker, self.HANDLER + "min_instances = 1\n", {"app.py": CRASHES})
        longest = {}  # seconds until the next start that were told, by failures before it

        def failures():
            row = self.status(worker, "f")
            count = row["instance_failures"]
            longest[count] = max(longest.get(count, 0), row["next_instance_start_seconds"])
            return count
        worker.wait_for(lambda: failures() == 4, seconds=60, what="the fourth failure")
        self.assertGreater(longest[3], 2 * longest[1])
        shown = subprocess.run([LAMBENT, "ls", "--endpoint", worker.endpoint], capture_output=True, text=True, timeout=30).stdout
        self.assertRegex(shown, r"0 of 1 ready; \d failed, next in \d+ s")
        logs = subprocess.run([LAMBENT, "logs", "f", "--endpoint", worker.endpoint], capture_output=True, text=True, timeout=30).stdout
        self.assertRegex(logs, r"INSTANCE failed 3 times in a row \(Runtime.ExitError\).*the next is started in \d s")

    def test_more_than_there_is_room_for_is_refused(self):
        worker = self.start("--pool", "4")
        error = self.deploy(worker, self.HANDLER + "min_instances = 4\n", {"app.py": COUNTS}, expect=FAILED_PRECONDITION)
        self.assertIn("may have 3 instances ready together", error)
        self.deploy(worker, self.HANDLER + "min_instances = 3\n", {"app.py": COUNTS})
        self.wait_for(worker, "f", 3)
        error = self.deploy(worker, 'name = "g"\nruntime = "python3"\nhandler = "app.handler"\nmin_instances = 1\n',
                            {"app.py": COUNTS}, expect=FAILED_PRECONDITION)
        self.assertIn("it makes them 4", error)

    def test_a_function_ends_at_once_that_says_so(self):
        worker = self.start()
        self.deploy(worker, self.HANDLER + "keep_alive_s = 0\n", {"app.py": COUNTS})
        self.assertEqual(self.start_of(worker.invoke("f", {})), "cold")
        deadline = time.monotonic() + 10
        while self.pids(worker, "f"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_a_handler_is_warmed_up_with_an_event(self):
        worker = self.start()
        self.deploy(worker, self.HANDLER + 'warm_up = {warm = true}\n', {"app.py": COUNTS})
        reply = worker.invoke("f", {"n": 1})
        self.assertEqual(reply.json["seen"], [{"warm": True}, {"n": 1}])
        self.assertEqual(self.status(worker, "f")["completed"], 1, "a warm-up is no invocation")
        metrics = worker.request("GET", "/metrics").body.decode()
        self.assertIn('lambent_warm_ups_total{outcome="succeeded"} 1', metrics)

    def test_a_warm_up_that_fails_is_told_and_keeps_nothing_from_serving(self):
        worker = self.start()
        code = "def handler(event, context):\n    return 1 / event['n']\n"
        self.deploy(worker, self.HANDLER + 'warm_up = {n = 0}\n', {"app.py": code})
        self.assertEqual(worker.invoke("f", {"n": 2}).json, 0.5)
        logs = subprocess.run([LAMBENT, "logs", "f", "--endpoint", worker.endpoint], capture_output=True, text=True, timeout=30).stdout
        self.assertIn("WARM-UP failed: ZeroDivisionError", logs)

    def test_a_program_that_listens_is_warmed_up_by_a_request(self):
        worker = self.start()
        manifest = 'name = "web"\nkind = "http"\nruntime = "python3"\ncommand = ["python3", "server.py"]\nwarm_up = "%s"\n'
        self.deploy(worker, manifest % "/warm", {"server.py": SERVES})
        self.assertEqual(worker.request("GET", "/f/web/x").body, b"/warm /x")
        self.deploy(worker, manifest % "/broken", {"server.py": SERVES + "\n"})
        self.assertEqual(worker.request("GET", "/f/web/x").body, b"/broken /x")

    def test_kinds_that_have_none_refuse_it(self):
        worker = self.start()
        workflow = 'name = "w"\nkind = "workflow"\n%s\noutput = "$.input"\n[[component]]\nname = "a"\nfunction = "f"\n'
        for setting in ("min_instances = 1", "keep_alive_s = 5"):
            error = self.deploy(worker, workflow % setting, {}, expect=INVALID_ARGUMENT)
            self.assertIn("is for functions whose sandboxes the scheduler starts", error)


if __name__ == "__main__":
    unittest.main()
