"""lambent serve --journal, simulate --journal, --replay, why and timelines, as an operator uses them: what a real worker decided is
decided again, also after kill -9, and what is spoilt is named."""
import json
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

from harness import PREFIX, HttpError, Worker

LAMBENT = str(PREFIX / "bin/lambent")
FAILED_PRECONDITION, INVALID, NOT_FOUND, DATA_LOSS = 19, 13, 15, 25
ECHO = "def handler(event, context):\n    return event\n"
FAILS = "def handler(event, context):\n    raise ValueError('a secret of the function')\n"


class JournalTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-journal-")))
        self.journal = self.folder / "journal"

    def run_cli(self, *arguments, expect=0):
        done = subprocess.run([LAMBENT, *map(str, arguments)], capture_output=True, text=True, timeout=60, cwd=self.folder)
        self.assertEqual(done.returncode, expect, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def segments(self):
        return sorted(self.journal.glob("*.journal"))

    def simulate(self, *arguments):
        return self.run_cli("simulate", "--load", "1.1", "--duration", "120", "--journal", self.journal, "--quiet", *arguments)

    def start_worker(self):
        worker = Worker("--journal", str(self.journal), gpu="none", folder=self.folder / "worker")
        self.addCleanup(worker.close)
        return worker

    def wait_until_recorded(self, invocation):
        """Until the journal on disk holds the outcome: at most a tenth of a second after it."""
        deadline = time.monotonic() + 20
        while True:
            done = subprocess.run([LAMBENT, "why", invocation, "--journal", str(self.journal), "--json"],
                                  capture_output=True, text=True, timeout=60)
            if done.returncode == 0 and json.loads(done.stdout)["outcome"]:
                return json.loads(done.stdout)
            self.assertLess(time.monotonic(), deadline, f"{done.stdout}\n{done.stderr}")

    def test_a_worker_keeps_a_journal_by_itself_and_answers_from_it(self):
        (self.folder / "worker").mkdir()
        worker = Worker(gpu="none", folder=self.folder / "worker")
        self.addCleanup(worker.close)
        worker.create_python("echo", ECHO)
        ids = [worker.invoke("echo").headers["x-amzn-requestid"] for _ in range(3)]
        self.assertTrue(list((self.folder / "worker/state/journal").glob("*.journal")))
        told = subprocess.run([LAMBENT, "why", ids[0]], capture_output=True, text=True, timeout=60,
                              env={"LAMBENT_ENDPOINT": worker.endpoint, "PATH": "/usr/bin"})
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("of echo", told.stdout)
        self.assertIn("succeeded", told.stdout)
        worker.wait_for(lambda: "succeeded" in worker.request("GET", f"/v1/invocations/{ids[2]}/why").body.decode())
        question = {"last_seconds": 600, "changes": {"pool": 1}}
        rows = worker.request("POST", "/v1/what-if", json.dumps(question)).json["rows"]
        self.assertEqual([row["ran"] for row in rows], [3, 3, 3])
        for body, status in (({"changes": {"pool": "x"}}, 400), ({"changes": {"nothing": 1}}, 400)):
            with self.assertRaises(HttpError) as caught:
                worker.request("POST", "/v1/what-if", json.dumps(body))
            self.assertEqual(caught.exception.status, status, body)

    def test_what_came_longer_ago_can_be_left_out(self):
        self.simulate()
        whole = json.loads(self.run_cli("simulate", "--replay", self.journal, "--what-if", "D=1", "--json").stdout)["rows"]
        last = json.loads(self.run_cli("simulate", "--replay", self.journal, "--what-if", "D=1", "--last", "30", "--json").stdout)["rows"]
        self.assertLess(last[0]["ran"], whole[0]["ran"] / 2)
        self.assertGreater(last[0]["ran"], 0)
        self.assertEqual(last[0]["ran"], last[1]["ran"])
        self.run_cli("simulate", "--replay", self.journal, "--last", "30", expect=2)

    def test_without_a_journal_it_says_so(self):
        (self.folder / "worker").mkdir()
        worker = Worker("--journal", "none", gpu="none", folder=self.folder / "worker")
        self.addCleanup(worker.close)
        worker.create_python("echo", ECHO)
        invocation = worker.invoke("echo").headers["x-amzn-requestid"]
        with self.assertRaises(HttpError) as caught:
            worker.request("GET", f"/v1/invocations/{invocation}/why")
        self.assertEqual(caught.exception.status, 412)
        self.assertFalse((self.folder / "worker/state/journal").exists())

    def test_a_worker_that_was_killed_leaves_a_journal_that_replays_and_the_next_one_goes_on(self):
        (self.folder / "worker").mkdir()
        worker = self.start_worker()
        worker.create_python("echo", ECHO)
        worker.create_python("fails", FAILS)
        ids = [worker.invoke("echo", {"n": n}).headers["x-amzn-requestid"] for n in range(5)]
        failed = worker.invoke("fails").headers["x-amzn-requestid"]
        story = self.wait_until_recorded(failed)
        self.assertEqual((story["function"], story["outcome"], story["tenant"]), ("fails", "function_error", 1))
        worker.kill()

        replayed = self.run_cli("simulate", "--replay", self.journal)
        self.assertIn("all identical (up to an end that was not closed)", replayed.stdout)
        self.assertIn("was killed or is still running", replayed.stderr)
        first = json.loads(self.run_cli("simulate", "--replay", self.journal, "--json").stdout)
        self.assertGreaterEqual(first["events"], 2 + 6 * 2)

        text = self.run_cli("why", ids[0], "--journal", self.journal).stdout
        for word in (ids[0], "of echo, tenant 1", "arrived", "cold: sandbox", "is started for it on the host", "succeeded"):
            self.assertIn(word, text)
        self.assertIn("runs", self.run_cli("why", ids[1], "--journal", self.journal).stdout.replace("begins to run", "runs"))
        self.run_cli("why", "00000000-0000-4000-8000-000000000000", "--journal", self.journal, expect=NOT_FOUND)
        self.run_cli("why", "no-id", "--journal", self.journal, expect=INVALID)
        for segment in self.segments():
            self.assertNotIn(b"secret", segment.read_bytes())

        worker = self.start_worker()
        worker.invoke("echo")
        worker.stop()
        both = json.loads(self.run_cli("simulate", "--replay", self.journal, "--json").stdout)
        self.assertEqual((both["identical"], both["runs"], both["open_end"]), (True, 2, False))
        self.assertGreater(both["events"], first["events"])

    def test_two_workers_do_not_share_a_journal(self):
        (self.folder / "worker").mkdir()
        self.start_worker()
        done = subprocess.run([str(PREFIX / "bin/lambent-worker"), "--listen", "127.0.0.1:0", "--gpu", "none", "--journal",
                               str(self.journal), "--state", str(self.folder / "s"), "--run", str(self.folder / "r")],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 16, done.stderr)
        self.assertIn("another worker writes its journal to", done.stderr)

    def test_a_simulation_replays_under_every_policy(self):
        policies = ["density", "mqfq-sticky", "mqfq-uniform", "fcfs", "fcfs-naive", "batch"]
        self.simulate("--policy", ",".join(policies), "--journal-size", "1")
        for policy in policies:
            result = json.loads(self.run_cli("simulate", "--replay", f"{self.journal}-{policy}", "--json").stdout)
            self.assertTrue(result["identical"])
            self.assertGreater(result["decisions"], 100)

    def test_a_timeline_is_a_chrome_trace(self):
        self.simulate("--timeline", "simulated.json")
        self.run_cli("simulate", "--replay", self.journal, "--timeline", "replayed.json")
        simulated, replayed = (json.loads((self.folder / name).read_text())["traceEvents"]
                               for name in ("simulated.json", "replayed.json"))
        self.assertEqual(simulated, replayed)
        spans = [event for event in replayed if event["ph"] == "X"]
        self.assertEqual({event["cat"] for event in spans}, {"run", "cold start"})
        self.assertTrue(all(event["dur"] >= 0 for event in spans))
        rows = {}
        for span in spans:
            rows.setdefault((span["pid"], span["tid"]), []).append((span["ts"], span["ts"] + span["dur"]))
        for row in rows.values():
            row.sort()
            for (_, end), (begin, _) in zip(row, row[1:]):
                self.assertLessEqual(end, begin + 0.001, "spans of one row do not overlap")
        begun = [event["id"] for event in replayed if event["ph"] == "b"]
        self.assertEqual(sorted(begun), sorted(event["id"] for event in replayed if event["ph"] == "e"))
        counters = {event["name"] for event in replayed if event["ph"] == "C"}
        self.assertLessEqual({"waiting", "slots taken", "global virtual time, s"}, counters)

    def test_what_if_shows_the_models_error_and_what_would_have_been(self):
        self.simulate("--concurrency", "2")
        result = self.run_cli("simulate", "--replay", self.journal, "--what-if", "D=1", "--what-if", "T=5", "--json").stdout
        recorded, same, changed = json.loads(result)["rows"]
        self.assertEqual([row["run"] for row in (recorded, same, changed)],
                         ["recorded", "simulated as recorded", "simulated D=1 T=5"])
        self.assertEqual(len({row["ran"] for row in (recorded, same, changed)}), 1)
        self.assertAlmostEqual(same["mean_s"] / recorded["mean_s"], 1, delta=0.02, msg="it was this very model")
        self.assertGreater(changed["mean_s"], 1.05 * same["mean_s"], "half the places at 120 % of the speed")
        self.assertIn("The model's error", self.run_cli("simulate", "--replay", self.journal, "--what-if", "policy=fcfs").stdout)
        self.assertIn("--what-if E=2", self.run_cli("simulate", "--replay", self.journal, "--what-if", "E=2", expect=INVALID).stderr)
        self.run_cli("simulate", "--what-if", "D=1", expect=2)

    def test_what_if_has_rows_by_function_filters_and_windows(self):
        self.simulate("--concurrency", "2")
        ask = ("simulate", "--replay", self.journal, "--what-if", "D=1")
        whole = json.loads(self.run_cli(*ask, "--json").stdout)
        names = [each["function"] for each in whole["functions"]]
        self.assertGreater(len(names), 1)
        for place in range(3):
            self.assertEqual(sum(each["rows"][place]["ran"] for each in whole["functions"]), whole["rows"][place]["ran"])
        chosen = names[:1]
        only = json.loads(self.run_cli(*ask, "--only", chosen[0], "--json").stdout)
        self.assertEqual(only["functions"], whole["functions"][:1], "the others still compete with it")
        self.assertEqual(only["rows"][2]["ran"], whole["functions"][0]["rows"][2]["ran"])
        self.run_cli(*ask, "--only", chosen[0], "--csv", self.folder / "rows.csv")
        lines = (self.folder / "rows.csv").read_text().splitlines()
        self.assertEqual([line.split(",")[:2] for line in lines[1:]],
                         [[run, chosen[0]] for run in ("recorded", "simulated as recorded", "simulated D=1")])
        middle = json.loads(self.run_cli(*ask, "--from", "30", "--to", "60", "--json").stdout)["rows"][0]["ran"]
        before = json.loads(self.run_cli(*ask, "--to", "30", "--json").stdout)["rows"][0]["ran"]
        after = json.loads(self.run_cli(*ask, "--from", "60", "--json").stdout)["rows"][0]["ran"]
        self.assertGreater(min(middle, before), 0)
        self.assertEqual(before + middle + after, whole["rows"][0]["ran"])
        text = self.run_cli(*ask).stdout
        self.assertRegex(text, rf"(?m)^{re.escape(chosen[0])} +recorded ")
        self.assertIn("has no function 'nothing'", self.run_cli(*ask, "--only", "nothing", expect=NOT_FOUND).stderr)
        self.assertIn("--to is not after --from", self.run_cli(*ask, "--from", "5", "--to", "5", expect=INVALID).stderr)
        self.run_cli(*ask, "--from", "5", "--last", "5", expect=2)
        self.run_cli(*ask, "--from", "1e8", expect=NOT_FOUND)

    def test_a_large_error_of_the_model_is_explained(self):
        self.simulate("--concurrency", "2")
        # A model in which runs beside others take far longer than they did.
        text = self.run_cli("simulate", "--replay", self.journal, "--what-if", "D=1", "--host-share", "0.9", "--link", "0.01").stdout
        if "What differs most" not in text:
            self.fail(text)
        self.assertRegex(text, r"\d+ % of the difference: (queue|cold start|memory|run) [\d.]+ s recorded, [\d.]+ s simulated")

    def test_what_would_change_nothing_beside_a_journal_is_refused(self):
        self.simulate()
        replay = ("simulate", "--replay", self.journal)
        self.assertIn("--policy changes nothing with --replay", self.run_cli(*replay, "--policy", "fcfs", expect=2).stderr)
        self.assertIn("TRACE changes nothing", self.run_cli(*replay, "t.csv", expect=2).stderr)
        self.assertIn("--pool changes nothing with --what-if",
                      self.run_cli(*replay, "--what-if", "D=1", "--pool", "4", expect=2).stderr)
        self.run_cli(*replay, "--what-if", "D=1", "--timeline", "t.json", expect=2)
        self.run_cli(*replay, "--what-if", "D=1", "--slowdown", "0.5")

    def test_what_is_spoilt_is_named_with_file_and_byte(self):
        self.simulate()
        segment = self.segments()[0]
        whole = segment.read_bytes()

        def replay(content, expect):
            segment.write_bytes(content)
            return self.run_cli("simulate", "--replay", self.journal, expect=expect)
        self.assertIn("not closed", replay(whole[:-5], 0).stdout)
        spoilt = replay(whole[:-40] + b"x" + whole[-39:], DATA_LOSS).stderr
        self.assertRegex(spoilt, r"00000001\.journal, byte \d+: a block's checksum")
        self.assertIn("format version 10", replay(whole[:8] + b"\x0a" + whole[9:], FAILED_PRECONDITION).stderr)
        self.assertIn("no segment of a journal", replay(b"t_ms,function\n1,a\n", INVALID).stderr)
        replay(b"", NOT_FOUND)
        segment.unlink()
        self.assertIn("holds no segment", self.run_cli("simulate", "--replay", self.journal, expect=NOT_FOUND).stderr)
        self.assertIn("nowhere", self.run_cli("simulate", "--replay", "nowhere", expect=NOT_FOUND).stderr)


if __name__ == "__main__":
    unittest.main()
