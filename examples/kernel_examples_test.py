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


def handler(example, component):
    """The module app.py of a workflow's component."""
    path = os.path.join(ROOT, "examples", example, component, "app.py")
    specification = importlib.util.spec_from_file_location(component, path)
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


    # --- The networks of the workflows ---

    def test_the_workflows_networks_have_their_published_weights(self):
        models = load("11_kernel_models").MODELS
        # Millions of numbers, as their authors or torchvision count them; two kinds are left out of BERT's,
        # and DenseNet's four of each norm are two.
        for name, millions in (("vgg16", 138.36), ("alexnet", 61.10), ("densenet121", 7.98), ("ssd300", 26.29),
                               ("vdsr", 0.67), ("translate", 63)):
            _, memory = self.check(models[name](), launch_mode="model")
            self.assertAlmostEqual(memory["constants"] / 4e6 / millions, 1, delta=0.02, msg=name)

    def run_images(self, graph, size, seed):
        image = [random.Random(seed).uniform(0, 1) for _ in range(3 * size * size)]
        found = self.run_graph(graph, {"image": floats(image)})
        return PythonImages.planes(image, size), next(iter(found.values()))

    def test_a_small_vgg_agrees_with_python(self):
        weights, stages = self.some_weights(3), ((1, 2), (2, 3))
        image, found = self.run_images(load("11_kernel_models").vgg16(12, stages, 6, 4, weights), 12, 1)
        net = PythonImages(weights, {})
        values = flat(net.pool(net.vgg(image, stages)[-1], 2, 2))
        values = net.dense("dense2", net.dense("dense1", values, 6, True), 6, True)
        self.assert_close(found, softmax(net.dense("classes", values, 4)), 1e-4)

    def test_a_small_alexnet_agrees_with_python(self):
        weights, channels = self.some_weights(4), (2, 3, 4, 3, 2)
        image, found = self.run_images(load("11_kernel_models").alexnet(63, channels, 5, 4, weights), 63, 2)
        net = PythonImages(weights, {})
        image = net.layer("1", image, channels[0], 11, 4, 2)
        image = net.layer("2", net.pool(image, 3, 2), channels[1], 5)
        image = net.layer("3", net.pool(image, 3, 2), channels[2], 3)
        image = net.layer("5", net.layer("4", image, channels[3], 3), channels[4], 3)
        values = net.dense("dense1", flat(net.pool(image, 3, 2)), 5, True)
        values = net.dense("dense2", values, 5, True)
        self.assert_close(found, softmax(net.dense("classes", values, 4)), 1e-4)

    def test_a_small_densenet_agrees_with_python(self):
        weights, growth, blocks = self.some_weights(5), 2, (2, 1)
        image, found = self.run_images(load("11_kernel_models").densenet121(16, growth, blocks, 3, weights), 16, 3)
        net = PythonImages(weights, {})
        image = net.pool(net.layer("stem", image, 2 * growth, 7, 2), 3, 2, 1)
        for stage, count in enumerate(blocks):
            for at in range(count):
                name = "block%d.%d" % (stage + 1, at)
                narrow = net.layer(name + ".1", net.scaled(name + ".norm1", image), 4 * growth, 1, relu=False)
                image = image + net.layer(name + ".2", net.scaled(name + ".norm2", narrow), growth, 3, relu=False)
            image = net.scaled("block%d.norm" % (stage + 1), image)
            if stage + 1 < len(blocks):
                image = net.layer("block%d.out" % (stage + 1), image, len(image) // 2, 1, relu=False)
                image = net.pool(image, 2, 2, mean=True)
        mean = [sum(map(sum, plane)) / len(plane)**2 for plane in image]
        self.assert_close(found, softmax(net.dense("classes", mean, 3)), 1e-4)

    def test_a_small_ssd_agrees_with_python(self):
        weights, stages, boxes, classes = self.some_weights(6), ((1, 2), (1, 3), (1, 2)), (1, 2, 1), 3
        graph = load("11_kernel_models").ssd300(18, stages, 4, ((2, 3, 2, 1),), boxes, classes, weights)
        image, found = self.run_images(graph, 18, 4)
        net = PythonImages(weights, {})
        given = net.vgg(image, stages, ceiling=True)
        last = net.layer("7", net.layer("6", net.pool(given[-1], 3, 1, 1), 4, 3), 4, 1)
        maps = [given[-2], last, net.layer("extra0.2", net.layer("extra0.1", last, 2, 1), 3, 3, 2, 1)]
        expected = []
        for at, (each, count) in enumerate(zip(maps, boxes)):
            expected += flat(net.layer("boxes%d" % at, each, count * (classes + 4), 3, relu=False))
        self.assert_close(found, expected, 1e-4)

    def test_a_small_vdsr_agrees_with_python(self):
        weights = self.some_weights(7)
        image, found = self.run_images(load("11_kernel_models").vdsr(9, 2, 3, weights), 9, 5)
        net = PythonImages(weights, {})
        inner = net.layer("1", net.layer("0", image, 2, 3), 2, 3)
        self.assert_close(found, flat(net.layer("last", inner, 3, 3, relu=False, shortcut=image)), 1e-4)

    def test_a_small_translation_agrees_with_python(self):
        length, hidden, heads, words = 4, 8, 2, 13
        weights = self.some_weights(8)
        graph = load("11_kernel_models").translate(length, 2, hidden, heads, words, weights)
        tokens = [12, 0, 5, 5]
        found = self.run_graph(graph, {"tokens": array.array("i", tokens).tobytes()})
        scores = PythonText(weights, length, hidden, heads).translate(tokens, 2, words)
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


def flat(image):
    return [value for plane in image for row in plane for value in row]


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

    @staticmethod
    def planes(numbers, size):
        return [[numbers[(c * size + y) * size:(c * size + y + 1) * size] for y in range(size)]
                for c in range(len(numbers) // size**2)]

    def layer(self, name, image, channels, kernel, stride=1, pad=None, relu=True, shortcut=None):
        size, pad = len(image[0]), kernel // 2 if pad is None else pad
        filters = self.weights(name + ".filters", (channels, len(image), kernel, kernel))
        bias = self.weights(name + ".bias", (channels,))
        places = range(0, size + 2 * pad - kernel + 1, stride)

        def value(c, y, x):
            total = bias[c] + (shortcut[c][y][x] if shortcut else 0)
            for f, plane in enumerate(image):
                for j in range(kernel):
                    for i in range(kernel):
                        v, u = y + j - pad, x + i - pad
                        if 0 <= v < size and 0 <= u < size:
                            total += plane[v][u] * filters[((c * len(image) + f) * kernel + j) * kernel + i]
            return max(total, 0) if relu else total

        return [[[value(c, y, x) for x in places] for y in places] for c in range(channels)]

    @staticmethod
    def pool(image, kernel, stride, pad=0, mean=False):
        size = len(image[0])
        places = range(-pad, size + pad - kernel + 1, stride)

        def value(plane, y, x):
            window = [plane[v][u] for v in range(max(0, y), min(size, y + kernel))
                      for u in range(max(0, x), min(size, x + kernel))]
            return sum(window) / len(window) if mean else max(window)

        return [[[value(plane, y, x) for x in places] for y in places] for plane in image]

    def scaled(self, name, image):
        scale, shift = (self.weights(name + end, (len(image),)) for end in (".scale", ".shift"))
        return [[[max(value * scale[c] + shift[c], 0) for value in row] for row in plane]
                for c, plane in enumerate(image)]

    def dense(self, name, values, width, relu=False):
        w = self.weights(name + ".weights", (width, len(values)))
        bias = self.weights(name + ".bias", (width,))
        out = [bias[n] + sum(value * w[n * len(values) + k] for k, value in enumerate(values))
               for n in range(width)]
        return [max(value, 0) for value in out] if relu else out

    def vgg(self, image, stages, ceiling=False):
        given = []
        for stage, (count, channels) in enumerate(stages):
            if stage > 0:
                image = self.pool(image, 2, 2, len(image[0]) % 2 if ceiling else 0)
            for at in range(count):
                image = self.layer("stage%d.%d" % (stage + 1, at), image, channels, 3)
            given.append(image)
        return given

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

    def attention(self, name, rows, other=None):
        queries, keys, values = (self.linear(name + part, of, self.hidden) for part, of in (
            (".queries", rows), (".keys", other or rows), (".values", other or rows)))
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

    def translate(self, tokens, layers, vocabulary):
        """The scores of each word at each place."""
        hidden = self.hidden
        words = self.weights("words", (vocabulary, hidden))
        positions = self.weights("positions", (self.length, hidden))

        def rest(name, rows):
            wide = self.linear(name + ".wide", rows, 4 * hidden, gelu=True)
            return self.add_norm(name + ".out", self.linear(name + ".narrow", wide, hidden), rows)

        rows = [[words[token * hidden + i] + positions[at * hidden + i] for i in range(hidden)]
                for at, token in enumerate(tokens)]
        for layer in range(layers):
            name = "read%d" % layer
            rows = rest(name, self.add_norm(name + ".attended", self.attention(name, rows), rows))
        source = rows
        for layer in range(layers):
            name = "write%d" % layer
            rows = self.add_norm(name + ".attended", self.attention(name, rows), rows)
            name += ".source"
            rows = rest(name, self.add_norm(name + ".attended", self.attention(name, rows, source), rows))
        bias = self.weights("bias", (vocabulary,))
        return [[bias[n] + sum(row[k] * words[n * hidden + k] for k in range(hidden))
                 for n in range(vocabulary)] for row in rows]

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
