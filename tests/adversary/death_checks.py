"""E. kill -9 of every process under load: what was acknowledged has one outcome and the right one, and how often each invocation ran is counted.

Each run of an invocation writes its id into a FIFO in the function's package, which the reader here holds open: no death of a worker loses a line of it.
"""
import collections
import json
import os
import random
import threading
import time

import harness
from ground import process_name, status_of
from harness import HttpError, descendants
from verdicts import Skip, checks, require

COUNTED = """
import os, time
def handler(event, context):
    pipe = os.open("/var/task/ran", os.O_WRONLY | os.O_NONBLOCK)
    os.write(pipe, (context.aws_request_id + "\\n").encode())
    os.close(pipe)
    time.sleep(event["seconds"])
    return {"n": event["n"] * event["n"] + 7}
"""
# The names of processes, as far as /proc tells them, and how often each is killed.
VICTIMS = ("lambent-worker", "lambent-launch", "lambent-device", "lambent-execut", "lambent-init")


class Runs:
    """How often each invocation ran, by what the runs themselves wrote."""

    def __init__(self, state):
        folder = next((each.parent for each in (state / "code").glob("*/app.py") if "/var/task/ran" in each.read_text()), None)
        require(folder is not None, "the function's package is not below the state folder")
        pipe = folder / "ran"
        os.mkfifo(pipe)
        os.chmod(pipe, 0o666)
        self.file = os.open(pipe, os.O_RDWR)  # also a writer: so it never ends
        self.counts, self.rest = collections.Counter(), b""
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while True:
            piece = os.read(self.file, 65536)
            lines = (self.rest + piece).split(b"\n")
            self.rest = lines.pop()
            if b"end" in lines:
                return
            self.counts.update(each.decode() for each in lines)

    def stop(self):
        os.write(self.file, b"end\n")
        self.thread.join(10)
        os.close(self.file)


class Load:
    """Asynchronous invocations that are acknowledged, and calls of kernels whose every answer is looked at."""

    MOST_AHEAD = 150  # acknowledged and not begun: what is left at the end is done in seconds

    def __init__(self, worker, runs):
        self.worker, self.runs, self.stopping = worker, runs, threading.Event()
        self.acknowledged, self.wrong, self.answers = {}, [], collections.Counter()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.submit, args=(seed,)) for seed in range(3)] + [threading.Thread(target=self.call)]
        for each in self.threads:
            each.start()

    def submit(self, seed):
        dice = random.Random(seed)
        while not self.stopping.wait(0.01):
            if len(self.acknowledged) - len(self.runs.counts) > self.MOST_AHEAD:
                continue
            n = dice.randrange(1_000_000)
            try:
                reply = self.worker.invoke("counted", {"n": n, "seconds": dice.choice((0, 0.02, 0.1, 0.3))}, kind="Event", timeout=10)
                with self.lock:
                    self.acknowledged[reply.headers["x-amzn-requestid"]] = n
            except (OSError, HttpError):  # not acknowledged
                self.stopping.wait(0.05)

    def call(self):
        while not self.stopping.is_set():
            try:
                reply = self.worker.invoke("kernel", {"inputs": [{"name": "x", "data": [1, 2, 3, 4]}]}, timeout=20)
                failed = "x-amz-function-error" in reply.headers
                self.answers["failed" if failed else "right"] += 1
                if not failed and [2, 4, 6, 8] != reply.json["outputs"][0]["data"]:
                    self.wrong.append(reply.body[:200])
            except (OSError, HttpError):
                self.answers["no answer"] += 1
                self.stopping.wait(0.05)
            self.stopping.wait(0.02)

    def stop(self):
        self.stopping.set()
        for each in self.threads:
            each.join(30)


def kill_one(worker, victim):
    """True if there was one."""
    if victim == "lambent-worker":
        worker.kill()
        worker.start()
        return True
    found = [each for each in descendants(worker.process.pid) if process_name(each).startswith(victim)]
    if not found:
        return False
    os.kill(random.Random(len(found)).choice(found), 9)
    return True


