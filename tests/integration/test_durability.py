"""How often an asynchronous invocation ran is counted, with a process killed at each of its steps, and held against the tables of
docs/internals/durability.md and against the attempts that the worker's own catalog has.

The worker stops itself at a step (--fault-point), so that nothing is left to chance; then it, or another process, gets kill -9. Each
run writes a line into a FIFO in the function's package, which the test holds open: no death loses a line of it.
"""
import collections
import contextlib
import os
import pathlib
import signal
import sqlite3
import threading
import time
import unittest
import uuid

import fault_steps
from harness import HttpError, Worker, descendants, process_exists

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
WHOLE = bool(os.environ.get("LAMBENT_WHOLE_TESTS"))
COUNTED = """
import os, time
def write(line):
    pipe = os.open("/var/task/ran", os.O_WRONLY | os.O_NONBLOCK)
    os.write(pipe, (line + "\\n").encode())
    os.close(pipe)
def handler(event, context):
    if "n" not in event:
        return "warm"
    write("begun %s %s" % (event["n"], context.aws_request_id))
    time.sleep(0.2)
    while event.get("waits") and not os.path.exists("/var/task/end"):
        time.sleep(0.01)
    write("ended %s %s" % (event["n"], context.aws_request_id))
    if event.get("fails"):
        raise ValueError("no luck")
    return event["n"]
"""


