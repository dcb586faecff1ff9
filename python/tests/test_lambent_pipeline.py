"""lambent.pipeline: DAGs, running in one process, lanes in processes of their own, and what happens when something fails. LAMBENT_PREFIX
names the build: its library of channels, and its emulated driver for values on a device."""
import contextlib
import importlib.util
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, PYTHON)
PREFIX = os.environ["LAMBENT_PREFIX"]

from lambent.pipeline import Component, Pipeline, PipelineError, channel, dag, lanes, values  # noqa: E402
from lambent.pipeline.runner import Runner  # noqa: E402
from lambent.pipeline.stage import Stage, StageError  # noqa: E402
from test_lambent_runtime import FakeRuntimeApi  # noqa: E402

# Numbers through a diamond with an optional branch: double, then plus and minus beside each other, then a pair.
APP = """
    import os
    from lambent.pipeline import Component, Pipeline

    class Double(Component):
        def forward(self, n):
            if n == 13:
                raise ValueError("13 is unlucky")
            return n * 2

    class Add(Component):
        def __init__(self, amount=0):
            self.amount = amount
        def setup(self):
            if os.environ.get("FAIL_SETUP"):
                raise RuntimeError("no weights")
        def forward(self, n):
            if n == 2 * 666:
                os.kill(os.getpid(), 9)
            return n + self.amount

    class Pair(Component):
        def forward(self, a, b):
            return {"sum": a + b, "parts": (a, b), "raw": b"%d" % a}

    class App(Pipeline):
        slo_ms = 200
        batch = 4

        def define_dag(self, n):
            doubled = self.register("double", Double, n)
            plus = self.register("plus", Add, doubled, amount=1)
            minus = self.register("minus", Add, doubled, when=lambda n: n > 10, amount=-1)
            return self.register("pair", Pair, plus, minus)

        def encode(self, outputs, event):
            pair = outputs["pair"]
            return {"n": event["n"], "sum": pair["sum"], "parts": list(pair["parts"]), "raw": pair["raw"].decode()}
"""


def answer_to(n):
    plus, minus = 2 * n + 1, 2 * n - 1 if 2 * n > 10 else 2 * n
    return {"n": n, "sum": plus + minus, "parts": [plus, minus], "raw": str(plus)}


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, source, name="app.py"):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(source))

    def program(self, *arguments, environment=None, input=None):
        run = subprocess.run([sys.executable, "-m", "lambent.pipeline", *arguments], cwd=self.folder, input=input,
                             env=dict(os.environ, PYTHONPATH=PYTHON, **(environment or {})), capture_output=True,
                             text=True, timeout=100, check=False)
        return run.returncode, run.stdout, run.stderr


class Identity(Component):
    def forward(self, *inputs):
        return inputs[0]


def pipeline_of(define, **attributes):
    return type("Made", (Pipeline,), dict(attributes, define_dag=define))()


