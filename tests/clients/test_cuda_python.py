"""cuda-python (cuda.bindings.driver), NVIDIA's own Python bindings, on the emulated driver."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PREFIX = pathlib.Path(os.environ["LAMBENT_PREFIX"])
HERE = pathlib.Path(__file__).resolve().parent
PARTS = ["devices", "kernels", "events", "pools", "virtual_memory", "graphs"]


class CudaPythonTest(unittest.TestCase):
    def test_every_part_of_the_client_holds(self):
        if importlib.util.find_spec("cuda") is None:
            self.skipTest("cuda-bindings is not in this environment: ./dev test installs it")
        module = PREFIX / "tests/conformance_kernels/host-x86_64.so"
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, LD_LIBRARY_PATH=str(PREFIX / "lib/emulated"),
                               EMULATED_CUDA_NODE=os.path.join(folder, "gpu.node"))
            done = subprocess.run([sys.executable, "-B", str(HERE / "cuda_python_client.py"), str(module)],
                                  env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.stdout.split(), PARTS, done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
