"""The quota of processors that a function asks for, from its manifest to the cgroup of its sandbox."""
import pathlib
import subprocess
import tempfile
import unittest

from harness import PREFIX, Worker

LAMBENT = str(PREFIX / "bin/lambent")
INVALID_ARGUMENT = 13  # exit status of the command
CODE = "def handler(event, context):\n    return 'here'\n"


def quota_of(process):
    """Microseconds in each 100 ms that the cgroup of this process has; None without a quota."""
    mounts = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    for line in pathlib.Path(f"/proc/{process}/cgroup").read_text().splitlines():
        number, controllers, cgroup = line.split(":", 2)
        for words in mounts:
            kind, options = words[words.index("-") + 1], words[-1].split(",")
            below = pathlib.Path(words[4] + cgroup)
            if kind == "cgroup" and "cpu" in controllers.split(",") and "cpu" in options:
                quota = int((below / "cpu.cfs_quota_us").read_text())
                return quota if quota > 0 else None
            if kind == "cgroup2" and number == "0" and (below / "cpu.max").exists():
                quota, _ = (below / "cpu.max").read_text().split()
                return int(quota) if quota != "max" else None
    raise AssertionError("no cpu cgroup")


class CpuQuotaTest(unittest.TestCase):
    def setUp(self):
        self.worker = Worker(gpu="none")
        self.addCleanup(self.worker.close)

    def lambent(self, *words):
        return subprocess.run([LAMBENT, *words, "--endpoint", self.worker.endpoint], capture_output=True, text=True, timeout=120)

    def deploy(self, line, expect=0):
        with tempfile.TemporaryDirectory(prefix="lambent-quota-") as folder:
            pathlib.Path(folder, "app.py").write_text(CODE)
            pathlib.Path(folder, "lambent.toml").write_text(f'name = "f"\nruntime = "python3"\nhandler = "app.handler"\n{line}\n')
            done = self.lambent("deploy", folder)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def quota(self):
        self.assertEqual(self.worker.invoke("f").json, "here")
        (process,) = [row["pid"] for row in self.worker.request("GET", "/v1/sandboxes").json["sandboxes"]]
        return quota_of(process)

    def test_a_sandbox_has_the_quota_that_its_function_says(self):
        if "a CPU quota is not enforced" in self.worker.log():
            self.skipTest("no cpu cgroup for sandboxes here")
        self.deploy("cpus = 0.5")
        self.assertEqual(self.quota(), 50_000)
        self.deploy("cpus = 2")
        self.assertEqual(self.quota(), 200_000)
        self.deploy("")
        self.assertIsNone(self.quota())

    def test_it_is_told_and_stays_after_a_restart(self):
        self.deploy("cpus = 0.5")
        self.worker.stop()
        self.worker.start()
        (row,) = self.worker.request("GET", "/v1/functions").json["functions"]
        self.assertEqual(row["cpus"], 0.5)
        self.assertRegex(self.lambent("describe", "f").stdout, r"(?m)^  cpus +0\.5$")

    def test_what_is_no_number_of_processors_is_refused(self):
        for wrong in ("-1", "0.01", "5000"):
            self.assertIn("cpus", self.deploy(f"cpus = {wrong}", expect=INVALID_ARGUMENT))
        self.assertIn("cpus", self.deploy('cpus = "half"', expect=INVALID_ARGUMENT))


if __name__ == "__main__":
    unittest.main()
