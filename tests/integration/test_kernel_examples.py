"""The kernel functions among the examples through the whole worker: built in Python, deployed by the CLI, which compiles
their kernels, and invoked; networks of true shape as the modelled device times them, small ones as they compute."""
import array
import importlib.util
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from harness import PREFIX, WorkerTest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(PREFIX / "share/lambent/python"))
RAW = {"Content-Type": "application/octet-stream"}


def module_of(path):
    specification = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def example(name, module="build"):
    """The module build.py of an example, or another one beside it."""
    return module_of(EXAMPLES / name / f"{module}.py")


def floats(values, letter="f"):
    return array.array(letter, values).tobytes()


class KernelExamples(WorkerTest):
    gpu = "emulated:v100-16gb"

    def deploy(self, graph, **settings):
        with tempfile.TemporaryDirectory() as folder:
            graph.save(folder, **settings)
            run = subprocess.run([PREFIX / "bin/lambent", "deploy", folder], capture_output=True, text=True, check=False,
                                 env={**os.environ, "LAMBENT_ENDPOINT": self.worker.endpoint})
            self.assertEqual(run.returncode, 0, run.stderr)

    def ask(self, name, request, **options):
        reply = self.worker.invoke(name, request, **options)
        self.assertNotIn("x-amz-function-error", reply.headers, reply.body[:1000])
        return reply

    def ask_raw(self, name, request, letter="f"):
        numbers = array.array(letter)
        numbers.frombytes(self.ask(name, request, headers=RAW).body)
        return numbers

    def assert_close(self, found, expected, tolerance):
        self.assertEqual(len(found), len(expected))
        for index, (a, b) in enumerate(zip(found, expected)):
            self.assertTrue(abs(a - b) <= tolerance, f"{index}: {a} is not {b}")

    def test_a_chain_of_products(self):
        chain, size = example("07_kernel_matmul_chain"), 16
        self.deploy(chain.build(size, 3))
        expected = x = [(i % 7 - 3) / 2 for i in range(size * size)]
        for layer in range(3):
            w = chain.weights(layer, size)
            expected = [sum(expected[i * size + k] * w[k * size + j] for k in range(size))
                        for i in range(size) for j in range(size)]
        for _ in range(2):
            self.assert_close(self.ask_raw("matmul_chain", floats(x)), expected, 1e-5)

    def test_a_solver_whose_loop_runs_on_the_device(self):
        size = 24
        a = [float(size if i % (size + 1) == 0 else (i * 7 % 11 - 5) / 5) for i in range(size * size)]
        x = [i / 4 - 2 for i in range(size)]
        b = [sum(a[i * size + k] * x[k] for k in range(size)) for i in range(size)]
        jacobi = example("08_kernel_jacobi")
        # The second one ends by its flag, long before all of its rounds.
        for name, graph, tolerance in (("jacobi_solver", jacobi.build(size, 300), 1e-5),
                                       ("jacobi_until", jacobi.build(size, 10**6, 1e-7), 1e-4)):
            self.deploy(graph)
            for _ in range(2):
                found = self.ask_raw(name, floats(a) + floats(b, "d"), "d")
                self.assert_close(found, x, tolerance)

    def test_complex_numbers_and_a_constant_without_a_file(self):
        self.deploy(example("09_kernel_cgemm").build(2, 3, 2), launch_mode="compute")
        answer = self.ask("cgemm", {"inputs": [{"name": "x", "data": [1, 0, 0, 1, 2, -1, 0, 0, 0, 0, 1, 1]}]}).json
        # (1 + i + 2 - i) (1 + i) / 2 and (1 + i) (1 + i) / 2.
        self.assertEqual(answer["outputs"][0]["data"], [1.5, 1.5, 1.5, 1.5, 0, 1, 0, 1])

    def test_own_kernels_between_built_in_ones(self):
        self.deploy(example("10_kernel_neighbours").build(3, 2))
        # From 0 one step leads to 1, from there to 2.
        adjacency = [0, 0, 0, 1, 0, 0, 0, 1, 0]
        found = self.ask_raw("neighbours", floats(adjacency) + floats([1, 0, 0]))
        self.assertEqual(list(found), [1, 1, 0])

    def test_models_of_true_size_take_their_modelled_time(self):
        models = example("11_kernel_models")
        for graph, request, least_ms in (
                (models.resnet50(), floats([0.5]) * (3 * 224 * 224), 4),
                (models.bert(), array.array("i", [1] * 256).tobytes(), 92)):
            self.deploy(graph, launch_mode="model", timeout_s=60)
            for _ in range(2):
                reply = self.ask(graph.name, request, headers=RAW)
                self.assertTrue(reply.body)
            self.assertEqual(reply.headers["x-lambent-start"], "warm")
            # Launches that do not depend on each other overlap a little.
            self.assertGreater(int(reply.headers["x-lambent-run-us"]), 900 * least_ms)

    def test_small_models_compute_what_their_definitions_say(self):
        models, reference = example("11_kernel_models"), example("11_kernel_models", "reference")
        some = random.Random(1)
        image = array.array("f", [some.random() for _ in range(3 * 64 * 64)])
        tokens = array.array("i", [some.randrange(1000) for _ in range(16)])
        segments = array.array("i", [0] * 7 + [1] * 9)
        with tempfile.TemporaryDirectory() as folder:
            layers = pathlib.Path(folder) / "layers"
            subprocess.run([PREFIX / "bin/lambent-bundle", "build", EXAMPLES / "11_kernel_models/layers.cu", "-o", layers],
                           check=True, capture_output=True)
            for name, inputs in (("resnet50", (image,)), ("bert", (tokens, segments))):
                graph = models.small(name)
                graph.bundles.clear()
                graph.bundle(str(layers))
                self.deploy(graph, launch_mode="compute", timeout_s=60)
                expected = getattr(reference, name)(models.seeded(name, 0), *inputs, **models.SMALL[name])
                for _ in range(2):
                    found = self.ask_raw(name, b"".join(each.tobytes() for each in inputs))
                    self.assert_close(found, expected, 2e-4 * max(map(abs, expected)))
