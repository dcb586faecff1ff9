"""Functions that are invoked by themselves: schedules in a manifest, over Lambda's API and of an app, in a real worker that is
killed and comes back."""
import datetime
import json
import pathlib
import re
import sqlite3
import subprocess
import tempfile
import time
import unittest

from harness import PREFIX, HttpError, WallClock, Worker, make_zip

LAMBENT = str(PREFIX / "bin/lambent")
INVALID_ARGUMENT = 13  # an exit status of the command

NOTES = "def handler(event, context):\n    print('heard', event)\n    return event\n"


def now():
    return datetime.datetime.now(datetime.timezone.utc)


# How long before a full minute a worker starts that is to begin a schedule of each minute.
BEFORE_THE_MINUTE = 5


class ScheduleTest(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-schedule-")))
        self.clock, self.ahead = WallClock(folder / "clock"), 0
        self.to_before_a_minute()
        self.worker = Worker(gpu="none", environment=self.clock.environment)
        self.addCleanup(self.worker.close)

    def to_before_a_minute(self):
        """Sets the worker's clock on, so that no test waits for most of a minute."""
        self.ahead += (60 - BEFORE_THE_MINUTE - (time.time() + self.ahead)) % 60
        self.clock.step(self.ahead)

    def deploy(self, manifest, source=NOTES, expect=0):
        with tempfile.TemporaryDirectory(prefix="lambent-schedule-") as folder:
            for name, text in {"app.py": source, "lambent.toml": 'name = "f"\nruntime = "python3"\nhandler = "app.handler"\n' + manifest}.items():
                with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                    file.write(text)
            done = subprocess.run([LAMBENT, "deploy", folder, "--endpoint", self.worker.endpoint], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def rows(self, worker=None):
        return (worker or self.worker).request("GET", "/v1/schedules").json["schedules"]

    def measured(self, name):
        """{labels: value} of a metric of the function's schedules."""
        found = re.findall(rf'^lambent_schedule_{name}{{function="f",(.*),tenant="1"}} (\S+)$', self.worker.metrics(), re.MULTILINE)
        return {labels: float(value) for labels, value in found}

    def wait_for_a_firing(self, after=None, seconds=90):
        """The row once the schedule was begun at another instant than `after`, and that has ended."""
        deadline = time.monotonic() + seconds
        while True:
            row, = self.rows()
            if row["last"] not in (None, after) and row["last_outcome"] not in (None, "pending"):
                return row
            self.assertLess(time.monotonic(), deadline, row)
            time.sleep(0.2)

    def test_a_cron_is_begun_each_minute_once_also_over_a_kill(self):
        self.deploy('[[schedules]]\nname = "often"\ncron = "* * * * *"\npayload = {n = 7}\n')
        row, = self.rows()
        self.assertEqual((row["function"], row["name"], row["timezone"], row["enabled"]), ("f", "often", "UTC", True))
        self.assertIsNone(row["last"])
        first = self.wait_for_a_firing()
        self.assertEqual(first["last_outcome"], "succeeded")
        self.assertTrue(first["last"].endswith(":00Z"), first)
        result = self.worker.request("GET", f"/v1/invocations/{first['last_invocation']}")
        self.assertEqual(result.json, {"n": 7})
        self.worker.kill()
        self.to_before_a_minute()
        self.worker.start()
        # What was begun is not begun again; the next minute is.
        again, = self.rows()
        self.assertEqual((again["last"], again["last_invocation"]), (first["last"], first["last_invocation"]))
        second = self.wait_for_a_firing(after=first["last"])
        self.assertNotEqual(second["last_invocation"], first["last_invocation"])
        begun = datetime.datetime.fromisoformat(second["last"]) - datetime.datetime.fromisoformat(first["last"])
        self.assertEqual(begun, datetime.timedelta(minutes=1))
        self.assertEqual((second["begun"], second["missed"]), (1, 0))  # by this worker
        self.assertEqual(self.measured("firings_total"), {'outcome="begun",schedule="often"': 1, 'outcome="missed",schedule="often"': 0})
        at = lambda text: datetime.datetime.fromisoformat(text).timestamp()
        self.assertEqual(self.measured("last_timestamp_seconds"), {'schedule="often"': at(second["last"])})
        self.assertEqual(self.measured("next_timestamp_seconds"), {'schedule="often"': at(self.rows()[0]["next"])})
        log = self.worker.request("GET", "/v1/functions/f/log").body.decode()
        # What the first printed may have gone with the worker that was killed.
        self.assertIn(log.count("heard {'n': 7}"), (1, 2), log)
        shown = subprocess.run([LAMBENT, "schedules", "--endpoint", self.worker.endpoint], capture_output=True, text=True, timeout=60)
        self.assertRegex(shown.stdout, r"f +often +\* \* \* \* \* +UTC +20\S+Z +20\S+Z +succeeded +0")

    def test_it_is_listed_changed_disabled_and_gone_with_its_function(self):
        self.deploy('[[schedules]]\nname = "a"\ncron = "30 2 * * *"\ntimezone = "Europe/Zurich"\n[[schedules]]\nname = "b"\nrate = "5 minutes"\n')
        night, rate = self.rows()
        at = datetime.datetime.fromisoformat(night["next"])
        self.assertIn((at.hour, at.minute), ((0, 30), (1, 30)))
        self.assertLess(now(), at)
        self.assertEqual(rate["rate"], "5 minutes")
        self.assertEqual(datetime.datetime.fromisoformat(rate["next"]).minute % 5, 0)
        self.deploy('[[schedules]]\nname = "a"\ncron = "30 2 * * *"\nenabled = false\n')
        row, = self.rows()
        self.assertEqual((row["enabled"], row["next"]), (False, None))
        described = next(f for f in self.worker.request("GET", "/v1/functions").json["functions"] if f["name"] == "f")
        self.assertEqual(described["schedules"], [{"name": "a", "cron": "30 2 * * *", "rate": "", "timezone": "", "payload": "", "catch_up": False, "enabled": False}])
        self.deploy("")
        self.assertEqual(self.rows(), [])
        self.worker.tag("f", {"lambent:schedules": json.dumps([{"name": "t", "rate": "1 hour"}])})
        self.assertEqual([row["name"] for row in self.rows()], ["t"])
        self.assertEqual(list(self.measured("next_timestamp_seconds")), ['schedule="t"'])
        self.worker.delete("f")
        self.assertEqual(self.rows(), [])
        self.assertNotIn("lambent_schedule_next_timestamp_seconds{", self.worker.metrics())

    def test_what_cannot_be_meant_is_refused(self):
        for schedule, said in [('cron = "61 * * * *"', "minute"), ('cron = "* * * * *"\ntimezone = "Europe/Atlantis"', "no time zone 'Europe/Atlantis'"),
                               ('cron = "* * * * *"\ntimezone = "../../etc/passwd"', "timezone"), ('rate = "5 weeks"', "rate"),
                               ('cron = "0 0 30 2 *"', "never comes")]:
            self.assertIn(said, self.deploy("[[schedules]]\n" + schedule + "\n", expect=INVALID_ARGUMENT))
        with self.assertRaises(HttpError) as refused:
            self.worker.create("h", make_zip({"x": ""}), handler="x", tags={"lambent:kind": "http", "lambent:schedules": '[{"name":"a","rate":"1 hour"}]'})
        self.assertEqual(refused.exception.status, 400)

    def test_one_that_was_missed_is_made_up_for_once_if_asked(self):
        self.deploy('[[schedules]]\nname = "s"\ncron = "* * * * *"\ncatch_up = true\n')
        first = self.wait_for_a_firing()
        self.worker.kill()
        off = 600  # seconds that the worker was off
        with sqlite3.connect(next(self.worker.folder.glob("state/**/*.db"))) as database:
            database.execute("UPDATE schedule_firings SET due_s = due_s - ?", (off,))
            database.execute("UPDATE functions SET last_modified_ns = last_modified_ns - ?", (2 * off * 10**9,))
        self.worker.start()
        deadline = time.monotonic() + 60
        while not (row := self.rows()[0])["missed"]:
            self.assertLess(time.monotonic(), deadline, row)
            time.sleep(0.2)
        self.assertEqual(row["missed"], 1)
        self.assertGreaterEqual(row["last"], first["last"])


class AppTest(unittest.TestCase):
    def test_the_example_is_deployed_with_its_schedules(self):
        worker = Worker(gpu="none")
        self.addCleanup(worker.close)
        done = subprocess.run([LAMBENT, "deploy", str(PREFIX / "examples/26_schedule"), "--endpoint", worker.endpoint], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["name"]: row for row in worker.request("GET", "/v1/schedules").json["schedules"]}
        self.assertEqual(set(rows), {"hourly", "nightly"})
        self.assertEqual(rows["nightly"]["timezone"], "Europe/Zurich")
        answer = worker.invoke("report", {"schedule": "hourly", "time": "2026-11-28T10:00:00Z"}).json
        self.assertEqual(answer["of"], "2026-11-28T09:00:00Z")
        self.assertEqual(worker.invoke("report", {"full": True}).json["of"], "all")


if __name__ == "__main__":
    unittest.main(verbosity=2)