def outcomes_of(worker, load, seconds):
    """{id: (status word, n in the answer, or what it says)} of everything that was acknowledged; asks until all have one, or no more come."""
    outcomes, deadline = {}, time.monotonic() + seconds
    while len(outcomes) < len(load.acknowledged) and time.monotonic() < deadline:
        before = len(outcomes)
        for invocation in [each for each in load.acknowledged if each not in outcomes]:
            status, reply = status_of(worker.request, "GET", f"/v1/invocations/{invocation}")
            word = reply.headers.get("x-lambent-outcome")
            if word == "succeeded":
                body = json.loads(reply.body)
                outcomes[invocation] = (word, body.get("n") if isinstance(body, dict) else None)
            elif word or status not in (200, 202):
                outcomes[invocation] = (word or f"HTTP {status}", reply.body[:200].decode(errors="replace"))
        if len(outcomes) > before:
            deadline = time.monotonic() + seconds
        time.sleep(0.1)
    return outcomes


def make_victim(ground):
    worker = ground.new_worker("deaths", "--concurrency", "4", "--pool", "8")
    worker.create_python("counted", COUNTED, timeout=10, memory=128, tags={"lambent:max-concurrency": "4"})
    import test_kernel_functions as tests
    worker.create("kernel", harness.make_zip({"graph.json": json.dumps(tests.scale_graph()), **tests.bundle_files()}), runtime="provided.al2023",
                  handler="graph.json", tags={"lambent:kind": "kernel"})
    return worker


def runs_of(load, runs, outcomes):
    """The account of all that was acknowledged: {"ran once": 3130, ...}, and what is wrong with it."""
    account, wrong = collections.Counter(), []
    for invocation, n in load.acknowledged.items():
        word, answered = outcomes.get(invocation, ("no outcome", None))
        times = runs.counts[invocation]
        account[f"ran {times} times"] += 1
        account[word] += 1
        if word in ("no outcome", "rejected") or word.startswith("HTTP"):
            wrong.append(f"{invocation}: {word} {answered or ''}")
        elif word == "succeeded" and (times == 0 or answered != n * n + 7):
            wrong.append(f"{invocation}: success after {times} runs with {answered} for {n}")
    return dict(account), wrong


@checks("E", "kill -9 of every process under load: one outcome each, and the right one")
def deaths(ground):
    if os.geteuid() != 0:
        raise Skip("an ordinary user's sandboxes cannot write the FIFO that counts; run ./dev adversary as root")
    worker = make_victim(ground)
    killed = collections.Counter()
    try:
        runs = Runs(ground.folder / "deaths/state")
        load = Load(worker, runs)
        dice, deadline = random.Random(11), time.monotonic() + (5 if ground.short else 60)
        victims = list(VICTIMS)
        while time.monotonic() < deadline or victims:
            victim = victims.pop() if victims else dice.choice(VICTIMS)
            killed[victim] += kill_one(worker, victim)
            time.sleep(dice.uniform(0.3, 1.2))
            if time.monotonic() > deadline + 20:
                break
        load.stop()
        outcomes = outcomes_of(worker, load, 30)
        # Once more without excuses: outcomes that were seen do not change.
        kill_one(worker, "lambent-worker")
        again = outcomes_of(worker, load, 30)
        runs.stop()
    finally:
        worker.close()
    account, wrong = runs_of(load, runs, outcomes)
    require(all(killed[each] > 0 for each in VICTIMS), f"not all kinds of processes were there to be killed: {dict(killed)}")
    require(len(load.acknowledged) > 20, f"only {len(load.acknowledged)} invocations were acknowledged")
    require(not wrong, f"{len(wrong)} of {len(load.acknowledged)} acknowledged: {wrong[:5]}")
    require(again == outcomes, "outcomes changed when the worker was started again: " +
            str([(each, outcomes[each], again.get(each)) for each in outcomes if again.get(each) != outcomes[each]][:5]))
    require(not load.wrong, f"wrong answers of a kernel: {load.wrong[:3]}")
    require(load.answers["right"] > 0, f"no kernel answered: {dict(load.answers)}")
    return {"killed": dict(killed), "acknowledged": len(load.acknowledged), "account": account, "kernel_calls": dict(load.answers)}


@checks("E", "two workers on one state or run folder: the second is refused with a sentence")
def two_workers(ground):
    import subprocess
    ground.neighbour_is_well()
    folder, other = ground.folder / "main", ground.folder / "second"
    other.mkdir(exist_ok=True)
    for state, run in ((folder / "state", other / "run"), (other / "state", folder / "run")):
        done = subprocess.run([harness.PREFIX / "bin/lambent-worker", "--listen", "127.0.0.1:0", "--state", state, "--run", run, "--gpu", "none"],
                              capture_output=True, text=True, timeout=30)
        require(done.returncode not in (0, 23), f"exit code {done.returncode}: {done.stderr[-300:]}")
        require("another worker" in done.stderr, done.stderr[-300:])
    ground.neighbour_is_well()
