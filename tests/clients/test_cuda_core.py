"""cuda.core, NVIDIA's objects over the driver's calls, on the emulated driver."""
import importlib.util
import unittest

from emulated_gpu import HOST_MODULE, EmulatedGpu

PARTS = ["devices", "kernels", "events", "memory", "virtual_memory", "graphs", "refusals"]


class CudaCoreTest(unittest.TestCase):
    def test_every_part_of_the_client_holds(self):
        if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.core") is None:
            self.skipTest("cuda-core is not in this environment: ./dev test installs it")
        for shim in (None, "off", "vmm"):
            with self.subTest(shim=shim), EmulatedGpu() as gpu:
                done = gpu.run("cuda_core_client.py", HOST_MODULE, shim=shim)
                self.assertEqual(done.stdout.split(), PARTS, done.stderr)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
