"""A worker with thousands of functions, hundreds of tenants and connections: all lists are complete, also after a restart, and each connection is answered."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

from harness import PREFIX

SCALE = pathlib.Path(__file__).resolve().parents[2] / "bench/scale.py"
SIZE = {"functions": 2000, "tenants": 200, "connections": 500, "sandboxes": 24, "devices": 8}


class ScaleTest(unittest.TestCase):
    """The benchmark ends with an error if anything is lost; what it measures is looked at here where no clock is in it."""

    def test_nothing_is_lost_and_what_is_shown_is_bounded(self):
        size = [word for name, count in SIZE.items() for word in (f"--{name}", str(count))]
        done = subprocess.run([sys.executable, "-B", str(SCALE), "--quick", *size], capture_output=True, text=True, timeout=280,
                              env={**os.environ, "LAMBENT_PREFIX": str(PREFIX)})
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        result = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(result["size"], SIZE)
        self.assertEqual(result["functions"]["count"], SIZE["functions"])
        self.assertEqual(result["tenants"]["count"], SIZE["tenants"])
        self.assertEqual(result["connections"]["answered"], SIZE["connections"])
        self.assertEqual(result["sandboxes"]["started"], SIZE["sandboxes"])
        self.assertGreaterEqual(result["sandboxes"]["live"], SIZE["sandboxes"])
        # Pages of 250, 50 and 500 for half of the functions.
        self.assertEqual([result["lists"][name]["pages"] for name in ("v1", "lambda", "dashboard")], [4, 20, 2])
        # Functions that were never called have no series, and a tenant sees those of its own.
        self.assertLess(result["metrics"]["of_default"]["series"], 600)
        self.assertLess(result["metrics"]["of_a_tenant"]["series"], 60)
        self.assertGreater(result["metrics_beside_sandboxes"]["of_default"]["series"], result["metrics"]["of_default"]["series"])


if __name__ == "__main__":
    unittest.main()
