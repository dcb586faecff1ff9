"""Functions in phases through a worker on the emulated GPU: host, link and device by turns; what says nothing of the worker's device is
refused before anything is deployed."""
import contextlib
import json
import pathlib
import subprocess
import tempfile
import unittest

from harness import PREFIX, Worker

LAMBENT = str(PREFIX / "bin/lambent")
INVALID, FAILED_PRECONDITION = 13, 19


class PhasesTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-phases-")))
        (self.folder / "t.csv").write_text("t_ms,function\n" + "".join(f"{300 * i},{'ab'[i % 2]}\n" for i in range(6)))
        (self.folder / "t_functions.csv").write_text("func,gpu_function\na,FFT\nb,Isoneural\n")

    def run_replay(self, worker, *arguments, expect=0):
        done = subprocess.run([LAMBENT, "replay", *arguments, "--deploy", "--json", "--endpoint", worker.endpoint,
                               "--paper-function", str(PREFIX / "examples/06_paper_function")],
                              capture_output=True, text=True, timeout=200, cwd=self.folder)
        self.assertEqual(done.returncode, expect, f"{done.stdout}\n{done.stderr}")
        return done

    def replay(self, worker, *arguments, expect=0):
        return self.run_replay(worker, "t.csv", "--no-overhead", "--phases", *arguments, expect=expect)

    def functions(self, worker):
        done = subprocess.run([LAMBENT, "ls", "--json", "--endpoint", worker.endpoint], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    def test_functions_run_in_phases_and_those_without_are_refused(self):
        with contextlib.closing(Worker("--time-scale", "1", "--memory-scale", "16", gpu="emulated:v100-16gb")) as worker:
            figures = json.loads(self.replay(worker).stdout)
            self.assertEqual((figures["invocations"], figures["failed"]), (6, 0))
            self.assertGreaterEqual(figures["variance_within"], 0)
            (self.folder / "none.csv").write_text("name,gpu_warm_s,cpu_warm_s,gpu_cold_s,device_memory_mib,times_source,memory_source\n"
                                                  "FFT,1,2,3,100,g,g\nIsoneural,1,2,3,100,g,g\n")
            refused = self.replay(worker, "--functions", "none.csv", "--prefix", "other-", expect=INVALID)
            self.assertIn("no phases of 'FFT'", refused.stderr)
            self.assertNotIn("other-", self.functions(worker))

    def test_phases_of_another_device_are_refused_before_anything_is_deployed(self):
        with contextlib.closing(Worker("--memory-scale", "16", gpu="emulated:h100-80gb")) as worker:
            refused = self.replay(worker, expect=FAILED_PRECONDITION)
            self.assertIn("of a V100 and say nothing of a", refused.stderr)
            self.assertNotIn("replay-", self.functions(worker))

    def test_a_time_scale_that_is_too_high_for_the_machine_is_refused_before_anything_is_deployed(self):
        # Of 26 modelled milliseconds at this scale 130 us are left: less than any call takes.
        (self.folder / "short.csv").write_text("t_ms,function\n" + "".join(f"{300 * i},a\n" for i in range(6)))
        (self.folder / "short_functions.csv").write_text("func,gpu_function\na,Isoneural\n")
        with contextlib.closing(Worker("--time-scale", "200", "--memory-scale", "16", gpu="emulated:v100-16gb")) as worker:
            for phases, beyond in ((("--phases",), "its phases"), ((), "its modelled time")):
                with self.subTest(phases=phases):
                    refused = self.run_replay(worker, "short.csv", "--time-scale", "200", *phases, expect=FAILED_PRECONDITION)
                    self.assertIn("a time scale of 200 is too high for this machine", refused.stderr)
                    self.assertIn(f"more than {beyond}", refused.stderr)
                    self.assertRegex(refused.stderr, r"start the worker with --time-scale [\d.]+ or less")
                    self.assertNotIn("replay-", self.functions(worker))


if __name__ == "__main__":
    unittest.main()
