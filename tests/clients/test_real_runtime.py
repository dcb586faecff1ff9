"""NVIDIA's own CUDA runtime and cuBLAS under the shim: what they ask the driver for, they get as hooks. No GPU is needed to see that much; without
one they go no further, for the runtime wants a genuine driver. Skipped where no toolkit is installed.
"""
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PREFIX = pathlib.Path(os.environ["LAMBENT_PREFIX"])
SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"
PER_THREAD = 2  # CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
LEAST_ASKED = 100  # the runtime asks for hundreds; a stand-in for it for none

CALL_RUNTIME = "import ctypes, sys; r = ctypes.CDLL(sys.argv[1]); p = ctypes.c_void_p(); print(r.cudaMalloc(ctypes.byref(p), 1 << 20))"
CALL_CUBLAS = "import ctypes, sys; r = ctypes.CDLL(sys.argv[1]); p = ctypes.c_void_p(); print(r.cublasCreate_v2(ctypes.byref(p)))"


def find_library(name):
    """The newest real one by the usual folders, or None."""
    for pattern in ("/usr/local/cuda*/lib64/", "/usr/local/cuda*/lib/", "/usr/lib/x86_64-linux-gnu/"):
        for path in sorted(glob.glob(pattern + name + ".so.1[0-9]"), reverse=True):
            return path
    return None


def rows_of_versions():
    """{name: [(since, symbol, per thread)]} as cuGetProcAddress answers."""
    rows = {}
    for match in re.finditer(r"DRIVER_VERSION\((\w+), *(\d+), *(\w+), *(\d)\)",
                             (SOURCE / "gpu/cuda_abi/driver_versions.inc").read_text()):
        rows.setdefault(match[1], []).append((int(match[2]), match[3], match[4] == "1"))
    return rows


def treatments():
    """{symbol: hooked, gated or forwarded}; patterns are left out, they only forward."""
    lines = (line.split("#")[0].split() for line in (SOURCE / "gpu/shim/coverage.txt").read_text().splitlines())
    return {words[0]: words[1] for words in lines if len(words) > 1}


def symbol_for(rows, name, version, flags):
    fitting = [row for row in rows.get(name, []) if row[0] <= version and (flags & PER_THREAD or not row[2])]
    return max(fitting, key=lambda row: (row[0], row[2]))[1] if fitting else None


class RealRuntimeTest(unittest.TestCase):
    def asked_by(self, library, script):
        path = find_library(library)
        if path is None:
            self.skipTest(f"no {library} of a CUDA toolkit is installed")
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            shim = PREFIX / "lib/shim"
            environment = dict(os.environ, LD_LIBRARY_PATH=str(PREFIX / "lib/emulated"),
                               LD_PRELOAD=f"{shim}/liblambent_shim.so:{shim}/liblambent_shim_nvml.so",
                               LAMBENT_SHIM_DRIVER=str(PREFIX / "lib/emulated/libcuda.so.1"),
                               LAMBENT_SHIM_LOG=log, LAMBENT_SHIM_TRACE="1",
                               EMULATED_CUDA_NODE=os.path.join(folder, "node"), EMULATED_CUDA_CONFIG="tiny")
            done = subprocess.run([sys.executable, "-c", script, path], env=environment, capture_output=True, text=True,
                                  timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = pathlib.Path(log).read_text().splitlines() if os.path.exists(log) else []
        asked = [re.search(r"asked for (\w+) (\d+) (\d+): (\w+)", line) for line in lines]
        asked = [(match[1], int(match[2]), int(match[3]), match[4]) for match in asked if match]
        if len(asked) < LEAST_ASKED:
            self.skipTest(f"{path} asked for {len(asked)} functions: it is not NVIDIA's")
        return asked

    def check(self, library, script):
        rows, known = rows_of_versions(), treatments()
        hooks = set()
        for name, version, flags, answered in self.asked_by(library, script):
            symbol = symbol_for(rows, name, version, flags)
            if known.get(symbol) in ("hooked", "gated"):
                self.assertEqual(answered, "hook", f"{name} {version} with flags {flags}, {symbol}")
                hooks.add(symbol)
            else:
                self.assertEqual(answered, "driver", f"{name} {version} with flags {flags}, {symbol}")
        wanted = {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocAsync", "cuMemGetInfo_v2", "cuLaunchKernel", "cuLaunchKernel_ptsz",
                  "cuGraphLaunch", "cuMemcpyHtoDAsync_v2"}
        self.assertEqual(wanted - hooks, set(), "never asked for")

    def test_the_runtime_gets_the_hooks(self):
        self.check("libcudart", CALL_RUNTIME)

    def test_the_runtime_inside_cublas_gets_the_hooks(self):
        self.check("libcublas", CALL_CUBLAS)


if __name__ == "__main__":
    unittest.main()
