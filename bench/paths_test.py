#!/usr/bin/env python3
"""What bench paths counts are whole runs: it waits until the worker rests, and does not believe that they ended."""
import json
import os
import subprocess
import sys
import time
import unittest

import paths


class AskedWorker:
    """A worker that answers with these numbers of runs that ended, one after the other, and of those under way."""

    def __init__(self, ended, live=0):
        self.ended, self.live = list(ended), live

    def request(self, _, path):
        if path == "/metrics":
            return ('lambent_invocations_total{tenant="default",function="other",outcome="ok",start="warm"} 7\n'
                    'lambent_invocations_total{tenant="default",function="f",outcome="ok",start="cold"} 1\n'
                    f'lambent_invocations_total{{tenant="default",function="f",outcome="ok",start="warm"}} {self.ended.pop(0)}\n').encode()
        return json.dumps({"invocations": [{}] * self.live}).encode()


class WholeRunsTest(unittest.TestCase):
    WAY = paths.Path("f", "/", function="f")

    def counted(self, worker):
        with paths.whole_runs(worker, self.WAY) as asked:
            asked.append(30)

    def test_runs_that_ended_are_taken(self):
        self.counted(AskedWorker([10, 40]))
        self.counted(AskedWorker([10, 41]))  # a client's last one was cut off

    def test_runs_that_have_not_ended_are_no_result(self):
        with self.assertRaisesRegex(SystemExit, "of 30 runs 29 had ended when they were counted, and 0 are under way"):
            self.counted(AskedWorker([10, 39]))
        with self.assertRaisesRegex(SystemExit, "and 2 are under way"):
            self.counted(AskedWorker([10, 40], live=2))

    def test_what_has_no_worker_is_not_asked(self):
        self.counted(None)


class SettleTest(unittest.TestCase):
    def test_a_program_that_works_is_waited_for(self):
        busy = "import sys, time\nprint('works', flush=True)\nend = time.monotonic() + 0.6\nwhile time.monotonic() < end:\n    pass\nprint('rests', flush=True)\nsys.stdin.read()"
        with subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
            self.assertEqual(process.stdout.readline(), b"works\n")
            paths.settle(process.pid)
            os.set_blocking(process.stdout.fileno(), False)
            self.assertEqual(process.stdout.read(), b"rests\n")
            process.stdin.close()

    def test_one_that_rests_is_not_waited_for_long(self):
        begin = time.monotonic()
        with subprocess.Popen(["sleep", "30"]) as process:
            paths.settle(process.pid)
            process.kill()
        self.assertLess(time.monotonic() - begin, 10)


if __name__ == "__main__":
    unittest.main()
