"""examples_test.py BUILD: runs every example's handler on the emulated driver, without a sandbox."""
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "python", "tests"))
from test_lambent_runtime import FakeRuntimeApi  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))


class ExamplesTest(unittest.TestCase):
    def serve(self, name, events, environment=None, driver=True, handler=None):
        """The posts that an example's handler makes for these events: [(path, body)]."""
        folder = os.path.join(BUILD, "examples", name)
        with open(os.path.join(folder, "lambent.toml"), "rb") as file:
            manifest = tomllib.load(file)
        with tempfile.TemporaryDirectory() as package:
            os.mkdir(os.path.join(package, "bundles"))
            for entry in os.listdir(folder):
                os.symlink(os.path.join(folder, entry), os.path.join(package, entry))
            for bundle in manifest["bundles"]:
                path = os.path.normpath(os.path.join(folder, bundle))
                os.symlink(path, os.path.join(package, "bundles", os.path.basename(path)))
            api = FakeRuntimeApi([("application/json", json.dumps(e).encode()) for e in events])
            variables = dict(os.environ, AWS_LAMBDA_RUNTIME_API=api.address, LAMBDA_TASK_ROOT=package,
                             PYTHONPATH=os.path.join(ROOT, "python"),
                             EMULATED_CUDA_NODE=os.path.join(package, "node"),
                             EMULATED_CUDA_CONFIG="v100-16gb",
                             EMULATED_CUDA_LAUNCH_MODE=manifest["gpu"]["launch_mode"],
                             **manifest.get("environment", {}))
            variables.update(environment or {})
            if driver:
                variables["LD_LIBRARY_PATH"] = os.path.join(BUILD, "lib", "emulated")
            if manifest["runtime"].startswith("python"):
                command = [sys.executable, "-m", "lambent_runtime", handler or manifest["handler"]]
            else:
                command = [os.path.join(package, "bootstrap")]
            run = subprocess.run(command, cwd=package, env=variables, capture_output=True,
                                 timeout=60, check=False)
            api.close()
            self.assertTrue(api.posts, run.stderr.decode())
            return [(path, json.loads(body)) for path, _, body in api.posts]

    def check(self, name, *events):
        posts = self.serve(name, [dict(event, check=True) for event in events])
        self.assertEqual(len(posts), len(events))
        for path, answer in posts:
            self.assertTrue(path.endswith("/response"), answer)
            self.assertIs(answer["correct"], True, answer)
        return [answer for _, answer in posts]

    def test_both_variants_of_a_function_agree_with_plain_python(self):
        on_gpu = self.check("18_python_cpu_variant", {"count": 1000})
        posts = self.serve("18_python_cpu_variant", [{"count": 1000, "check": True}], driver=False,
                           environment={"LAMBENT_DEVICE": "cpu"}, handler="on_cpu.handler")
        self.assertEqual(posts[0][1], {**on_gpu[0], "on": "cpu"})
        self.assertIs(posts[0][1]["correct"], True)

    def test_python_vector_add_agrees_with_the_cpu(self):
        answers = self.check("01_python_vector_add", {}, {"count": 1000},
                             {"a": [1, 2], "b": [10, 20]})
        self.assertEqual(answers[2]["c"], [11, 22])

    def test_python_matmul_agrees_with_the_cpu(self):
        self.check("02_python_matmul", {}, {"size": 21})

    def test_python_fft_agrees_with_the_cpu(self):
        self.assertEqual(self.check("03_python_fft", {})[0]["peaks"], [1, 2, 3, 4])

    def test_python_jacobi_agrees_with_the_cpu(self):
        self.check("04_python_jacobi", {}, {"size": 19, "steps": 3})

    def test_the_chain_of_products_agrees_with_the_cpu_and_keeps_its_constants(self):
        posts = self.serve("12_etask_matmul_chain", [{"check": True}, {"check": True}, {}],
                           {"MATRIX_SIZE": "21"})
        answers = [answer for _, answer in posts]
        self.assertEqual([answer["served"] for answer in answers], [1, 2, 3])
        self.assertEqual([answer.get("correct") for answer in answers], [True, True, None])
        self.assertEqual(len({answer["trace"] for answer in answers}), 1)

    def test_the_native_handler_agrees_with_the_cpu(self):
        self.check("05_native_handler", {"kernel": "vector_add"}, {"kernel": "matmul", "size": 50},
                   {"kernel": "fft", "size": 128}, {"kernel": "jacobi"}, {})

    def test_bad_events_are_errors_and_the_handler_lives_on(self):
        posts = self.serve("05_native_handler", [
            {"kernel": "sort"}, {"kernel": "fft", "size": 100}, {"size": "x"}, [], {"size": 0}, {}])
        self.assertEqual([path.endswith("/error") for path, _ in posts], [True] * 5 + [False])

    def test_without_a_driver_init_fails_clearly(self):
        if subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"],
                          capture_output=True, check=False).returncode == 0:
            self.skipTest("this machine has a CUDA driver")
        for name in ("05_native_handler", "01_python_vector_add"):
            (path, error), = self.serve(name, [], driver=False)
            self.assertTrue(path.endswith("/init/error"))
            self.assertIn("libcuda.so.1", error["errorMessage"])

    def test_the_paper_function_takes_its_modelled_time(self):
        started = time.monotonic()
        posts = self.serve("06_paper_function", [{}, {}], {
            "LAMBENT_PAPER_INIT_MS": "3000", "LAMBENT_TIME_SCALE": "10",
            "LAMBENT_PAPER_WARM_MS": "150", "LAMBENT_PAPER_MEMORY_MIB": "2048"})
        # 300 ms of start and two invocations of 150 ms on a driver that runs in real time.
        self.assertGreater(time.monotonic() - started, 0.6)
        self.assertEqual([answer["modelled_ms"] for _, answer in posts], [150, 150])

    def test_the_paper_function_fails_without_the_memory_that_it_needs(self):
        (path, error), = self.serve("06_paper_function", [],
                                    {"LAMBENT_PAPER_MEMORY_MIB": "20000"})
        self.assertTrue(path.endswith("/init/error"))
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", error["errorMessage"])

    def pipeline(self, *arguments):
        """lambent.pipeline over the pipeline example, with a new node of MIG devices."""
        code = os.path.join(BUILD, "examples", "17_pipeline_image", "code")
        with tempfile.TemporaryDirectory() as node:
            variables = dict(os.environ, PYTHONPATH=os.path.join(BUILD, "share/lambent/python"), PYTHONDONTWRITEBYTECODE="1",
                             EMULATED_CUDA_NODE=os.path.join(node, "node"), EMULATED_CUDA_CONFIG="a100-80gb-mig",
                             LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "emulated"))
            events = []
            for number, event in enumerate(({"size": 12}, {"size": 9, "noise": 0.5}, {"pixels": [[0, 1, 0.25]]})):
                path = os.path.join(node, "event%d.json" % number)
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(dict(event, check=True), file)
                events += ["--event", path]
            run = subprocess.run([sys.executable, "-m", "lambent.pipeline", *arguments] +
                                 (events if arguments[0] == "run" else []), cwd=code, env=variables, capture_output=True,
                                 text=True, timeout=100, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_the_pipeline_agrees_with_the_cpu_however_it_is_cut(self):
        whole = self.pipeline("run", "app.App")
        answers = [json.loads(line)["value"] for line in whole.splitlines()]
        self.assertEqual([answer["correct"] for answer in answers], [True] * 3)
        self.assertEqual([answer["height"] for answer in answers], [24, 18, 2])
        self.assertTrue(0 < answers[0]["bright"] < 24 * 24)
        for cut in ("blur;enlarge,brightness,threshold", "blur;enlarge;brightness;threshold", "blur,brightness;enlarge,threshold"):
            self.assertEqual(self.pipeline("run", "app.App", "--processes", cut, "--batch"), whole, cut)

    def test_the_pipeline_is_described_as_it_is_built(self):
        with open(os.path.join(ROOT, "examples/17_pipeline_image/code/pipeline.json"), encoding="utf-8") as file:
            self.assertEqual(self.pipeline("build", "app.App"), file.read())


if __name__ == "__main__":
    unittest.main()
