"""KServe's own client (REST and gRPC), unmodified. Its messages and those of tritonclient.grpc do not go together in one process."""
import asyncio
import importlib.util
import pathlib
import subprocess
import sys
import unittest

# It wants an older protobuf than others, which do not come into this process.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".cache/kserve"))

import numpy as np  # noqa: E402

from harness import PREFIX  # noqa: E402
from model_worker import EVERY_TYPE, WEIGHTS, ModelWorkerTest, deploy_model, identity_model, lambent, matrix_model  # noqa: E402

HAS_KSERVE = importlib.util.find_spec("kserve") is not None
VALUES = np.random.default_rng(3).random((5, 4), dtype=np.float32)


@unittest.skipUnless(HAS_KSERVE, "kserve is not installed: ./dev test --all installs it")
class KServeTest(ModelWorkerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for version in (1, 2):
            (cls.folder / "scores" / str(version)).mkdir(parents=True)
            (cls.folder / "scores" / str(version) / "model.onnx").write_bytes(matrix_model(WEIGHTS * version))
        deployed = lambent(cls.worker, "deploy", cls.folder / "scores", "--version-policy", "all")
        assert deployed.returncode == 0, deployed.stderr
        deploy_model(cls.worker, cls.folder / "types.onnx", identity_model(EVERY_TYPE))
        cls.front = subprocess.Popen([str(PREFIX / "bin/lambent-grpc"), "--listen", "127.0.0.1:0", "--worker", cls.worker.endpoint],
                                     stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.front.stdout.close)
        cls.addClassCleanup(cls.front.wait)
        cls.addClassCleanup(cls.front.terminate)
        cls.grpc_address = cls.front.stdout.readline().split()[-1]

    @staticmethod
    def request(model, tensors, version=None, binary=True, outputs=()):
        from kserve import InferInput, InferRequest
        from kserve.protocol.infer_type import RequestedOutput
        inputs = []
        for name, datatype, values in tensors:
            given = InferInput(name, list(values.shape), datatype)
            given.set_data_from_numpy(values, binary_data=binary)
            inputs.append(given)
        # Without names it asks for none as bytes, and FP16 has no other form.
        wanted = [RequestedOutput(name, {"binary_data": True}) for name in outputs]
        return InferRequest(model_name=model, infer_inputs=inputs, model_version=version, request_outputs=wanted or None)

    def by_rest(self, call):
        from kserve import InferenceRESTClient, RESTConfig

        async def ask():
            async with InferenceRESTClient(RESTConfig(protocol="v2", retries=0)) as client:
                return await call(client, self.worker.endpoint)
        return asyncio.run(ask())

    def by_grpc(self, call):
        from kserve import InferenceGRPCClient

        async def ask():
            async with InferenceGRPCClient(self.grpc_address) as client:
                return await call(client)
        return asyncio.run(ask())

    def test_rest_answers_as_tensors_and_as_json(self):
        for binary in (True, False):
            request = self.request("scores", [("x", "FP32", VALUES)], binary=binary)
            response = self.by_rest(lambda client, url, asked=request: client.infer(url, asked, model_name="scores"))
            np.testing.assert_allclose(response.outputs[0].as_numpy(), VALUES @ (WEIGHTS * 2), rtol=1e-5)

    def test_rest_asks_whether_server_and_models_are_ready(self):
        self.assertTrue(self.by_rest(lambda client, url: client.is_server_live(url)))
        self.assertTrue(self.by_rest(lambda client, url: client.is_server_ready(url)))
        self.assertTrue(self.by_rest(lambda client, url: client.is_model_ready(url, "scores")))
        self.assertTrue(self.by_rest(lambda client, url: client.is_model_ready(url, "scores/versions/1")))
        self.assertFalse(self.by_rest(lambda client, url: client.is_model_ready(url, "nope")))

    def test_rest_tells_what_is_wrong(self):
        import httpx
        wrong = self.request("scores", [("x", "FP32", VALUES[:, :3])])
        with self.assertRaisesRegex(httpx.HTTPStatusError, r"shape is \[5,3\].*400"):
            self.by_rest(lambda client, url: client.infer(url, wrong, model_name="scores"))
        good = self.request("scores", [("x", "FP32", VALUES)])
        with self.assertRaisesRegex(httpx.HTTPStatusError, "no version 9; it has 1,2.*404"):
            self.by_rest(lambda client, url: client.infer(url, good, model_name="scores/versions/9"))

    def check_types(self, infer, outputs=()):
        texts = np.array([b"", b"a", "größer".encode()], dtype=np.object_)
        half, flags, long = np.array([[1.5, -2]], dtype=np.float16), np.array([True, False]), np.array([-(2**62), 2**62 + 1])
        response = infer(self.request("types", [("text", "BYTES", texts), ("half", "FP16", half), ("long", "INT64", long),
                                                ("flag", "BOOL", flags)], outputs=outputs))
        got = {output.name: output.as_numpy() for output in response.outputs}
        # By REST that client makes texts of them.
        self.assertEqual([text if isinstance(text, bytes) else text.encode() for text in got["out_text"]], list(texts))
        for name, values in (("out_half", half), ("out_long", long), ("out_flag", flags)):
            np.testing.assert_array_equal(got[name], values)

    def test_every_type_by_rest(self):
        self.check_types(lambda request: self.by_rest(lambda client, url: client.infer(url, request, model_name="types")),
                         ["out_text", "out_half", "out_long", "out_flag"])

    def test_every_type_by_grpc(self):
        self.check_types(lambda request: self.by_grpc(lambda client: client.infer(request)))

    def test_grpc_asks_for_versions(self):
        for version, weights in ((None, 2), ("1", 1), ("2", 2)):
            request = self.request("scores", [("x", "FP32", VALUES)], version)
            response = self.by_grpc(lambda client, asked=request: client.infer(asked))
            np.testing.assert_allclose(response.outputs[0].as_numpy(), VALUES @ (WEIGHTS * weights), rtol=1e-5)
            self.assertEqual(response.model_version, str(weights))
        self.assertTrue(self.by_grpc(lambda client: client.is_server_live()))
        self.assertTrue(self.by_grpc(lambda client: client.is_server_ready()))
        self.assertTrue(self.by_grpc(lambda client: client.is_model_ready("scores")))
        self.assertFalse(self.by_grpc(lambda client: client.is_model_ready("nope")))

    def test_grpc_tells_what_is_wrong(self):
        import grpc
        request = self.request("scores", [("x", "FP32", VALUES)], "9")
        with self.assertRaises(grpc.RpcError) as refused:
            self.by_grpc(lambda client: client.infer(request))
        self.assertEqual(refused.exception.code(), grpc.StatusCode.NOT_FOUND)


if __name__ == "__main__":
    unittest.main()
