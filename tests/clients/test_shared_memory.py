"""Tensors in system shared memory: Triton's own clients (HTTP and gRPC) and its `utils.shared_memory`, unmodified, for a model in a
sandbox and for a graph of kernels; and what a tenant may not do there."""
import contextlib
import json
import os
import pathlib
import pwd
import shutil
import tempfile
import unittest
import uuid

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from harness import PREFIX, Worker
from model_worker import EVERY_TYPE, UV, WEIGHTS, deploy_model, identity_model, lambent, matrix_model, write_library_wheel
from tenants import TokenWorker
from test_grpc_models import Front

MATMUL = PREFIX / "examples/07_kernel_matmul_chain"
USER = pwd.getpwuid(os.geteuid()).pw_name


class Region:
    """Shared memory of this process; unlinked in the end."""

    def __init__(self, test, byte_size):
        self.key = f"/lambent-test-{uuid.uuid4().hex}"
        self.name, self.byte_size = self.key.removeprefix("/"), byte_size
        self.handle = shm.create_shared_memory_region(self.name, self.key, byte_size, create_only=True)
        test.addCleanup(shm.destroy_shared_memory_region, self.handle)

    @property
    def path(self):
        return "/dev/shm" + self.key

    def register(self, client, offset=0, byte_size=None):
        client.register_system_shared_memory(self.name, self.key, byte_size or self.byte_size, offset=offset)

    def write(self, values, offset=0):
        shm.set_shared_memory_region(self.handle, [values], offset)

    def read(self, dtype, shape, offset=0):
        return np.array(shm.get_contents_as_numpy(self.handle, dtype, shape, offset))


class Harness(unittest.TestCase):
    @classmethod
    def start(cls, *flags, gpu):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-shared-memory-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.worker = Worker("--system-shared-memory", USER, *flags, gpu=gpu, folder=cls.folder)
        cls.addClassCleanup(cls.worker.close)
        cls.front = Front(cls.worker)
        cls.addClassCleanup(cls.close_front)

    @classmethod
    def start_with_library(cls):
        """For models in sandboxes, which take what stands for onnxruntime."""
        own = pathlib.Path(tempfile.mkdtemp(prefix="lambent-wheels-"))
        cls.addClassCleanup(shutil.rmtree, own, True)
        wheels = own / "wheels"
        wheels.mkdir()
        write_library_wheel(wheels)
        cls.start("--uv", str(UV), "--python-wheels", str(wheels), "--python-offline", gpu="none")

    @classmethod
    def close_front(cls):
        ended = cls.front.close()
        assert ended == (0, ""), ended

    def clients(self):
        """(module, client), by HTTP and then by gRPC."""
        for module, address in ((triton_http, self.worker.endpoint.removeprefix("http://")), (triton_grpc, self.front.address)):
            client = module.InferenceServerClient(address)
            self.addCleanup(client.close)
            yield module, client

    @staticmethod
    def shared_input(module, region, shape, name="x", datatype="FP32", byte_size=None, offset=0):
        given = module.InferInput(name, list(shape), datatype)
        given.set_shared_memory(region.name, byte_size or region.byte_size, offset)
        return given

    @staticmethod
    def sent_input(module, values, name="x", datatype="FP32"):
        given = module.InferInput(name, list(values.shape), datatype)
        given.set_data_from_numpy(values)
        return given

    @staticmethod
    def shared_output(module, region, name, byte_size=None, offset=0):
        wanted = module.InferRequestedOutput(name)
        wanted.set_shared_memory(region.name, byte_size or region.byte_size, offset)
        return wanted


