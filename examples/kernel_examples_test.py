"""kernel_examples_test.py BUILD: the kernel functions among the examples: that a deployment would take
them, and that their kernels, run step by step on the emulated driver, compute what they should."""
import array
import base64
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "python"))
BUILD = os.path.abspath(sys.argv.pop(1))
SHARE = os.path.join(BUILD, "share", "lambent")


def load(example, name="build"):
    """The module build.py of an example, or another one beside it."""
    path = os.path.join(ROOT, "examples", example, name + ".py")
    specification = importlib.util.spec_from_file_location(example + "_" + name, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


MODELS = "11_kernel_models"


def handler(example, component):
    """The module app.py of a workflow's component."""
    return load(os.path.join(example, component), "app")


def floats(values, letter="f"):
    return array.array(letter, values).tobytes()


class KernelExamplesTest(unittest.TestCase):
    compiled = {}  # folders of bundles, by source

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.work.cleanup()

    def bundles(self, graph):
        """The folder of each bundle that the graph names; sources are compiled, once."""
        folders = {}
        for name, bundle in graph.bundles.items():
            if bundle.path is None:
                folders[name] = os.path.join(SHARE, "kernels", name.split(":")[1])
                continue
            if bundle.path not in self.compiled:
                folder = os.path.join(self.work.name, os.path.basename(name))
                subprocess.run([os.path.join(BUILD, "bin", "lambent-bundle"), "build", bundle.path,
                                "-o", folder, "--host-only"], check=True, capture_output=True)
                self.compiled[bundle.path] = folder
            folders[name] = self.compiled[bundle.path]
        return folders

    def check(self, graph, **settings):
        """Saves the graph and checks it as a deployment does; returns (its folder, its memory)."""
        folder = tempfile.mkdtemp(dir=self.work.name)
        graph.save(folder, **settings)
        bundles = ["%s=%s" % item for item in self.bundles(graph).items()]
        run = subprocess.run([os.path.join(BUILD, "tests", "check_graph"), folder] + bundles,
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.stderr, "")
        return folder, json.loads(run.stdout)

    def run_graph(self, graph, inputs):
        """The outputs of the graph, as arrays of its datatypes."""
        folder, _ = self.check(graph)
        request = {"package": folder, "bundles": self.bundles(graph),
                   "inputs": {name: base64.b64encode(data).decode() for name, data in inputs.items()}}
        environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"),
                           LD_LIBRARY_PATH=os.path.join(BUILD, "lib", "emulated"),
                           EMULATED_CUDA_NODE=os.path.join(folder, "node"),
                           EMULATED_CUDA_CONFIG="v100-16gb", EMULATED_CUDA_LAUNCH_MODE="compute")
        run = subprocess.run([sys.executable, "-B", os.path.join(ROOT, "examples", "graph_runner.py")],
                             input=json.dumps(request), env=environment, capture_output=True,
                             text=True, timeout=120, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        outputs = {}
        for name, text in json.loads(run.stdout).items():
            letter = {"FP32": "f", "FP64": "d", "INT32": "i"}[graph.buffers[name].datatype]
            outputs[name] = array.array(letter)
            outputs[name].frombytes(base64.b64decode(text))
        return outputs

    def assert_close(self, found, expected, tolerance):
        self.assertEqual(len(found), len(expected))
        for index, (a, b) in enumerate(zip(found, expected)):
            self.assertTrue(abs(a - b) <= tolerance, "%d: %r is not %r" % (index, a, b))

    def test_the_chain_multiplies_by_its_matrices(self):
        example, size = load("07_kernel_matmul_chain"), 20
        x = [(i % 7 - 3) / 2 for i in range(size * size)]
        expected = x
        for layer in range(3):
            w = example.weights(layer, size)
            expected = [sum(expected[i * size + k] * w[k * size + j] for k in range(size))
                        for i in range(size) for j in range(size)]
        found = self.run_graph(example.build(size, 3), {"x": floats(x)})
        self.assert_close(found["y"], expected, 1e-5)

    def test_the_chain_of_the_paper_shares_the_memory_of_its_layers(self):
        _, memory = self.check(load("07_kernel_matmul_chain").build(1024, 4))
        self.assertEqual(memory["constants"], 4 * 4 * 1024 * 1024)
        self.assertEqual(memory["temporaries"], 2 * 4 * 1024 * 1024)

    def equations(self, size):
        """A matrix that the method converges for, the solution, and the right side."""
        some = random.Random(1)
        a = array.array("f", [some.uniform(-1, 1) + (size if i % (size + 1) == 0 else 0)
                              for i in range(size * size)])
        x = [some.uniform(-5, 5) for _ in range(size)]
        b = [sum(a[i * size + k] * x[k] for k in range(size)) for i in range(size)]
        return a, x, b

    def test_jacobi_solves_its_equations(self):
        a, x, b = self.equations(37)
        graph = load("08_kernel_jacobi").build(37, 100)
        found = self.run_graph(graph, {"a": a.tobytes(), "b": floats(b, "d")})
        self.assert_close(found["x"], x, 1e-9)

    def test_jacobi_stops_when_it_rests(self):
        a, x, b = self.equations(37)
        # So many rounds that only the flag can end them in time.
        graph = load("08_kernel_jacobi").build(37, 2 * 10**8, tolerance=1e-6)
        found = self.run_graph(graph, {"a": a.tobytes(), "b": floats(b, "d")})
        self.assert_close(found["x"], x, 1e-5)

    def test_the_complex_product_agrees_with_python(self):
        rows, inner, columns = 3, 5, 4
        x = [complex(i % 5 - 2, i % 3) for i in range(rows * inner)]
        found = self.run_graph(load("09_kernel_cgemm").build(rows, inner, columns),
                               {"x": floats([part for z in x for part in (z.real, z.imag)])})
        # The constant's parts are all one half.
        expected = [sum(x[i * inner + k] for k in range(inner)) * (0.5 + 0.5j)
                    for i in range(rows) for _ in range(columns)]
        self.assert_close(found["y"], [part for z in expected for part in (z.real, z.imag)], 1e-5)

    def test_the_complex_product_of_the_paper_is_small_to_deploy(self):
        folder, memory = self.check(load("09_kernel_cgemm").build(100, 10000, 25000))
        self.assertEqual(memory["constants"], 2_000_000_000)
        self.assertLess(sum(os.path.getsize(os.path.join(folder, name))
                            for name in os.listdir(folder)), 10_000)

    def test_neighbours_follow_the_algorithm(self):
        count, steps = 24, 3
        some = random.Random(2)
        a = [float(some.random() < 0.15) for _ in range(count * count)]
        start = [1.0] + [0.0] * (count - 1)
        x, visited = start, [0.0] * count
        for _ in range(steps):
            fresh = [p - q for p, q in zip(x, visited)]
            visited = [p + q for p, q in zip(visited, x)]
            x = [sum(a[i * count + k] * fresh[k] for k in range(count)) for i in range(count)]
        found = self.run_graph(load("10_kernel_neighbours").build(count, steps),
                               {"adjacency": floats(a), "start": floats(start)})
        self.assert_close(found["visited"], visited, 1e-4)

    def durations(self, graph):
        return sum(step["arguments"][0]["literal"] for step in graph.json()["steps"])

    def test_resnet50_has_the_constants_and_the_time_of_the_paper(self):
        graph = load(MODELS).resnet50()
        folder, memory = self.check(graph, launch_mode="model")
        self.assertAlmostEqual(memory["constants"] / 129e6, 1, delta=0.02)
        self.assertLess(memory["temporaries"], 12e6)
        self.assertEqual(self.durations(graph), 4_000_000)
        self.assertLess(os.path.getsize(os.path.join(folder, "graph.json")), 200_000)

    def test_bert_has_the_constants_and_the_time_of_the_paper(self):
        graph = load(MODELS).bert()
        _, memory = self.check(graph, launch_mode="model")
        self.assertAlmostEqual(memory["constants"] / 1.3e9, 1, delta=0.05)
        self.assertLess(memory["temporaries"], 8e6)
        self.assertEqual(self.durations(graph), 92_000_000)

    @staticmethod
    def some_weights(seed):
        def make(name, shape):
            some = random.Random(str(seed) + name)
            count = 1
            for extent in shape:
                count *= extent
            return array.array("f", [some.uniform(-0.5, 0.5) for _ in range(count)])
        return make

    def compare_images(self, name, seed, **sizes):
        """The kernels of a network answer to a picture what its definition says. Narrow ones have odd sizes."""
        weights, some = self.some_weights(seed), random.Random(seed)
        image = [some.uniform(0, 1) for _ in range(3 * sizes["size"]**2)]
        graph = getattr(load(MODELS), name)(weights=weights, **sizes)
        found, = self.run_graph(graph, {"image": floats(image)}).values()
        self.assert_close(found, getattr(load(MODELS, "reference"), name)(weights, image, **sizes), 1e-4)

    def test_a_narrow_resnet_agrees_with_python(self):
        self.compare_images("resnet50", 1, size=20, width=2, blocks=(1, 2), classes=5)

    def test_a_narrow_bert_agrees_with_python(self):
        sizes = dict(length=5, layers=2, hidden=8, heads=2, vocabulary=11, positions=7)
        weights, tokens, segments = self.some_weights(2), [3, 10, 0, 7, 7], [0, 0, 1, 1, 1]
        found = self.run_graph(load(MODELS).bert(weights=weights, **sizes),
                               {"tokens": array.array("i", tokens).tobytes(),
                                "segments": array.array("i", segments).tobytes()})
        expected = load(MODELS, "reference").bert(weights, tokens, segments, **sizes)
        self.assert_close(found["answer"], expected, 1e-3)

    @staticmethod
    def some_input(buffer, some):
        """Pixels, tokens or segments for an input of a small network."""
        count = buffer.size_bytes // 4
        if buffer.datatype == "FP32":
            return array.array("f", [some.uniform(0, 1) for _ in range(count)])
        return array.array("i", [some.randrange(2 if buffer.name == "segments" else 1000) for _ in range(count)])

    def test_the_small_networks_answer_as_their_definitions_say(self):
        models, reference, some = load(MODELS), load(MODELS, "reference"), random.Random(7)
        seed = 1  # not the one that weights have unless it is said
        for name, sizes in models.SMALL.items():
            with self.subTest(name):
                graph = models.small(name, seed)
                inputs = {buffer.name: self.some_input(buffer, some)
                          for buffer in graph.buffers.values() if buffer.role == "input"}
                found, = self.run_graph(graph, {each: data.tobytes() for each, data in inputs.items()}).values()
                expected = getattr(reference, name)(models.seeded(name, seed), *inputs.values(), **sizes)
                self.assertEqual(self.durations(graph), 0)
                if name == "translate":
                    self.assertEqual(list(found), expected)
                    self.assertGreater(len(set(found)), 5, "all words became the same")
                    continue
                # Sums have 32 bits here and 64 there.
                largest = max(map(abs, expected))
                self.assert_close(found, expected, 2e-4 * largest)
                self.assertGreater(largest - min(expected), largest / 2, "an answer that says little")

    def test_the_same_seed_makes_the_same_weights(self):
        models = load(MODELS)
        one, same, other = (models.small("resnet50", seed).buffers["weights"].data for seed in (3, 3, 4))
        self.assertEqual(one, same)
        self.assertNotEqual(one, other)

    # --- The networks of the workflows ---

    def test_the_workflows_networks_have_their_published_weights(self):
        models = load(MODELS).MODELS
        # Millions of numbers, as their authors or torchvision count them; two kinds are left out of BERT's,
        # and DenseNet's four of each norm are two.
        for name, millions in (("vgg16", 138.36), ("alexnet", 61.10), ("densenet121", 7.98), ("ssd300", 26.29),
                               ("vdsr", 0.67), ("translate", 63)):
            _, memory = self.check(models[name](), launch_mode="model")
            self.assertAlmostEqual(memory["constants"] / 4e6 / millions, 1, delta=0.02, msg=name)

    def test_a_narrow_vgg_agrees_with_python(self):
        self.compare_images("vgg16", 3, size=12, stages=((1, 2), (2, 3)), width=6, classes=4)

    def test_a_narrow_alexnet_agrees_with_python(self):
        self.compare_images("alexnet", 4, size=63, channels=(2, 3, 4, 3, 2), width=5, classes=4)

    def test_a_narrow_densenet_agrees_with_python(self):
        self.compare_images("densenet121", 5, size=16, growth=2, blocks=(2, 1), classes=3)

    def test_a_narrow_ssd_agrees_with_python(self):
        self.compare_images("ssd300", 6, size=18, stages=((1, 2), (1, 3), (1, 2)), width=4,
                            extra=((2, 3, 2, 1),), boxes=(1, 2, 1), classes=3)

    def test_a_narrow_vdsr_agrees_with_python(self):
        self.compare_images("vdsr", 7, size=9, channels=2, layers=3)

    def test_a_narrow_translation_agrees_with_python(self):
        sizes = dict(length=4, layers=2, hidden=8, heads=2, vocabulary=13)
        weights, tokens = self.some_weights(8), [12, 0, 5, 5]
        graph = load(MODELS).translate(weights=weights, **sizes)
        found = self.run_graph(graph, {"tokens": array.array("i", tokens).tobytes()})
        scores = load(MODELS, "reference").translation_scores(weights, tokens, **sizes)
        for token, row in zip(found["translated"], scores):
            self.assertGreaterEqual(row[token] + 1e-4, max(row))

    def test_detections_become_pictures_of_cars_and_people(self):
        pick = handler("14_workflow_traffic", "pick")
        maps, classes = ((2, 100, 200, (2,)), (1, 264, 315, ())), 21
        numbers = array.array("f", [0.0] * (25 * (4 * 4 + 2)))

        def plant(begin, places, place, kind, sure):
            numbers[begin + kind * places + place] = sure

        plant(0, 4, 3, pick.CAR, 9)                  # the first box of the first map, at the lower right
        plant(25 * 4, 4, 3, pick.CAR, 8)             # a larger one around it, less sure: the same car
        plant(25 * 4 * 4, 1, 0, pick.PERSON, 7)      # the second map
        self.assertEqual(len(pick.detections(array.array("f", [0.0] * len(numbers)), maps, classes)), 0)
        found = pick.detections(numbers, maps, classes)
        self.assertEqual([kind for _, kind, _ in found][:1] + [kind for _, kind, _ in found][-1:],
                         [pick.CAR, pick.PERSON])
        self.assertEqual(found[0][2], (175.0, 175.0, 275.0, 275.0))

    def test_a_picture_is_that_part_of_the_frame(self):
        pick = handler("14_workflow_traffic", "pick")
        frame = [float(i) for i in range(3 * 4 * 4)]
        self.assertEqual(list(pick.crop(frame, 4, (2, 1, 4, 3), 2)),
                         [6, 7, 10, 11, 22, 23, 26, 27, 38, 39, 42, 43])
        self.assertEqual(list(pick.crop(frame, 4, (0, 0, 4, 4), 1)), [10, 26, 42])

    def test_a_post_gets_a_verdict(self):
        verdict = handler("16_workflow_social", "verdict").handler
        self.assertEqual(verdict({"text": {"data": [0.5, -1, 9, 9]}, "picture": {"data": [0.25, 0.75]}}, None),
                         {"kind": "first", "picture_class": 1, "sure": 0.75})


if __name__ == "__main__":
    unittest.main()
