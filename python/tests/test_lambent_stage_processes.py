"""lambent.pipeline in stage processes, with channels between them, on the host and on the emulated driver, and what happens when
something fails."""
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import unittest
import unittest.mock

from pipeline_apps import APP, DEVICE_APP, PREFIX, Folder, answer_to

from lambent.pipeline import PipelineError, stage_processes

STAGE_PROCESSES = [[["double", "plus", "minus", "pair"]], [["double"], ["plus", "minus", "pair"]], [["double"], ["plus"], ["minus", "pair"]],
         [["double", "pair"], ["plus"], ["minus"]], [["double"], ["plus"], ["minus"], ["pair"]]]


class StageProcessesTest(Folder):
    def setUp(self):
        super().setUp()
        self.write(APP)
        self.import_anew()

    def stage_processes(self, names, **options):
        made = stage_processes.LocalStageProcesses("app.App", names, self.folder, **options)
        self.addCleanup(made.close)
        return made

    def test_every_cut_answers_as_one_process_does(self):
        for names in STAGE_PROCESSES:
            with self.subTest(names), self.stage_processes(names) as local:
                for n in (1, 20):
                    self.assertEqual(local.run([{"n": n}]), [{"value": answer_to(n)}])

    def test_jobs_follow_each_other_through_the_stage_processes(self):
        with self.stage_processes(STAGE_PROCESSES[4], slots=2) as local:
            rng = random.Random(5)
            jobs = [[rng.randrange(14, 300) for _ in range(rng.randrange(1, 5))] for _ in range(40)]
            for job in jobs:
                local.submit([{"n": n} for n in job])
            for job in jobs:
                answers = local.collect()
                self.assertEqual(answers[3]["results"], [{"value": answer_to(n)} for n in job])
                self.assertEqual(answers[1]["components"]["plus"]["ran"], len(job))
                self.assertNotIn("results", answers[0])

    def test_a_request_that_fails_fails_alone_and_the_stage_processes_go_on(self):
        with self.stage_processes(STAGE_PROCESSES[2]) as local:
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
        with self.stage_processes([["make"], ["count"]], slot_bytes=100_000) as local:
            first, second, third = local.run([{"n": 1000}, {"n": 100_001}, {"n": 90_000}])
            self.assertEqual((first, third), ({"value": {"count": 1000}}, {"value": {"count": 90_000}}))
            self.assertEqual(second["error"]["errorType"], "Channel.TooLarge")
            self.assertIn("100001 bytes does not fit in a slot of 100000 bytes", second["error"]["errorMessage"])

    def test_a_stage_process_that_dies_leaves_no_other_waiting(self):
        for names in STAGE_PROCESSES[1:]:
            with self.subTest(names), self.stage_processes(names) as local:
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

    def test_stage_processes_killed_at_any_time_end_the_instance(self):
        for seed in range(8):
            with self.subTest(seed=seed):
                rng = random.Random(seed)
                with self.stage_processes(rng.choice(STAGE_PROCESSES[1:]), slots=1 + seed % 3) as local:
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

    def test_a_stage_process_without_weights_says_so(self):
        with unittest.mock.patch.dict(os.environ, FAIL_SETUP="1"):
            with self.assertRaisesRegex(PipelineError, "stage process 1 could not start: component 'plus': RuntimeError: no weights"):
                self.stage_processes(STAGE_PROCESSES[1])

    def test_stage_processes_that_are_no_cut_are_refused(self):
        for names, words in (([["double"], []], "stage process 1 has no component"), ([["double", "plus"]], "'minus' is in no stage process"),
                             ([["x"]], "no component 'x'"), ([["double"], ["double"]], "in stage process 0 and in stage process 1")):
            with self.assertRaisesRegex(PipelineError, words):
                self.stage_processes(names)

    def test_the_module_has_its_name_of_the_version_before_with_a_warning(self):
        sys.modules.pop("lambent.pipeline.lanes", None)
        with self.assertWarnsRegex(DeprecationWarning, "is called lambent.pipeline.stage_processes now"):
            from lambent.pipeline import lanes
        self.assertIs(lanes.LocalLanes, stage_processes.LocalStageProcesses)
        self.assertEqual(lanes.parse_lanes("a;b,c"), [["a"], ["b", "c"]])

    def test_the_program_runs_stage_processes(self):
        for name, n in (("a.json", 4), ("b.json", 13)):
            self.write(json.dumps({"n": n}), name)
        code, out, _ = self.program("run", "app.App", "--event", "a.json", "--processes", "double; plus,minus,pair",
                                    environment={"LAMBENT_PREFIX": PREFIX})
        self.assertEqual((code, json.loads(out)), (0, {"value": answer_to(4)}))
        code, out, error = self.program("run", "app.App", "--event", "a.json", "--lanes", "double; plus,minus,pair",
                                        environment={"LAMBENT_PREFIX": PREFIX})
        self.assertEqual((code, json.loads(out)), (0, {"value": answer_to(4)}))
        self.assertIn("--lanes is called --processes now", error)
        code, out, _ = self.program("run", "app.App", "--event", "a.json", "--event", "b.json", "--batch", "--processes",
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
            for stage_processes_ in (["--processes", "twice,more"], ["--processes", "twice;more", "--devices", ";".join(devices[:2])]):
                code, out, error = self.program("run", "app.App", *self.events(0, 1, 2), *stage_processes_, *batch,
                                                environment=self.environment)
                self.assertEqual(code, 0, error)
                self.assertEqual([json.loads(line) for line in out.splitlines()], [self.expected(n) for n in range(3)])

    def test_memory_that_cannot_be_page_locked_is_noted_once_and_values_arrive(self):
        faults = {"EMULATED_CUDA_FAULTS": "fail cuMemHostRegister from 1 with CUDA_ERROR_NOT_SUPPORTED"}
        code, out, error = self.program("run", "app.App", *self.events(1, 2), "--processes", "twice;more",
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

    def test_a_profile_says_what_batches_take_on_each_slice(self):
        self.write(DEVICE_APP.replace("    class App(Pipeline):", "    class App(Pipeline):\n        batch = 6"))
        for device in self.slices():
            code, _, error = self.program("profile", "app.App", *self.events(0), "--repeat", "2",
                                          environment=dict(self.environment, CUDA_VISIBLE_DEVICES=device))
            self.assertEqual(code, 0, error)
        with open(os.path.join(self.folder, "profile.json"), encoding="utf-8") as file:
            components = json.load(file)["components"]
        sizes = {shape: sorted(times) for shape, times in components["twice"]["batch_ms"].items()}
        self.assertEqual(sizes, {"2g.20gb": ["2", "4", "6"], "3g.40gb": ["2", "4", "6"]})
        self.assertTrue(all(ms > 0 for times in components["twice"]["batch_ms"].values() for ms in times.values()))

    def test_a_batch_that_fails_is_run_one_by_one(self):
        self.write(DEVICE_APP.replace("            result =", "            if x.shape[0] > 1:\n"
                                                              "                raise ValueError('several rows')\n"
                                                              "            result ="))
        code, out, error = self.program("run", "app.App", *self.events(1, 2), "--processes", "twice,more", "--batch",
                                        environment=self.environment)
        self.assertEqual(code, 1)
        first, second = [json.loads(line) for line in out.splitlines()]
        self.assertIn("several rows", first["error"]["errorMessage"])
        self.assertEqual(second, self.expected(2))
        self.assertIn("failed on a batch of 2", error)


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class NumpyTest(Folder):
    def test_arrays_go_through_stage_processes_with_their_types_and_shapes(self):
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
        self.import_anew()
        with stage_processes.LocalStageProcesses("app.App", [["make"], ["say"]], self.folder) as local:
            result = {"value": {"say": [["int16", [2, 2], [[0, 2], [1, 3]]], ["float64", [], 2.5], ["bool", [0, 3], []]]}}
            self.assertEqual(local.run([{"n": 4}, {"n": 4}]), [result, result])


if __name__ == "__main__":
    unittest.main()
