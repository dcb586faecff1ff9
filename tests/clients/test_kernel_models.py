"""Models that kernels serve: `lambent deploy FILE.onnx --engine kernels`, then Triton's own client, unmodified, against onnxruntime; and
what becomes of files that are no models."""
import itertools
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
import unittest
import unittest.mock

import numpy as np
import onnx
import onnxruntime
import tritonclient.http as triton
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tritonclient.utils import InferenceServerException

import kernel_operators
import model_shapes
import onnx_mutations
from harness import PREFIX, Worker
from lambent.onnx import ModelError, NotCovered, import_model, lower, model as models, recurrent, rewrite, rules, schedules, signals

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAMBENT = str(PREFIX / "bin/lambent")
WHOLE = bool(os.environ.get("LAMBENT_WHOLE_TESTS"))
# The others take a compiler a minute each.
TRIED = sorted(model_shapes.SMALL) if WHOLE else ["gpt", "super_resolution"]
# Of one deployment or request.
PATIENCE_S = 900 if WHOLE else 280
# The weights of those of true shape that no package holds.
IN_VOLUMES_MIB = {"bert": 415, "gpt": 460, "resnet50": 97, "ssd": 95, "unet": 120}
TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}


def small_net():
    """y = softmax(relu(x W + b)), and x in another shape."""
    net = model_shapes.Net()
    x = net.input("x", ["n", 4])
    y = net("Softmax", net("Relu", net("Gemm", x, net.weight(4, 3), net.weight(3))), axis=-1)
    return net.model(y=y, same=net("Reshape", x, net.constant(np.array([-1, 2, 2]))))


def odd_net():
    """Something that has no kernels, behind something that has."""
    net = model_shapes.Net()
    x = net("Relu", net.input("x", [1, 4, 2]))
    return net.model(y=net("Bernoulli", x))


class Harness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-kernel-models-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.worker = Worker(gpu="emulated", folder=cls.folder)
        cls.addClassCleanup(cls.worker.close)

    @classmethod
    def deploy(cls, *arguments):
        return subprocess.run([LAMBENT, "deploy", *map(str, arguments), "--importer-python", sys.executable, "--endpoint",
                               cls.worker.endpoint], capture_output=True, text=True, timeout=PATIENCE_S)

    def client(self):
        client = triton.InferenceServerClient(self.worker.endpoint.removeprefix("http://"), network_timeout=PATIENCE_S,
                                              connection_timeout=PATIENCE_S)
        self.addCleanup(client.close)
        return client

    @staticmethod
    def inputs(values, binary=True):
        given = []
        for name, value in values.items():
            given.append(triton.InferInput(name, value.shape, {"float16": "FP16", "float32": "FP32", "int64": "INT64"}[str(value.dtype)]))
            given[-1].set_data_from_numpy(value, binary_data=binary)
        return given


