"""Models of a cluster with a real onnxruntime: deployed at one node and asked at another, which takes no work, by Triton's own client
over HTTP and gRPC; one of more than a package holds, whose weights lie in a volume; and the alias by which versions are served."""
import pathlib
import shutil
import tempfile
import unittest

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from model_worker import UV, WEIGHTS, deploy_model, lambent, large_model, matrix_model, write_library_wheel
from test_cluster import ClassCleanup, Cluster
from test_grpc_models import Front

ONE = np.ones((1, 4), dtype=np.float32)


def input_of(module, values):
    given = module.InferInput("x", list(values.shape), "FP32")
    given.set_data_from_numpy(values)
    return given


@unittest.skipUnless(UV.exists(), "there is no uv in .venv")
class ModelsOfACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-cluster-models-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        (cls.folder / "wheels").mkdir()
        write_library_wheel(cls.folder / "wheels")
        cls.cluster = Cluster(ClassCleanup(cls), names="ab", flags=("--uv", str(UV), "--python-wheels", str(cls.folder / "wheels"), "--python-offline"))
        cls.cluster.wait_until_up()

    def setUp(self):
        self.cluster.set_drained("b", True)
        self.addCleanup(self.cluster.set_drained, "b", False)
        self.http = triton.InferenceServerClient(self.cluster["b"].endpoint.removeprefix("http://"))
        self.addCleanup(self.http.close)
        front = Front(self.cluster["b"], "--max-message-mib", 16)
        self.addCleanup(front.close)
        self.grpc = triton_grpc.InferenceServerClient(front.address)
        self.addCleanup(self.grpc.close)

    def assert_answered(self, model, x, y, version="", output="scores"):
        """By both clients at b, each time by a."""
        before_b = self.cluster.completed(model)["b"]
        for module, client in ((triton, self.http), (triton_grpc, self.grpc)):
            before = self.cluster.status("b")["requests"]["forwarded"]
            answer = client.infer(model, [input_of(module, x)], model_version=version).as_numpy(output)
            np.testing.assert_allclose(answer, y, rtol=1e-3, atol=1e-2)
            self.assertEqual(self.cluster.status("b")["requests"]["forwarded"], before + 1)
        self.assertEqual(self.cluster.completed(model)["b"], before_b)
        here = self.cluster["b"].request("GET", "/v1/sandboxes", headers={"X-Lambent-Only-Here": "true"}).json["sandboxes"]
        self.assertEqual([each for each in here if each["function"].partition(":")[0] == model and each["state"] != "idle"], [])

    def test_a_small_model(self):
        deploy_model(self.cluster["a"], self.folder / "scores.onnx", matrix_model(WEIGHTS))
        self.assert_answered("scores", ONE, ONE @ WEIGHTS)
        for client in self.http, self.grpc:
            self.assertTrue(client.is_model_ready("scores"))
        self.assertEqual(self.http.get_model_metadata("scores")["inputs"], [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}])
        self.assertIn("scores", {each.name for each in self.grpc.get_model_repository_index().models})
        with self.assertRaisesRegex(InferenceServerException, "function 'none' does not exist"):
            self.http.infer("none", [input_of(triton, ONE)])

    def test_a_model_whose_weights_lie_in_a_volume_runs_on_both_nodes(self):
        weights = large_model(self.folder)
        deployed = lambent(self.cluster["a"], "deploy", self.folder / "large.onnx")
        self.assertEqual(deployed.returncode, 0, deployed.stderr)
        x = np.ones((1, len(weights)), np.float32)
        self.assert_answered("large", x, x @ weights, output="y")
        # The other way round: the weights follow to the node that has none of them.
        self.cluster.set_drained("b", False)
        self.cluster.set_drained("a", True)
        self.addCleanup(self.cluster.set_drained, "a", False)
        client = triton.InferenceServerClient(self.cluster["a"].endpoint.removeprefix("http://"), network_timeout=120, connection_timeout=120)
        self.addCleanup(client.close)
        before = self.cluster.completed("large")["b"]
        np.testing.assert_allclose(client.infer("large", [input_of(triton, x)]).as_numpy("y"), x @ weights, rtol=1e-3, atol=1e-2)
        self.assertEqual(self.cluster.completed("large")["b"], before + 1)

    def test_versions_are_served_by_their_alias(self):
        folder = self.folder / "models/pair"
        for version in 1, 2:
            (folder / str(version)).mkdir(parents=True)
            (folder / str(version) / "model.onnx").write_bytes(matrix_model(WEIGHTS * version))
        deployed = lambent(self.cluster["a"], "deploy", folder, "--version-policy", "all")
        self.assertEqual(deployed.returncode, 0, deployed.stderr)
        for version, factor in (("1", 1), ("2", 2), ("", 2)):
            self.assert_answered("pair", ONE, ONE @ (WEIGHTS * factor), version)
        # Changed at the node that takes no work.
        moved = lambent(self.cluster["b"], "alias", "set", "pair", "serving", "1")
        self.assertEqual(moved.returncode, 0, moved.stderr)
        self.assert_answered("pair", ONE, ONE @ WEIGHTS)
        self.assertEqual(self.http.infer("pair", [input_of(triton, ONE)]).get_response()["model_version"], "1")
        with self.assertRaisesRegex(InferenceServerException, "no version 3"):
            self.http.infer("pair", [input_of(triton, ONE)], model_version="3")


if __name__ == "__main__":
    unittest.main()
