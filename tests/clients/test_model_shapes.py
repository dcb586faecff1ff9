"""Models of the shapes that people deploy, by onnxruntime in a sandbox: each answers what onnxruntime gives by itself. Their narrow forms; with
LAMBENT_WHOLE_TESTS also those of true shape, whose weights lie in a volume. test_kernel_models.py has the same as kernels."""
import os
import unittest

import numpy as np
import onnxruntime
import tritonclient.http as triton

import model_shapes
from model_worker import ModelWorkerTest, deploy_model

WHOLE = bool(os.environ.get("LAMBENT_WHOLE_TESTS"))
TYPES = {"tensor(float)": (np.float32, "FP32"), "tensor(int64)": (np.int64, "INT64")}


class ModelShapesTest(ModelWorkerTest):
    def check(self, name, model):
        said = deploy_model(self.worker, self.folder / f"{name}.onnx", model.SerializeToString())
        self.assertIn(f"/v2/models/{name}", said)
        session, values = onnxruntime.InferenceSession(str(self.folder / f"{name}.onnx")), {}
        given, random_numbers = [], np.random.default_rng(7)
        for each in session.get_inputs():
            kind, datatype = TYPES[each.type]
            shape = [2 if isinstance(extent, str) else extent for extent in each.shape]
            values[each.name] = (random_numbers.integers(0, 64, shape) if kind == np.int64 else random_numbers.standard_normal(shape)).astype(kind)
            given.append(triton.InferInput(each.name, shape, datatype))
            given[-1].set_data_from_numpy(values[each.name])
        client = triton.InferenceServerClient(self.worker.endpoint.removeprefix("http://"), network_timeout=280)
        self.addCleanup(client.close)
        result = client.infer(name, given)
        for output, expected in zip(session.get_outputs(), session.run(None, values), strict=True):
            np.testing.assert_allclose(result.as_numpy(output.name), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
            self.assertGreater(np.abs(expected[0] - expected[1]).max(), 0, "two elements of the batch have the same answer")
        client.unload_model(name)

    def test_narrow_ones_answer_as_onnxruntime_does(self):
        for name, make in model_shapes.SMALL.items():
            with self.subTest(name):
                self.check(name.replace("_", "-"), make())

    @unittest.skipUnless(WHOLE, "of minutes: ./dev test --all")
    def test_those_of_true_shape_answer_as_onnxruntime_does(self):
        for name, make in model_shapes.WHOLE.items():
            with self.subTest(name):
                self.check("whole-" + name.replace("_", "-"), make())


if __name__ == "__main__":
    unittest.main()