class KernelModelsTest(Harness):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(small_net(), str(cls.folder / "small.onnx"))
        cls.said = cls.deploy(cls.folder / "small.onnx", "--engine", "kernels", "--batch-size", "2")
        assert cls.said.returncode == 0, cls.said.stderr

    def test_deploying_tells_what_the_model_takes(self):
        self.assertIn("x FP32[2,4] -> y FP32[2,3], same FP32[2,2,2]", self.said.stdout)
        self.assertIn("/v2/models/small", self.said.stdout)

    def test_answers_are_those_of_onnxruntime(self):
        client, values = self.client(), np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
        expected = onnxruntime.InferenceSession(str(self.folder / "small.onnx")).run(None, {"x": values})
        for binary in (True, False):
            for options in ({}, {"request_compression_algorithm": "gzip", "response_compression_algorithm": "deflate"}):
                result = client.infer("small", self.inputs({"x": values}, binary), request_id="7", **options)
                np.testing.assert_allclose(result.as_numpy("y"), expected[0], rtol=1e-5)
                np.testing.assert_array_equal(result.as_numpy("same"), expected[1])
                self.assertEqual(result.get_response()["id"], "7")
        wanted = [triton.InferRequestedOutput("same")]
        one = client.infer("small", self.inputs({"x": values}), outputs=wanted)
        self.assertEqual([each["name"] for each in one.get_response()["outputs"]], ["same"])

    def test_kernels_have_versions(self):
        nets = {}
        for version in (1, 2):
            folder = self.folder / "rolled" / str(version)
            folder.mkdir(parents=True)
            net = model_shapes.Net()
            y = net("Add", net.input("x", [1, 3]), net.constant(np.full((1, 3), version, np.float32)))
            nets[version] = net.model(y=y)
            onnx.save(nets[version], str(folder / "model.onnx"))
        said = self.deploy(self.folder / "rolled", "--engine", "kernels", "--version-policy", "all")
        self.assertEqual(said.returncode, 0, said.stderr)
        client, values = self.client(), np.zeros((1, 3), np.float32)
        for version, added in (("1", 1), ("2", 2), ("", 2)):
            result = client.infer("rolled", self.inputs({"x": values}), model_version=version)
            np.testing.assert_array_equal(result.as_numpy("y"), values + added)
            self.assertEqual(result.get_response()["model_version"], str(added))
        self.assertEqual(client.get_model_metadata("rolled")["versions"], ["1", "2"])
        with self.assertRaisesRegex(InferenceServerException, r"\[404\].*no version 3; it has 1,2"):
            client.infer("rolled", self.inputs({"x": values}), model_version="3")

    def test_tritons_client_sees_the_model(self):
        client = self.client()
        self.assertTrue(client.is_model_ready("small"))
        self.assertEqual(client.get_model_metadata("small", "1")["platform"], "lambent_kernels")
        self.assertEqual(client.get_model_config("small")["input"][0]["dims"], [2, 4])
        index = {model["name"]: model for model in client.get_model_repository_index()}
        self.assertEqual({**index["small"], "tier": ""}, {"name": "small", "version": "1", "state": "READY", "reason": "", "tier": ""})
        self.assertIn(index["small"]["tier"], ("device", "host", "disk"))
        client.load_model("small")
        before = client.get_inference_statistics("small")["model_stats"][0]["inference_count"]
        client.infer("small", self.inputs({"x": np.ones((2, 4), dtype=np.float32)}))
        self.assertEqual(client.get_inference_statistics("small")["model_stats"][0]["inference_count"], before + 1)

    def test_what_a_client_unloaded_is_not_ready_until_it_is_loaded(self):
        client = self.client()
        client.infer("small", self.inputs({"x": np.ones((2, 4), dtype=np.float32)}))
        client.unload_model("small")
        self.assertFalse(client.is_model_ready("small"))
        self.worker.wait_for(lambda: {"UNAVAILABLE"} == {each["state"] for each in client.get_model_repository_index() if each["name"] == "small"},
                             what="the model to leave memory")
        client.load_model("small")
        self.assertTrue(client.is_model_ready("small"))

    def test_the_tensors_of_a_run_may_be_longer_than_an_event(self):
        net = model_shapes.Net()
        x = net.input("x", ["n", 2**19])
        onnx.save(net.model(y=net("Add", x, x)), str(self.folder / "long.onnx"))
        said = self.deploy(self.folder / "long.onnx", "--engine", "kernels", "--max-batch-size", "16")
        self.assertEqual(said.returncode, 0, said.stderr)
        values = np.random.default_rng(2).standard_normal((16, 2**19)).astype(np.float32)
        result = self.client().infer("long", self.inputs({"x": values}), outputs=[triton.InferRequestedOutput("y", binary_data=True)])
        np.testing.assert_array_equal(result.as_numpy("y"), values + values)

    def test_errors_have_the_protocols_form_and_status(self):
        client, values = self.client(), np.ones((2, 4), dtype=np.float32)
        for message, call in (
                (r"\[404\] .*no version 9", lambda: client.infer("small", self.inputs({"x": values}), model_version="9")),
                (r"\[400\] input 'x': shape is \[1,4\], the model's is \[2,4\]",
                 lambda: client.infer("small", self.inputs({"x": values[:1]}))),
                (r"\[400\] input 'z': the model has no such input", lambda: client.infer("small", self.inputs({"z": values}))),
                (r"\[400\] output 'z': the model has no such output",
                 lambda: client.infer("small", self.inputs({"x": values}), outputs=[triton.InferRequestedOutput("z")]))):
            with self.assertRaisesRegex(InferenceServerException, message):
                call()
        client.infer("small", self.inputs({"x": values}))

    def test_what_has_no_kernels_is_named_with_its_place(self):
        onnx.save(odd_net(), str(self.folder / "odd.onnx"))
        refused = self.deploy(self.folder / "odd.onnx", "--engine", "kernels", "--dry-run")
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stderr, r"operators without kernels: node 1, Bernoulli 'Bernoulli_1', which makes 't1_0'")
        chosen = self.deploy(self.folder / "odd.onnx", "--engine", "auto", "--dry-run")
        self.assertIn("warning: onnxruntime serves it: operators without kernels: node 1, Bernoulli", chosen.stderr)

    def test_weights_that_no_package_holds_lie_in_a_volume(self):
        net, random_numbers = model_shapes.Net(), np.random.default_rng(5)
        path = self.folder / "large.onnx"
        onnx.save(net.model(y=net("MatMul", net.input("x", [1, 4096]), net.weight(4096, 4096))), path)  # 64 MiB
        planned = self.deploy(path, "--engine", "kernels", "--dry-run")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertIn("would put 64 MiB into volume large-weights", planned.stdout)
        self.assertNotIn("large-weights", [each["name"] for each in self.worker.request("GET", "/v1/volumes").json["volumes"]])
        deployed = self.deploy(path, "--engine", "kernels")
        self.assertEqual(deployed.returncode, 0, deployed.stderr)
        self.assertIn("x FP32[1,4096] -> y FP32[1,4096]", deployed.stdout)
        x = random_numbers.standard_normal((1, 4096)).astype(np.float32)
        expected = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]
        np.testing.assert_allclose(self.client().infer("large", self.inputs({"x": x})).as_numpy("y"), expected, rtol=1e-3, atol=1e-3)
        # Nothing of it is sent again, and the package is small.
        again = self.deploy(path, "--engine", "kernels")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertRegex(again.stderr, "large-weights: .*unchanged")
        self.assertIn("unchanged large", again.stdout)
        code = {each.parent.name for each in (self.folder / "state/code").glob("*/graph.json")}
        sizes = [sum(each.stat().st_size for each in (self.folder / "state/code" / name).rglob("*")) for name in code]
        self.assertLess(max(sizes), 32 << 20)

    def test_a_manifest_chooses_the_engine_too(self):
        folder = self.folder / "own"
        folder.mkdir()
        onnx.save(small_net(), str(folder / "model.onnx"))
        (folder / "lambent.toml").write_text('kind = "model"\nname = "own"\nengine = "auto"\nshapes = ["x=3,4"]\nweight = 2\n'
                                             '[gpu]\nshare = 50\n')
        deployed = self.deploy(folder)
        self.assertEqual(deployed.returncode, 0, deployed.stderr)
        self.assertIn("x FP32[3,4]", deployed.stdout)
        values = np.ones((3, 4), dtype=np.float32)
        np.testing.assert_array_equal(self.client().infer("own", self.inputs({"x": values})).as_numpy("same").ravel(), values.ravel())

    def test_a_file_that_is_no_model_is_told_and_leaves_nothing(self):
        whole = small_net().SerializeToString()
        for name, content in (("none", b"no protocol buffer"), ("cut", whole[:len(whole) // 2]), ("empty", b"")):
            path = self.folder / f"{name}.onnx"
            path.write_bytes(content)
            refused = self.deploy(path, "--engine", "kernels")
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(f"{path} ", refused.stderr)
            self.assertNotIn("Traceback", refused.stderr)
            with self.assertRaisesRegex(InferenceServerException, r"\[404\]"):
                self.client().get_model_metadata(name)


class BatchTest(Harness):
    """Kernels for several batch sizes: each request runs the smallest that holds it, and several run as one."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        onnx.save(small_net(), str(cls.folder / "small.onnx"))
        cls.said = cls.deploy(cls.folder / "small.onnx", "--engine", "kernels", "--max-batch-size", "6")
        assert cls.said.returncode == 0, cls.said.stderr
        cls.session = onnxruntime.InferenceSession(str(cls.folder / "small.onnx"))

    def check(self, client, values, binary=True):
        expected = self.session.run(None, {"x": values})
        result = client.infer("small", self.inputs({"x": values}, binary))
        np.testing.assert_allclose(result.as_numpy("y"), expected[0], rtol=1e-5)
        np.testing.assert_array_equal(result.as_numpy("same"), expected[1])

    def test_deploying_tells_that_the_first_dimension_is_open(self):
        self.assertIn("x FP32[-1,4] -> y FP32[-1,3], same FP32[-1,2,2]", self.said.stdout)

    def test_answers_have_as_many_elements_as_requests(self):
        client, chance = self.client(), np.random.default_rng(2)
        for elements in (1, 2, 3, 4, 5, 6, 1):
            for binary in (True, False):
                self.check(client, chance.standard_normal((elements, 4)).astype(np.float32), binary)
        config = client.get_model_config("small")
        self.assertEqual((config["max_batch_size"], config["input"][0]["dims"]), (6, [4]))

    def test_what_no_variant_holds_is_refused(self):
        client = self.client()
        for shape, words in (((7, 4), r"\[400\] input 'x': its first dimension is 7; this model takes at most 6"),
                             ((0, 4), r"\[400\] the inputs have no common first dimension of 1 element or more"),
                             ((2, 3), r"\[400\] input 'x': shape is \[2,3\], the model's is \[-1,4\]")):
            with self.assertRaisesRegex(InferenceServerException, words):
                client.infer("small", self.inputs({"x": np.zeros(shape, np.float32)}))

    def test_requests_that_come_together_run_together(self):
        before = self.client().get_inference_statistics("small")["model_stats"][0]
        failures = []

        def ask(seed):
            client, chance = self.client(), np.random.default_rng(seed)
            try:
                for _ in range(20):
                    self.check(client, chance.standard_normal((chance.integers(1, 3), 4)).astype(np.float32))
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        after = self.client().get_inference_statistics("small")["model_stats"][0]
        runs, requests = (after["execution_count"] - before["execution_count"],
                          after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"])
        self.assertEqual(requests, 160)
        self.assertLess(runs, requests)
        self.assertGreater(max(each["batch_size"] for each in after["batch_stats"]), 2)

    def test_all_variants_have_one_copy_of_the_weights(self):
        net = model_shapes.Net()
        x = net.input("x", ["n", 64])
        onnx.save(net.model(y=net("MatMul", net("MatMul", x, net.weight(64, 512)), net.weight(512, 8))), str(self.folder / "wide.onnx"))
        sizes = {}
        for most in ((), ("--max-batch-size", "8")):
            before = set((self.folder / "state/code").iterdir())
            deployed = self.deploy(self.folder / "wide.onnx", "--engine", "kernels", *most)
            self.assertEqual(deployed.returncode, 0, deployed.stderr)
            package, = (each for each in (self.folder / "state/code").iterdir() if each.is_dir() and each not in before)
            sizes[bool(most)] = sum(each.stat().st_size for each in package.glob("constants/*"))
        self.assertGreater(sizes[False], 64 * 512 * 4)
        self.assertLess(sizes[True], 1.01 * sizes[False])

    def test_a_model_without_an_open_dimension_is_refused_with_its_place(self):
        net = model_shapes.Net()
        onnx.save(net.model(y=net("Relu", net.input("x", [2, 4]))), str(self.folder / "closed.onnx"))
        refused = self.deploy(self.folder / "closed.onnx", "--engine", "kernels", "--max-batch-size", "4")
        self.assertIn("input 'x': batches need a first dimension that is open", refused.stderr)
        net = model_shapes.Net()
        onnx.save(net.model(y=net("ReduceSum", net.input("x", ["n", 4]), net.constant(np.array([0])), keepdims=1)), str(self.folder / "sum.onnx"))
        refused = self.deploy(self.folder / "sum.onnx", "--engine", "kernels", "--max-batch-size", "4")
        self.assertIn("output 'y': its shape for a batch of 2 is [1, 4]; batches need outputs of as many elements", refused.stderr)

    def test_a_manifest_and_tritons_configuration_say_it_too(self):
        folder = self.folder / "batched/1"
        folder.mkdir(parents=True)
        onnx.save(small_net(), str(folder / "model.onnx"))
        (self.folder / "batched/config.pbtxt").write_text(
            'platform: "onnxruntime_onnx"\nmax_batch_size: 4\ndynamic_batching { max_queue_delay_microseconds: 500 }\n')
        deployed = self.deploy(self.folder / "batched", "--engine", "kernels")
        self.assertEqual(deployed.returncode, 0, deployed.stderr)
        config = self.client().get_model_config("batched")
        self.assertEqual(config["max_batch_size"], 4)
        self.assertEqual(config["dynamic_batching"], {"max_queue_delay_microseconds": 500})
        values = np.ones((3, 4), np.float32)
        np.testing.assert_allclose(self.client().infer("batched", self.inputs({"x": values})).as_numpy("y"),
                                   self.session.run(None, {"x": values})[0], rtol=1e-5)


class ShapesTest(Harness):
    """Models of true shapes, narrow ones, through the worker, each against onnxruntime."""

    def check(self, name, model, timeout_s=120):
        folder = self.folder / name
        folder.mkdir()
        path = folder / "model.onnx"
        onnx.save(model, str(path))
        (folder / "lambent.toml").write_text(f'kind = "model"\nname = "{name}"\nengine = "kernels"\ntimeout_s = {timeout_s}\n')
        deployed = self.deploy(folder)
        self.assertEqual(deployed.returncode, 0, deployed.stderr)
        session = onnxruntime.InferenceSession(str(path))
        random_numbers, values = np.random.default_rng(7), {}
        for each in session.get_inputs():
            shape = [1 if isinstance(extent, str) else extent for extent in each.shape]
            kind = TYPES[each.type]
            values[each.name] = (random_numbers.integers(0, 64, shape) if kind == np.int64
                                 else random_numbers.standard_normal(shape)).astype(kind)
        result = self.client().infer(name, self.inputs(values))
        for output, expected in zip(session.get_outputs(), session.run(None, values)):
            np.testing.assert_allclose(result.as_numpy(output.name), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
        # A token that there is not reads the nearest one, and the memory of no one else.
        if "tokens" in values:
            wild = self.client().infer(name, self.inputs({"tokens": np.full_like(values["tokens"], 2**40)}))
            self.assertEqual(len(wild.get_response()["outputs"]), len(session.get_outputs()))

    def check_whole(self, name):
        self.check(f"whole-{name}", model_shapes.WHOLE_AS_KERNELS[name](), 300)
        volumes = {each["name"]: each for each in self.worker.request("GET", "/v1/volumes").json["volumes"]}
        if name in IN_VOLUMES_MIB:
            self.assertGreater(volumes[f"whole-{name}-weights"]["size_bytes"], IN_VOLUMES_MIB[name] << 20)
        else:
            self.assertNotIn(f"whole-{name}-weights", volumes)


for tried in TRIED:
    setattr(ShapesTest, f"test_{tried}_answers_as_onnxruntime_does", lambda self, name=tried: self.check(name, model_shapes.SMALL[name]()))
for tried in model_shapes.WHOLE_AS_KERNELS if WHOLE else ():
    setattr(ShapesTest, f"test_{tried}_of_true_shape_answers_as_onnxruntime_does", lambda self, name=tried: self.check_whole(name))


class HalfTest(Harness):
    """Weights of 16 bits, against onnxruntime with the file's own."""

    def test_weights_take_half_and_answers_stay_close(self):
        path = self.folder / "half.onnx"
        onnx.save(model_shapes.SMALL["gpt"](), str(path))
        sizes = {}
        for precision in ((), ("--precision", "fp16")):
            deployed = self.deploy(path, "--engine", "kernels", *precision)
            self.assertEqual(deployed.returncode, 0, deployed.stderr)
            sizes[bool(precision)] = sum(each.stat().st_size for each in (self.folder / "state/code").glob("*/constants/*"))
        session = onnxruntime.InferenceSession(str(path))
        values = {each.name: np.random.default_rng(7).integers(0, 64, [1 if isinstance(extent, str) else extent for extent in each.shape])
                  for each in session.get_inputs()}
        expected = session.run(None, values)[0]
        result = self.client().infer("half", self.inputs(values)).as_numpy(session.get_outputs()[0].name)
        self.assertEqual(result.dtype, np.float32)
        np.testing.assert_allclose(result, expected, rtol=0, atol=5e-3 * np.abs(expected).max())
        self.assertGreater(np.abs(result - expected).max(), 0, "the weights were rounded")
        # The files of both revisions: the second has little more than half of the first.
        self.assertLess(sizes[True] - sizes[False], 0.6 * sizes[False])

    def test_a_model_of_fp16_takes_and_gives_fp16(self):
        random_numbers = np.random.default_rng(3)
        weight = onnx.numpy_helper.from_array(random_numbers.standard_normal((8, 4)).astype(np.float16), "w")
        nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
        tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape) for name, shape in (("x", [2, 8]), ("y", [2, 4]))]
        graph = helper.make_graph(nodes, "graph", tensors[:1], tensors[1:], [weight])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(self.folder / "small16.onnx"))
        deployed = self.deploy(self.folder / "small16.onnx", "--engine", "kernels")
        self.assertEqual(deployed.returncode, 0, deployed.stderr)
        self.assertIn("x FP16[2,8] -> y FP16[2,4]", deployed.stdout)
        x = random_numbers.standard_normal((2, 8)).astype(np.float16)
        expected = onnxruntime.InferenceSession(str(self.folder / "small16.onnx")).run(None, {"x": x})[0]
        result = self.client().infer("small16", self.inputs({"x": x})).as_numpy("y")
        self.assertEqual(result.dtype, np.float16)
        np.testing.assert_allclose(result, expected, rtol=1e-2, atol=1e-2)
        with self.assertRaisesRegex(InferenceServerException, r"\[400\] input 'x'"):
            self.client().infer("small16", self.inputs({"x": x.astype(np.float32)}))

    def test_weights_that_16_bits_cannot_hold_are_refused_with_their_place(self):
        net = model_shapes.Net()
        y = net("MatMul", net.input("x", [2, 2]), net.constant(np.array([[1, 2], [3, 1e5]], dtype=np.float32)))
        onnx.save(net.model(y=y), str(self.folder / "wide.onnx"))
        refused = self.deploy(self.folder / "wide.onnx", "--engine", "kernels", "--precision", "fp16")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("node 0, MatMul 'MatMul_0', which makes 't0_0': its weight 'w0' has 100000, and FP16 holds at most 65504", refused.stderr)
        unknown = self.deploy(self.folder / "wide.onnx", "--engine", "kernels", "--precision", "fp8")
        self.assertIn("fp8", unknown.stderr)


