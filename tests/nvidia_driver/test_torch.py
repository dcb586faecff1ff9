"""PyTorch's CUDA build over NVIDIA's own driver library, alone and with the shims between: it asks the driver for hundreds of functions,
gets the hooks among them, and says the same of a machine without a device. Skipped where there is no such PyTorch; ./dev test --all installs it.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import libraries

LEAST_ASKED = 300
TORCH = pathlib.Path(os.environ.get("LAMBENT_TORCH", libraries.ROOT.parent / "torch"))


def torch_python():
    if "LAMBENT_WHOLE_TESTS" in os.environ:
        tool = libraries.SOURCE.parent / "tools/torch_environment.py"
        subprocess.run([sys.executable, tool, TORCH], check=True, stdout=subprocess.DEVNULL)
    if not (TORCH / "bin/python").exists():
        raise unittest.SkipTest(f"no PyTorch in {TORCH}: tools/torch_environment.py {TORCH} installs it, 3 GB")
    return TORCH / "bin/python"


class TorchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        libraries.need_driver()
        cls.python = torch_python()

    def told(self, kind, folder, **variables):
        done = subprocess.run([self.python, "-B", libraries.HERE / "use_torch.py"], text=True, capture_output=True, timeout=240,
                              env=libraries.environment_of(kind, folder) | variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_it_says_the_same_of_a_machine_without_a_device_and_gets_the_hooks(self):
        with tempfile.TemporaryDirectory() as folder:
            bare = self.told("bare", folder)
            self.assertEqual(self.told("shim", folder, LAMBENT_SHIM_TRACE="1"), bare)
            log = pathlib.Path(folder, "shim.log").read_text().splitlines()
        self.assertEqual((bare["available"], bare["devices"], bare["sum"]), (False, 0, 4950))
        self.assertIn("No CUDA GPUs are available", bare["zeros"])
        self.assertEqual(bare["runtime"][:2], [100, 100])
        asked = [line for line in log if "asked for" in line]
        self.assertEqual([line for line in log if line not in asked], [], "the shim found something wrong")
        self.assertGreater(len(asked), LEAST_ASKED)
        hooked = [line.split("asked for ")[1].split()[0] for line in asked if line.endswith(": hook")]
        wanted = {"cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuMemGetInfo", "cuLaunchKernel", "cuGraphLaunch", "cuMemcpyHtoDAsync",
                  "cuDevicePrimaryCtxRetain"}
        self.assertEqual(wanted - set(hooked), set())


if __name__ == "__main__":
    unittest.main()
