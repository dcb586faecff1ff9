"""kernel_examples_test.py BUILD: the kernel functions among the examples: that a deployment would take
them, and that their kernels, run step by step on the emulated driver, compute what they should."""
import array
import base64
import importlib.util
import json
import math
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


def load(example):
    """The module build.py of an example."""
    path = os.path.join(ROOT, "examples", example, "build.py")
    specification = importlib.util.spec_from_file_location(example, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


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
            letter = {"FP32": "f", "FP64": "d"}[graph.buffers[name].datatype]
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
        graph = load("11_kernel_models").resnet50()
        folder, memory = self.check(graph, launch_mode="model")
        self.assertAlmostEqual(memory["constants"] / 129e6, 1, delta=0.02)
        self.assertLess(memory["temporaries"], 12e6)
        self.assertEqual(self.durations(graph), 4_000_000)
        self.assertLess(os.path.getsize(os.path.join(folder, "graph.json")), 200_000)

    def test_bert_has_the_constants_and_the_time_of_the_paper(self):
        graph = load("11_kernel_models").bert()
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

    def test_a_small_resnet_agrees_with_python(self):
        weights = self.some_weights(1)
        filters = {}

        def transformed(name, shape):
            """What Winograd's method needs of 3 x 3 filters; others as they are."""
            if not name.endswith(".transformed"):
                return weights(name, shape)
            plain = filters[name] = weights(name, shape[:2] + (3, 3))
            g = ((1, 0, 0), (.5, .5, .5), (.5, -.5, .5), (0, 0, 1))
            result = array.array("f")
            for at in range(0, len(plain), 9):
                f = plain[at:at + 9]
                half = [[sum(g[i][k] * f[3 * k + j] for k in range(3)) for j in range(3)] for i in range(4)]
                result.extend(sum(half[i][k] * g[j][k] for k in range(3)) for i in range(4) for j in range(4))
            return result

        size, width, classes = 20, 2, 5
        graph = load("11_kernel_models").resnet50(size, width, (1, 2), classes, transformed)
        image = [random.Random(9).uniform(0, 1) for _ in range(3 * size * size)]
        found = self.run_graph(graph, {"image": floats(image)})
        expected = PythonImages(weights, filters).resnet(image, size, width, (1, 2), classes)
        self.assert_close(found["probabilities"], expected, 1e-4)

    def test_a_small_bert_agrees_with_python(self):
        length, hidden, heads = 5, 8, 2
        weights = self.some_weights(2)
        graph = load("11_kernel_models").bert(length, 2, hidden, heads, 11, 7, weights)
        tokens, segments = [3, 10, 0, 7, 7], [0, 0, 1, 1, 1]
        found = self.run_graph(graph, {"tokens": array.array("i", tokens).tobytes(),
                                       "segments": array.array("i", segments).tobytes()})
        expected = PythonText(weights, length, hidden, heads).bert(tokens, segments, 2)
        self.assert_close(found["answer"], [number for row in expected for number in row], 1e-3)


class PythonImages:
    """ResNet by its definition, slowly: images are lists of channels of rows."""

    def __init__(self, weights, filters):
        self.weights, self.filters = weights, filters

    def convolution(self, name, image, channels, kernel, stride=1, relu=True, shortcut=None):
        size, pad = len(image[0]), kernel // 2
        after = (size + 2 * pad - kernel) // stride + 1
        filters = self.filters.get(name + ".transformed")
        if filters is None:
            filters = self.weights(name + ".filters", (channels, len(image), kernel, kernel))
        bias = self.weights(name + ".bias", (channels,))
        out = []
        for c in range(channels):
            rows = []
            for y in range(after):
                row = []
                for x in range(after):
                    value = bias[c]
                    for f, plane in enumerate(image):
                        for j in range(kernel):
                            for i in range(kernel):
                                v, u = y * stride + j - pad, x * stride + i - pad
                                if 0 <= v < size and 0 <= u < size:
                                    value += plane[v][u] * filters[
                                        ((c * len(image) + f) * kernel + j) * kernel + i]
                    if shortcut:
                        value += shortcut[c][y][x]
                    row.append(max(value, 0) if relu else value)
                rows.append(row)
            out.append(rows)
        return out

    def bottleneck(self, name, image, width, stride):
        shortcut = image
        if stride != 1 or len(image) != 4 * width:
            shortcut = self.convolution(name + ".shortcut", image, 4 * width, 1, stride, relu=False)
        narrow = self.convolution(name + ".1", image, width, 1)
        spread = self.convolution(name + ".2", narrow, width, 3, stride)
        return self.convolution(name + ".3", spread, 4 * width, 1, shortcut=shortcut)

    def resnet(self, numbers, size, width, blocks, classes):
        image = [[numbers[(c * size + y) * size:(c * size + y + 1) * size] for y in range(size)]
                 for c in range(3)]
        image = self.convolution("stem", image, width, 7, 2)
        size = len(image[0])
        image = [[[max(plane[v][u] for v in range(max(0, y - 1), min(size, y + 2))
                       for u in range(max(0, x - 1), min(size, x + 2)))
                   for x in range(0, size, 2)] for y in range(0, size, 2)] for plane in image]
        for stage, count in enumerate(blocks):
            for block in range(count):
                image = self.bottleneck("stage%d.%d" % (stage + 1, block), image, width << stage,
                                        2 if stage > 0 and block == 0 else 1)
        mean = [sum(map(sum, plane)) / len(plane)**2 for plane in image]
        w = self.weights("classes.weights", (classes, len(mean)))
        bias = self.weights("classes.bias", (classes,))
        scores = [bias[c] + sum(w[c * len(mean) + k] * mean[k] for k in range(len(mean)))
                  for c in range(classes)]
        return softmax(scores)


class PythonText:
    """BERT by its definition, slowly: a text is a list of rows."""

    def __init__(self, weights, length, hidden, heads):
        self.weights, self.length, self.hidden, self.heads = weights, length, hidden, heads

    def linear(self, name, rows, width, gelu=False):
        hidden = len(rows[0])
        w = self.weights(name + ".weights", (width, hidden))
        bias = self.weights(name + ".bias", (width,))
        out = [[bias[n] + sum(row[k] * w[n * hidden + k] for k in range(hidden)) for n in range(width)]
               for row in rows]
        if gelu:
            out = [[v / 2 * (1 + math.erf(v / math.sqrt(2))) for v in row] for row in out]
        return out

    def add_norm(self, name, rows, shortcut):
        scale = self.weights(name + ".scale", (self.hidden,))
        shift = self.weights(name + ".shift", (self.hidden,))
        out = []
        for row, other in zip(rows, shortcut or [[0] * self.hidden] * len(rows)):
            values = [a + b for a, b in zip(row, other)]
            mean = sum(values) / len(values)
            spread = math.sqrt(sum((v - mean)**2 for v in values) / len(values) + 1e-5)
            out.append([(v - mean) / spread * scale[i] + shift[i] for i, v in enumerate(values)])
        return out

    def attention(self, name, rows):
        queries, keys, values = (self.linear(name + part, rows, self.hidden)
                                 for part in (".queries", ".keys", ".values"))
        depth = self.hidden // self.heads
        mixed = [[] for _ in rows]
        for head in range(self.heads):
            part = slice(head * depth, (head + 1) * depth)
            for i, query in enumerate(queries):
                scores = softmax([sum(a * b for a, b in zip(query[part], key[part])) / math.sqrt(depth)
                                  for key in keys])
                mixed[i] += [sum(s * value[part][d] for s, value in zip(scores, values))
                             for d in range(depth)]
        return self.linear(name + ".out", mixed, self.hidden)

    def bert(self, tokens, segments, layers):
        hidden = self.hidden
        words, positions, kinds = (self.weights(name, shape) for name, shape in (
            ("words", (11, hidden)), ("positions", (7, hidden)), ("kinds", (2, hidden))))
        rows = [[words[token * hidden + i] + positions[at * hidden + i] + kinds[segment * hidden + i]
                 for i in range(hidden)] for at, (token, segment) in enumerate(zip(tokens, segments))]
        rows = self.add_norm("embedding", rows, None)
        for layer in range(layers):
            name = "layer%d" % layer
            rows = self.add_norm(name + ".attended", self.attention(name, rows), rows)
            wide = self.linear(name + ".wide", rows, 4 * hidden, gelu=True)
            rows = self.add_norm(name + ".out", self.linear(name + ".narrow", wide, hidden), rows)
        return self.linear("answer", rows, 2)


def softmax(scores):
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


if __name__ == "__main__":
    unittest.main()
