"""Pipelines through the whole worker: functions cut over MIG instances of an emulated A100, values between their stages, errors,
deaths of stages, restarts, and what the worker tells of all this."""
import base64
import concurrent.futures
import json
import os
import signal
import re
import subprocess
import tempfile
import threading

from harness import PREFIX, Worker, WorkerTest, make_zip

# Three components, of which the second is optional; each does what the event tells it.
APP = """
import os
import time
from lambent.pipeline import Component, Pipeline

class Step(Component):
    def __init__(self, label, factor=1):
        self.name, self.factor = label, factor

    def setup(self):
        if os.path.exists("/var/task/broken"):
            raise RuntimeError("no weights here")

    def forward(self, value):
        if value.get("slow", self.name) == self.name:
            time.sleep(value.get("seconds", 0))
        if value.get("fail") == self.name:
            raise ValueError("told to fail in " + self.name)
        if value.get("die") == self.name:
            print("ends its process", flush=True)
            os.abort() if value.get("how") == "abort" else os._exit(7)
        return {**value, "n": value["n"] * self.factor, "path": value["path"] + [self.name]}

class App(Pipeline):
    def define_dag(self, value):
        a = self.register("first", Step, value, label="first", factor=2)
        b = self.register("second", Step, a, when=lambda value: not value.get("skip"), label="second", factor=3)
        return self.register("third", Step, b, label="third", factor=5)

    def decode(self, event):
        return {"value": {"path": [], **event}}

    def encode(self, outputs):
        return outputs["third"]
"""

# The first component waits until another request was decoded after its own, unless that was the last.
AHEAD = APP + """
import threading

decoded, changed = [], threading.Condition()

class Waits(Step):
    def forward(self, value):
        with changed:
            after = decoded.index(value["n"]) + 1
            if not changed.wait_for(lambda: len(decoded) > after or after == value["requests"], 20):
                raise TimeoutError("nobody was decoded beside %d: %s" % (value["n"], decoded))
        return super().forward(value)

class Ahead(App):
    def define_dag(self, value):
        a = self.register("first", Waits, value, label="first", factor=2)
        b = self.register("second", Step, a, label="second", factor=3)
        return self.register("third", Step, b, label="third", factor=5)

    def decode(self, event):
        with changed:
            decoded.append(event["n"])
            changed.notify_all()
        return super().decode(event)
"""


def pipeline(slo=None, **more):
    made = {"pipeline": 1, "handler": "app.App", "inputs": ["value"], "outputs": ["third"], **more,
            "components": [{"name": "first", "inputs": ["$value"]},
                           {"name": "second", "inputs": ["first"], "optional": True},
                           {"name": "third", "inputs": ["second"]}]}
    if slo:
        made["slo"] = slo
    return made


def profile(memory_mb):
    """Components of so many MB each."""
    each = {"weights_mb": memory_mb - 1000, "memory_mb": memory_mb, "output_bytes": 1000, "probability": 1,
            "ms": {"2g.20gb": 20, "3g.40gb": 14}}
    return {"profile": 1, "context_mb": 500, "start_ms": 300,
            "shapes": {"2g.20gb": {"multiprocessors": 28, "memory_mb": 19968},
                       "3g.40gb": {"multiprocessors": 42, "memory_mb": 40192}},
            "components": {name: each for name in ("first", "second", "third")}}


class Pipelines(WorkerTest):
    gpu = "emulated:a100-80gb-mig"  # 3g.40gb, 2g.20gb, 2g.20gb
    flags = ("--pipeline-slices", "all")

    def package(self, memory_mb=15000, files=None, **more):
        content = {"app.py": APP, "pipeline.json": json.dumps(pipeline(**more)), **(files or {})}
        if memory_mb:
            content["profile.json"] = json.dumps(profile(memory_mb))
        return make_zip(content)

    def create(self, name, timeout=20, worker=None, **more):
        return (worker or self.worker).create(name, self.package(**more), handler="pipeline.json", timeout=timeout,
                                              tags={"lambent:kind": "pipeline"})

    def ask(self, name, event, worker=None):
        reply = (worker or self.worker).invoke(name, event)
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body)
        return reply.json

    def failure(self, name, event):
        reply = self.worker.invoke(name, event)
        self.assertIn("x-amz-function-error", reply.headers, reply.body)
        return reply.json

    def describe(self, name, worker=None):
        return (worker or self.worker).request("GET", f"/v1/functions/{name}/pipeline").json

    def remove(self, name):
        self.worker.delete(name)
        self.worker.wait_for(lambda: not any(each["holders"] for each in self.slices()), what="free slices")

    def slices(self):
        return self.worker.request("GET", "/v1/slices").json["slices"]