@unittest.skipUnless(UV.exists(), "there is no uv in .venv")
class SandboxedModelTest(Harness):
    @classmethod
    def setUpClass(cls):
        cls.start_with_library()
        deploy_model(cls.worker, cls.folder / "scores.onnx", matrix_model(WEIGHTS))
        deploy_model(cls.worker, cls.folder / "types.onnx", identity_model(EVERY_TYPE))

    def test_the_extension_is_told_of(self):
        for _, client in self.clients():
            metadata = client.get_server_metadata()
            names = metadata["extensions"] if isinstance(metadata, dict) else metadata.extensions
            self.assertIn("system_shared_memory", names)

    def test_tensors_go_through_regions_and_not_through_the_request(self):
        for module, client in self.clients():
            values = np.random.default_rng(1).random((5, 4), dtype=np.float32)
            given, taken = Region(self, 200), Region(self, 100)
            given.write(values, 40)
            given.register(client, offset=8, byte_size=192)
            taken.register(client)
            x = self.shared_input(module, given, (5, 4), byte_size=80, offset=32)
            result = client.infer("scores", [x], outputs=[self.shared_output(module, taken, "scores", 64, 16)], request_id="7")
            np.testing.assert_allclose(taken.read(np.float32, (5, 3), 16), values @ WEIGHTS, rtol=1e-5)
            output = result.get_output("scores")
            if module is triton_http:
                self.assertEqual(output, {"name": "scores", "datatype": "FP32", "shape": [5, 3]})
                self.assertEqual(result.get_response()["id"], "7")
            else:
                self.assertEqual(output.parameters["shared_memory_region"].string_param, taken.name)
                self.assertEqual(output.parameters["shared_memory_byte_size"].int64_param, 64)
                self.assertEqual(result.get_response().id, "7")
            # One of both only.
            alone = client.infer("scores", [x])
            np.testing.assert_allclose(alone.as_numpy("scores"), values @ WEIGHTS, rtol=1e-5)
            client.infer("scores", [self.sent_input(module, values * 2)], outputs=[self.shared_output(module, taken, "scores")])
            np.testing.assert_allclose(taken.read(np.float32, (5, 3)), values * 2 @ WEIGHTS, rtol=1e-5)
            client.unregister_system_shared_memory()

    def test_shared_and_sent_tensors_stand_side_by_side_in_any_order(self):
        for module, client in self.clients():
            region = Region(self, 256)
            texts = np.array(["", "a", "größer"], dtype=np.object_)
            half, flags, long = np.array([[1.5, -2]], np.float16), np.array([True, False]), np.array([-(2**62), 2**62 + 1])
            serialized = b"".join(len(t.encode()).to_bytes(4, "little") + t.encode() for t in texts)
            region.write(np.frombuffer(serialized, np.uint8))
            region.write(long, 64)
            region.register(client)
            result = client.infer(
                "types", [self.shared_input(module, region, (3,), "text", "BYTES", len(serialized)),
                          self.sent_input(module, half, "half", "FP16"),
                          self.shared_input(module, region, (2,), "long", "INT64", 16, 64),
                          self.sent_input(module, flags, "flag", "BOOL")],
                outputs=[module.InferRequestedOutput("out_half"), self.shared_output(module, region, "out_text", 64, 128),
                         module.InferRequestedOutput("out_long"), self.shared_output(module, region, "out_flag", 2, 192)])
            self.assertEqual([t.decode() for t in region.read(np.object_, (3,), 128)], list(texts))
            np.testing.assert_array_equal(region.read(np.bool_, (2,), 192), flags)
            np.testing.assert_array_equal(result.as_numpy("out_half"), half)
            np.testing.assert_array_equal(result.as_numpy("out_long"), long)
            client.unregister_system_shared_memory(region.name)

    def test_tensors_larger_than_a_request_may_be(self):
        rows = 2_000_000
        for module, client in self.clients():
            given, taken = Region(self, rows * 16), Region(self, rows * 12)
            given.write(np.ones((rows, 4), np.float32))
            given.register(client)
            taken.register(client)
            client.infer("scores", [self.shared_input(module, given, (rows, 4))], outputs=[self.shared_output(module, taken, "scores")])
            np.testing.assert_allclose(taken.read(np.float32, (rows, 3)), np.ones((rows, 4), np.float32) @ WEIGHTS)
            client.unregister_system_shared_memory()

    def test_regions_are_registered_once_and_told_of(self):
        for module, client in self.clients():
            region = Region(self, 64)
            region.register(client, offset=16, byte_size=32)
            status = client.get_system_shared_memory_status(region.name)
            if module is triton_http:
                self.assertEqual(status, [{"name": region.name, "key": region.key, "offset": 16, "byte_size": 32}])
            else:
                told = status.regions[region.name]
                self.assertEqual((told.name, told.key, told.offset, told.byte_size), (region.name, region.key, 16, 32))
            with self.assertRaisesRegex(InferenceServerException, "registered already"):
                region.register(client)
            client.unregister_system_shared_memory(region.name)
            with self.assertRaisesRegex(InferenceServerException, f"no shared memory region '{region.name}'"):
                client.get_system_shared_memory_status(region.name)
            region.register(client)
            client.unregister_system_shared_memory()

    def test_what_lies_in_no_region_is_refused(self):
        for module, client in self.clients():
            region, other = Region(self, 160), Region(self, 8)
            region.register(client)
            for message, inputs, outputs in (
                    ("no shared memory region 'nope'", [self.shared_input(module, region, (5, 4), byte_size=80)], "nope"),
                    ("has 160 bytes: 80 from 81 on", [self.shared_input(module, region, (5, 4), byte_size=80, offset=81)], None),
                    ("has 160 bytes: 80 from 9223372036854775807",
                     [self.shared_input(module, region, (5, 4), byte_size=80, offset=2**63 - 1)], None),
                    ("has 160 bytes: 161 from 0 on", [self.shared_input(module, region, (5, 4), byte_size=161)], None),
                    ("input 'x'", [self.shared_input(module, region, (5, 4), byte_size=79)], None),
                    (f"no shared memory region '{other.name}'", [self.shared_input(module, other, (5, 4), byte_size=8)], None)):
                wanted = [self.shared_output(module, region, "scores")]
                if outputs:
                    wanted[0].set_shared_memory(outputs, 80)
                with self.assertRaisesRegex(InferenceServerException, message):
                    client.infer("scores", inputs, outputs=wanted)
            with self.assertRaisesRegex(InferenceServerException, "output 'scores' has 60 bytes, and its place"):
                client.infer("scores", [self.sent_input(module, np.ones((5, 4), np.float32))],
                             outputs=[self.shared_output(module, region, "scores", 59)])
            for key, size, message in ((region.key, 161, "do not lie in it"), ("/../etc/passwd", 1, "the key of shared memory"),
                                       ("/nothing-there", 1, "there is no shared memory '/nothing-there'")):
                with self.assertRaisesRegex(InferenceServerException, message):
                    client.register_system_shared_memory("other", key, size)
            client.unregister_system_shared_memory()

    def test_memory_that_is_cut_or_unlinked_harms_no_one(self):
        for module, client in self.clients():
            region = Region(self, 1 << 20)
            region.register(client)
            rows = (1 << 20) // 16
            os.truncate(region.path, 4096)
            with self.assertRaisesRegex(InferenceServerException, "is shorter than when it was registered"):
                client.infer("scores", [self.shared_input(module, region, (rows, 4))])
            with self.assertRaisesRegex(InferenceServerException, "is shorter than when it was registered"):
                client.infer("scores", [self.sent_input(module, np.ones((1, 4), np.float32))],
                             outputs=[self.shared_output(module, region, "scores", 4096, 8192)])
            os.truncate(region.path, 1 << 20)
            os.rename(region.path, region.path + "-moved")
            client.infer("scores", [self.shared_input(module, region, (rows, 4))])
            os.rename(region.path + "-moved", region.path)
            client.unregister_system_shared_memory()
            self.assertTrue(client.is_server_live())

    def test_cuda_shared_memory_is_refused_and_there_is_none(self):
        for module, client in self.clients():
            with self.assertRaisesRegex(InferenceServerException, "CUDA shared memory is not served"):
                client.register_cuda_shared_memory("r", b"aGFuZGxl", 0, 8)
            client.unregister_cuda_shared_memory()
            status = client.get_cuda_shared_memory_status()
            self.assertEqual(len(status if module is triton_http else status.regions), 0)