class DagTest(Folder):
    def refused(self, define, words, **attributes):
        with self.assertRaisesRegex(PipelineError, words):
            pipeline_of(define, **attributes).to_json("app.App")

    def test_build_writes_what_define_dag_registers(self):
        self.write(APP)
        code, out, error = self.program("build", "app.App")
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(json.loads(out), {
            "pipeline": 1, "handler": "app.App", "inputs": ["n"],
            "components": [{"name": "double", "inputs": ["$n"]}, {"name": "plus", "inputs": ["double"]},
                           {"name": "minus", "inputs": ["double"], "optional": True},
                           {"name": "pair", "inputs": ["plus", "minus"]}],
            "outputs": ["pair"], "slo": {"ms": 200}, "batch": 4})
        code, out, _ = self.program("build", "app.App", "-o", "pipeline.json")
        self.assertEqual(code, 0)
        self.assertIn("4 components", out)

    def test_reg_names_a_component_after_its_class_and_outputs_are_what_nobody_needs(self):
        class SuperResolution(Identity):
            pass

        def define(self, x, y):
            a = SuperResolution.reg(self, x)
            Identity.reg(self, a, y, name="second")
            Identity.reg(self, a, name="third")

        document = pipeline_of(define, slo_scale=1.5, rank="balance").to_json("m.C")
        self.assertEqual([c["name"] for c in document["components"]], ["super_resolution", "second", "third"])
        self.assertEqual(document["outputs"], ["second", "third"])
        self.assertEqual((document["slo"], document["rank"]), ({"scale": 1.5}, "balance"))

    def test_mistakes_are_named(self):
        def one(self, x):
            return self.register("a", Identity, x)

        self.refused(lambda self: None, "takes no input")
        self.refused(lambda self, x: None, "registered no component")
        self.refused(lambda self, *x: None, "name each input")
        self.refused(lambda self, x: self.register("a b", Identity, x), "component 'a b'.*no name")
        self.refused(lambda self, x: self.register("a", Identity), "component 'a': it has no input")
        self.refused(lambda self, x: self.register("a", Identity, 5), "input 0 is 5")
        self.refused(lambda self, x: self.register("a", Identity, x, when=True), "when= is True")
        self.refused(lambda self, x: self.register("a", 5, x), "5 is no module")
        self.refused(lambda self, x: [one(self, x), one(self, x)], "two of that name")
        self.refused(lambda self, x: [one(self, x), x], "the input \\$x")
        self.refused(lambda self, x: [one(self, x)] * 2, "returned a twice")
        self.refused(lambda self, x: (one(self, x), 5), "returned .*5")
        self.refused(lambda self, x: [self.register("b", Identity, x), one(self, x)][:1], "component 'a': nothing needs it")
        self.refused(lambda self, x: one(self, x) if x else None, "cannot look at values")
        self.refused(one, "give one of them", slo_ms=1, slo_scale=1)
        self.refused(one, "slo_ms is 0", slo_ms=0)
        self.refused(one, "batch is 0", batch=0)
        self.refused(one, "rank is 'best'", rank="best")

    def test_the_program_says_what_is_wrong_with_the_module(self):
        self.write("class App: pass\nimport nothing_such\n")
        for name, words in (("app.App", "nothing_such"), ("missing.App", "missing"), ("App", "module.function")):
            code, _, error = self.program("build", name)
            self.assertEqual(code, 1)
            self.assertIn(words, error)


class RunTest(Folder):
    def setUp(self):
        super().setUp()
        self.write(APP)
        sys.modules.pop("app", None)
        self.addCleanup(sys.path.remove, self.folder)
        self.app = lanes.load_app("app.App", self.folder)

    def test_an_app_runs_in_one_process(self):
        app = self.app()
        for n in (1, 5, 6, 100):
            self.assertEqual(app.run({"n": n}), answer_to(n))
        with self.assertRaisesRegex(ValueError, "unlucky"):
            app.run({"n": 13})
        with self.assertRaisesRegex(ValueError, "no 'n'"):
            app.run({})

    def run_components(self, module, inputs, **register):
        app = pipeline_of(lambda self, *x: None)
        graph = dag.Dag(["x"])
        reference = graph.add("only", module, [dag.Reference(graph, "$x")], register.get("when"))
        graph.finish(reference)
        runner = Runner(graph.nodes.values())
        runner.setup()
        del app
        with contextlib.redirect_stderr(io.StringIO()):
            return runner.run("only", inputs), runner.measured["only"]

    def test_one_request_that_fails_fails_alone(self):
        class Inverse(Component):
            def forward(self, x):
                return 1 / x

        before = values.Failed("Earlier", "before")
        outputs, measured = self.run_components(Inverse, [(2,), (0,), (before,), (4,)])
        self.assertEqual((outputs[0], outputs[3]), (0.5, 0.25))
        self.assertEqual(outputs[1].error_type, "ZeroDivisionError")
        self.assertIn("component 'only'", outputs[1].message)
        self.assertIs(outputs[2], before)
        self.assertEqual(measured.ran, 3)

    def test_where_the_condition_does_not_hold_the_first_input_passes_through(self):
        outputs, measured = self.run_components(lambda: Identity(), [(1,), (2,), (None,)], when=lambda x: x > 1)
        self.assertEqual(outputs[:2], [1, 2])
        self.assertEqual(outputs[2].error_type, "TypeError")
        self.assertEqual(measured.ran, 1)

    def test_values_come_apart_and_together(self):
        for value in (None, 5, "é", [1, [2.5, True]], {"a": {"b": []}}, (1, (2,)), {"$x": 1, "y": {3: 4}}, [b"raw", b"", (b"x",)]):
            text, leaves = values.take_apart(value)
            tensors = [bytes(leaf.owner) for leaf in leaves]
            self.assertEqual(values.put_together(text, tensors), value)
        for value in (object(), {"a": {1, 2}}, [lambda: 0]):
            with self.assertRaisesRegex(values.ValueRefused, "cannot be handed on"):
                values.take_apart(value)
        for text in ("[", '{"$tensor": 1}', '{"$tensor": -1}', '{"$tuple": 5}', '{"$dict": [1]}', '{"$dict": [[[], 1]]}'):
            with self.assertRaises(values.ValueRefused):
                values.put_together(text, [b"only"])

    def test_datatypes_are_those_of_the_channel(self):
        with open(os.path.join(PYTHON, "..", "src/stage_channel/datatypes.h"), encoding="utf-8") as file:
            text = file.read()
        words = [line.strip().split(" ")[0].strip(",") for line in text.splitlines() if line.strip().startswith("k")]
        self.assertEqual([word[1:].lower() for word in words], list(values.DATATYPES))


