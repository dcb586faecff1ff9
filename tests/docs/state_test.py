"""Holds docs/internals/claims.md: every feature stands there once, and what it names (files, tests) exists. LAMBENT_PREFIX: the build folder."""
import collections
import os
import pathlib
import re
import unittest

from listed_tests import listed_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "claims.md"
HOW_MANY = {"A": 18, "B": 16, "C": 12, "D": 13, "N": 20}
STATES = {"done", "partly", "model", "missing"}

Row = collections.namedtuple("Row", "feature words state place tests figure")


def rows(text):
    """The sections of features: heading, a line with state, place and tests, and what was measured and is missing."""
    return [Row(*found.groups()) for found in re.finditer(
        r"^### ([A-Z]\d+)\. (.+)\n\nState: (\w+)\. Lives in: (.*)\. Shown by: (.*)\.\n((?:\n(?!#).*|.+\n)*)", text, re.M)]


def model_suites():
    """The suites of tests below bench/: they show what a model does, not what the product does."""
    return {suite for path in (ROOT / "bench").rglob("*_test.cc")
            for suite in re.findall(r"^TEST(?:_F|_P)?\((\w+),", path.read_text(), re.M)}


def is_of_a_model(name, suites):
    return name.split(".")[0] in suites or name in ("bench_keys", "draw_inputs", "bench_command")


def tests_named(row):
    """(name of a ctest, name of a function in its file or "") for each test of a row."""
    return re.findall(r"`([^`]+)`(?: (test_\w+))?", row.tests)


class StatePage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = PAGE.read_text()
        cls.rows = rows(cls.text)

    def test_every_feature_stands_here_once(self):
        wanted = [f"{letter}{number}" for letter, most in HOW_MANY.items() for number in range(1, most + 1)]
        self.assertEqual([row.feature for row in self.rows], wanted)

    def test_states_are_of_the_table_and_add_up(self):
        self.assertEqual({row.state for row in self.rows} - STATES, set())
        of = collections.Counter(row.state for row in self.rows)
        sums = re.search(r"Of (\d+) features (\d+) are done, (\d+) partly, (\d+) only in a model, (\d+) missing", self.text)
        self.assertEqual([int(number) for number in sums.groups()],
                         [len(self.rows), of["done"], of["partly"], of["model"], of["missing"]])

    def test_only_what_is_missing_has_no_test_and_all_else_has_a_place(self):
        for row in self.rows:
            with self.subTest(row.feature):
                self.assertEqual(bool(tests_named(row)), row.state != "missing")
                self.assertEqual(bool(row.place), row.state != "missing")

    def test_what_is_done_is_shown_by_more_than_a_model(self):
        suites = model_suites()
        self.assertLess({"PaperFluidFaas", "Systems", "TheModel"}, suites)
        for row in self.rows:
            if row.state in ("done", "partly"):
                with self.subTest(row.feature):
                    self.assertTrue([name for name, _ in tests_named(row) if not is_of_a_model(name, suites)])

    def test_every_link_leads_to_a_file_and_to_a_heading_in_it(self):
        for target in re.findall(r"\]\(([^)]+)\)", self.text):
            with self.subTest(target):
                path, _, heading = target.partition("#")
                file = (PAGE.parent / path).resolve()
                self.assertTrue(file.is_file(), file)
                if heading:
                    titles = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
                    slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
                    self.assertIn(heading, slugs)

    def test_every_test_that_is_named_exists(self):
        names = listed_tests(os.environ["LAMBENT_PREFIX"])
        if any(name.endswith("_NOT_BUILT") for name in names):
            self.skipTest("some test programs are not built, so their tests are not known")
        families = {name.rsplit("/", 1)[0] for name in names if "/" in name}
        for row in self.rows:
            for name, function in tests_named(row):
                with self.subTest(feature=row.feature, test=name, function=function):
                    self.assertTrue(name in names or name in families, "there is no such test")
                    if function:
                        folder, module = name.split(".")
                        self.assertIn(f"def {function}(", (ROOT / "tests" / folder / f"{module}.py").read_text())


if __name__ == "__main__":
    unittest.main()
