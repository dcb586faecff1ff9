#!/usr/bin/env python3
"""What follows a failed run of ctest, on small folders of tests: repeated only where it may be, and always told."""
import contextlib
import io
import os
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import repeat_failed as subject

ONCE = "echo tried >>{name}.tries; test $(wc -l <{name}.tries) -gt 1 || {{ echo the reason of {name}; exit 1; }}"


class RepeatFailedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        self.lines = []
        environment = {name: value for name, value in os.environ.items() if name != "LAMBENT_REPEAT_FAILED"}
        patch = mock.patch.dict(os.environ, environment, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def add(self, name, command):
        self.lines.append(f'add_test({name} sh -c [==[{command.format(name=name)}]==])\n'
                          f'set_tests_properties({name} PROPERTIES WORKING_DIRECTORY "{self.build}")\n')

    def follow(self):
        """(the exit status, what was printed) after a run of the tests that were added."""
        (self.build / "CTestTestfile.cmake").write_text("".join(self.lines))
        run = subprocess.run(["ctest", "--test-dir", str(self.build)], check=False, capture_output=True)
        self.assertNotEqual(run.returncode, 0)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            status = subject.main(str(self.build))
        return status, printed.getvalue()

    def tries(self, name):
        return len((self.build / f"{name}.tries").read_text().splitlines())

    def test_one_that_passes_alone_is_told_and_does_not_fail_the_run(self):
        self.add("steady", "true")
        self.add("integration.unsteady", ONCE)
        status, printed = self.follow()
        self.assertEqual((status, self.tries("integration.unsteady")), (0, 2))
        self.assertIn("the reason of integration.unsteady", printed)
        self.assertIn("passed when repeated, to be looked at all the same: integration.unsteady", printed)

    def test_one_that_fails_again_fails_the_run(self):
        self.add("broken", "echo what broke; false")
        status, printed = self.follow()
        self.assertEqual(status, 1)
        self.assertIn("what broke", printed)
        self.assertNotIn("passed when repeated", printed)

    def test_three_are_no_chance(self):
        for name in ("one", "two", "three"):
            self.add(name, ONCE)
        status, printed = self.follow()
        self.assertEqual((status, self.tries("one")), (1, 1))
        for name in ("one", "two", "three"):
            self.assertIn(f"the reason of {name}", printed)

    def test_it_can_be_turned_off(self):
        self.add("worker", ONCE)
        with mock.patch.dict(os.environ, {"LAMBENT_REPEAT_FAILED": "0"}):
            self.assertEqual((self.follow()[0], self.tries("worker")), (1, 1))


if __name__ == "__main__":
    unittest.main()
