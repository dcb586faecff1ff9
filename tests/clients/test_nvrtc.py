"""NVRTC before the emulated driver, by cuda.core and cuda.bindings: the PTX that it makes is compiled for the host while the program runs."""
import importlib.util
import unittest

from emulated_gpu import EmulatedGpu

PARTS = ["kernels_and_templates", "language", "warps_and_atomics", "numbers", "linking", "refusals"]
GREETING = "thread 0 of a block: 1.50 1234567890123"


def has_nvrtc():
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.core") is None:
        return False
    from cuda import pathfinder
    try:
        return pathfinder.load_nvidia_dynamic_lib("nvrtc") is not None
    except pathfinder.DynamicLibNotFoundError:
        return False


@unittest.skipUnless(has_nvrtc(), "NVRTC is not there: ./dev test --all installs it")
class NvrtcTest(unittest.TestCase):
    def test_every_part_of_the_client_holds(self):
        with EmulatedGpu() as gpu:
            for shim in (None, "vmm"):
                with self.subTest(shim=shim):
                    done = gpu.run("nvrtc_client.py", shim=shim, limit_s=400)
                    self.assertIn(GREETING, done.stdout.splitlines(), done.stderr)
                    self.assertEqual([line for line in done.stdout.splitlines() if line != GREETING], PARTS, done.stderr)
                    self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