class PackagesTest(unittest.TestCase):
    def test_pip_and_uv_install_the_same(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        said = tomllib.loads((root / "python/pyproject.toml").read_text())["project"]["optional-dependencies"]["onnx"]
        lines = (root / "python/lambent/onnx/requirements.txt").read_text().splitlines()
        self.assertEqual([line for line in lines if not line.startswith("#")], said)


class OperatorsTest(unittest.TestCase):
    """ONNX's own tests of nodes: one of some operators here; tests/clients/kernel_operators.py has all."""

    def test_common_operators_pass_the_tests_of_onnx(self):
        operators = {"Add", "ArgMax", "Conv", "Gemm", "MatMul", "Relu", "Softmax", "Gather", "Reshape", "Transpose", "MaxPool"}
        results = kernel_operators.check(kernel_operators.node_cases(1, operators), say=lambda *words, **more: None)
        self.assertEqual(set(results), operators)
        self.assertEqual({name: said for each in results.values() for name, said in each.items() if said}, {})

    def test_operators_that_are_written_in_other_words_pass_them_too(self):
        # The size of a window is an input in these tests, which kernels cannot have.
        operators = {*rules.RULES, *rewrite.FUNCTIONS} - {"BlackmanWindow", "HammingWindow", "HannWindow"}
        results = kernel_operators.check(kernel_operators.node_cases(1, operators), say=lambda *words, **more: None)
        self.assertEqual(set(results), operators)
        self.assertEqual({name: said for each in results.values() for name, said in each.items() if said}, {})

    def test_the_page_has_what_the_tests_say(self):
        text = (ROOT / "docs/reference/model-operators.md").read_text()
        if WHOLE:
            self.assertEqual(text, kernel_operators.page(kernel_operators.check(kernel_operators.node_cases(kernel_operators.EACH, set()))))
        listed = kernel_operators.listed(text)
        cases = kernel_operators.node_cases(1, set())
        self.assertEqual({name for names in listed.values() for name in names}, set(cases))
        for operator, (case,) in cases.items():
            with self.subTest(operator):
                try:
                    kernel_operators.lowered(case)
                    self.assertNotIn(operator, listed["None pass"])
                except (ModelError, OSError) as error:
                    self.assertNotIn(operator, listed["All tests pass"], error)

    def test_places_are_those_of_the_file_where_nodes_were_written_in_other_words(self):
        net = model_shapes.Net()
        x = net("Celu", net("TopK", net.input("x", [1, 4, 4]), net.constant(np.array([4])), outputs=2)[0])
        model = net.model(y=net("Det", x))
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, folder + "/model.onnx")
            with self.assertRaisesRegex(NotCovered, "operators without kernels: node 2, Det 'Det_2'"):
                lower.lower(models.load(folder + "/model.onnx", {}, 1))

    def test_what_is_compared_pair_by_pair_has_a_bound(self):
        net = model_shapes.Net()
        model = net.model(y=net("TopK", net.input("x", [1, rules.COMPARED + 1]), net.constant(np.array([2])), outputs=2)[0])
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, folder + "/model.onnx")
            with self.assertRaisesRegex(NotCovered, "topk"):
                lower.lower(models.load(folder + "/model.onnx", {}, 1))

    @staticmethod
    def recurrent_net(steps):
        """An LSTM both ways whose sequences have lengths of their own, GRUs of both forms, an LSTM that goes on from a state and looks at its
        cell, and a plain layer."""
        net, wide = model_shapes.Net(), 6
        x, lengths = net.input("x", [steps, 2, 5]), net.input("lengths", [2], TensorProto.INT32)
        both, _, cell = net("LSTM", x, net.weight(2, 4 * wide, 5), net.weight(2, 4 * wide, wide), net.weight(2, 8 * wide), lengths,
                            outputs=3, hidden_size=wide, direction="bidirectional")
        flat = net("Reshape", net("Transpose", both, perm=[0, 2, 1, 3]), net.constant(np.array([steps, 2, 2 * wide])))
        back, last = net("GRU", flat, net.weight(1, 3 * wide, 2 * wide), net.weight(1, 3 * wide, wide), net.weight(1, 6 * wide),
                         outputs=2, hidden_size=wide, direction="reverse", linear_before_reset=1)
        one, state = net.constant(np.array([1])), [net.weight(1, wide, wide), net.weight(1, wide, wide)]
        ahead = net("GRU", net("Squeeze", back, one), net.weight(1, 3 * wide, wide), net.weight(1, 3 * wide, wide), net.weight(1, 6 * wide),
                    hidden_size=wide)
        seen, _, seen_cell = net("LSTM", net("Squeeze", ahead, one), net.weight(1, 4 * wide, wide), net.weight(1, 4 * wide, wide),
                                 net.weight(1, 8 * wide), "", last, net.weight(1, 2, wide), net.weight(1, 3 * wide), outputs=3, hidden_size=wide)
        y = net("RNN", net("Squeeze", seen, one), *state, "", "", last, hidden_size=wide, activations=["Relu"])
        return net.model(y=y, cell=cell, seen=seen_cell)

    def test_recurrent_layers_answer_as_onnxruntime_does(self):
        steps = 3
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/model.onnx"
            onnx.save(self.recurrent_net(steps), path)
            program = lower.lower(models.load(path, {}, 1))
            values = [np.random.default_rng(steps).standard_normal((steps, 2, 5)).astype(np.float32), np.array([steps, steps - 2], np.int32)]
            made = kernel_operators.run(program, kernel_operators.compiled(program.source, folder), values)
            expected = onnxruntime.InferenceSession(path).run(None, dict(zip(("x", "lengths"), values)))
        for its, wanted in zip(made, expected):
            np.testing.assert_allclose(its, wanted, rtol=1e-4, atol=1e-5)

    def test_the_steps_of_a_recurrent_layer_share_kernels(self):
        kernels = []
        for steps in (4, 6):
            net = model_shapes.Net()
            y = net("RNN", net.input("x", [steps, 1, 2]), net.weight(1, 3, 2), net.weight(1, 3, 3), hidden_size=3)
            with tempfile.TemporaryDirectory() as folder:
                onnx.save(net.model(y=y), folder + "/model.onnx")
                kernels.append(len(lower.lower(models.load(folder + "/model.onnx", {}, 1)).kernels))
        self.assertEqual(*kernels)

    def test_sequences_that_are_too_long_are_refused_by_name(self):
        net = model_shapes.Net()
        x = net.input("x", [recurrent.STEPS + 1, 1, 2])
        model = net.model(y=net("GRU", x, net.weight(1, 9, 2), net.weight(1, 9, 3), hidden_size=3))
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, folder + "/model.onnx")
            with self.assertRaisesRegex(NotCovered, "operators without kernels: node 0, GRU 'GRU_0'"):
                lower.lower(models.load(folder + "/model.onnx", {}, 1))

    def test_factors_of_spectra_are_those_of_a_fast_transform(self):
        rng = np.random.default_rng(4)
        for length, points, parts, is_inverse, is_one_sided in itertools.product(
                (8, 9), (5, 6, 8, 9, 11), (1, 2), (False, True), (False, True)):
            value = rng.standard_normal((points, parts))
            whole = value[:, 0] + (1j * value[:, 1] if parts == 2 else 0)
            if is_inverse:
                wanted = np.fft.irfft(whole, length) if is_one_sided else np.fft.ifft(whole, length)
            else:
                wanted = np.fft.fft(whole, length)[:length // 2 + 1 if is_one_sided else length]
            factors, count, parts_made = signals._factors(length, points, parts, is_inverse, is_one_sided)
            made = (value.reshape(-1) @ factors).reshape(count, parts_made)
            np.testing.assert_allclose(made[:, 0] + (1j * made[:, 1] if parts_made == 2 else 0), wanted, atol=1e-12,
                                       err_msg=str((length, points, parts, is_inverse, is_one_sided)))

    def test_sums_of_quantised_convolutions_are_exact_with_their_bias(self):
        # -16,776,450 and 16,777,217, which 24 bits do not hold: 767, of which 1,533 rounds to 1; 766 would be 0.
        channels, info = 258, helper.make_tensor_value_info
        values = {"x_scale": np.float32(1), "x_zero": np.uint8(255), "w": np.full((1, channels, 1, 1), 255, np.uint8), "w_scale": np.float32(1),
                  "w_zero": np.uint8(0), "y_scale": np.float32(1533), "y_zero": np.uint8(0), "bias": np.array([2**24 + 1], np.int32)}
        x = np.zeros((1, channels, 1, 1), np.uint8)
        graph = helper.make_graph([helper.make_node("QLinearConv", ["x", *values], ["y"])], "net",
                                       [info("x", TensorProto.UINT8, x.shape)], [info("y", TensorProto.UINT8, [1, 1, 1, 1])],
                                       [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        rewrite.rewrite(model)
        self.assertEqual(ReferenceEvaluator(model).run(None, {"x": x})[0].item(), 1)

    def test_whole_powers_of_64_bits_are_not_made_in_53(self):
        kinds, info = TensorProto, helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("Pow", ["x", "power"], ["y"])], "net", [
            info("x", kinds.INT64, [3]), info("power", kinds.INT32, [3])], [info("y", kinds.INT64, [3])])
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), folder + "/model.onnx")
            with self.assertRaisesRegex(NotCovered, "node 0, Pow"):
                lower.lower(models.load(folder + "/model.onnx", {}, 1))

    def test_a_window_of_known_size_is_a_constant(self):
        net = model_shapes.Net()
        model = net.model(y=net("Mul", net.input("x", [1, 8]), net("HannWindow", net.constant(np.array(8)))))
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/model.onnx"
            onnx.save(model, path)
            program, value = lower.lower(models.load(path, {}, 1)), np.ones((1, 8), np.float32)
            made = kernel_operators.run(program, kernel_operators.compiled(program.source, folder), [value])[0]
            np.testing.assert_allclose(made, onnxruntime.InferenceSession(path).run(None, {"x": value})[0], rtol=1e-5, atol=1e-6)

    def test_short_sums_take_a_thread_each(self):
        """A block for each number, most of whose threads have nothing to add, took MobileNetV2 minutes."""
        def channels(net):
            y = net.norm(net.conv(net.input("x", [1, 16, 48, 48]), 16, 16, 3, groups=16), 16)
            return net("Clip", y, net.constant(np.float32(0)), net.constant(np.float32(6)))

        def window(net):
            return net("MaxPool", net.input("x", [1, 16, 48, 48]), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

        value = np.random.default_rng(2).standard_normal((1, 16, 48, 48)).astype(np.float32)
        for layer in (channels, window):
            with self.subTest(layer.__name__), tempfile.TemporaryDirectory() as folder:
                net, path = model_shapes.Net(), folder + "/model.onnx"
                onnx.save(net.model(y=layer(net)), path)
                program = lower.lower(models.load(path, {}, 1))
                expected = onnxruntime.InferenceSession(path).run(None, {"x": value})[0]
                launch, = program.launches
                threads = np.prod(launch.grid) * np.prod(launch.block)
                self.assertLess(threads, expected.size + np.prod(launch.block))
                made = kernel_operators.run(program, kernel_operators.compiled(program.source, folder), [value])[0]
                np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)

    def test_short_rows_share_a_block(self):
        """Softmax of rows of 16, with 256 threads each, took sixteen times as many threads as there are numbers."""
        net, lengths, outputs = model_shapes.Net(), (1, 7, 16, 33, 128, 256, 1000), {}
        for length in lengths:
            x = net.input("x%d" % length, [2, 3, 10, length])
            outputs["softmax%d" % length] = net("Softmax", x, axis=-1)
            outputs["normal%d" % length] = net("LayerNormalization", x, *(
                net.constant(np.linspace(begin, 1, length, dtype=np.float32)) for begin in (-1, 0)))
        rng = np.random.default_rng(5)
        values = [rng.standard_normal((2, 3, 10, length)).astype(np.float32) for length in lengths]

        def with_blocks_of_their_own():
            return [each for each in schedules.rules() if not isinstance(each._rule, schedules._Rows)]

        def made_by(program, folder):
            folder.mkdir()
            return kernel_operators.run(program, kernel_operators.compiled(program.source, folder), values)

        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/model.onnx"
            onnx.save(net.model(**outputs), path)
            program = lower.lower(models.load(path, {}, 1))
            made = made_by(program, pathlib.Path(folder) / "together")
            with unittest.mock.patch.object(lower, "rules", with_blocks_of_their_own):
                own = made_by(lower.lower(models.load(path, {}, 1)), pathlib.Path(folder) / "own")
            expected = onnxruntime.InferenceSession(path).run(None, {"x%d" % length: value for length, value in zip(lengths, values)})
        for name, its, before, wanted in zip(outputs, made, own, expected):
            with self.subTest(name):
                np.testing.assert_allclose(its, wanted, rtol=1e-4, atol=1e-5)
                np.testing.assert_array_equal(its, before)
        for launch in program.launches:
            elements = max(np.prod(program.tensors[each.number].shape) for each in launch.arguments if isinstance(each, lower.Tensor))
            with self.subTest(launch.kernel, elements=elements):
                threads = np.prod(launch.grid) * np.prod(launch.block)
                self.assertLessEqual(threads, max(2 * elements, 1024) if elements <= 60 * 128 else 60 * 256)

    def test_rows_of_a_block_are_whole_in_their_dimensions(self):
        for extents, most, found in (([2, 3, 10], 16, (1, 1)), ([2, 3, 10], 4, (2, 2)), ([2, 3, 10], 32, (0, 1)), ([2, 3, 10], 256, (0, 2)),
                                     ([7, 12], 8, (1, 6)), ([13], 8, (0, 1)), ([13], 16, (0, 13))):
            self.assertEqual(schedules._rows_together(extents, most), found, (extents, most))

    def test_a_convolution_has_what_follows_from_it_in_its_kernel(self):
        """Also where its normalisation is no part of its weights, because a bias stands between them."""
        net, value = model_shapes.Net(), np.random.default_rng(3).standard_normal((1, 8, 16, 16)).astype(np.float32)
        y = net("Relu", net.norm(net.conv(net.input("x", [1, 8, 16, 16]), 8, 8, 3, bias=True), 8))
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/model.onnx"
            onnx.save(net.model(y=y), path)
            program = lower.lower(models.load(path, {}, 1))
            self.assertEqual(len(program.launches), 1)
            made = kernel_operators.run(program, kernel_operators.compiled(program.source, folder), [value])[0]
            np.testing.assert_allclose(made, onnxruntime.InferenceSession(path).run(None, {"x": value})[0], rtol=1e-4, atol=1e-5)

    def test_what_the_compiler_computes_otherwise_is_refused(self):
        def resized(scales, **attributes):
            net = model_shapes.Net()
            return net.model(y=net("Resize", net.input("x", [1, 1, 4, 4]), "", net.constant(np.array(scales, np.float32)), **attributes))

        whole, part = [1, 1, 2, 2], [1, 1, 0.6, 0.6]
        for model, words in ((resized(part, mode="linear"), "scales that are no whole numbers"), (resized(whole, mode="cubic"), "'cubic'")):
            with self.assertRaisesRegex(NotCovered, words), tempfile.TemporaryDirectory() as folder:
                onnx.save(model, folder + "/model.onnx")
                models.load(folder + "/model.onnx", {}, 1)
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(resized(whole, mode="linear"), folder + "/model.onnx")
            models.load(folder + "/model.onnx", {}, 1)


