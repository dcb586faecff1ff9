"""State folders of older versions, recorded by record_state.py from workers that got kill -9: this version goes on with them, and loses
nothing of what the older one acknowledged."""
import json
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest

from harness import PREFIX, HttpError, Worker

STATES = pathlib.Path(__file__).resolve().parent / "states"


class State:
    """A copy of a recorded folder, for a worker to serve from."""

    def __init__(self, recorded):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-older-"))
        self.asked = json.loads((recorded / "asked.json").read_text())
        self.journal = self.folder / "journal"
        shutil.copytree(recorded / "journal", self.journal)
        shutil.copytree(recorded / "code", self.folder / "state/code")
        self.run_sql((recorded / "catalog.sql").read_text())
        since = time.time_ns() - self.asked["recorded_at_ns"]  # as if it was now: results are kept for a day
        self.run_sql(f"UPDATE async_results SET expires_at_ns = expires_at_ns + {since};"
                     f"UPDATE async_invocations SET submitted_at_ns = submitted_at_ns + {since}")

    def run_sql(self, text):
        database = sqlite3.connect(self.folder / "state/catalog.db")
        database.executescript(text)
        database.close()

    def one(self, query):
        database = sqlite3.connect(self.folder / "state/catalog.db")
        try:
            return database.execute(query).fetchone()[0]
        finally:
            database.close()


class OlderState(unittest.TestCase):
    """What a worker of this version makes of the state of 0.1."""

    def setUp(self):
        self.state = State(STATES / "0.1")
        self.addCleanup(shutil.rmtree, self.state.folder, ignore_errors=True)

    def serve(self):
        self.worker = Worker("--journal", str(self.state.journal), "--drain", "1", gpu="none", folder=self.state.folder)
        self.addCleanup(self.worker.close)
        return self.worker

    def result(self, invocation):
        try:
            return self.worker.request("GET", f"/v1/invocations/{invocation}")
        except HttpError as error:
            return error

    def lambent(self, *words):
        done = subprocess.run([PREFIX / "bin/lambent", *words], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_functions_and_their_settings_are_as_they_were(self):
        worker = self.serve()
        listed = worker.request("GET", "/2015-03-31/functions").json["Functions"]
        self.assertEqual({each["FunctionName"] for each in listed}, {"count", "slow", "broken", "flow"})
        count = worker.request("GET", "/2015-03-31/functions/count").json
        self.assertEqual((count["Configuration"]["Timeout"], count["Configuration"]["MemorySize"], count["Configuration"]["Environment"]),
                         (45, 192, {"Variables": {"STAGE": "prod"}}))
        self.assertEqual({name: count["Tags"][name] for name in ("team", "lambent:weight", "lambent:max-concurrency")},
                         {"team": "vision", "lambent:weight": "2.5", "lambent:max-concurrency": "7"})
        self.assertEqual(worker.invoke("count", {"n": 1}).json, {"n": 2, "stage": "prod"})
        self.assertEqual(worker.invoke("flow", {"n": 5}).json, 7)
        self.assertGreater(self.state.one("SELECT executions FROM function_statistics JOIN functions ON functions.id = function "
                                          "WHERE name = 'count'"), 5, "what was learnt")

    def test_what_was_acknowledged_is_answered(self):
        begun = self.state.one("SELECT count(*) FROM async_invocations WHERE state = 'running' AND attempts = 1")
        self.assertEqual(begun, 1, "the state was recorded while slow ran")
        (slow,) = (path.parent for path in (self.state.folder / "state/code").glob("*/app.py") if "/var/task/end" in path.read_text())
        (slow / "end").touch()
        worker = self.serve()
        asked = self.state.asked
        self.assertEqual(self.result(asked["done"]).json, {"n": 42, "stage": "prod"})
        failed = self.result(asked["failed"])
        self.assertEqual(failed.json["errorMessage"], "no luck")
        for n, invocation in enumerate(asked["slow"]):
            worker.wait_for(lambda id=invocation: self.result(id).status == 200, what=f"the answer of slow {n}")
            self.assertEqual(self.result(invocation).json, n)
        again = worker.invoke("count", {"n": 41}, kind="Event", headers={"amz-sdk-invocation-id": "order-41"})
        self.assertEqual(again.headers["x-amzn-requestid"], asked["done"], "a repeat of what the older one accepted")

    def test_its_journal_is_read_replayed_and_goes_on(self):
        self.assertIn("all identical", self.lambent("simulate", "--replay", self.state.journal))
        worker = self.serve()
        own = worker.invoke("count", {"n": 1}).headers["x-amzn-requestid"]
        worker.stop()
        for invocation in (self.state.asked["explained"], own):
            self.assertIn("of count", self.lambent("why", invocation, "--journal", self.state.journal))

    def test_a_backup_from_before_is_the_older_state(self):
        self.lambent("backup", "--state", self.state.folder / "state", self.state.folder / "copy")
        shutil.rmtree(self.state.folder / "state")
        self.lambent("restore", "--state", self.state.folder / "state", self.state.folder / "copy")
        self.assertEqual(self.state.one("SELECT max(version) FROM schema_version"), 12)
        self.assertEqual(self.serve().invoke("count", {"n": 1}).json, {"n": 2, "stage": "prod"})

    def test_a_backup_of_it_is_a_state_of_this_version(self):
        self.serve().stop()
        self.lambent("backup", "--state", self.state.folder / "state", self.state.folder / "copy")
        shutil.rmtree(self.state.folder / "state")
        self.lambent("restore", "--state", self.state.folder / "state", self.state.folder / "copy")
        self.assertEqual(self.serve().invoke("count", {"n": 1}).json, {"n": 2, "stage": "prod"})


class NewerState(unittest.TestCase):
    """What a worker of this version says to a state that a newer one has changed."""

    def setUp(self):
        self.state = State(STATES / "0.1")
        self.addCleanup(shutil.rmtree, self.state.folder, ignore_errors=True)

    def test_it_is_refused_with_what_to_do_and_is_left_alone(self):
        self.state.run_sql("INSERT INTO schema_version VALUES (1000)")
        refused = subprocess.run([PREFIX / "bin/lambent", "serve", "--gpu", "none", "--listen", "127.0.0.1:0", "--state",
                                  self.state.folder / "state", "--run", self.state.folder / "run"], capture_output=True, text=True)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("made by a newer Lambent", refused.stderr)
        self.assertIn("restore a backup from before its upgrade", refused.stderr)
        self.assertEqual(self.state.one("SELECT count(*) FROM functions"), 4)

    def test_a_worker_does_not_give_way_to_a_program_that_is_older_than_its_state(self):
        worker = Worker("--drain", "1", gpu="none", folder=self.state.folder)
        self.addCleanup(worker.close)
        self.state.run_sql("INSERT INTO schema_version VALUES (1000)")  # as if this were the newer one
        worker.process.send_signal(signal.SIGUSR2)
        worker.wait_for(lambda: '"event":"not_replaced"' in worker.log(), what="the refusal")
        self.assertIn("made by a newer Lambent", worker.log())
        self.assertEqual(worker.invoke("count", {"n": 1}).json["n"], 2)


if __name__ == "__main__":
    unittest.main()
