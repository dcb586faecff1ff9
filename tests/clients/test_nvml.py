"""nvidia-ml-py, NVIDIA's own Python bindings of NVML, on the emulated node; another process uses a device meanwhile."""
import importlib.util
import subprocess
import sys
import unittest

from emulated_gpu import EmulatedGpu

PARTS = ["devices", "memory_and_processes", "topology", "refusals"]
HOLDER = """
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert cu.cuInit(0) == 0
assert cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cu.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64 << 20)) == 0
print("held", flush=True)
sys.stdin.read()
"""


class NvmlTest(unittest.TestCase):
    def test_every_part_of_the_client_holds(self):
        if importlib.util.find_spec("pynvml") is None:
            self.skipTest("nvidia-ml-py is not in this environment: ./dev test installs it")
        with EmulatedGpu("tiny-x4") as gpu:
            with subprocess.Popen([sys.executable, "-c", HOLDER], env=gpu.environment, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True) as holder:
                self.assertEqual(holder.stdout.readline(), "held\n")
                for shim in (None, "off"):
                    with self.subTest(shim=shim):
                        done = gpu.run("nvml_client.py", holder.pid, shim=shim)
                        self.assertEqual(done.stdout.split(), PARTS, done.stderr)
                        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