# Kernels on a device: doubled by adding a vector to itself, in rows, so that requests can be batched.
DEVICE_APP = """
    import array
    import lambent_cuda as cuda
    from lambent.pipeline import KernelModule, Pipeline, device

    class Double(KernelModule):
        bundle = "vector_add"
        batches = True

        def setup(self):
            self.add = self.kernel("vector_add")
            self.weights = self.device.tensor("uint8", (3 << 20,))

        def forward(self, x):
            result = self.device.tensor("float32", x.shape)
            self.add(grid=(x.count + 255) // 256, block=256, args=[x, x, result, cuda.uint32(x.count)])
            return result

    class App(Pipeline):
        def define_dag(self, x):
            twice = self.register("twice", Double, x)
            return self.register("more", Double, twice, when=lambda x: x.shape[1] > 2)

        def decode(self, event):
            rows = event["x"]
            flat = array.array("f", [number for row in rows for number in row])
            return {"x": device().tensor("float32", (len(rows), len(rows[0])), flat)}
"""


LANES = [[["double", "plus", "minus", "pair"]], [["double"], ["plus", "minus", "pair"]], [["double"], ["plus"], ["minus", "pair"]],
         [["double", "pair"], ["plus"], ["minus"]], [["double"], ["plus"], ["minus"], ["pair"]]]