class KernelsTest(Harness):
    @classmethod
    def setUpClass(cls):
        cls.start(gpu="emulated")
        deployed = lambent(cls.worker, "deploy", MATMUL)
        assert deployed.returncode == 0, deployed.stderr

    def test_a_graph_of_kernels_takes_and_gives_shared_tensors(self):
        index = triton_http.InferenceServerClient(self.worker.endpoint.removeprefix("http://"))
        self.addCleanup(index.close)
        name = index.get_model_repository_index()[0]["name"]
        metadata = index.get_model_metadata(name)
        generator = np.random.default_rng(1)
        values = {each["name"]: generator.random(each["shape"], dtype=np.float32) for each in metadata["inputs"]}
        output = metadata["outputs"][0]
        self.assertEqual(output["datatype"], "FP32")
        size = 4 * int(np.prod(output["shape"]))
        expected = index.infer(name, [self.sent_input(triton_http, value, key) for key, value in values.items()]).as_numpy(output["name"])
        for module, client in self.clients():
            taken, inputs = Region(self, size), []
            taken.register(client)
            for key, value in values.items():
                region = Region(self, value.nbytes)
                region.write(value)
                region.register(client)
                inputs.append(self.shared_input(module, region, value.shape, key))
            client.infer(name, inputs, outputs=[self.shared_output(module, taken, output["name"])])
            np.testing.assert_array_equal(taken.read(np.float32, output["shape"]), expected)
            client.unregister_system_shared_memory()


