"""Built-in linear algebra by cuBLAS through the whole worker: the library's stand-in, which lies where only a bind shows it to the sandbox."""
import subprocess
import tempfile
import unittest

from harness import PREFIX
from test_kernel_examples import KernelExamples

STAND_IN = PREFIX / "lib/testing/libcublas_double.so"


class ByCublas(KernelExamples):
    """The same answers as from our own kernels: each test of the examples once more."""

    flags = ("--cublas", str(STAND_IN))
    # The stand-in's kernels take another time than those of the modelled device.
    test_models_of_true_size_take_their_modelled_time = None
    # Networks have no built-in linear algebra.
    test_small_models_compute_what_their_definitions_say = None

    def test_the_executor_says_so(self):
        self.test_a_chain_of_products()
        log = self.worker.log()
        self.assertIn("linear algebra by cuBLAS 130002", log)
        self.assertNotIn("linear algebra without", log)


class Flag(unittest.TestCase):
    def test_a_library_that_is_not_there_is_told_at_the_start(self):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(
                [PREFIX / "bin/lambent-worker", "--listen", "127.0.0.1:0", "--state", f"{folder}/state", "--run", f"{folder}/run",
                 "--gpu", "emulated:tiny", "--cublas", f"{folder}/libcublas.so"],
                capture_output=True, text=True, check=False, timeout=60)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("--cublas: there is no library", run.stdout + run.stderr)


del KernelExamples  # its tests are in its own file

if __name__ == "__main__":
    unittest.main()
