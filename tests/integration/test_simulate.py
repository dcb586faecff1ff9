"""lambent simulate as a user runs it: no worker, the same figures again, files for report, errors that name what is wrong."""
import csv
import gzip
import json
import lzma
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import PREFIX

LAMBENT = str(PREFIX / "bin/lambent")
INVALID, NOT_FOUND, EXHAUSTED, ABORTED, DATA_LOSS = 13, 15, 18, 20, 25
TRACE = "t_ms,function\n" + "".join(f"{250 * i},{'abc'[(i * i + i // 5) % 3]}\n" for i in range(200))


class SimulateTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-simulate-")))
        (self.folder / "t.csv").write_text(TRACE)

    def run_cli(self, *arguments, expect=0):
        done = subprocess.run([LAMBENT, *map(str, arguments)], capture_output=True, text=True, timeout=60, cwd=self.folder)
        self.assertEqual(done.returncode, expect, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def test_several_policies_see_the_same_arrivals_and_figures_repeat(self):
        first = self.run_cli("simulate", "t.csv", "--policy", "mqfq-sticky,fcfs", "--json").stdout
        self.assertEqual(first, self.run_cli("simulate", "t.csv", "--policy", "mqfq-sticky,fcfs", "--json").stdout)
        runs = json.loads(first)
        self.assertEqual([run["run"] for run in runs], ["mqfq-sticky", "fcfs"])
        for run in runs:
            self.assertEqual(run["invocations"] + run["failed"], 200)
            self.assertEqual({f["name"] for f in run["functions"]}, {"a", "b", "c"})

    def test_memory_that_moves_is_counted(self):
        small = ("simulate", "t.csv", "--memory", "1.2", "--json")
        stays = json.loads(self.run_cli(*small, "--set", "memory_rule=every-sandbox").stdout)[0]
        self.assertEqual(stays["gpu_cold_ratio"], 0)
        self.assertNotIn("moves", stays)
        moves = (*small, "--link", "5")
        moved = json.loads(self.run_cli(*moves).stdout)[0]
        self.assertGreater(moved["gpu_cold_ratio"], 0)
        self.assertGreater(moved["memory_mean_s"], 0)
        self.assertLess(moved["cold_ratio"], stays["cold_ratio"])
        self.assertGreater(moved["moves"]["bytes"], 0)
        self.assertGreater(moved["moves"]["out"], 0)
        slower = json.loads(self.run_cli(*moves[:-1], "0.5").stdout)[0]
        self.assertGreater(slower["memory_mean_s"], moved["memory_mean_s"])
        unfetched = json.loads(self.run_cli(*moves, "--set", "prefetch=false").stdout)[0]
        self.assertEqual(unfetched["moves"]["prefetches"], 0)
        table = self.run_cli(*[word for word in moves if word != "--json"]).stdout
        self.assertIn("moves of density: ", table)

    def test_result_files_make_a_report_that_says_simulated(self):
        self.run_cli("simulate", "t.csv", "--policy", "fcfs,batch", "--out", "run.jsonl", "--csv", "run.csv")
        self.assertEqual(len((self.folder / "run.csv").read_text().splitlines()), 1 + 2 * 3)
        header = json.loads((self.folder / "run-fcfs.jsonl").read_text().splitlines()[0])
        self.assertEqual(header["source"], "simulation")
        self.run_cli("report", "run-fcfs.jsonl", "run-batch.jsonl", "-o", "report.html")
        self.assertIn("are simulated", (self.folder / "report.html").read_text())

    def test_more_devices_shorten_the_wait(self):
        def mean(gpus):
            return json.loads(self.run_cli("simulate", "t.csv", "--gpus", gpus, "--json").stdout)[0]["mean_s"]
        self.assertLess(mean(4), mean(1))

    def test_a_pipe_and_a_packed_file_give_what_the_file_gives(self):
        plain = self.run_cli("simulate", "t.csv", "--json").stdout
        with gzip.open(self.folder / "t.csv.gz", "wt") as packed:
            packed.write(TRACE)
        (self.folder / "t.csv").unlink()
        self.assertEqual(self.run_cli("simulate", "t.csv.gz", "--json").stdout, plain)
        os.mkfifo(self.folder / "t.csv")
        with subprocess.Popen(["sh", "-c", "gunzip -c t.csv.gz > t.csv"], cwd=self.folder):
            self.assertEqual(self.run_cli("simulate", "t.csv", "--json").stdout, plain)

    def test_a_table_of_others_runs_as_it_says_and_shows_what_was_assumed(self):
        rows = "".join(f"{1_700_000_000 + 60 * i};b\t{i % 2};{0.5 + i}\n" for i in range(5))
        (self.folder / "jobs.csv").write_text("when;app;took\n" + rows)
        columns = ("--column", "time=when:s", "--column", "duration=took:s", "--column", "function=app")
        run = json.loads(self.run_cli("simulate", "jobs.csv", *columns, "--json").stdout)[0]
        self.assertEqual(run["invocations"], 5)
        self.assertAlmostEqual(run["run_mean_s"], 2.5)
        self.assertEqual({f["name"]: round(f["warm_s"], 6) for f in run["functions"]}, {"b\t0": 2.5, "b\t1": 2.5})
        self.assertIn("times count from the earliest row", run["assumptions"])
        shown = self.run_cli("simulate", "jobs.csv", *columns).stdout
        self.assertIn("assumed: times count from the earliest row\n", shown)
        self.assertIn("assumed: calls run as long as the trace says", shown)
        sweep = ("sweep", "jobs.csv", *columns, "--vary", "D=1:2", "--out", "s.jsonl")
        self.assertIn("assumed: times count", self.run_cli(*sweep).stdout)
        # All cells are there already; what was assumed of them is as well.
        resumed = json.loads(self.run_cli(*sweep, "--json", "--page", "s.html").stdout)
        self.assertEqual(resumed["assumptions"], sorted(run["assumptions"]))
        self.assertIn("times count from the earliest row", (self.folder / "s.html").read_text())
        self.assertIn("is there twice", self.run_cli("simulate", "jobs.csv", *columns, "--column", "time=took:s", expect=INVALID).stderr)
        self.assertIn("is not WHAT=COLUMN", self.run_cli("simulate", "jobs.csv", "--column", "when", expect=2).stderr)
        self.assertIn("is not IN,OUT", self.run_cli("simulate", "jobs.csv", "--token-rates", "fast", expect=2).stderr)
        self.assertIn("leave out --phases", self.run_cli("simulate", "jobs.csv", *columns, "--phases", "mps", expect=INVALID).stderr)
        self.assertIn("leave out --execution-spread", self.run_cli("simulate", "jobs.csv", *columns, "--execution-spread", "0.2", expect=INVALID).stderr)
        self.run_cli("simulate", "jobs.csv", *columns, "--execution-spread", "0")

    def test_requests_to_a_model_take_what_the_rates_say(self):
        (self.folder / "code.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                              "2023-11-16 18:17:03.9799600,1000,10\n2023-11-16 18:18:04.0319600,3000,10\n")
        run = json.loads(self.run_cli("simulate", "code.csv", "--token-rates", "1000,10", "--json").stdout)[0]
        self.assertAlmostEqual(run["run_mean_s"], 3)
        self.assertEqual([f["name"] for f in run["functions"]], ["code"])
        self.assertTrue(any("--token-rates" in each for each in run["assumptions"]), run["assumptions"])

    def test_a_packed_file_is_refused_with_the_command_that_unpacks_it(self):
        (self.folder / "t.csv.xz").write_bytes(lzma.compress(TRACE.encode()))
        refused = self.run_cli("simulate", "t.csv.xz", expect=INVALID).stderr
        command = "xz -dc 't.csv.xz' > trace.csv"
        self.assertIn(command, refused)
        subprocess.run(["sh", "-c", command], cwd=self.folder, check=True)
        self.run_cli("simulate", "trace.csv")

    def test_a_trace_that_is_written_to_meanwhile_gives_no_figures(self):
        # The second reading has begun when the header of the result file is there; what it is held up by is the pipe of records.
        (self.folder / "long.csv").write_text("t_ms,function\n" + "".join(f"{9000 * i},a\n" for i in range(100_000)))
        os.mkfifo(self.folder / "records")
        command = [LAMBENT, "simulate", "long.csv", "--out", "records", "--json", "--journal", "journal"]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            with open(self.folder / "records") as records:
                records.readline()
                with open(self.folder / "long.csv", "a") as trace:
                    trace.write("900000000,a\n")
                records.read()
            out, err = run.communicate(timeout=60)
        self.assertEqual((run.returncode, out), (ABORTED, ""), err)
        self.assertIn("long.csv line", err)
        self.assertIn("run this again", err)
        self.assertIn("(up to an end that was not closed)", self.run_cli("simulate", "--replay", "journal").stdout)

    def test_records_have_the_ids_that_why_takes(self):
        self.run_cli("simulate", "t.csv", "--out", "run.jsonl", "--journal", "journal", "--quiet")
        records = [json.loads(line) for line in (self.folder / "run.jsonl").read_text().splitlines()]
        slowest = max((record for record in records if "latency_s" in record), key=lambda record: record["latency_s"])
        story = json.loads(self.run_cli("why", slowest["invocation"], "--journal", "journal", "--json").stdout)
        self.assertEqual(story["outcome"], "succeeded")
        self.assertAlmostEqual(story["phases_ms"]["queue"] / 1e3, slowest["queue_s"], places=6)
        self.assertNotIn("more at most", json.dumps(story["story"]), "of a simulation nothing times out")

    def test_names_with_commas_are_one_field(self):
        (self.folder / "odd.csv").write_text('t_ms,function\n1,"a,b"\n2,c\n')
        self.run_cli("simulate", "odd.csv", "--csv", "rows.csv")
        with open(self.folder / "rows.csv", newline="") as rows:
            self.assertEqual([row["function"] for row in csv.DictReader(rows)], ["a,b", "c"])

    def test_a_result_that_was_cut_off_is_not_shown_as_whole(self):
        self.run_cli("simulate", "t.csv", "--policy", "fcfs", "--out", "run.jsonl")
        lines = (self.folder / "run.jsonl").read_text().splitlines(keepends=True)
        (self.folder / "run.jsonl").write_text("".join(lines[:100]))
        self.assertIn("INVALID fcfs: its result file has no end", self.run_cli("report", "run.jsonl", "-o", "r.html").stdout)
        self.assertIn("Cut off", (self.folder / "r.html").read_text())
        with open("/dev/full", "w") as full:
            done = subprocess.run([LAMBENT, "simulate", "t.csv", "--json"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                                  cwd=self.folder)
        self.assertEqual(done.returncode, DATA_LOSS, done.stderr)
        self.assertIn("could not write all of the standard output", done.stderr)
        self.assertIn("/dev/full", self.run_cli("simulate", "t.csv", "--csv", "/dev/full", expect=27).stderr)

    def test_settings_have_their_names_of_the_version_before_with_a_warning(self):
        for former, present in (("second_patience", "second_grace_period"), ("move_patience", "move_grace_period"),
                                ("patience_s", "grace_period_s")):
            with self.subTest(present):
                now = self.run_cli("simulate", "t.csv", "--set", f"{present}=3", "--json")
                before = self.run_cli("simulate", "t.csv", "--set", f"{former}=3", "--json")
                self.assertEqual(now.stdout, before.stdout)
                self.assertNotIn("warning", now.stderr)
                self.assertEqual(before.stderr.count(f"warning: the setting {former} is called {present} now"), 1)
        varied = self.run_cli("sweep", "--vary", "second_patience=0:1", "t.csv", "--json")
        self.assertEqual(varied.stderr.count("is called second_grace_period now"), 1)
        self.assertEqual([each["point"] for each in json.loads(varied.stdout)["points"]], [{"second_grace_period": "0"}, {"second_grace_period": "1"}])

    def test_what_is_wrong_is_named(self):
        self.assertIn("nowhere.csv", self.run_cli("simulate", "nowhere.csv", expect=NOT_FOUND).stderr)
        without = self.run_cli("simulate", "t.csv", "--functions", "no_such.csv", expect=NOT_FOUND).stderr
        self.assertIn("no_such.csv", without)
        self.assertIn("--functions FILE", without)
        self.assertIn("batch", self.run_cli("simulate", "t.csv", "--policy", "best", expect=INVALID).stderr)
        self.assertIn("over_run_s", self.run_cli("simulate", "t.csv", "--set", "x=1", expect=INVALID).stderr)
        (self.folder / "bad.csv").write_text("t_ms,function\nsoon,a\n")
        self.assertIn("bad.csv", self.run_cli("simulate", "bad.csv", expect=INVALID).stderr)
        (self.folder / "wide.csv").write_text("t_ms,function,execution_ms\n1,a,5\n")
        self.assertIn("wide.csv line 1: nothing is known of the column 'execution_ms'",
                      self.run_cli("simulate", "wide.csv", expect=INVALID).stderr)
        (self.folder / "empty.csv").write_text("t_ms,function\n")
        self.assertIn("there is no row", self.run_cli("simulate", "empty.csv", expect=INVALID).stderr)
        self.run_cli("simulate", "t.csv", "--gpus", "0", expect=2)
        for flag in ("--seed", "--busiest"):
            self.assertIn("-1 is no whole number", self.run_cli("simulate", "t.csv", flag, "-1", expect=2).stderr)
        self.assertIn("t.csv has no arrival in this window", self.run_cli("simulate", "t.csv", "--start", "1000", expect=INVALID).stderr)
        # Before anything runs.
        for flag in ("--csv", "--out", "--timeline"):
            self.assertIn("cannot write nowhere/x", self.run_cli("simulate", "t.csv", flag, "nowhere/x", expect=2).stderr)


if __name__ == "__main__":
    unittest.main()
