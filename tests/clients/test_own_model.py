"""A model as people have one: made with onnx's own helpers, two inputs of open sizes, token ids, texts as an answer, and its weights in a
file of another name. The way of the guide: deploy, Triton's clients over HTTP and gRPC, unload, remove."""
import unittest

import numpy as np
import onnx
import onnxruntime
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

from model_worker import ModelWorkerTest, lambent


def mood_model():
    """Of each row of ids the words that the mask counts, as scores and as the name of the highest."""
    random_numbers = np.random.default_rng(4)
    weights = {"words": random_numbers.standard_normal((1000, 8)).astype(np.float32), "one": np.array([1]), "two": np.array([2]),
               "to_scores": random_numbers.standard_normal((8, 3)).astype(np.float32), "names": np.array(["bad", "good", "größer"], dtype=object)}
    nodes = [helper.make_node("Gather", ["words", "ids"], ["found"]), helper.make_node("Unsqueeze", ["mask", "two"], ["wide_mask"]),
             helper.make_node("Mul", ["found", "wide_mask"], ["counted"]), helper.make_node("ReduceSum", ["counted", "one"], ["sum"], keepdims=0),
             helper.make_node("MatMul", ["sum", "to_scores"], ["scores"]), helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
             helper.make_node("Gather", ["names", "best"], ["mood"])]
    inputs = [helper.make_tensor_value_info(name, kind, ["batch", "length"]) for name, kind in (("ids", TensorProto.INT64), ("mask", TensorProto.FLOAT))]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3]), helper.make_tensor_value_info("mood", TensorProto.STRING, ["batch"])]
    graph = helper.make_graph(nodes, "mood", inputs, outputs, [numpy_helper.from_array(values, name) for name, values in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


class OwnModelTest(ModelWorkerTest):
    flags = ("--grpc", "127.0.0.1:0")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.folder / "mood.onnx"
        onnx.save(mood_model(), str(cls.path), save_as_external_data=True, location="words.bin", size_threshold=1024)
        cls.session = onnxruntime.InferenceSession(str(cls.path))

    def deploy(self):
        deployed = lambent(self.worker, "deploy", self.path)
        self.assertEqual(deployed.returncode, 0, deployed.stderr)
        return deployed.stdout

    def clients(self):
        place = self.worker.folder / "run/grpc-endpoint"
        self.worker.wait_for(place.exists, what="lambent-grpc")
        for module, address in ((over_http, self.worker.endpoint.removeprefix("http://")), (over_grpc, place.read_text().strip())):
            client = module.InferenceServerClient(address)
            self.addCleanup(client.close)
            yield module, client

    def infer(self, module, client, ids, mask):
        given = [module.InferInput("ids", ids.shape, "INT64"), module.InferInput("mask", mask.shape, "FP32")]
        for tensor, values in zip(given, (ids, mask)):
            tensor.set_data_from_numpy(values)
        return client.infer("mood", given)

    def test_it_is_deployed_asked_unloaded_and_removed(self):
        self.assertIn("ids INT64[-1,-1], mask FP32[-1,-1] -> scores FP32[-1,3], mood BYTES[-1]", self.deploy())
        random_numbers = np.random.default_rng(5)
        for module, client in self.clients():
            with self.subTest(module.__name__):
                self.assertTrue(client.is_model_ready("mood"))
                for rows, length in ((1, 1), (3, 7)):
                    ids, mask = random_numbers.integers(0, 1000, (rows, length)), np.ones((rows, length), np.float32)
                    scores, mood = self.session.run(None, {"ids": ids, "mask": mask})
                    answer = self.infer(module, client, ids, mask)
                    np.testing.assert_allclose(answer.as_numpy("scores"), scores, rtol=1e-5, atol=1e-5)
                    self.assertEqual([name.decode() for name in answer.as_numpy("mood")], list(mood))
                # What is wrong with a request is said of the tensor, or by onnxruntime.
                with self.assertRaisesRegex(InferenceServerException, "input 'mask'"):
                    client.infer("mood", self.only_ids(module, ids))
                with self.assertRaisesRegex(InferenceServerException, "ids.*INT64|INT64.*ids"):
                    wrong = module.InferInput("ids", ids.shape, "INT32")
                    wrong.set_data_from_numpy(ids.astype(np.int32))
                    client.infer("mood", [wrong])
                with self.assertRaisesRegex(InferenceServerException, "1000|bounds"):
                    self.infer(module, client, np.full_like(ids, 5000), mask)
                client.unload_model("mood")
                self.worker.wait_for(lambda: not any(each["function"] == "mood" for each in self.worker.sandboxes()), what="the model to leave")
                self.assertEqual(len(self.infer(module, client, ids, mask).as_numpy("mood")), 3)
        removed = lambent(self.worker, "rm", "mood")
        self.assertEqual(removed.returncode, 0, removed.stderr)
        for module, client in self.clients():
            self.assertFalse(client.is_model_ready("mood"))
            with self.assertRaisesRegex(InferenceServerException, "'mood' does not exist"):
                self.infer(module, client, ids, mask)
        self.deploy()

    @staticmethod
    def only_ids(module, ids):
        given = module.InferInput("ids", ids.shape, "INT64")
        given.set_data_from_numpy(ids)
        return [given]

    def test_what_it_lacks_is_said_before_anything_is_sent(self):
        folder = self.folder / "apart"
        folder.mkdir()
        (folder / "mood.onnx").write_bytes(self.path.read_bytes())
        refused = lambent(self.worker, "deploy", folder / "mood.onnx", "--name", "apart")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("mood.onnx keeps tensors in 'words.bin', and that file is not beside it", refused.stderr)
        self.assertNotIn("apart", [each["name"] for each in self.worker.request("GET", "/v1/functions").json["functions"]])


if __name__ == "__main__":
    unittest.main()
