"""Asynchronous invocations that fail are tried again and their destinations told, through the programs, with the worker killed at each
step of it. Each run writes a line into its function's log, which outlives the worker.
"""
import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import unittest

import fault_steps
from harness import HttpError, Worker
import test_durability

DELAY = "0.3"  # seconds until the second run, in place of Lambda's minute
PROGRAM = """
import json, time
def handler(event, context):
    print("RUN", event["n"], context.aws_request_id, flush=True)
    time.sleep(event.get("takes", 0))
    if event.get("fails"):
        raise ValueError("no luck")
    return {"n": event["n"]}
"""
TOLD = """
import json
def handler(event, context):
    print("TOLD", json.dumps(event), flush=True)
"""


def lines(worker, function, word):
    body = worker.request("GET", f"/v1/functions/{function}/log").body.decode()
    return [line.partition(word + " ")[2] for line in body.splitlines() if word + " " in line]


def records_of(worker):
    return [json.loads(line) for line in lines(worker, "audit", "TOLD")]


class AsyncRetriesTest(unittest.TestCase):
    def setUp(self):
        self.worker = Worker("--async-retry-delay", DELAY, gpu="none")
        self.addCleanup(self.worker.close)
        self.worker.create_python("audit", TOLD, memory=128)
        self.worker.create_python("f", PROGRAM, memory=128, tags={
            "lambent:async-retries": "1", "lambent:async-on-success": "audit", "lambent:async-on-failure": "audit"})

    def runs(self, n):
        return sum(line.split()[0] == str(n) for line in lines(self.worker, "f", "RUN"))

    def told(self, n):
        return [record for record in records_of(self.worker) if record["requestPayload"]["n"] == n]

    def submit(self, n, **event):
        return self.worker.invoke("f", {"n": n, **event}, kind="Event").headers["x-amzn-requestid"]

    def outcome(self, invocation):
        def ask():
            try:
                reply = self.worker.request("GET", f"/v1/invocations/{invocation}")
            except HttpError as error:
                if "x-lambent-outcome" not in error.headers:
                    raise
                reply = error
            return reply if "x-lambent-outcome" in reply.headers else None
        return self.worker.wait_for(ask, 30, f"the outcome of {invocation}")

    def cli(self, *arguments):
        program = pathlib.Path(os.environ["LAMBENT_PREFIX"]) / "bin/lambent"
        return subprocess.run([program, *arguments, "--endpoint", self.worker.endpoint], capture_output=True, text=True, timeout=60)

    def test_a_failure_is_tried_again_and_told_once(self):
        invocation = self.submit(1, fails=True)
        reply = self.outcome(invocation)
        self.assertEqual((reply.headers["x-lambent-outcome"], reply.headers["x-lambent-runs"]), ("function_error", "2"))
        self.assertRegex(reply.headers["x-lambent-destination"], "^audit as [0-9a-f-]{36}$")
        self.worker.wait_for(lambda: self.told(1), what="the record")
        record, = self.told(1)
        self.assertEqual(record["requestContext"]["condition"], "RetriesExhausted")
        self.assertEqual(record["requestContext"]["approximateInvokeCount"], 2)
        self.assertEqual(record["requestContext"]["requestId"], invocation)
        self.assertEqual(record["responsePayload"]["errorType"], "ValueError")
        self.assertEqual(self.runs(1), 2)
        metrics = self.worker.metrics()
        self.assertIn('lambent_async_retries_total{function="f",reason="failed",tenant="1"} 1', metrics)
        self.assertIn('lambent_async_destinations_total{condition="RetriesExhausted",function="f",outcome="sent",tenant="1"} 1', metrics)
        shown = self.cli("result", invocation)
        self.assertIn("2 runs", shown.stderr)
        self.assertIn("destination   audit as ", shown.stderr)
        listed = self.cli("invocations", "f").stdout
        self.assertIn("run 1, again after", listed)
        self.assertIn("run 2", listed)
        self.assertIn("is tried again, run 2", self.cli("why", invocation).stdout)

    def test_what_waits_is_shown_and_can_be_cancelled(self):
        self.worker.stop()
        self.worker.flags = ("--async-retry-delay", "600")
        self.worker.start()
        invocation = self.submit(2, fails=True)
        self.worker.wait_for(lambda: "waiting for run 2 of 2" in self.cli("result", invocation).stderr, what="that it waits")
        self.assertIn("ValueError: no luck", self.cli("result", invocation).stderr)
        listed = self.cli("invocations").stdout
        self.assertIn("waiting", listed)
        self.assertRegex(listed, "run 2 in ")
        self.assertIn("lambent_async_waiting_for_retry 1", self.worker.metrics())
        self.assertEqual(self.runs(2), 1)
        self.worker.kill()
        self.worker.start()
        self.assertIn("waiting for run 2 of 2", self.cli("result", invocation).stderr, "the next worker knows it")
        cancelled = self.cli("cancel", invocation)
        self.assertEqual(cancelled.returncode, 0, cancelled.stderr)
        self.assertIn("was waiting and is cancelled", cancelled.stdout)
        self.assertEqual(self.outcome(invocation).headers["x-lambent-outcome"], "rejected")
        self.assertEqual(self.told(2), [])

    def test_describe_shows_what_the_function_says(self):
        shown = self.cli("describe", "f").stdout
        self.assertRegex(shown, r"async_retries +1\n")
        self.assertRegex(shown, r"async_on_failure +audit\n")

    def test_a_schedules_firing_is_tried_again_too(self):
        self.worker.create_python("timed", PROGRAM.replace('event["n"]', '"timed"').replace('event.get("fails")', "True"), memory=128, tags={
            "lambent:async-retries": "1", "lambent:async-on-failure": "audit",
            "lambent:schedules": json.dumps([{"name": "s", "rate": "1 minute", "payload": '{"n": "timed"}'}])})
        self.worker.wait_for(lambda: self.told("timed"), 90, "the record of a firing")
        self.assertEqual(self.told("timed")[0]["requestContext"]["approximateInvokeCount"], 2)

    def test_a_newer_catalog_is_refused_in_words_by_an_older_program(self):
        """What an older Lambent does, this one does with a catalog of a newer one."""
        self.worker.kill()
        with contextlib.closing(sqlite3.connect(f"{self.worker.folder}/state/catalog.db")) as catalog:
            version, = catalog.execute("SELECT max(version) FROM schema_version").fetchone()
            catalog.execute("INSERT INTO schema_version VALUES (?)", (version + 1,))
            catalog.commit()
        with self.assertRaisesRegex(AssertionError, "made by a newer Lambent.*restore a backup"):
            self.worker.start()


