"""PyCUDA on the emulated driver. It is compiled when it is installed, against a CUDA toolkit and for minutes, so ./dev test does not install it."""
import importlib.util
import unittest

from emulated_gpu import HOST_MODULE, EmulatedGpu

PARTS = ["devices", "kernels", "streams", "arrays_and_managed_memory", "errors"]


class PyCudaTest(unittest.TestCase):
    def test_every_part_of_the_client_holds(self):
        if importlib.util.find_spec("pycuda") is None:
            self.skipTest("pycuda is not in this environment: with a CUDA toolkit, .venv/bin/pip install pycuda")
        for shim in (None, "off", "vmm"):
            with self.subTest(shim=shim), EmulatedGpu() as gpu:
                done = gpu.run("pycuda_client.py", HOST_MODULE, shim=shim)
                self.assertEqual(done.stdout.split(), PARTS, done.stderr)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotIn("WARNING", done.stderr)


if __name__ == "__main__":
    unittest.main()