class LanesTest(Folder):
    def setUp(self):
        super().setUp()
        self.write(APP)
        sys.modules.pop("app", None)
        self.addCleanup(lambda: sys.path.remove(self.folder) if self.folder in sys.path else None)

    def lanes(self, names, **options):
        made = lanes.LocalLanes("app.App", names, self.folder, **options)
        self.addCleanup(made.close)
        return made

    def test_every_cut_answers_as_one_process_does(self):
        for names in LANES:
            with self.subTest(names), self.lanes(names) as local:
                for n in (1, 20):
                    self.assertEqual(local.run([{"n": n}]), [{"value": answer_to(n)}])

    def test_jobs_follow_each_other_through_the_lanes(self):
        with self.lanes(LANES[4], slots=2) as local:
            rng = random.Random(5)
            jobs = [[rng.randrange(14, 300) for _ in range(rng.randrange(1, 5))] for _ in range(40)]
            for job in jobs:
                local.submit([{"n": n} for n in job])
            for job in jobs:
                answers = local.collect()
                self.assertEqual(answers[3]["results"], [{"value": answer_to(n)} for n in job])
                self.assertEqual(answers[1]["components"]["plus"]["ran"], len(job))
                self.assertNotIn("results", answers[0])

    def test_a_request_that_fails_fails_alone_and_the_lanes_go_on(self):
        with self.lanes(LANES[2]) as local:
            bad = [{"n": 2}, {"n": 13}, {}, {"n": 3}]
            for _ in range(5):
                first, second, third, fourth = local.run(bad)
                self.assertEqual(first, {"value": answer_to(2)})
                self.assertEqual(second["error"]["errorType"], "ValueError")
                self.assertIn("13 is unlucky", second["error"]["errorMessage"])
                self.assertIn("no 'n'", third["error"]["errorMessage"])
                self.assertEqual(fourth, {"value": answer_to(3)})

    def test_a_value_larger_than_a_slot_fails_clearly_and_the_next_does_not(self):
        self.write("""
            from lambent.pipeline import Component, Pipeline
            class Make(Component):
                def forward(self, n):
                    return bytes(n)
            class Count(Component):
                def forward(self, data):
                    return len(data)
            class App(Pipeline):
                def define_dag(self, n):
                    return self.register("count", Count, self.register("make", Make, n))
            """)
        with self.lanes([["make"], ["count"]], slot_bytes=100_000) as local:
            first, second, third = local.run([{"n": 1000}, {"n": 100_001}, {"n": 90_000}])
            self.assertEqual((first, third), ({"value": {"count": 1000}}, {"value": {"count": 90_000}}))
            self.assertEqual(second["error"]["errorType"], "Channel.TooLarge")
            self.assertIn("100001 bytes does not fit in a slot of 100000 bytes", second["error"]["errorMessage"])

    def test_a_lane_that_dies_leaves_no_other_waiting(self):
        for names in LANES[1:]:
            with self.subTest(names), self.lanes(names) as local:
                local.submit([{"n": 666}])
                answers = local.collect()
                self.assertTrue(any("error" in answer for answer in answers))
                # Those that live say so, of this job or of the next.
                local.submit([{"n": 1}])
                for answer, process in zip(local.collect(), local.processes):
                    if process.poll() is None:
                        self.assertTrue("broken" in answer or "results" not in answer, answer)
                        for result in answer.get("results", []):
                            self.assertIn("error", result)

    def test_lanes_killed_at_any_time_end_the_instance(self):
        for seed in range(8):
            with self.subTest(seed=seed):
                rng = random.Random(seed)
                with self.lanes(rng.choice(LANES[1:]), slots=1 + seed % 3) as local:
                    for job in range(12):
                        local.submit([{"n": job}])
                    collected = rng.randrange(13)
                    for _ in range(collected):
                        local.collect()
                    victim = rng.choice(local.processes)
                    victim.send_signal(signal.SIGKILL)
                    victim.wait()
                    local.submit([{"n": 100}])
                    for _ in range(collected, 12):
                        local.collect()
                    answers = local.collect()
                    self.assertIn("error", answers[local.processes.index(victim)])
                    self.assertFalse(any("value" in result for answer in answers for result in answer.get("results", [])))

    def test_a_lane_without_weights_says_so(self):
        with unittest.mock.patch.dict(os.environ, FAIL_SETUP="1"):
            with self.assertRaisesRegex(PipelineError, "lane 1 could not start: RuntimeError: no weights"):
                self.lanes(LANES[1])

    def test_lanes_that_are_no_cut_are_refused(self):
        for names, words in (([["double"], []], "lane 1 has no component"), ([["double", "plus"]], "'minus' is in no lane"),
                             ([["x"]], "no component 'x'"), ([["double"], ["double"]], "in lane 0 and in lane 1")):
            with self.assertRaisesRegex(PipelineError, words):
                self.lanes(names)

    def test_the_program_runs_lanes(self):
        for name, n in (("a.json", 4), ("b.json", 13)):
            self.write(json.dumps({"n": n}), name)
        code, out, _ = self.program("run", "app.App", "--event", "a.json", "--lanes", "double; plus,minus,pair",
                                    environment={"LAMBENT_PREFIX": PREFIX})
        self.assertEqual((code, json.loads(out)), (0, {"value": answer_to(4)}))
        code, out, _ = self.program("run", "app.App", "--event", "a.json", "--event", "b.json", "--batch", "--lanes",
                                    "double;plus,minus,pair", environment={"LAMBENT_PREFIX": PREFIX})
        self.assertEqual(code, 1)
        self.assertEqual(["value" in json.loads(line) for line in out.splitlines()], [True, False])
        code, out, _ = self.program("run", "app.App", "--event", "-", input='{"n": 4}')
        self.assertEqual((code, json.loads(out)), (0, {"value": answer_to(4)}))
        code, _, error = self.program("profile", "app.App", "--event", "a.json")
        self.assertEqual(code, 1)
        self.assertIn("sees no device", error)