class KilledTest(test_durability.Counting):
    """With the runs counted that the kills interrupt."""
    flags = ("--async-retry-delay", DELAY)
    tags = {"lambent:async-retries": "1", "lambent:async-on-success": "audit", "lambent:async-on-failure": "audit"}

    def setUp(self):
        super().setUp()
        self.worker.create_python("audit", TOLD, memory=128)

    def told(self, n):
        return [record for record in records_of(self.worker) if record["requestPayload"]["n"] == n]

    def test_at_every_step(self):
        # What a worker was killed under has not ended: it is run again, and uses up no retry.
        for point, fails, runs in (("retry_written", True, 3), ("retry_durable", True, 2), ("result_written", False, 2), ("result_durable", False, 1)):
            with self.subTest(point=point):
                self.start(point)
                call = self.call(fails=fails)
                self.wait_for_stop()
                self.kill()
                self.assertEqual(self.runs.begun_of(call.n), 1)
                self.start()
                self.assertIsNotNone(call.repeat())
                word, reply = self.outcome(call.id)
                self.assertEqual(word, "function_error" if fails else "succeeded")
                self.assertEqual(reply.headers["x-lambent-runs"], "2" if fails else "1")
                self.assertEqual(self.runs.begun_of(call.n), runs)
                # Its record came before that of another one that came after it.
                other = self.call()
                self.assertEqual(other.told(), fault_steps.TOLD)
                self.worker.wait_for(lambda: self.told(other.n), what="the record of another one")
                self.worker.wait_for(lambda: self.told(call.n), what="the record")
                self.assertEqual(len(self.told(call.n)), 1, "a destination is told once")

    def test_while_it_waits_again_and_again(self):
        self.start("retry_durable")
        call = self.call(fails=True)
        self.wait_for_stop()
        self.kill()
        for _ in range(2):
            self.start_to_stop("resumed")
            self.kill()
        self.start()
        self.assertIsNotNone(call.repeat())
        self.assertEqual(self.outcome(call.id)[0], "function_error")
        self.assertEqual(self.runs.begun_of(call.n), 2)
        self.worker.wait_for(lambda: self.told(call.n), what="the record")


if __name__ == "__main__":
    unittest.main()