class TenantsTest(unittest.TestCase):
    def test_a_tenant_sees_its_own_regions_and_registers_what_it_may(self):
        held = TokenWorker("--system-shared-memory", f"{USER}=red", gpu="none")
        self.addCleanup(held.close)
        for tenant in ("red", "azure"):
            held.operator.create_tenant(tenant)
        red, azure = held.operator.caller("red"), held.operator.caller("azure")
        reader = held.operator.caller("red", scopes=["read"])
        region = Region(self, 64)
        body = json.dumps({"key": region.key, "byte_size": 64})
        path = "/v2/systemsharedmemory"
        self.assertEqual(red.status_of("POST", f"{path}/region/r/register", body)[0], 200)
        status, text = azure.status_of("POST", f"{path}/region/r/register", body)
        self.assertEqual(status, 404)
        self.assertIn("there is no shared memory", json.loads(text)["error"])
        self.assertEqual(azure.status_of("GET", f"{path}/status"), (200, "[]"))
        self.assertEqual(azure.status_of("POST", f"{path}/unregister")[0], 200)
        self.assertEqual(len(json.loads(red.status_of("GET", f"{path}/status")[1])), 1)
        self.assertEqual(reader.status_of("GET", f"{path}/status")[0], 403)
        self.assertEqual(held.worker.request("GET", "/v2").json["extensions"][-1], "system_shared_memory")

    def test_of_a_tenant_that_is_removed_no_region_stays_open(self):
        held = TokenWorker("--system-shared-memory", f"{USER}=red", gpu="none")
        self.addCleanup(held.close)
        held.operator.create_tenant("red")
        red, region = held.operator.caller("red"), Region(self, 64)
        body = json.dumps({"key": region.key, "byte_size": 64})
        self.assertEqual(red.status_of("POST", "/v2/systemsharedmemory/region/r/register", body)[0], 200)

        def opened():
            paths = []
            for each in pathlib.Path(f"/proc/{held.worker.process.pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):
                    paths.append(os.readlink(each))
            return paths

        self.assertIn(region.path, opened())
        self.assertEqual(held.operator.request("DELETE", "/v1/tenants/red").status, 200)
        self.assertNotIn(region.path, opened())

    def test_it_is_off_unless_the_operator_turns_it_on(self):
        worker = Worker(gpu="none")
        self.addCleanup(worker.close)
        self.assertNotIn("system_shared_memory", worker.request("GET", "/v2").json["extensions"])
        client = triton_http.InferenceServerClient(worker.endpoint.removeprefix("http://"))
        self.addCleanup(client.close)
        with self.assertRaisesRegex(InferenceServerException, "--system-shared-memory"):
            client.register_system_shared_memory("r", "/r", 8)


if __name__ == "__main__":
    unittest.main()
