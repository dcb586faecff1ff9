#!/usr/bin/env python3
"""What the benchmarks count of processes: how often they sleep, and what perf says of instructions, where the processor counts them."""
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

import counts

SLEEPER = "import sys, time\nfor _ in range(50):\n    time.sleep(0.001)\nprint(flush=True)\nsys.stdin.read()\n"


class CountsTest(unittest.TestCase):
    def test_each_sleep_of_a_process_counts(self):
        with subprocess.Popen([sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            nanoseconds, sleeps = counts.spent(process.pid)
            process.stdin.close()
        self.assertGreaterEqual(sleeps, 50)
        self.assertGreater(nanoseconds, 0)

    def test_a_process_that_has_ended_spent_nothing(self):
        with subprocess.Popen([sys.executable, "-c", ""]) as process:
            pass
        self.assertEqual(counts.spent(process.pid), (0, 0))

    def test_what_perf_says_is_a_count_or_none(self):
        self.assertEqual(counts.read_count("# started\n\n123456;;instructions;1000;100.00;1.2;insn per cycle\n"), 123456)
        self.assertEqual(counts.read_count("77;;instructions:u;1000;100.00;;\n"), 77)
        self.assertIsNone(counts.read_count("<not supported>;;instructions;0;100.00;;\n"))
        self.assertIsNone(counts.read_count("Error: no permission\n"))

    def test_instructions_are_counted_only_where_the_processor_does(self):
        with counts.instructions_of([os.getpid()]) as found:
            sum(range(1000))
        self.assertEqual(bool(found), counts.processor_counts())

    @unittest.skipUnless(shutil.which("perf"), "perf is not here")
    def test_perf_has_begun_when_the_body_runs(self):
        with counts.counted([os.getpid()], "task-clock") as said:
            ends = time.thread_time() + 0.02
            while time.thread_time() < ends:
                pass
        if not said:
            self.skipTest("perf may not count processes here")
        milliseconds = float(re.search(r"^([\d.]+);msec;task-clock", said[0], re.MULTILINE)[1])
        self.assertGreater(milliseconds, 19)

    @unittest.skipUnless(shutil.which("perf"), "perf is not here")
    def test_perf_that_cannot_begin_says_nothing(self):
        with counts.counted([2**22 + 1], "task-clock") as said:
            pass
        self.assertEqual(said, [])


if __name__ == "__main__":
    unittest.main()
