"""The part of bench models about starts: the latency of one model alone, and while other models start all the time. Used by models.py."""
import collections
import http.client
import multiprocessing
import pathlib
import statistics
import tempfile
import threading
import time
import urllib.parse

import models_worker
from infer import write_wheel
from worker_under_test import Worker

HOT_MIB, STARTING_MIB, EVERY_S, SINGLE_STARTS = 8, (1, 4, 8), 0.03, 5
# turns of each kind, how long each is, how many models start one after the other at the same time
Plan = collections.namedtuple("Plan", "turns seconds starting")
WHOLE, QUICK = Plan(6, 5, 3), Plan(1, 2, 3)


def call_hot(endpoint, seconds, pipe):
    """A process of its own: what the threads of the others do does not count."""
    address = urllib.parse.urlparse(endpoint)
    connection = http.client.HTTPConnection(address.hostname, address.port)
    took, due = [], time.monotonic()
    end = due + seconds
    while due < end:
        time.sleep(max(0, due - time.monotonic()))
        began = time.monotonic()
        connection.request("POST", "/v2/models/hot/infer", models_worker.BODY, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        took.append(time.monotonic() - began if answer.status == 200 else None)
        due += EVERY_S
    pipe.send(took)


def hot_latencies(worker, seconds):
    here, there = multiprocessing.Pipe()
    client = multiprocessing.Process(target=call_hot, args=(worker.endpoint, seconds, there))
    client.start()
    took = here.recv()
    client.join()
    return took


def start(worker, name):
    """Seconds until the first answer of a model that is not there; None: it failed."""
    models_worker.post(worker.endpoint, f"/v2/repository/models/{name}/unload")
    began = time.monotonic()
    wrong = models_worker.infer(worker.endpoint, name)
    return time.monotonic() - began if wrong is None else None


def beside_starts(worker, plan, starts):
    over = threading.Event()

    def go_on(name):
        while not over.is_set():
            starts.append(start(worker, name))

    threads = [threading.Thread(target=go_on, args=(f"starting{number}",)) for number in range(plan.starting)]
    for thread in threads:
        thread.start()
    took = hot_latencies(worker, plan.seconds)
    over.set()
    for thread in threads:
        thread.join()
    return took


def single_start(worker):
    time.sleep(0.2)
    return start(worker, "starting0")


def run(plan, tell=lambda line: None):
    why, uv = models_worker.missing()
    if why:
        return {"skipped": why}
    alone, beside, starts, single = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        wheels = pathlib.Path(folder) / "wheels"  # which the user of sandboxes reads
        wheels.mkdir()
        write_wheel(wheels)
        with Worker("--gpu", "none", "--max-queue-time", "0", "--sandbox-memory", "0", "--uv", uv, "--python-wheels", str(wheels), "--python-offline") as worker:
            holds = models_worker.deploy(worker, {"hot": HOT_MIB, **{f"starting{each}": STARTING_MIB[each % len(STARTING_MIB)] for each in range(plan.starting)}})
            for name in ("hot", "starting0"):
                start(worker, name)
            for turn in range(plan.turns):
                alone += hot_latencies(worker, plan.seconds)
                beside += beside_starts(worker, plan, starts)
                single += [single_start(worker) for _ in range(SINGLE_STARTS)]
                tell(f"turn {turn + 1}: {len(starts)} starts")
            held = {each["function"]: each["host_memory_bytes"] for each in models_worker.sandboxes(worker)}
    result = {name: models_worker.figures(took) for name, took in (("alone", alone), ("beside", beside), ("starts", starts), ("single_start", single))}
    result["beside_over_alone"] = models_worker.over(result["beside"], result["alone"])
    result["least_single_start_s"] = round(min(filter(None, single)), 5)
    result["median_start_s"] = round(statistics.median(filter(None, starts)), 5)
    result["holds_mib"] = {"first": {str(mib): round(held_bytes / 2**20, 1) for mib, held_bytes in sorted(holds.items())},
                           "later_1": round(held.get("starting0", 0) / 2**20, 1)}
    return result
