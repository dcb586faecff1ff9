"""lambent calibrate as a user runs it: a worker on the emulated GPU is measured, and the simulator takes the profile."""
import contextlib
import json
import pathlib
import subprocess
import tempfile
import tomllib
import unittest

from harness import PREFIX, Worker

LAMBENT = str(PREFIX / "bin/lambent")
INVALID, NOT_FOUND, FAILED_PRECONDITION = 13, 15, 19


class CalibrateTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-calibrate-")))
        (self.folder / "t.csv").write_text("t_ms,function\n" + "".join(f"{500 * i},{'ab'[i % 2]}\n" for i in range(40)))

    def run_cli(self, *arguments, expect=0):
        done = subprocess.run([LAMBENT, *map(str, arguments)], capture_output=True, text=True, timeout=200, cwd=self.folder)
        self.assertEqual(done.returncode, expect, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def test_a_node_is_measured_and_simulated(self):
        with contextlib.closing(Worker("--time-scale", "10", "--concurrency", "2", "--set", "adapts=false", "--set", "foresee=false", gpu="emulated:v100-16gb")) as worker:
            measured = json.loads(self.run_cli("calibrate", "--endpoint", worker.endpoint, "--repeats", "1", "-o", "node.toml",
                                               "--json").stdout)
            left = json.loads(self.run_cli("ls", "--endpoint", worker.endpoint, "--json").stdout)
        self.assertNotIn("calibrate-", json.dumps(left))
        # Two contexts take turns on the model of a V100: twice as long, and a little lost. Memory moves no faster than the preset's
        # link, and real work on the blocks that it lies in counts ten times.
        self.assertEqual(measured["contention"][0], 1)
        self.assertGreater(measured["contention"][1], 1.5)
        for way in ("device_to_host_gb_per_s", "host_to_device_gb_per_s"):
            self.assertGreater(measured[way], 0.01)
            self.assertLess(measured[way], 12.8 * 1.2)
        # How much longer a start takes that has to wait for another sandbox's end: on a busy machine perhaps not at all.
        self.assertGreaterEqual(measured["stop_ms"], 0)
        self.assertLess(measured["stop_ms"], 60_000)
        self.assertGreaterEqual(measured["first_out_ms_per_gib"], 0)
        self.assertLess(measured["first_out_ms_per_gib"], 60_000)
        profile = tomllib.loads((self.folder / "node.toml").read_text())
        self.assertEqual(profile["node"]["time_scale"], 10)
        with_profile = json.loads(self.run_cli("simulate", "t.csv", "--profile", "node.toml", "--json").stdout)[0]
        without = json.loads(self.run_cli("simulate", "t.csv", "--json").stdout)[0]
        self.assertGreater(with_profile["mean_s"], without["mean_s"])
        self.run_cli("sweep", "t.csv", "--profile", "node.toml", "--vary", "D=1,2")

    def test_bad_profiles_are_refused_with_file_and_line(self):
        (self.folder / "other.toml").write_text("format = 9\n")
        self.assertIn("other.toml", self.run_cli("simulate", "t.csv", "--profile", "other.toml", expect=INVALID).stderr)
        (self.folder / "broken.toml").write_text("format = 2\n[node\n")
        self.assertIn("broken.toml: line 2", self.run_cli("simulate", "t.csv", "--profile", "broken.toml", expect=INVALID).stderr)
        self.run_cli("simulate", "t.csv", "--profile", "none.toml", expect=NOT_FOUND)

    def test_a_worker_without_gpu_cannot_be_calibrated(self):
        with contextlib.closing(Worker(gpu="none")) as worker:
            refused = self.run_cli("calibrate", "--endpoint", worker.endpoint, expect=FAILED_PRECONDITION)
        self.assertIn("no GPU", refused.stderr)
        self.assertFalse((self.folder / "node.toml").exists())

    def test_a_worker_that_adapts_is_refused_with_the_remedy(self):
        with contextlib.closing(Worker("--time-scale", "10", gpu="emulated:v100-16gb")) as worker:
            refused = self.run_cli("calibrate", "--endpoint", worker.endpoint, "-o", "node.toml", expect=FAILED_PRECONDITION)
            left = json.loads(self.run_cli("ls", "--endpoint", worker.endpoint, "--json").stdout)
        self.assertIn("--set adapts=false", refused.stderr)
        self.assertNotIn("calibrate-", json.dumps(left))
        self.assertFalse((self.folder / "node.toml").exists())


if __name__ == "__main__":
    unittest.main()
