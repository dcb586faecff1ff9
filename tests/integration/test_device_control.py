"""How many run on a GPU at once, for how long at most, and on which of the host's processors: a worker that is told."""
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest

from harness import PREFIX, Worker, WorkerTest, make_zip

ROOT = pathlib.Path(__file__).resolve().parents[2]
OCCUPY = PREFIX / "share/lambent/kernels/occupy"
GPU = {"lambent:gpu-memory": "64MiB"}

# Keeps the GPU busy, or only its place there, for some seconds.
WORKER = """
import time
import lambent_cuda as cuda

device = cuda.Device()
occupy = device.load("/var/task/bundles/occupy").kernel("occupy")

def handler(event, context):
    if "busy" in event:
        occupy(grid=1, block=1, args=[cuda.uint64(int(event["busy"] * 1e9))])
        device.synchronize()
    time.sleep(event.get("rest", 0))  # the part of a run that leaves the GPU alone
    return "done"
"""

WHERE = """
import os

def handler(event, context):
    return sorted(os.sched_getaffinity(0))
"""


def package():
    files = {"app.py": WORKER}
    for path in sorted(OCCUPY.rglob("*")):
        if path.is_file():
            files["bundles/occupy/" + str(path.relative_to(OCCUPY))] = (path.read_bytes(), path.stat().st_mode & 0o777)
    return make_zip(files)


def device_of(worker):
    device, = worker.request("GET", "/v1/devices").json["devices"]
    return device


class Calls:
    """Invocations under way, and the order in which they were answered."""

    def __init__(self, worker):
        self.worker, self.threads, self.answered = worker, [], []

    def start(self, name, event):
        def run():
            reply = self.worker.invoke(name, event)
            self.answered.append((name, reply.json, reply.headers.get("x-lambent-wait-reason")))
        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def join(self):
        for thread in self.threads:
            thread.join(60)


class UtilisationTest(WorkerTest):
    flags = ("--concurrency", "auto", "--most-concurrency", "3", "--utilisation-threshold", "0.9")

    def test_a_busy_device_takes_no_more_and_one_that_idles_does(self):
        for name in ("one", "two", "three", "four"):
            self.worker.create(name, package(), tags=GPU)
            self.worker.invoke(name)
        self.assertEqual(device_of(self.worker)["tokens_by"], "utilization")
        self.worker.wait_for(lambda: device_of(self.worker)["utilization"] == 0, what="that the device rests")

        calls = Calls(self.worker)
        calls.start("one", {"busy": 3})
        self.worker.wait_for(lambda: device_of(self.worker)["utilization"] >= 0.9, what="that the device is busy")
        calls.start("two", {})
        self.worker.wait_for(lambda: "lambent_queued_invocations 1" in self.worker.metrics(), what="that the other waits")
        device = device_of(self.worker)
        self.assertEqual((device["tokens"], device["tokens_held"]), (1, 1))
        calls.join()
        # Their answers may be close to each other, and come to the two threads in either order.
        self.assertEqual({name: answer for name, answer, _ in calls.answered}, {"one": "done", "two": "done"})

        calls = Calls(self.worker)
        for name in ("one", "two", "three", "four"):
            calls.start(name, {"rest": 2})
        self.worker.wait_for(lambda: device_of(self.worker)["tokens_held"] == 3, what="that three run beside each other")
        self.assertEqual(device_of(self.worker)["tokens"], 3)
        calls.join()
        self.assertEqual({answer for _, answer, _ in calls.answered}, {"done"})


class InstancesTest(unittest.TestCase):
    def test_instances_whose_utilisation_nobody_tells_keep_a_fixed_number(self):
        worker = Worker("--concurrency", "auto", gpu="emulated:a100-80gb-mig")
        try:
            devices = worker.request("GET", "/v1/devices").json["devices"]
            self.assertGreater(len(devices), 1)
            for device in devices:
                self.assertEqual((device["tokens_by"], device["tokens"], device["utilization"]), ("setting", 2, None))
            self.assertEqual(worker.log().count("gpu_concurrency_fixed"), len(devices))
        finally:
            worker.close()


class LongRunTest(WorkerTest):
    flags = ("--concurrency", "1", "--longest-gpu-run", "20")

    def test_a_longer_timeout_is_refused_and_who_waits_is_told_for_whom_and_how_long(self):
        refused = self.error_of(self.worker.create, "long", package(), tags=GPU, timeout=30)
        self.assertEqual(refused.status, 400)
        message = json.loads(refused.body).get("message") or json.loads(refused.body).get("Message")
        self.assertIn("30 s", message)
        self.assertIn("20 s", message)
        self.worker.create("host", make_zip({"app.py": WHERE}), timeout=30)
        self.worker.create("long", package(), tags=GPU, timeout=20)
        self.worker.create("short", package(), tags=GPU, timeout=20)

        calls = Calls(self.worker)
        calls.start("long", {"rest": 3})
        self.worker.wait_for(lambda: device_of(self.worker)["tokens_held"] == 1, what="that the long one runs")
        waiting = self.worker.invoke("short", {}, kind="Event").headers["x-amzn-requestid"]
        asked = lambda: self.worker.request("GET", f"/v1/invocations/{waiting}").json
        # It starts beside the one that runs, and then waits for the token.
        self.worker.wait_for(lambda: asked()["phase"] == "queued", what="that the short one's sandbox is there")
        told = asked()
        self.assertEqual((told["state"], told["wait_reason"]), ("pending", "no_token"))
        holder, = told["token_holders"]
        self.assertEqual((holder["gpu"], holder["function"]), ("0", "long"))
        self.assertGreater(holder["most_left_seconds"], 0)
        shown = subprocess.run([str(PREFIX / "bin/lambent"), "result", waiting, "--endpoint", self.worker.endpoint],
                               capture_output=True, text=True, timeout=60)
        self.assertIn("GPU 0 is held by long", shown.stderr)
        calls.join()
        self.worker.wait_for(lambda: self.worker.request("GET", f"/v1/invocations/{waiting}").json == "done",
                             what="that the short one is done")


class NearProcessorsTest(unittest.TestCase):
    def setUp(self):
        self.own = sorted(os.sched_getaffinity(0))
        if len(self.own) < 2 or self.own[-1] > 63:
            self.skipTest("needs two processors, with numbers below 64")
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-near-")))
        self.config = folder / "near.toml"
        tiny = (ROOT / "src/emulator/emulated_node/presets/tiny.toml").read_text()
        self.config.write_text(f'{tiny}\n[topology]\nprocessors = ["{self.own[-1]}"]\n')

    def where(self, *flags):
        worker = Worker(*flags, gpu=f"emulated:{self.config}")
        try:
            worker.create("gpu", make_zip({"app.py": WHERE}), tags=GPU)
            worker.create("host", make_zip({"app.py": WHERE}))
            return worker.invoke("gpu").json, worker.invoke("host").json
        finally:
            worker.close()

    def test_a_function_stays_near_its_gpu_unless_the_operator_says_otherwise(self):
        self.assertEqual(self.where(), ([self.own[-1]], self.own))
        self.assertEqual(self.where("--no-numa"), (self.own, self.own))


if __name__ == "__main__":
    unittest.main()
