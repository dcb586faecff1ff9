#!/usr/bin/env python3
"""`./dev bench` hands each benchmark what it takes: a folder of traces reaches every program that reads one, and no other."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def commands():
    rows = (line.split("|") for line in (ROOT / "bench/benchmarks.txt").read_text().splitlines() if "|" in line and not line.startswith("#"))
    return {row[0].split(":")[0].strip(): row[-1].strip() for row in rows}


def reads_traces(command):
    name = pathlib.Path(command.split()[-1]).name
    source = ROOT / "bench" / (name if "." in name else f"{name}.cc")
    return source.exists() and "[--traces DIR]" in source.read_text()


class BenchCommandTest(unittest.TestCase):
    """Runs the script over benchmarks that print what they are given, and builds nothing."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "tools/dev").mkdir(parents=True)
        (self.root / "bench").mkdir()
        (self.root / "traces/kaas").mkdir(parents=True)
        shutil.copy(ROOT / "tools/dev/bench.sh", self.root / "tools/dev")
        (self.root / "tools/dev/common.sh").write_text(
            'set -euo pipefail\nroot="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"; cd "$root"\n'
            "die() { printf 'dev: %s\\n' \"$*\" >&2; exit 1; }\nbuild() { :; }\n")
        show = self.root / "show"
        show.write_text('#!/bin/sh\necho "$@"\necho "{}"\n')
        show.chmod(0o755)
        rows = [f"{name} : shown | ./show" for name in commands()] + ["fails : shown | /bin/false"]
        (self.root / "bench/benchmarks.txt").write_text("\n".join(rows) + "\n")

    def run_script(self, *arguments):
        return subprocess.run(["bash", str(self.root / "tools/dev/bench.sh"), *arguments], capture_output=True, text=True)

    def test_traces_reach_every_benchmark_that_reads_them(self):
        taking = {name for name, command in commands().items() if reads_traces(command)}
        self.assertIn("paper-mqfq", taking)
        for name in commands():
            given = self.run_script(name, "--traces", str(self.root / "traces")).stdout
            self.assertEqual(re.search("--traces", given) is not None, name in taking, name)

    def test_fresh_inputs_need_traces_and_a_benchmark_that_takes_them(self):
        for arguments, says in ((("paper-mqfq", "--fresh", "1"), "--traces DIR"), (("invoke", "--fresh", "1"), "does not take --fresh")):
            run = self.run_script(*arguments)
            self.assertEqual(run.returncode, 1)
            self.assertIn(says, run.stderr)

    def test_a_sweep_prints_a_table_and_no_object(self):
        (self.root / "show").write_text("#!/bin/sh\necho a table\n")
        self.assertEqual(self.run_script("paper-mqfq", "--sweep").returncode, 0)
        self.assertEqual(self.run_script("paper-mqfq").returncode, 1)
        kept = self.run_script("paper-mqfq", "--sweep", "--out", "file")
        self.assertEqual(kept.returncode, 1)
        self.assertIn("redirect it", kept.stderr)

    def test_a_benchmark_that_fails_is_said_to_have_failed(self):
        run = self.run_script("fails")
        self.assertEqual(run.returncode, 1)
        self.assertIn("the benchmark failed", run.stderr)


if __name__ == "__main__":
    unittest.main()
