"""numba-cuda on the emulated driver: kernels of Python, whose PTX is compiled for the host while they run."""
import importlib.util
import unittest

from emulated_gpu import PREFIX, EmulatedGpu

PARTS = ["arrays", "shared_memory", "atomic_operations", "mathematics", "device_functions", "warps", "constants_and_integers", "streams",
         "printing"]


def missing():
    if importlib.util.find_spec("numba_cuda") is None:
        return "numba-cuda is not installed: ./dev test --all installs it"
    return ""


@unittest.skipIf(missing(), missing())
class NumbaTest(unittest.TestCase):
    def test_every_part_of_the_client_holds(self):
        with EmulatedGpu() as gpu:
            # A toolkit of this machine may have nvJitLink, which would make code of a GPU.
            gpu.environment["LD_LIBRARY_PATH"] += f":{PREFIX}/lib/emulated/linker"
            for shim in (None, "vmm"):
                with self.subTest(shim=shim):
                    done = gpu.run("numba_client.py", shim=shim, limit_s=400)
                    lines = done.stdout.splitlines()
                    self.assertIn("thread 1 has 2.500000", lines, done.stderr)
                    lines.remove("thread 1 has 2.500000")
                    self.assertEqual(lines, PARTS, done.stderr)
                    self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
