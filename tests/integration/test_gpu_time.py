"""What a tenant used of its GPU time in an hour counts on after an upgrade, a stop and kill -9."""
import contextlib
import json
import re
import sqlite3
import subprocess
import unittest

from harness import PREFIX, HttpError
from test_replacement import ReplacedTest

WORK = """
import time
def handler(event, context):
    time.sleep(event['seconds'])
"""
QUOTA = {"gpu_seconds_per_hour": 1}


class GpuTimeTest(ReplacedTest):
    def begin(self):
        """A worker whose tenant has used its hour."""
        worker = self.start(gpu="emulated:tiny")
        worker.request("PATCH", "/v1/tenants/default", json.dumps({"quotas": QUOTA}))
        worker.create_python("work", WORK, tags={"lambent:gpu-memory": "8M"})
        worker.invoke("work", {"seconds": 1.2})
        self.expect_used()
        return worker

    def used(self):
        return self.worker.request("GET", "/v1/tenants/default").json["usage"]["gpu_seconds_in_hour"]

    def expect_used(self):
        self.assertGreater(self.used(), 1.1)
        self.assertLess(self.used(), 5)
        with self.assertRaises(HttpError) as caught:
            self.worker.invoke("work", {"seconds": 0})
        self.assertEqual(caught.exception.status, 429)
        self.assertIn(b"gpu_time_per_hour", caught.exception.body)

    def counted(self):
        """By the counter of the metrics, since the worker's process began."""
        found = re.search(r'^lambent_tenant_gpu_run_seconds_total\{tenant="1"\} (\S+)$', self.worker.metrics(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def saved(self):
        with contextlib.closing(sqlite3.connect(self.worker.folder / "state/catalog.db")) as state:
            return state.execute("SELECT used FROM tenant_gpu_times").fetchall()

    def test_it_counts_on_after_upgrades_and_a_stop(self):
        worker = self.begin()
        used = self.used()
        self.assertAlmostEqual(self.counted(), used, delta=0.1)
        for _ in range(2):
            self.replace()
            self.assertEqual(self.used(), used)
            self.expect_used()
        worker.stop()
        worker.start()
        self.assertEqual(self.used(), used)
        self.expect_used()
        worker.stop()
        replayed = subprocess.run([str(PREFIX / "bin/lambent"), "simulate", "--replay", str(worker.folder / "state/journal")],
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual(replayed.returncode, 0, replayed.stderr)
        self.assertIn("all identical", replayed.stdout)
        worker.start()
        # It is the hour that counts and not the quota of before.
        worker.request("PATCH", "/v1/tenants/default", json.dumps({"quotas": {"gpu_seconds_per_hour": 100}}))
        worker.invoke("work", {"seconds": 0})

    def test_it_counts_on_after_kill_9(self):
        worker = self.begin()
        used = self.used()
        worker.wait_for(self.saved, what="the first time that it is saved")
        worker.kill()
        worker.start()
        self.assertEqual(self.used(), used)
        self.expect_used()
        saved = self.saved()
        worker.kill()
        self.assertEqual(self.saved(), saved)


if __name__ == "__main__":
    unittest.main()