def name_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class Runs:
    """What the runs of a function wrote: {n: how often it began}, and ended."""

    def __init__(self, state):
        folder = next(each.parent for each in (state / "code").glob("*/app.py") if "/var/task/ran" in each.read_text())
        pipe = folder / "ran"
        os.mkfifo(pipe)
        os.chmod(pipe, 0o666)
        self.file = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # also a writer: so it never ends
        self.end = folder / "end"  # what waits ends once it is there
        self.begun, self.ended, self.rest = collections.Counter(), collections.Counter(), b""

    def read(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                lines = (self.rest + os.read(self.file, 65536)).split(b"\n")
                self.rest = lines.pop()
                for line in lines:
                    word, n, _ = line.decode().split()
                    (self.begun if word == "begun" else self.ended)[n] += 1

    def begun_of(self, n):
        self.read()
        return self.begun[n]

    def ended_of(self, n):
        self.read()
        return self.ended[n]

    def close(self):
        os.close(self.file)


class Call:
    """An asynchronous invocation, and what its client got."""

    def __init__(self, worker, n, **event):
        self.worker, self.n, self.event = worker, n, {"n": n, **event}
        self.key = str(uuid.uuid4())
        self.id = None
        self.thread = threading.Thread(target=self.send)
        self.thread.start()

    def send(self):
        with contextlib.suppress(OSError, HttpError):
            reply = self.worker.invoke("counted", self.event, kind="Event", headers={"amz-sdk-invocation-id": self.key}, timeout=30)
            self.id = reply.headers["x-amzn-requestid"]

    def told(self):
        self.thread.join(30)
        return fault_steps.TOLD if self.id else fault_steps.NOT_TOLD

    def repeat(self):
        """As a client does that got no answer: with the same key."""
        self.send()
        return self.id


@unittest.skipUnless(os.geteuid() == 0, "an ordinary user's sandboxes cannot write the FIFO that counts")
class Counting(unittest.TestCase):
    """With one function, whose runs are counted."""
    gpu, tags, flags = "none", {}, ()

    def setUp(self):
        self.worker = Worker(*self.flags, gpu=self.gpu)
        self.addCleanup(self.worker.close)
        self.worker.create_python("counted", COUNTED, timeout=120, memory=128, tags={"lambent:max-concurrency": "1", **self.tags})
        self.runs = Runs(self.worker.folder / "state")
        self.addCleanup(self.runs.close)
        self.calls = 0

    # What a test does to its worker.
    def call(self, **event):
        self.calls += 1
        return Call(self.worker, f"{self.calls}", **event)

    def start(self, point="", warm=False):
        """In place of the one before, which a subtest may have left in the middle of something."""
        if self.worker.process.poll() is None:
            self.kill()
        self.worker.flags = self.flags + (("--fault-point", point) if point else ())
        self.worker.start()
        if warm:
            self.assertEqual(self.worker.invoke("counted").json, "warm")

    def start_to_stop(self, point):
        """A worker that stops before it listens."""
        self.worker.flags = self.flags + ("--fault-point", point)

        def start():
            with contextlib.suppress(AssertionError):  # it never listens
                self.worker.start()
        before, thread = self.worker.process, threading.Thread(target=start)
        thread.start()
        self.addCleanup(thread.join)
        self.worker.wait_for(lambda: self.worker.process is not before, what="a process")
        self.wait_for_stop()

    def wait_for_stop(self):
        self.worker.wait_for(lambda: state_of(self.worker.process.pid) == "T", what="the stop at the fault point")

    def kill(self):
        """With all that is below it, which ends by itself."""
        below = descendants(self.worker.process.pid)
        self.worker.kill()
        self.worker.wait_for(lambda: not any(process_exists(pid) for pid in below), what="the end of its processes")

    def record(self, call):
        """(state, attempts) in the catalog, read beside the worker; None: it has no such invocation."""
        with contextlib.closing(sqlite3.connect(f"file:{self.worker.folder}/state/catalog.db?mode=ro", uri=True)) as catalog:
            rows = catalog.execute("SELECT id, payload, state, attempts FROM async_invocations").fetchall()
        for identity, event, state, attempts in rows:
            # Its client may not know its id.
            if (call.id and uuid.UUID(call.id).bytes == identity) or f'"n": "{call.n}"'.encode() in bytes(event or b""):
                return state, attempts
        return None

    def outcome(self, invocation, seconds=30):
        """The word, and the body."""
        def ask():
            try:
                reply = self.worker.request("GET", f"/v1/invocations/{invocation}")
            except HttpError as error:  # so is one that was given up
                if "x-lambent-outcome" not in error.headers:
                    raise
                reply = error
            return reply if "x-lambent-outcome" in reply.headers else None
        reply = self.worker.wait_for(ask, seconds, f"the outcome of {invocation}")
        return reply.headers["x-lambent-outcome"], reply

    def wait_for_ends(self, n, times):
        self.worker.wait_for(lambda: self.runs.ended_of(n) == times, what=f"{times} runs of {n}")

    def settle(self):
        """Nothing of it is under way any more: another one, that came after it, has its outcome. They run one after the other."""
        other = self.call()
        self.assertEqual(other.told(), fault_steps.TOLD)
        self.assertEqual(self.outcome(other.id)[0], "succeeded")

    # Another process is killed.
    def victims(self, name):
        """Those below the worker with this name; "program": what runs the function."""
        below = descendants(self.worker.process.pid)
        if name != "program":
            return [pid for pid in below if name_of(pid) == name[:15]]
        inits = [pid for pid in below if name_of(pid) == "lambent-init"]
        return [pid for init in inits for pid in descendants(init) if name_of(pid).startswith("python")]

    def killed_beside(self, kill):
        """(runs, outcome) of an invocation beside which a process was killed."""
        self.start(kill.point, warm=kill.warm)
        victims = self.victims(kill.victim)
        if kill.handler == "frozen":
            for pid in victims:
                os.kill(pid, signal.SIGSTOP)
        self.runs.end.unlink(missing_ok=True)
        call = self.call(waits=kill.handler == "works")
        self.wait_for_stop()
        if kill.handler == "works":
            self.worker.wait_for(lambda: self.runs.begun_of(call.n) == 1, what="a run")
        if kill.handler == "ended":
            self.wait_for_ends(call.n, 1)
        victims = self.victims(kill.victim)
        self.assertTrue(victims, f"there is no {kill.victim}")
        # What is below them ends with them.
        gone = victims + [each for pid in victims for each in descendants(pid)] if kill.victim != "lambent-zygote" else victims
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        self.worker.wait_for(lambda: not any(process_exists(pid) for pid in gone), what="their end")
        self.worker.process.send_signal(signal.SIGCONT)
        if kill.outcome.startswith("succeeded"):
            self.runs.end.touch()
        self.assertEqual(call.told(), fault_steps.TOLD)
        word, reply = self.outcome(call.id)
        self.settle()
        runs = self.runs.begun_of(call.n)
        self.assertLessEqual(runs, self.record(call)[1], "it ran more often than is recorded")
        return runs, word if word == "succeeded" else reply.json["errorType"]

    def kill_beside(self, kills):
        for kill in kills:
            if not (kill.short or WHOLE):
                continue
            with self.subTest(kill=kill):
                runs, outcome = self.killed_beside(kill)
                self.assertIn(runs, kill.runs)
                self.assertIn(outcome, kill.outcome.split(" or "))


class DurabilityTest(Counting):
    # The worker is killed.
    def killed_at(self, step):
        """Kills it there: (call, runs, attempts that were recorded)."""
        self.start(step.point + (":hold" if step.holds else ""), step.warm)
        self.runs.end.unlink(missing_ok=True)
        call = self.call(waits=not step.point)
        if step.point and not step.holds:
            self.wait_for_stop()
        if not step.point:
            self.worker.wait_for(lambda: self.runs.begun_of(call.n) == 1, what="a run")
            self.worker.wait_for(lambda: self.record(call) == ("running", 1), what="its attempt")
        elif step.first:
            self.wait_for_ends(call.n, 1)
        if step.told == fault_steps.TOLD:
            self.assertEqual(call.told(), fault_steps.TOLD)
        self.kill()
        self.runs.end.touch()
        record = self.record(call)
        return call, self.runs.begun_of(call.n), record[1] if record else None

    def test_a_worker_killed_at_every_step(self):
        for step in fault_steps.STEPS:
            with self.subTest(step=step.name):
                call, first, recorded = self.killed_at(step)
                self.assertEqual(call.told(), step.told)
                self.assertEqual(first, step.first)
                self.assertIn(recorded, step.recorded)
                self.assertLessEqual(first, (recorded or 0) + 1, "it ran more than once beyond what is recorded")
                self.start()
                self.settle()
                self.assertEqual(self.runs.begun_of(call.n), step.runs)
                if step.told == fault_steps.NOT_TOLD:
                    # The client may send it again: it runs if it did not, and never once more.
                    self.assertIsNotNone(call.repeat())
                    self.assertEqual(self.outcome(call.id)[0], "succeeded")
                    self.assertEqual(self.runs.begun_of(call.n), max(1, step.runs))
                word, reply = self.outcome(call.id)
                self.assertEqual((word, reply.json), ("succeeded", call.n))
                self.assertGreaterEqual(self.runs.ended_of(call.n), 1)

    def test_what_an_earlier_worker_left_survives_the_next_ones_death_too(self):
        self.start("acknowledged")
        call = self.call()
        self.wait_for_stop()
        self.kill()
        self.start_to_stop("resumed")
        self.kill()
        self.start_to_stop("resumed")
        self.kill()
        self.assertEqual((self.runs.begun_of(call.n), self.record(call)), (0, ("queued", 0)))
        self.start()
        self.assertEqual(self.outcome(call.id)[0], "succeeded")
        self.assertEqual((self.runs.begun_of(call.n), self.record(call)), (1, ("done", 1)))

    def test_what_is_resumed_does_not_run_before_that_is_counted(self):
        self.start("acknowledged")
        call = self.call()
        self.wait_for_stop()
        self.kill()
        self.start("attempt_written:hold")
        self.worker.wait_for(lambda: any(each["state"] == "idle" for each in self.worker.sandboxes()), what="its sandbox")
        time.sleep(0.5)  # that it does nothing cannot be waited for
        self.assertEqual(self.runs.begun_of(call.n), 0)
        self.kill()
        self.start()
        self.assertEqual(self.outcome(call.id)[0], "succeeded")
        self.assertEqual((self.runs.begun_of(call.n), self.record(call)), (1, ("done", 1)))

    def test_what_takes_workers_with_it_runs_once_more_than_three_times_at_most(self):
        for first, runs in ((None, 3), ("attempt_written:hold", 4)):
            with self.subTest(first=first):
                self.start(first or "", warm=True)
                call = self.call(waits=True)
                self.assertEqual(call.told(), fault_steps.TOLD)
                for life in range(1, runs + 1):
                    self.worker.wait_for(lambda: self.runs.begun_of(call.n) == life, what=f"run {life}")
                    recorded = life if first is None else life - 1
                    self.worker.wait_for(lambda: (self.record(call) or ("", 0))[1] == recorded, what="the attempt")
                    self.kill()
                    self.start()
                self.assertEqual(self.outcome(call.id)[0], "rejected")
                self.settle()
                self.assertEqual(self.runs.begun_of(call.n), runs)

    def test_another_process_killed_while_the_worker_is_at_a_step(self):
        self.kill_beside(fault_steps.KILLS)


class SharedRuntimeTest(Counting):
    gpu, tags = "emulated:tiny", {"lambent:gpu-memory": "8M", "lambent:gpu-runtime": "shared"}

    def test_what_serves_gpus_killed_while_the_worker_is_at_a_step(self):
        self.kill_beside(fault_steps.GPU_KILLS)


class TablesTest(unittest.TestCase):
    def test_the_page_has_the_tables_of_the_test(self):
        page = (REPOSITORY / "docs/internals/durability.md").read_text()
        for name, table in fault_steps.tables().items():
            self.assertIn(f"<!-- {name} -->\n{table}\n<!-- end of {name} -->", page, "write them: python3 tests/integration/fault_steps.py --write")


if __name__ == "__main__":
    unittest.main()
