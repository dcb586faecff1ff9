"""lambent sweep as a user runs it: a grid with intervals, going on after it was cut off, errors before anything runs."""
import csv
import json
import pathlib
import subprocess
import tempfile
import unittest

from harness import PREFIX

LAMBENT = str(PREFIX / "bin/lambent")
INVALID, FAILED_PRECONDITION, NOT_FOUND = 13, 19, 15
TRACE = "t_ms,function\n" + "".join(f"{250 * i},{'abc'[(i * i + i // 5) % 3]}\n" for i in range(200))
GRID = ("--vary", "D=1:2", "--vary", "pool=2,4", "--policy", "mqfq-sticky,fcfs", "--execution-spread", "0.3", "--seeds", "3")


class SweepTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="lambent-sweep-")))
        (self.folder / "t.csv").write_text(TRACE)

    def sweep(self, *arguments, expect=0):
        done = subprocess.run([LAMBENT, "sweep", *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd=self.folder)
        self.assertEqual(done.returncode, expect, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def test_every_cell_is_what_simulate_says(self):
        points = json.loads(self.sweep("t.csv", *GRID, "--json").stdout)["points"]
        self.assertEqual(len(points), 2 * 2 * 2)
        one = next(p for p in points if p["point"] == {"concurrency": "2", "pool": "4", "policy": "fcfs"})
        means = []
        for seed in (1, 2, 3):
            run = subprocess.run([LAMBENT, "simulate", "t.csv", "--concurrency", "2", "--pool", "4", "--policy", "fcfs",
                                  "--execution-spread", "0.3", "--seed", str(seed), "--json", "--quiet"],
                                 capture_output=True, text=True, timeout=60, cwd=self.folder, check=True)
            means.append(json.loads(run.stdout)[0]["mean_s"])
        self.assertAlmostEqual(one["figures"]["mean_s"]["mean"], sum(means) / 3)
        self.assertGreater(one["figures"]["mean_s"]["half_width"], 0)

    def test_goes_on_where_it_was_cut_off_and_does_not_depend_on_jobs(self):
        whole = self.sweep("t.csv", *GRID, "--jobs", "1", "--out", "whole.jsonl").stdout
        lines = (self.folder / "whole.jsonl").read_bytes().splitlines(keepends=True)
        self.assertEqual(len(lines), 1 + 2 * 2 * 2 * 3)
        (self.folder / "cut.jsonl").write_bytes(b"".join(lines[:9]) + lines[9][:40])
        again = self.sweep("t.csv", *GRID, "--jobs", "4", "--out", "cut.jsonl")
        self.assertIn("8 of 24 cells are there already", again.stderr)
        self.assertEqual(again.stdout, whole)
        self.assertEqual(sorted((self.folder / "cut.jsonl").read_bytes().splitlines(keepends=True)), sorted(lines))

    def test_writes_a_page_and_rows(self):
        self.sweep("t.csv", *GRID, "--csv", "s.csv", "--page", "s.html", "--metrics", "mean_s,utilisation")
        rows = list(csv.DictReader((self.folder / "s.csv").read_text().splitlines()))
        self.assertEqual(len(rows), 8)
        self.assertEqual({row["seeds"] for row in rows}, {"3"})
        page = (self.folder / "s.html").read_text()
        self.assertEqual(page.count("<svg"), 2 * 2)  # two figures, a map for each policy
        self.assertIn("simulated", page)

    def test_says_so_where_seeds_change_nothing(self):
        done = self.sweep("t.csv", "--vary", "D=1,2", "--seeds", "2", "--functions", self.one_entry())
        self.assertIn("The seeds change nothing", done.stdout)

    def one_entry(self):
        """A catalogue of one function, so that no seed decides which stands for which."""
        rows = (pathlib.Path(__file__).parents[2] / "share/catalogue/mqfq_table1.csv").read_text().splitlines()
        body = [row for row in rows if not row.startswith("#")]
        (self.folder / "one.csv").write_text("\n".join(body[:2]) + "\n")
        return "one.csv"

    def test_bad_input_is_refused_before_anything_runs(self):
        for arguments, code, part in (
                (("t.csv",), INVALID, "nothing to vary"),
                (("t.csv", "--vary", "D=0:2"), INVALID, "not in range"),
                (("t.csv", "--vary", "D=2:1"), INVALID, "least first"),
                (("t.csv", "--vary", "nonsense=1"), INVALID, "no such setting"),
                (("t.csv", "--policy", "fcfs,nonsense"), INVALID, "no policy 'nonsense'"),
                (("t.csv", "--vary", "pool=1,2", "--pool", "3"), INVALID, "both fixed and varied"),
                (("t.csv", "--vary", "D=1,2", "--metrics", "speed"), INVALID, "cold_ratio"),
                (("none.csv", "--vary", "D=1,2"), NOT_FOUND, "lambent simulate none.csv"),
        ):
            done = self.sweep(*arguments, expect=code)
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stdout, "")
        (self.folder / "notes.txt").write_text("a file of mine, without an end of line")
        refused = self.sweep("t.csv", "--vary", "D=1,2", "--out", "notes.txt", expect=FAILED_PRECONDITION)
        self.assertIn("holds something else", refused.stderr)
        self.assertEqual((self.folder / "notes.txt").read_text(), "a file of mine, without an end of line")
        self.sweep("t.csv", "--vary", "D=1,2", "--out", "s.jsonl")
        self.assertIn("another sweep", self.sweep("t.csv", "--vary", "D=1,3", "--out", "s.jsonl", expect=FAILED_PRECONDITION).stderr)


if __name__ == "__main__":
    unittest.main()
