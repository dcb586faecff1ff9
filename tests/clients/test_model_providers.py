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
FAILED_PRECONDITION = 19  # the command's exit code (docs/reference/errors.md)
LIBRARY = next((pathlib.Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))


class WithoutGpuTest(ModelWorkerTest):
    """A worker that has no GPU at all."""

    def test_cuda_is_refused_and_auto_takes_the_processors(self):
        path = self.folder / "scores.onnx"
        path.write_bytes(matrix_model(WEIGHTS))
        refused = lambent(self.worker, "deploy", path, "--provider", "cuda", "--gpu-memory", "256M")
        self.assertEqual(refused.returncode, FAILED_PRECONDITION)
        self.assertIn("the function asks for a GPU, but this worker has none", refused.stderr)
        for choice in (("--provider", "auto", "--gpu-memory", "256M"), ("--engine", "auto")):
            deployed = lambent(self.worker, "deploy", path, *choice)
            self.assertEqual(deployed.returncode, 0, deployed.stderr)
            self.assertIn("warning: the worker has no GPU: onnxruntime runs the model on the host's processors", deployed.stderr)
            self.assertIn("x FP32[-1,4] -> scores FP32[-1,3]", deployed.stdout)


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

    def test_cuda_is_refused_where_it_cannot_be(self):
        deployed = self.deploy("cuda", "cuda")
        self.assertEqual(deployed.returncode, FAILED_PRECONDITION)
        self.assertRegex(deployed.stderr, r"cuda: it is deployed, but the model cannot be loaded: .*"
                                          r"onnxruntime's CUDA provider cannot be used: the GPU is emulated")
        with self.assertRaises(InferenceServerException):
            self.infer("cuda")
        self.assertIn("onnxruntime's CUDA provider cannot be used: the GPU is emulated", self.log_of("cuda"))

    def test_the_command_line_says_it_too(self):
        path = self.folder / "flagged.onnx"
        path.write_bytes(matrix_model(WEIGHTS))
        refused = lambent(self.worker, "deploy", path, "--provider", "cuda")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("--provider cuda needs a GPU: say how much of its memory, such as --gpu-memory 2G", refused.stderr)
        planned = lambent(self.worker, "deploy", path, "--provider", "cuda", "--gpu-memory", "256M", "--dry-run")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertIn("would be created flagged", planned.stdout)
        large = lambent(self.worker, "deploy", path, "--provider", "cuda", "--gpu-memory", "900G", "--dry-run")
        self.assertIn("the function asks for 900 GiB of device memory", large.stderr)

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
