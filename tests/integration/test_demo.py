"""The tour runs from beginning to end, and stops and removes all that it started, also when it is interrupted."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from harness import PREFIX, descendants, process_exists

COMMAND = [sys.executable, "-B", str(PREFIX / "share/lambent/demo.py"), "--prefix", str(PREFIX), "--quick"]


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-test-demo-")))
        (self.folder / "tmp").mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.folder / "tmp")}

    def test_it_runs_to_the_end_and_writes_its_page(self):
        page = self.folder / "page.html"
        done = subprocess.run([*COMMAND, "--report", str(page)], env=self.environment, capture_output=True, text=True,
                              timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        for text in ("did you mean 'vector_add'?", '"correct": true', "FCFS naive", "Batch", "MQFQ-Sticky", "Density", "emulated"):
            self.assertIn(text, done.stdout)
        self.assertIn("emulated", page.read_text())
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def test_an_interrupted_one_stops_all_that_it_started(self):
        process = subprocess.Popen(COMMAND, env=self.environment, cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        try:
            for line in process.stdout:
                if line.startswith("$ lambent invoke"):
                    break
            below = descendants(process.pid)
            self.assertTrue(below)
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            self.assertEqual(process.wait(60), 130)
        finally:
            process.stdout.close()
            if process.poll() is None:
                process.kill()
                process.wait()
        deadline = time.monotonic() + 10
        while (left := [pid for pid in below if process_exists(pid)]) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(left, [])
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
