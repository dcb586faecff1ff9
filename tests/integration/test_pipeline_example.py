"""The pipeline among the examples through the whole worker: deployed by the CLI, in one piece and over slices, where its images go from
device to device through the channels of its lanes."""
import json
import os
import pathlib
import shutil
import shlex
import subprocess
import sys
import tempfile
import threading

from harness import PREFIX, WorkerTest

EXAMPLE = PREFIX / "examples/17_pipeline_image"


class PipelineExample(WorkerTest):
    gpu = "emulated:a100-80gb-mig"  # 3g.40gb, 2g.20gb, 2g.20gb
    flags = ("--pipeline-slices", "all")

    def deploy(self, folder):
        run = subprocess.run([PREFIX / "bin/lambent", "deploy", folder], capture_output=True, text=True, check=False,
                             env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint})
        self.assertEqual(run.returncode, 0, run.stderr)

    def ask(self, event):
        reply = self.worker.invoke("image_filters", event)
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body[:1000])
        return reply.json

    def check(self):
        """Images large and small, noisy and not, several at once; the stages that they went through."""
        events = [{"size": size, "noise": noise, "check": True} for size in (1, 9, 32, 150) for noise in (0, 0.5)]
        answers = {}

        def ask(number):
            answers[number] = self.ask(events[number])

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(events))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, event in enumerate(events):
            self.assertIs(answers[number]["correct"], True, event)
            self.assertEqual(answers[number]["height"], 2 * event["size"])
        reply = self.worker.invoke("image_filters", {"pixels": []})
        self.assertIn("x-amz-function-error", reply.headers)
        self.assertIn("at least 1", reply.json["errorMessage"])
        instances = self.worker.request("GET", "/v1/functions/image_filters/pipeline").json["instances"]
        return [[lane["components"] for lane in stage] for stage in instances[0]["stages"]]

    def test_it_runs_on_one_slice_and_on_several(self):
        self.deploy(EXAMPLE)
        self.assertEqual(self.check(), [[["blur", "enlarge", "brightness", "threshold"]]])
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder) / "example"
            shutil.copytree(EXAMPLE, copy)
            # As if no slice could hold it all.
            each = {"weights_mb": 14000, "memory_mb": 15000, "output_bytes": 100000, "probability": 1,
                    "ms": {"2g.20gb": 20, "3g.40gb": 14}}
            (copy / "code/profile.json").write_text(json.dumps({
                "profile": 1, "context_mb": 500, "start_ms": 300,
                "shapes": {"2g.20gb": {"multiprocessors": 28, "memory_mb": 19968},
                           "3g.40gb": {"multiprocessors": 42, "memory_mb": 40192}},
                "components": {name: each for name in ("blur", "enlarge", "brightness", "threshold")}}))
            self.deploy(copy)
        stages = self.check()
        self.assertGreater(len(stages), 1, stages)
        self.assertEqual(sorted(name for stage in stages for lane in stage for name in lane),
                         ["blur", "brightness", "enlarge", "threshold"])

    def test_what_init_writes_is_deployed_with_the_slo_of_its_manifest(self):
        with tempfile.TemporaryDirectory() as folder:
            def run(*words, cwd=folder, **more):
                done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, timeout=120, env={
                    **os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint, **more})
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout

            lambent = str(PREFIX / "bin/lambent")
            begun = json.loads(run(lambent, "init", "words", "--kind", "pipeline", "--json"))
            written = pathlib.Path(folder) / "words/pipeline.json"
            built = run(sys.executable, "-m", "lambent.pipeline", "build", "app.App", cwd=written.parent,
                        PYTHONPATH=str(PREFIX / "share/lambent/python"))
            self.assertEqual(json.loads(built), json.loads(written.read_text()))
            deploy, invoke = (shlex.split(command) for command in begun["next"])
            run(lambent, *deploy[1:])
            self.assertEqual(json.loads(run(lambent, *invoke[1:])), {"count": 4, "longest": "quick"})
        told = self.worker.request("GET", "/v1/functions/words/pipeline").json
        self.assertEqual(told["pipeline"]["slo"], {"ms": 1000})
        self.assertEqual(told["slo"]["in_time"] + told["slo"]["late"], 1)