class Cut(Pipelines):
    def test_a_function_that_no_slice_holds_runs_on_several(self):
        self.create("large", memory_mb=15000, slo={"ms": 60000})
        reply = self.worker.invoke("large", {"n": 1})
        answer = reply.json
        self.assertEqual((answer["n"], answer["path"]), (30, ["first", "second", "third"]))
        told = self.describe("large")
        stages = told["instances"][0]["stages"]
        self.assertGreater(len(stages), 1)
        names = [name for stage in stages for lane in stage for name in lane["components"]]
        self.assertEqual(names, ["first", "second", "third"])
        used = {lane["slice"] for stage in stages for lane in stage}
        self.assertEqual(len(used), len(stages))
        holders = {each["slice"]: each["holders"] for each in self.slices()}
        for place in used:
            self.assertEqual(holders[place][0]["function"], "large")
        self.assertEqual(told["slo"], {"ms": 60000, "in_time": 1, "late": 0})
        self.explains_itself(reply, stages)
        self.assertIn('lambent_slo_requests_total{function="large",outcome="in_time",tenant="1"} 1', self.worker.metrics())
        self.assertIn('lambent_gpu_slices_busy_seconds_total{gpu="0"}', self.worker.metrics())
        gpu, = self.worker.request("GET", "/v1/slices").json["gpus"]
        self.assertLessEqual(gpu["busy_s"], sum(each["busy_s"] for each in self.slices()) + 1e-6)
        self.remove("large")

    def test_a_stage_that_takes_much_longer_has_replicas_that_take_turns(self):
        uneven = profile(15000)
        quick = {**uneven["components"]["first"], "ms": {"2g.20gb": 5, "3g.40gb": 4}}
        uneven["components"].update(first=quick, second=quick, third={**quick, "ms": {"2g.20gb": 100, "3g.40gb": 70}})
        self.create("uneven", memory_mb=None, files={"profile.json": json.dumps(uneven)}, slo={"ms": 60000})
        answers = {}
        self.assertEqual(self.ask("uneven", {"n": 1})["n"], 30)

        def ask(n):
            answers[n] = self.ask("uneven", {"n": n, "slow": "third", "seconds": 0.05})["n"]

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(2, 10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, {n: 30 * n for n in range(2, 10)})
        instance, = self.describe("uneven")["instances"]
        lanes = [lane for stage in instance["stages"] for lane in stage]
        replicas = [lane for lane in lanes if lane["components"] == ["third"]]
        self.assertEqual([lane["replica"] for lane in replicas], [0, 1])
        self.assertEqual(len({lane["slice"] for lane in lanes}), len(lanes))
        busy = {each["slice"]: each["busy_s"] for each in self.slices()}
        for lane in replicas:
            self.assertGreater(busy[lane["slice"]], 3.9 * 0.05, "four or five of nine jobs, of which the first was short")
        self.remove("uneven")

    def explains_itself(self, reply, stages):
        """The first request of a function: its time went into the start of an instance, and into the stages."""
        self.assertGreater(int(reply.headers["x-lambent-sandbox-us"]), 1000)
        self.assertNotIn("x-lambent-wait-reason", reply.headers)
        invocation = reply.headers["x-amzn-requestid"]
        told = self.worker.request("GET", f"/v1/invocations/{invocation}/trace").json
        self.assertEqual((told["state"], told["start"], len(told["stages"])), ("succeeded", "cold", len(stages)))
        self.assertEqual(told["waits"][0]["reason"], "starting")
        for lane, stage in zip(told["stages"], stages):
            self.assertEqual(lane["slice"], stage[0]["slice"])
            self.assertEqual([each["component"] for each in lane["components"]], stage[0]["components"])
        phases = sum(told[key] for key in ("queue_ms", "sandbox_ms", "memory_ms", "run_ms"))
        self.assertAlmostEqual(phases, told["took_ms"], delta=0.01)
        done = subprocess.run([str(PREFIX / "bin/lambent"), "why", invocation, "--endpoint", self.worker.endpoint],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("its instance was started", done.stdout)

    def test_the_next_request_is_decoded_while_one_is_at_work(self):
        self.create("ahead", memory_mb=5000, files={"app.py": AHEAD}, handler="app.Ahead", slo={"ms": 60000})
        self.assertEqual(self.ask("ahead", {"n": 1, "requests": 1})["n"], 30)
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            answers = pool.map(lambda n: self.ask("ahead", {"n": n, "requests": 6}), range(2, 7))
            self.assertEqual([answer["n"] for answer in answers], [30 * n for n in range(2, 7)])
        self.assertEqual(len(self.describe("ahead")["instances"]), 1)
        self.remove("ahead")

    def test_one_that_fits_is_not_cut(self):
        self.create("small", memory_mb=3000)
        self.assertEqual(self.ask("small", {"n": 2})["n"], 60)
        self.assertEqual(len(self.describe("small")["instances"][0]["stages"]), 1)
        self.remove("small")

    def test_what_was_not_measured_is_served_and_learnt(self):
        self.create("unknown", memory_mb=None)
        self.assertEqual(self.ask("unknown", {"n": 1, "skip": True})["path"], ["first", "third"])
        measured = self.describe("unknown")["profile"]["components"]
        self.assertEqual(measured["second"]["probability"], 0)
        self.assertTrue(measured["first"]["ms"])
        self.remove("unknown")

    def test_what_fits_nowhere_is_refused_with_what_it_needs(self):
        error = self.error_of(self.create, "huge", memory_mb=60000)
        self.assertEqual(error.status, 429, error)
        self.assertIn("first", error.json["message"] if "message" in error.json else error.json["Message"])

    def test_a_package_without_description_is_refused(self):
        error = self.error_of(self.worker.create, "bare", make_zip({"app.py": APP}), handler="pipeline.json",
                              tags={"lambent:kind": "pipeline"})
        self.assertIn("lambent.pipeline build", str(error))
        error = self.error_of(self.create, "odd", outputs=["fourth"])
        self.assertEqual(error.status, 400)
        self.assertIn("fourth", str(error))

    def test_an_ordinary_function_finds_no_device_here(self):
        error = self.error_of(self.worker.create, "plain", make_zip({"app.py": APP}), tags={"lambent:gpu-memory": "64M"})
        self.assertIn("pipeline", str(error))


class Measured(Pipelines):
    def test_a_command_measures_each_shape(self):
        self.create("measured", memory_mb=None)
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run([str(PREFIX / "bin/lambent"), "--endpoint", self.worker.endpoint, "profile", "measured",
                                  "-d", json.dumps({"n": 1, "seconds": 0.02}), "--repeat", "3", "--out", folder + "/p.json"],
                                 capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("second", ran.stdout)
            with open(folder + "/p.json") as file:
                measured = json.load(file)
        for name in ("first", "second", "third"):
            times = measured["components"][name]["ms"]
            self.assertEqual(set(times), {"2g.20gb", "3g.40gb"})
            for each in times.values():
                self.assertGreaterEqual(each, 19)
        self.assertEqual(self.describe("measured")["profile"], measured)
        self.assertEqual(self.ask("measured", {"n": 1})["n"], 30, "its slices are free again")
        error = self.error_of(self.worker.request, "POST", "/v1/functions/measured/profile?repeat=0", "{}")
        self.assertEqual(error.status, 400)
        self.remove("measured")


class Failures(Pipelines):
    def test_errors_of_one_request_are_its_own(self):
        self.create("failing")
        for name in ("first", "second", "third"):
            error = self.failure("failing", {"n": 1, "fail": name})
            self.assertEqual(error["errorType"], "ValueError")
            self.assertIn("told to fail in " + name, error["errorMessage"])
        self.assertEqual(self.ask("failing", {"n": 1})["n"], 30)
        error = self.error_of(self.worker.invoke, "failing", b"{")
        self.assertEqual(error.status, 400)
        self.remove("failing")

    def test_nothing_is_lost_when_a_stage_is_killed(self):
        self.create("killed")
        self.ask("killed", {"n": 1})
        answers, threads = [], []

        def ask(n):
            answers.append(self.ask("killed", {"n": n, "seconds": 0.2})["n"])

        for n in range(6):
            threads.append(threading.Thread(target=ask, args=(n,)))
            threads[-1].start()
        victims = [each for each in self.worker.sandboxes() if each["function"] == "killed"]
        os.kill(victims[-1]["pid"], signal.SIGKILL)
        for thread in threads:
            thread.join(60)
        self.assertEqual(sorted(answers), [30 * n for n in range(6)])
        self.remove("killed")

    def test_a_request_that_ends_its_stage_is_told_at_once_and_ends_no_other(self):
        self.create("deadly")
        self.ask("deadly", {"n": 1})
        stages = self.describe("deadly")["instances"][0]["stages"]
        self.assertGreater(len(stages), 1)
        for times, (name, how, says) in enumerate((("first", "exit", "exit status 7"), ("second", "exit", "exit status 7"),
                                                   ("third", "abort", "signal: 6")), 1):
            error = self.failure("deadly", {"n": 1, "die": name, "how": how})
            self.assertEqual(error["errorType"], "Runtime.ExitError")
            self.assertRegex(error["errorMessage"], says + r" in stage \d \(.*" + name)
            self.assertEqual(self.ask("deadly", {"n": times})["n"], 30 * times)
            log = self.worker.request("GET", "/v1/functions/deadly/log").body.decode()
            self.assertEqual(log.count("ends its process"), times, "it ran once")
        self.remove("deadly")

    def test_one_that_ends_its_stage_takes_no_other_request_along(self):
        self.create("crowded", slo={"ms": 60000})
        self.ask("crowded", {"n": 1})
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            good = [pool.submit(self.ask, "crowded", {"n": n, "seconds": 0.1}) for n in range(3)]
            bad = pool.submit(self.failure, "crowded", {"n": 1, "die": "second", "seconds": 0.1})
            good += [pool.submit(self.ask, "crowded", {"n": n, "seconds": 0.1}) for n in range(3, 6)]
            self.assertEqual([each.result()["n"] for each in good], [30 * n for n in range(6)])
            self.assertIn("exit status 7", bad.result()["errorMessage"])
        self.remove("crowded")

    def test_one_that_cannot_start_says_why(self):
        self.create("unstartable", files={"broken": "yes"})
        error = self.failure("unstartable", {"n": 1})
        self.assertIn("no weights here", error["errorMessage"])
        self.remove("unstartable")

    def test_one_that_takes_too_long_is_stopped(self):
        self.create("slow", timeout=1)
        error = self.failure("slow", {"n": 1, "seconds": 30})
        self.assertIn("timed out", error["errorMessage"])
        self.assertEqual(self.ask("slow", {"n": 1})["n"], 30)
        self.remove("slow")

    def test_a_new_revision_replaces_the_old_one(self):
        self.create("changed", memory_mb=3000)
        self.assertEqual(self.ask("changed", {"n": 1})["n"], 30)
        code = make_zip({"app.py": APP.replace("factor=5", "factor=7"), "pipeline.json": json.dumps(pipeline())})
        self.worker.request("PUT", "/2015-03-31/functions/changed/code",
                            json.dumps({"ZipFile": base64.b64encode(code).decode()}))
        self.assertEqual(self.ask("changed", {"n": 1})["n"], 42)
        self.remove("changed")


class Sharing(Pipelines):
    """More functions than slices: they take turns, and what was loaded once comes back from the host."""
    flags = ("--pipeline-slices", "0:1", "--slice-policy", "fluidfaas")

    def test_functions_take_turns_on_one_slice(self):
        names = ["turns%d" % i for i in range(3)]
        for name in names:
            self.create(name, memory_mb=3000)
        for round_number in range(4):
            for name in names:
                self.assertEqual(self.ask(name, {"n": round_number})["n"], 30 * round_number)
        held = [(each["function"], each["allocation_mode"], each["state"]) for each in self.slices()[0]["holders"]]
        self.assertEqual(sorted(name for name, _, _ in held), names)
        self.assertEqual({mode for _, mode, _ in held}, {"time_sharing"})
        self.assertEqual({each["tenure"] for each in self.slices()[0]["holders"]}, {"time_sharing"}, "its name in the version before")
        self.assertEqual(sorted(state for _, _, state in held), ["loaded", "unloaded", "unloaded"])
        starts = self.worker.metrics()
        self.assertIn('start="gpu_cold"', starts)
        for name in names:
            self.worker.delete(name)


# A network that takes as long for several requests as for one, and says how many it was given at once.
TOGETHER = """
import array, time
from lambent.pipeline import Component, Pipeline, device

class Network(Component):
    batches = True

    def forward(self, x):
        rows = x.shape[0]
        numbers = array.array("f", x.bytes())
        time.sleep(0.1)
        if any(number < 0 for number in numbers):
            raise ValueError("no root of %g" % min(numbers))
        answers = array.array("f", [value for number in numbers[::2] for value in (number * 2, rows)])
        return device().tensor("float32", (rows, 2), answers)

class App(Pipeline):
    def define_dag(self, x):
        return self.register("network", Network, x)

    def decode(self, event):
        return {"x": device().tensor("float32", (1, 2), array.array("f", [event["n"], 0]))}

    def encode(self, outputs):
        n, together = array.array("f", outputs["network"].bytes())
        return {"n": n, "together": together}
"""


class Batches(Pipelines):
    """Requests that wait run together where a component takes batches, as many as its SLO allows."""
    flags = ("--pipeline-slices", "0:1", "--slice-policy", "slo")

    def create(self, name, slo_ms, batch=8):
        made = {"pipeline": 1, "handler": "app.App", "inputs": ["x"], "outputs": ["network"], "batch": batch, "slo": {"ms": slo_ms},
                "components": [{"name": "network", "inputs": ["$x"]}]}
        self.worker.create(name, make_zip({"app.py": TOGETHER, "pipeline.json": json.dumps(made)}), handler="pipeline.json", timeout=60,
                           tags={"lambent:kind": "pipeline"})
        self.addCleanup(self.worker.delete, name)
        self.assertEqual(self.ask(name, {"n": 3}), {"n": 6, "together": 1})

    def burst(self, name, numbers):
        with concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:
            return list(pool.map(lambda n: self.worker.invoke(name, {"n": n}), numbers))

    def test_the_worker_learns_what_batches_take_and_uses_it_while_it_runs(self):
        self.create("roomy", slo_ms=60000)
        for _ in range(6):
            answers = [reply.json for reply in self.burst("roomy", range(1, 13))]
            self.assertEqual([each["n"] for each in answers], [2 * n for n in range(1, 13)])
        self.assertGreater(max(each["together"] for each in answers), 1)
        self.assertLessEqual(max(each["together"] for each in answers), 8)
        told = self.describe("roomy")
        [network] = told["profile"]["components"].values()
        learnt = network["batch_ms"]["2g.20gb"]
        self.assertTrue(learnt and set(learnt) <= {"2", "4", "8"}, told["profile"])
        largest = max(learnt, key=int)
        self.assertLess(learnt[largest], int(largest) * network["ms"]["2g.20gb"], network)
        [instance] = told["instances"]
        self.assertEqual([each["requests"] for each in instance["batches"]], [2, 4, 8])
        self.assertLess(instance["batches"][-1]["latency_ms"], 8 * instance["latency_ms"])

    def test_no_batch_is_made_where_the_slo_leaves_no_time_for_two(self):
        self.create("tight", slo_ms=150, batch=2)
        # What two take together is found out first; the first two of all are not counted.

        def measured():
            self.burst("tight", range(1, 7))
            return self.describe("tight")["instances"][0]["batches"]
        self.worker.wait_for(measured, what="that two were measured")
        answers = [reply.json for reply in self.burst("tight", range(1, 7))]
        self.assertEqual({each["together"] for each in answers}, {1})

    def test_one_that_fails_in_a_batch_fails_by_itself(self):
        self.create("mixed", slo_ms=60000)
        for _ in range(4):
            replies = self.burst("mixed", [1, 2, 3, -4, 5, 6, 7, 8])
            failed = [reply.json for reply in replies if "x-amz-function-error" in reply.headers]
            self.assertEqual([error["errorType"] for error in failed], ["ValueError"], failed)
            self.assertEqual(sorted(reply.json["n"] for reply in replies if "x-amz-function-error" not in reply.headers),
                             [2, 4, 6, 10, 12, 14, 16])


class Shared(Pipelines):
    """The first slice is left to all other functions."""
    flags = ("--pipeline-slices", "0:1,0:2")

    def create(self, name, tags=None, **more):
        return self.worker.create(name, self.package(memory_mb=3000, **more), handler="pipeline.json", timeout=20,
                                  tags={"lambent:kind": "pipeline", **(tags or {"lambent:gpu-memory": "9GiB"})})

    def test_a_function_that_shares_a_device_runs_there_in_one_piece(self):
        self.create("whole", isolation="shared", slo={"ms": 60000})
        reply = self.worker.invoke("whole", {"n": 1})
        self.assertEqual((reply.json["n"], reply.json["path"]), (30, ["first", "second", "third"]))
        self.assertEqual((reply.headers["x-lambent-device"], reply.headers["x-lambent-start"]), ("0:0", "cold"))
        self.assertEqual(self.worker.invoke("whole", {"n": 2}).headers["x-lambent-start"], "warm")
        told = self.describe("whole")
        self.assertEqual((told["isolation"]["rule"], told["isolation"]["chosen"]), ("shared", "shared"))
        self.assertEqual((told["instances"], told["completed"], told["slo"]["in_time"]), ([], 2, 2))
        self.assertIn("isolation = shared", told["isolation"]["reasons"][0])
        done = subprocess.run([str(PREFIX / "bin/lambent"), "plan", "whole", "--endpoint", self.worker.endpoint],
                              capture_output=True, text=True, timeout=60)
        self.assertIn("isolation shared: its next request goes to a shared device", done.stdout, done.stderr)
        self.assertIn("told to fail in second", self.failure("whole", {"n": 1, "fail": "second"})["errorMessage"])
        self.failure("whole", {"n": 1, "die": "third"})
        self.assertEqual(self.ask("whole", {"n": 3})["n"], 90)
        self.worker.delete("whole")

    def test_where_there_is_a_choice_slices_come_first(self):
        self.create("either", isolation="auto")
        self.assertIn(self.worker.invoke("either", {"n": 1}).headers["x-lambent-device"], ("0:1", "0:2"))
        told = self.describe("either")["isolation"]
        self.assertEqual((told["rule"], told["chosen"]), ("auto", "slices"))
        self.assertIn("is not known", told["reasons"][-1])
        self.worker.delete("either")

    def test_what_cannot_share_is_refused(self):
        error = self.error_of(self.create, "silent", isolation="shared", tags={"x": "y"})
        self.assertEqual(error.status, 400)
        self.assertIn("gpu.memory", str(error))


class Plans(Pipelines):
    def plan(self, *arguments):
        done = subprocess.run([str(PREFIX / "bin/lambent"), "plan", *arguments, "--json", "--endpoint", self.worker.endpoint],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_lambent_plan_tells_how_a_workers_function_would_be_cut(self):
        self.create("planned", memory_mb=15000, slo={"ms": 5000})
        plan = self.plan("planned")
        self.assertEqual((plan["handler"], plan["measured"], plan["slo_ms"]), ("app.App", True, 5000))
        self.assertEqual({len(each["stages"]) for each in plan["partitions"]}, {2, 3})  # no slice holds all of it
        taken = plan["partitions"][plan["first_that_fits"]]["placement"]["slices"]
        self.assertIn(sorted(slice["shape"] for slice in taken), (["2g.20gb", "2g.20gb", "3g.40gb"], ["2g.20gb", "3g.40gb"]))
        # Its own instance leaves too little for another.
        self.ask("planned", {"n": 1})
        self.assertIsNone(self.plan("planned")["first_that_fits"])
        self.assertEqual(self.plan("planned", "--slices", "3*2g.20gb")["first_that_fits"], 0)


class CutAnew(Pipelines):
    def test_slices_that_are_gone_are_known_to_be(self):
        worker = Worker(*self.flags, gpu=self.gpu)
        try:
            # As nvidia-smi does it, which knows of no worker.
            mig = [str(PREFIX / "bin/emulated-gpu"), "mig", "--node", str(worker.folder / "run/gpu-node")]
            slices = re.findall(r"MIG-[\w-]+", subprocess.run([*mig, "list"], capture_output=True, text=True, check=True).stdout)
            self.assertTrue(slices)
            for slice in slices:
                subprocess.run([*mig, "destroy", slice], capture_output=True, check=True)
            worker.wait_for(lambda: all(each["lost"] for each in worker.request("GET", "/v1/slices").json["slices"]),
                            what="the loss of all slices")
        finally:
            worker.close()


class Restarts(Pipelines):
    def test_what_was_learnt_and_accepted_survives_kill_9(self):
        worker = Worker(*self.flags, gpu=self.gpu)
        try:
            self.create("kept", worker=worker, memory_mb=3000)
            for _ in range(30):
                self.ask("kept", {"n": 1, "seconds": 0.01}, worker=worker)
            learnt = self.describe("kept", worker=worker)["profile"]["components"]["first"]["ms"]
            reply = worker.invoke("kept", {"n": 1, "seconds": 1, "slow": "third"}, kind="Event")
            worker.kill()
            worker.start()
            invocation = reply.headers["x-amzn-requestid"]

            def result():
                found = worker.request("GET", f"/v1/invocations/{invocation}").json
                return None if found.get("state") == "pending" else found

            self.assertEqual(worker.wait_for(result, 60, "the result")["n"], 30)
            again = self.describe("kept", worker=worker)["profile"]["components"]["first"]["ms"]
            shape = next(iter(learnt))
            self.assertAlmostEqual(again[shape], learnt[shape], delta=0.5 * learnt[shape])
        finally:
            worker.close()