class DeviceTest(Folder):
    """On the emulated driver."""

    def setUp(self):
        super().setUp()
        self.write(DEVICE_APP)
        os.symlink(os.path.join(PREFIX, "share/lambent/kernels/vector_add"), os.path.join(self.folder, "vector_add"))
        self.environment = {"EMULATED_CUDA_NODE": os.path.join(self.folder, "node"), "EMULATED_CUDA_CONFIG": "a100-80gb-mig",
                            "LD_LIBRARY_PATH": os.path.join(PREFIX, "lib/emulated")}
        self.rows = [[[1.0, 2.0]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[7.0, 8.0, 9.0]]]
        for number, rows in enumerate(self.rows):
            self.write(json.dumps({"x": rows}), "event%d.json" % number)

    def events(self, *numbers):
        return [word for number in numbers for word in ("--event", "event%d.json" % number)]

    def expected(self, number):
        rows = self.rows[number]
        factor = 4 if len(rows[0]) > 2 else 2
        name = {"more": [[factor * value for value in row] for row in rows]}
        return {"value": name}

    def test_tensors_go_from_slice_to_slice_alone_and_in_batches(self):
        devices = self.slices()
        for batch in ([], ["--batch"]):
            for lanes_ in (["--lanes", "twice,more"], ["--lanes", "twice;more", "--devices", ";".join(devices[:2])]):
                code, out, error = self.program("run", "app.App", *self.events(0, 1, 2), *lanes_, *batch,
                                                environment=self.environment)
                self.assertEqual(code, 0, error)
                self.assertEqual([json.loads(line) for line in out.splitlines()], [self.expected(n) for n in range(3)])

    def test_memory_that_cannot_be_page_locked_is_noted_once_and_values_arrive(self):
        faults = {"EMULATED_CUDA_FAULTS": "fail cuMemHostRegister from 1 with CUDA_ERROR_NOT_SUPPORTED"}
        code, out, error = self.program("run", "app.App", *self.events(1, 2), "--lanes", "twice;more",
                                        environment=dict(self.environment, **faults))
        self.assertEqual([json.loads(line) for line in out.splitlines()], [self.expected(1), self.expected(2)])
        self.assertEqual(error.count("is not page-locked"), 2)  # at each end
        self.assertEqual(code, 0)

    def slices(self):
        gpu = os.path.join(PREFIX, "bin/emulated-gpu")
        node = self.environment["EMULATED_CUDA_NODE"]
        subprocess.run([gpu, "create", "--node", node, "--config", "a100-80gb-mig"], check=True, capture_output=True)
        shown = subprocess.run([gpu, "show", "--node", node, "--json"], check=True, capture_output=True, text=True).stdout
        uuids = sorted(set(part.partition('"')[0] for part in shown.split('"MIG-')[1:]))
        self.assertEqual(len(uuids), 3, shown)
        return ["MIG-" + uuid for uuid in uuids]

    def test_a_profile_says_what_each_component_takes_on_each_slice(self):
        devices = self.slices()
        for device in devices:
            code, out, error = self.program("profile", "app.App", *self.events(0, 1), "--repeat", "3",
                                            environment=dict(self.environment, CUDA_VISIBLE_DEVICES=device))
            self.assertEqual(code, 0, error)
            self.assertIn("twice", out)
        with open(os.path.join(self.folder, "profile.json"), encoding="utf-8") as file:
            profile = json.load(file)
        self.assertEqual(set(profile["shapes"]), {"2g.20gb", "3g.40gb"})
        self.assertEqual(profile["shapes"]["2g.20gb"]["multiprocessors"], 28)
        self.assertGreater(profile["context_mb"], 400)
        self.assertGreater(profile["start_ms"], 0)
        twice, more = profile["components"]["twice"], profile["components"]["more"]
        self.assertEqual((twice["probability"], more["probability"]), (1.0, 0.5))
        self.assertEqual(set(twice["ms"]), {"2g.20gb", "3g.40gb"})
        self.assertEqual(twice["output_bytes"], 24)
        self.assertTrue(3 <= twice["weights_mb"] < 8, twice)
        self.assertGreaterEqual(twice["memory_mb"], twice["weights_mb"])

    def test_a_batch_that_fails_is_run_one_by_one(self):
        self.write(DEVICE_APP.replace("            result =", "            if x.shape[0] > 1:\n"
                                                              "                raise ValueError('several rows')\n"
                                                              "            result ="))
        code, out, error = self.program("run", "app.App", *self.events(1, 2), "--lanes", "twice,more", "--batch",
                                        environment=self.environment)
        self.assertEqual(code, 1)
        first, second = [json.loads(line) for line in out.splitlines()]
        self.assertIn("several rows", first["error"]["errorMessage"])
        self.assertEqual(second, self.expected(2))
        self.assertIn("failed on a batch of 2", error)


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class NumpyTest(Folder):
    def test_arrays_go_through_lanes_with_their_types_and_shapes(self):
        self.write("""
            import numpy
            from lambent.pipeline import Component, Pipeline
            class Make(Component):
                def forward(self, n):
                    return {"a": numpy.arange(n, dtype="int16").reshape(2, -1).T, "b": numpy.float64(2.5), "c": numpy.zeros((0, 3), "bool")}
            class Say(Component):
                batches = True
                def forward(self, d):
                    return [[str(v.dtype), list(v.shape), v.tolist()] for v in d.values()]
            class App(Pipeline):
                def define_dag(self, n):
                    return self.register("say", Say, self.register("make", Make, n))
            """)
        with lanes.LocalLanes("app.App", [["make"], ["say"]], self.folder) as local:
            self.addCleanup(sys.path.remove, self.folder)
            sys.modules.pop("app", None)
            result = {"value": {"say": [["int16", [2, 2], [[0, 2], [1, 3]]], ["float64", [], 2.5], ["bool", [0, 3], []]]}}
            self.assertEqual(local.run([{"n": 4}, {"n": 4}]), [result, result])


