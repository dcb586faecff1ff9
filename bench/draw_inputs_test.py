#!/usr/bin/env python3
"""Inputs drawn for the paper benches: the same seed gives the same files, loads are met, and what the nine traces name is left out."""
import csv
import gzip
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import draw_inputs  # noqa: E402


def write_minutes(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.write(",".join(header) + "\n")
        file.writelines(",".join(map(str, row)) + "\n" for row in rows)


class DrawInputsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.traces = pathlib.Path(self.folder.name) / "traces"
        chance = random.Random(1)
        minutes = [str(minute) for minute in range(1, draw_inputs.MINUTES_OF_DAY + 1)]
        rows = []
        for index in range(40):
            label = ("bursty", "steady", "periodic", "sporadic")[index % 4]
            often = 0.02 if label == "sporadic" else 0.6
            counts = [chance.randrange(1, 9) if chance.random() < often else 0 for _ in minutes]
            rows.append([f"f{index}", label, sum(counts), *counts])
        write_minutes(self.traces / "azure2019_day/invocations.csv.gz", ["fid", "label", "total", *minutes], rows)
        (self.traces / "streambox").mkdir()
        for name in ("bursty", "periodic", "sporadic"):
            (self.traces / f"streambox/{name}-load.txt").write_text("10\n20\n30\n")

    def write_what_mqfq_is_drawn_from(self):
        """60 functions of eight hours, of which every third is named by one of two traces, 400 of fourteen days, durations and requests."""
        chance = random.Random(2)

        def calls(minutes):
            return [chance.randrange(1, 4) if chance.random() < 0.1 else 0 for _ in range(minutes)]

        minutes = [str(minute) for minute in range(1, draw_inputs.MINUTES_OF_DAY + 1)]
        hours = [f"h{index}" for index in range(60)]
        write_minutes(self.traces / "azure2019_8h/invocations.csv.gz", ["HashFunction", *minutes[:480]], [[name, *calls(480)] for name in hours])
        write_minutes(self.traces / "azure2019_8h/durations.csv.gz", ["HashFunction", "percentile_Average_25"],
                      [[name, chance.randrange(50, 2000)] for name in hours])
        write_minutes(self.traces / "azure2019_day/marginal_durations_ms.csv.gz", ["percentile_Average_25"],
                      [[chance.randrange(50, 2000)] for _ in range(50)])
        write_minutes(self.traces / "azure2019_sum14/invocations.csv.gz", ["fid", *minutes],
                      [[f"s{index}", *(14 * count for count in calls(len(minutes)))] for index in range(400)])
        for service in ("code", "conv"):
            write_minutes(self.traces / f"azure_llm_2023/{service}.csv.gz", ["TIMESTAMP", "ContextTokens", "GeneratedTokens"],
                          [[f"2023-11-16 18:{at_s // 60:02}:{at_s % 60:02}.{chance.randrange(10 ** 7):07}", chance.randrange(4000), chance.randrange(400)]
                           for at_s in range(1800)])
        (self.traces / "mqfq24").mkdir()
        for name, rest in (("t1", 0), ("t9", 3)):
            (self.traces / f"mqfq24/{name}_functions.csv").write_text("func,gpu_function\n" + "".join(f"{one},FFT\n" for one in hours[rest::6]))
        return set(hours[::3]), set(hours)

    def draw(self, make, seed, name):
        out = pathlib.Path(self.folder.name) / name
        make(self.traces, out, seed)
        return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}

    def test_the_same_seed_gives_the_same_files_and_another_one_does_not(self):
        for make in (draw_inputs.streambox, draw_inputs.fluidfaas):
            first, again, other = self.draw(make, 5, "a"), self.draw(make, 5, "b"), self.draw(make, 6, "c")
            self.assertEqual(first, again)
            self.assertEqual(set(first), set(other))
            self.assertNotEqual(first, other)

    def test_what_the_nine_traces_name_is_left_out(self):
        named, hours = self.write_what_mqfq_is_drawn_from()
        self.assertEqual({name for name, _, _ in draw_inputs.azure_of_8h(self.traces, draw_inputs.Catalogue())}, hours - named)
        files = self.draw(draw_inputs.mqfq, 5, "a")
        drawn = set()
        for row in range(1, 10):
            functions = files[f"mqfq24/t{row}_functions.csv"].decode().split()[1:]
            self.assertEqual(len(functions), draw_inputs.FUNCTIONS)
            drawn |= {line.partition(",")[0] for line in functions}
        self.assertTrue(drawn)
        self.assertEqual(drawn & named, set())
        self.assertEqual(files, self.draw(draw_inputs.mqfq, 5, "b"))

    def test_the_gaps_of_kaas_are_the_recorded_ones_from_a_place_of_the_seed_on(self):
        self.write_what_mqfq_is_drawn_from()
        first, again, other = (self.draw(draw_inputs.kaas, seed, name)["kaas/gaps.txt"].split() for seed, name in ((5, "a"), (5, "b"), (6, "c")))
        self.assertEqual(len(first), 1799)
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        begin = other.index(first[0])
        self.assertEqual(first, other[begin:] + other[:begin])

    def test_the_parts_of_a_load_have_the_mean_of_the_published_one(self):
        self.draw(draw_inputs.streambox, 5, "a")
        values = [float(line) for line in (pathlib.Path(self.folder.name) / "a/streambox/sporadic-load.txt").read_text().split()]
        self.assertEqual(len(values), draw_inputs.DRAWS * 150)
        for part in range(draw_inputs.DRAWS):
            self.assertAlmostEqual(sum(values[150 * part:150 * (part + 1)]) / 150, 20, places=2)

    def test_applications_get_equal_shares_of_the_rate(self):
        self.draw(draw_inputs.fluidfaas, 5, "a")
        with gzip.open(pathlib.Path(self.folder.name) / "a/fluidfaas_arrivals/heavy.csv.gz", "rt") as file:
            apps = [row["app"] for row in csv.DictReader(file)]
        for app in range(4):
            self.assertAlmostEqual(apps.count(f"app{app}") / len(apps), 0.25, delta=0.02)
        self.assertAlmostEqual(len(apps) / (90 * draw_inputs.DRAWS) * 13.4e-3, 1, delta=0.03)

    def test_a_load_is_met_by_drawn_gaps_and_by_another_speed(self):
        catalogue, chance = draw_inputs.Catalogue(), random.Random(3)
        functions = [(f"f{index}", [1 + index % 3] * 480, catalogue.by_time[index % 4]) for index in range(24)]
        arrivals = draw_inputs.renewed(functions, 0.7, catalogue, chance)
        entries = [entry for _, _, entry in functions]
        self.assertAlmostEqual(draw_inputs.load_of(arrivals, entries, catalogue, 600), 0.7, delta=0.03)
        instants = [draw_inputs.compressed(counts, chance) for _, counts, _ in functions]
        stretched = draw_inputs.stretched(instants, entries, 0.5, catalogue, bool)
        self.assertAlmostEqual(draw_inputs.load_of(stretched, entries, catalogue, 600), 0.5, delta=0.03)

    def test_no_load_is_invented_where_there_are_no_calls(self):
        catalogue = draw_inputs.Catalogue()
        self.assertIsNone(draw_inputs.stretched([[], []], ["FFT", "FFT"], 0.5, catalogue, bool))

    def test_a_folder_without_the_traces_is_named(self):
        run = subprocess.run([sys.executable, "-B", draw_inputs.__file__, "--traces", self.folder.name + "/none", "--seed", "1", "--out",
                              self.folder.name + "/out"], stderr=subprocess.PIPE, text=True)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("/none does not have what mqfq is drawn from", run.stderr)


if __name__ == "__main__":
    unittest.main()
