"""A function that is called again and again after the same gap, which is longer than idle sandboxes are kept: its sandbox is started
ahead of the call, and `lambent why` says so."""
import json
import pathlib
import subprocess
import tempfile
import time

from harness import PREFIX
from test_gpu import GpuTest

LAMBENT = str(PREFIX / "bin/lambent")

CALLED = """
import lambent_cuda as cuda

device = cuda.Device()

def handler(event, context):
    return device.name
"""

GAP_S = 4


class ForeseenTest(GpuTest):
    @classmethod
    def setUpClass(cls):
        cls.journal = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="lambent-foreseen-"))) / "journal"
        cls.flags = ("--keep-alive", "1", "--set", "foresee_window_s=0.5", "--journal", str(cls.journal))
        super().setUpClass()

    def story_of(self, invocation):
        deadline = time.monotonic() + 20
        while True:
            done = subprocess.run([LAMBENT, "why", invocation, "--journal", str(self.journal), "--json"],
                                  capture_output=True, text=True, timeout=60)
            if done.returncode == 0 and json.loads(done.stdout)["outcome"]:
                return json.dumps(json.loads(done.stdout))
            self.assertLess(time.monotonic(), deadline, f"{done.stdout}\n{done.stderr}")

    def test_a_call_that_was_foreseen_finds_a_sandbox_that_was_started_ahead(self):
        self.create_gpu("called", CALLED)
        self.addCleanup(self.worker.delete, "called")
        stories = []
        begin = time.monotonic()
        # Three gaps foretell the fourth; a machine that is busy may need one more.
        for i in range(8):
            time.sleep(max(0, begin + i * GAP_S - time.monotonic()))
            stories.append(self.story_of(self.worker.invoke("called").headers["x-amzn-requestid"]))
            if "started ahead" in stories[-1]:
                break
        self.assertNotIn("started ahead", "".join(stories[:4]), "nothing was known of it yet")
        self.assertIn("because a call was expected within", stories[-1])
        replayed = subprocess.run([LAMBENT, "simulate", "--replay", str(self.journal), "--json"], capture_output=True, text=True,
                                  timeout=60)
        self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)
