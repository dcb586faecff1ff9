"""PTX of our kernels through the compiler of NVIDIA's driver, which makes code of it where a GPU has no image of its own. It needs no device.
Each bundle of the build, and one that is built here, for a GPU that only PTX serves.
"""
import ctypes
import pathlib
import re
import subprocess
import tempfile
import unittest

import libraries
from libraries import PREFIX

COMPILER = libraries.FOLDER / "libnvidia-ptxjitcompiler.so.1"
BUNDLES = PREFIX / "share/lambent/kernels"
# Of sm_80 and later: what compute_80 is for. The compiler of driver 535 knows no later one.
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90")
# They set conditions of graphs, by a function that compilers have by themselves from driver 550 (CUDA 12.4) on.
CONDITIONAL = {"loops"}


class Compiler:
    def __init__(self):
        self.library = ctypes.CDLL(str(COMPILER))

    def call(self, name, *arguments):
        return getattr(self.library, "nvPTXCompiler" + name)(*arguments)

    def text(self, kind, handle):
        size = ctypes.c_size_t()
        self.call(f"Get{kind}Size", handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value + 1)
        self.call(f"Get{kind}", handle, buffer)
        return buffer.raw[:size.value]

    def compile(self, ptx, *options):
        """(the binary or None, what it says of errors)"""
        handle = ctypes.c_void_p()
        assert self.call("Create", ctypes.byref(handle), ctypes.c_size_t(len(ptx)), ptx) == 0
        words = (ctypes.c_char_p * len(options))(*(each.encode() for each in options))
        failed = self.call("Compile", handle, len(options), words)
        log = self.text("ErrorLog", handle).decode(errors="replace")
        binary = None if failed else self.text("CompiledProgram", handle)
        self.call("Destroy", ctypes.byref(handle))
        return binary, log


class PtxTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        libraries.need_driver()
        if not COMPILER.exists():
            raise unittest.SkipTest(f"{COMPILER} is not there")
        cls.compiler = Compiler()
        cls.programs = {path.parent.name: path.read_bytes() for path in sorted(BUNDLES.glob("*/compute_80.ptx"))}
        if not cls.programs:
            raise unittest.SkipTest("the kernels were built without a CUDA toolkit: there is no PTX of them")

    def made(self, name, ptx, architecture):
        options = ["--compile-only"] if name in CONDITIONAL else []
        binary, log = self.compiler.compile(ptx, f"--gpu-name={architecture}", *options)
        self.assertIsNotNone(binary, f"{name} for {architecture}: {log}")
        self.assertEqual(binary[:4], b"\x7fELF")
        return binary

    def test_it_takes_those_of_all_bundles(self):
        self.assertGreaterEqual(len(self.programs), 7)
        for name, ptx in self.programs.items():
            self.assertNotIn(b"\0", ptx, name)
            for architecture in ARCHITECTURES:
                entries = {name.encode() for name in re.findall(r"^\.(?:visible|weak) \.entry (\w+)", ptx.decode(), re.M)}
                self.assertTrue(entries, name)
                binary = self.made(name, ptx, architecture)
                self.assertEqual({entry for entry in entries if b".text." + entry not in binary}, set(), f"{name} for {architecture}")

    def test_a_condition_of_a_graph_is_all_that_it_misses(self):
        for name in CONDITIONAL & set(self.programs):
            binary, log = self.compiler.compile(self.programs[name], "--gpu-name=sm_80")
            self.assertIsNone(binary)
            self.assertIn("cudaGraphSetConditional", log)

    def test_it_refuses_what_it_cannot_know(self):
        binary, log = self.compiler.compile(self.programs["vector_add"].replace(b".version 7.0", b".version 9.0"), "--gpu-name=sm_80")
        self.assertIsNone(binary)
        self.assertIn("Unsupported .version 9.0", log)
        binary, log = self.compiler.compile(self.programs["vector_add"], "--gpu-name=sm_70")
        self.assertIsNone(binary, "compute_80 is for no V100")

    def test_a_t4_has_images_too(self):
        older = {path.parent.name: path.read_bytes() for path in sorted(BUNDLES.glob("*/compute_75.ptx"))}
        self.assertEqual(set(older), set(self.programs))
        for name, ptx in older.items():
            self.made(name, ptx, "sm_75")

    def test_a_bundle_of_ones_own_is_taken_too(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "halves.cu")
            source.write_text("#include <lambent/kernel.h>\n"
                              'extern "C" __global__ void halves(float* x, int n) {\n'
                              "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                              "  float y = i < n ? x[i] * 0.5f : 0.0f;\n"
                              "  for (int d = 16; d > 0; d /= 2) y += __shfl_down_sync(~0u, y, d);\n"
                              "  if (threadIdx.x % 32 == 0) atomicAdd(x, y);\n"
                              "}\n"
                              "LAMBENT_KERNEL(halves);\n")
            done = subprocess.run([PREFIX / "bin/lambent-bundle", "build", source, "-o", f"{folder}/halves"], capture_output=True, text=True,
                                  timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.made("halves", pathlib.Path(folder, "halves/compute_80.ptx").read_bytes(), "sm_86")


if __name__ == "__main__":
    unittest.main()