class StageTest(Folder):
    """A lane against channels whose other ends are here."""

    def setUp(self):
        super().setUp()
        self.write(APP)
        sys.modules.pop("app", None)
        self.addCleanup(lambda: sys.path.remove(self.folder) if self.folder in sys.path else None)
        self.path = os.path.join(self.folder, "channel")
        channel.create(self.path, 4, 1 << 20)
        self.description = {"handler": "app.App", "lane": 1, "components": ["pair", "minus", "plus"], "sends": [],
                            "receives": [{"channel": self.path, "value": "double"}], "outputs": ["pair"]}

    def stage(self):
        stage = Stage(self.description, lanes.load_app("app.App", self.folder)()).open()
        self.addCleanup(stage.close)
        return stage

    def job(self, number, *numbers):
        return {"job": number, "requests": len(numbers), "events": [{"n": n} for n in numbers]}

    def test_values_of_jobs_that_were_given_up_are_passed_over(self):
        stage, before = self.stage(), channel.SendingEnd(self.path)
        for number in range(3):
            before.send(number, [2 * number])
        self.assertEqual(stage.serve(self.job(2, 2))["results"], [{"value": answer_to(2)}])

    def test_a_job_that_the_lane_before_never_had_fails_and_the_next_does_not(self):
        stage, before = self.stage(), channel.SendingEnd(self.path)
        before.send(5, [2 * 5])
        result, = stage.serve(self.job(4, 4))["results"]
        self.assertEqual(result["error"]["errorType"], "Channel.Skipped")
        self.assertEqual(stage.serve(self.job(5, 5))["results"], [{"value": answer_to(5)}])

    def test_jobs_of_different_sizes_are_an_error(self):
        stage, before = self.stage(), channel.SendingEnd(self.path)
        before.send(0, [2, 4])
        result, = stage.serve(self.job(0, 1))["results"]
        self.assertEqual(result["error"]["errorType"], "Channel.Malformed")

    def test_a_lane_waits_no_longer_than_its_job_may_take(self):
        stage, before = self.stage(), channel.SendingEnd(self.path)
        answer = stage.serve(self.job(0, 1), remaining_ms=1)
        self.assertEqual(answer["results"][0]["error"]["errorType"], "Channel.TimedOut")
        before.send(0, [2])
        before.send(1, [4])
        self.assertEqual(stage.serve(self.job(1, 2))["results"], [{"value": answer_to(2)}])

    def test_what_was_sent_before_the_lane_before_went_is_still_served(self):
        stage, before = self.stage(), channel.SendingEnd(self.path)
        before.send(0, [2])
        before.close()
        self.assertEqual(stage.serve(self.job(0, 1))["results"], [{"value": answer_to(1)}])
        answer = stage.serve(self.job(1, 2))
        self.assertEqual(answer["results"][0]["error"]["errorType"], "Channel.PeerGone")
        self.assertIn("gone", answer["broken"])

    def test_jobs_and_descriptions_that_make_no_sense_are_refused(self):
        stage = self.stage()
        for job in (None, {}, {"job": 1}, {"job": "1", "requests": 1}, {"job": 1, "requests": -1},
                    {"job": 1, "requests": 1, "events": []}):
            with self.assertRaises(StageError):
                stage.serve(job)
        app = lanes.load_app("app.App", self.folder)()
        for change, words in (({"components": ["x"]}, "no component 'x'"), ({"components": 5}, "no list of names"),
                              ({"receives": []}, "needs 'double'"), ({"receives": [{"value": 1}]}, "no list of channels"),
                              ({"outputs": ["double2"]}, "no component 'double2'"),
                              ({"sends": [{"channel": "c", "value": "$m"}]}, "no component")):
            with self.assertRaisesRegex(StageError, words):
                Stage(dict(self.description, **change), app)

    def test_the_runtime_serves_the_lane_that_its_environment_names(self):
        before = channel.SendingEnd(self.path)
        before.send(3, [2 * 7, 2 * 8])
        with open(os.path.join(self.folder, "stage.json"), "w", encoding="utf-8") as file:
            json.dump(self.description, file)
        posts = self.serve("not.used", [self.job(3, 7, 8)], LAMBENT_STAGE=os.path.join(self.folder, "stage.json"))
        (path, _, body), = posts
        self.assertTrue(path.endswith("/response"), body)
        answer = json.loads(body)
        self.assertEqual(answer["results"], [{"value": answer_to(7)}, {"value": answer_to(8)}])
        self.assertEqual(set(answer["components"]), {"plus", "minus", "pair"})
        self.assertEqual(set(answer["components"]["plus"]), {"ms", "ran", "memory", "weights", "output"})

    def test_without_a_stage_the_runtime_serves_the_whole_pipeline(self):
        posts = self.serve("app.App", [{"n": 6}, {"n": 13}])
        self.assertEqual(json.loads(posts[0][2]), answer_to(6))
        self.assertTrue(posts[1][0].endswith("/error"))

    def test_a_stage_that_cannot_start_is_an_error_of_init(self):
        for environment, words in (({"LAMBENT_STAGE": "/nowhere"}, "/nowhere"), ({"FAIL_SETUP": "1"}, "no weights")):
            (path, _, body), = self.serve("app.App", [], **environment)
            self.assertTrue(path.endswith("/init/error"))
            self.assertIn(words, json.loads(body)["errorMessage"])

    def serve(self, handler, events, **environment):
        api = FakeRuntimeApi([("application/json", json.dumps(event).encode()) for event in events])
        run = subprocess.run([sys.executable, "-m", "lambent_runtime", handler], cwd=self.folder, timeout=60, check=False,
                             env=dict(os.environ, AWS_LAMBDA_RUNTIME_API=api.address, PYTHONPATH=PYTHON,
                                      LAMBDA_TASK_ROOT=self.folder, **environment), capture_output=True)
        api.close()
        self.assertTrue(api.posts, run.stderr.decode())
        return api.posts


if __name__ == "__main__":
    unittest.main()