class ForeignBytesTest(unittest.TestCase):
    """Files that were changed at random: each is a model, or is refused by a ModelError; it is read within limits."""

    def outcome(self, path):
        """In a process, which may break down and is then gone."""
        child = os.fork()
        if child == 0:
            code = 9
            try:
                os.close(2)
                lower.lower(models.load(path, {}, 1))
                code = 0
            except ModelError:
                code = 1
            except BaseException:
                code = 2
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def test_changed_files_are_models_or_are_refused(self):
        seed = int(os.environ.get("LAMBENT_SEED", "20261128"))
        chance, whole, outcomes = random.Random(seed), small_net().SerializeToString(), []
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            for round_ in range(300 if WHOLE else 60):
                pathlib.Path(path).write_bytes(onnx_mutations.changed(whole, chance))
                outcomes.append(self.outcome(path))
                self.assertIn(outcomes[-1], (0, 1), f"LAMBENT_SEED={seed}, file {round_}")
        self.assertIn(1, outcomes)

    def test_a_model_that_asks_for_terabytes_is_refused(self):
        net = model_shapes.Net()
        x = net.input("x", [1, 4])
        huge = net("Expand", x, net.constant(np.array([2**20, 2**20, 4])))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            onnx.save(net.model(y=huge), path)
            with self.assertRaises(ModelError):
                lower.lower(models.load(path, {}, 1))
            onnx.save(helper.make_model(helper.make_graph(
                [helper.make_node("Relu", ["x"], ["y"])], "g",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2**40, 2**40])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2**40, 2**40])]), ir_version=8), path)
            with self.assertRaisesRegex(ModelError, "input 'x': dimension 0 is 1099511627776"):
                models.load(path, {}, 1)

    def test_external_data_that_lies_is_refused(self):
        def net(location, offset=None, length=None):
            weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
            for key, value in (("location", location), ("offset", offset), ("length", length)):
                if value is not None:
                    weight.external_data.add(key=key, value=str(value))
            tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
            graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", tensors[:1], tensors[1:], [weight])
            return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        with tempfile.TemporaryDirectory() as outside:
            folder = pathlib.Path(outside) / "in"
            (folder / "folder").mkdir(parents=True)
            (folder / "w.data").write_bytes(bytes(16))
            (folder / "cut.data").write_bytes(bytes(15))
            (folder.parent / "out.data").write_bytes(bytes(16))
            (folder / "link.data").symlink_to(folder.parent / "out.data")
            os.mkfifo(folder / "pipe")
            path = str(folder / "model.onnx")
            onnx.save(net("w.data", 0, 16), path)
            models.load(path, {}, 1)
            for place in (("none.data",), ("../out.data",), (str(folder.parent / "out.data"),), ("link.data",), ("folder",), ("pipe",), ("",), (None,),
                          ("cut.data",), ("w.data", 8, 16), ("w.data", 2**62, 16), ("w.data", -1, 16), ("w.data", 0, 2**62), ("w.data", 0, 8),
                          ("w.data", "x", 16)):
                onnx.save(net(*place), path)
                with self.subTest(place), self.assertRaisesRegex(ModelError, "is no model of ONNX"):
                    models.load(path, {}, 1)

    def test_a_file_of_terabytes_is_refused_unread(self):
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            os.truncate(file.name, 2**40)
            with self.assertRaisesRegex(ModelError, "has 1099511627776 bytes; a model has 1 to 2147483647"):
                models.load(file.name, {}, 1)

    def test_names_that_are_there_twice_or_nowhere_are_refused(self):
        def net(inputs=("x",), outputs=("y",), weights=("w",)):
            def info(name):
                return helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])
            graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [info(each) for each in inputs],
                                      [info(each) for each in outputs],
                                      [onnx.numpy_helper.from_array(np.ones(4, np.float32), each) for each in weights])
            return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            onnx.save(net(), path)
            lower.lower(models.load(path, {}, 1))
            for given in ({"inputs": ("x", "x")}, {"outputs": ("y", "y")}, {"weights": ("w", "w")}, {"weights": ()}, {"inputs": ()},
                          {"outputs": ("z",)}, {"outputs": ()}):
                onnx.save(net(**given), path)
                with self.subTest(given), self.assertRaises(ModelError):
                    lower.lower(models.load(path, {}, 1))

    def test_batches_that_no_run_can_have_are_refused_with_the_most_that_can(self):
        net = model_shapes.Net()
        one = models.RUN_BYTES // 6
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(net.model(y=net("Relu", net.input("x", ["n", one // 4]))), folder + "/model.onnx")
            most = models.RUN_BYTES / 2**20
            with self.assertRaisesRegex(NotCovered, "the inputs of a batch of 8 have %.1f MiB, and those of a run at most %d; at most 6 elements fit"
                                        % (8 * one / 2**20, most)):
                import_model(folder + "/model.onnx", folder + "/package", most=16)

    def test_open_dimensions_are_asked_for_by_name(self):
        net = model_shapes.Net()
        model = net.model(y=net("Relu", net.input("x", ["n", "length"])))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            onnx.save(model, path)
            with self.assertRaisesRegex(ModelError, r"input 'x': its dimension 1 is open \('length'\).*--shape x=1,16"):
                models.load(path, {}, 1)
            with self.assertRaisesRegex(ModelError, "there is no input 'z'; the model has x"):
                models.load(path, {"z": (1,)}, 1)
            loaded = models.load(path, models.parse_shapes(["x=2,5"]), 1)
            self.assertEqual([each.dim_value for each in loaded.graph.input[0].type.tensor_type.shape.dim], [2, 5])
            for word in ("x", "x=0,1", "=3", "x=a"):
                with self.assertRaisesRegex(ModelError, "is no shape"):
                    models.parse_shapes([word])

    def test_graphs_within_graphs_and_foreign_domains_are_named(self):
        inner = helper.make_graph([helper.make_node("Constant", [], ["c"], value_float=1.0)], "inner", [],
                                  [helper.make_tensor_value_info("c", TensorProto.FLOAT, [])])
        for node, words in ((helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner), "graphs within the graph"),
                            (helper.make_node("Own", ["x"], ["y"], domain="mine"), "operators of the domain 'mine'"),
                            (helper.make_node("Shape", ["x"], ["y"]), "a shape that is an output")):
            graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.BOOL, [])],
                                      [helper.make_tensor_value_info("y", TensorProto.INT64, [0]) if node.op_type == "Shape"
                                       else helper.make_tensor_value_info("y", TensorProto.FLOAT, [])])
            opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model.onnx")
                onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
                with self.assertRaisesRegex(NotCovered, f"node 0, {node.op_type}, which makes 'y': {words}"):
                    lower.lower(models.load(path, {}, 1))


if __name__ == "__main__":
    unittest.main()
