"""What runs a model of onnxruntime, the host's processors or CUDA's provider, with the real library. It has no CUDA provider and no GPU
here, so what is tried is the choice: what lacks is named, and with "auto" the processors serve."""
import os
import pathlib
import subprocess
import unittest

import numpy as np
import onnxruntime
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from harness import PREFIX
from model_worker import WEIGHTS, ModelWorkerTest, lambent, matrix_model

SERVER = PREFIX / "bin/lambent-model-server"
LIBRARY = next((pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))


class ProvidersTest(ModelWorkerTest):
    gpu = "emulated"

    def deploy(self, name, provider):
        folder = self.folder / name
        folder.mkdir()
        (folder / "model.onnx").write_bytes(matrix_model(WEIGHTS))
        (folder / "lambent.toml").write_text(f'kind = "model"\nname = "{name}"\nprovider = "{provider}"\n[gpu]\nmemory = "256M"\n'
                                             '[python]\nrequirements = ["onnxruntime"]\n')
        return lambent(self.worker, "deploy", folder)

    def infer(self, name):
        client = triton.InferenceServerClient(self.worker.endpoint.removeprefix("http://"), network_timeout=120, connection_timeout=120)
        self.addCleanup(client.close)
        given = triton.InferInput("x", [2, 4], "FP32")
        given.set_data_from_numpy(np.ones((2, 4), np.float32))
        return client.infer(name, [given]).as_numpy("scores")

    def log_of(self, name):
        return self.worker.request("GET", f"/v1/functions/{name}/log?offset=0").body.decode()

    def test_auto_takes_the_processors_where_cuda_cannot_be_and_says_why(self):
        deployed = self.deploy("anywhere", "auto")
        self.assertEqual(deployed.returncode, 0, deployed.stderr)
        np.testing.assert_allclose(self.infer("anywhere"), np.ones((2, 4), np.float32) @ WEIGHTS)
        self.assertIn("model anywhere runs on the host's processors: the GPU is emulated", self.log_of("anywhere"))

    def test_cuda_alone_is_refused_where_it_cannot_be(self):
        self.deploy("cuda", "cuda")
        with self.assertRaises(InferenceServerException):
            self.infer("cuda")
        self.assertIn("onnxruntime's CUDA provider cannot be used: the GPU is emulated", self.log_of("cuda"))

    def test_the_program_says_what_lacks(self):
        path = self.folder / "alone.onnx"
        path.write_bytes(matrix_model(WEIGHTS))
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        emulated = {**environment, "LD_LIBRARY_PATH": str(PREFIX / "lib/emulated")}
        no_driver = self.folder / "no_driver"
        no_driver.mkdir()
        (no_driver / "libcuda.so.1").write_bytes(b"")  # stands before one of the machine
        for variables, words in (({**environment, "LD_LIBRARY_PATH": str(no_driver)}, "the function sees no GPU; [gpu] memory gives it one"),
                                 ({**emulated, "EMULATED_CUDA_NODE": str(self.folder / "own.node")}, "the GPU is emulated"),
                                 # A GPU, as far as it knows: then it is the library's turn.
                                 (emulated, "this onnxruntime was built without it; name onnxruntime-gpu[cuda,cudnn]")):
            said = subprocess.run([SERVER, path, "--onnxruntime", LIBRARY, "--provider", "cuda", "--port", "1"], env=variables,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(said.returncode, 1)
            self.assertIn(f"onnxruntime's CUDA provider cannot be used: {words}", said.stderr)
        said = subprocess.run([SERVER, path, "--provider", "tensorrt"], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("--provider", said.stderr)


if __name__ == "__main__":
    unittest.main()
