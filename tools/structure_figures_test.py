"""tools/structure_figures.py refuses a page that says other than what is counted."""
import unittest

import structure_figures as subject

ROWS = [("fuzz targets", "32", "80"), ("lines", "146,000, 48,000", "252,000, 99,000")]


class StructureFiguresTest(unittest.TestCase):
    def problems(self, *changes):
        page = "# A page\n\n" + subject.table(ROWS) + "\nMore.\n"
        for old, new in changes:
            self.assertIn(old, page)
            page = page.replace(old, new)
        return subject.problems(page, ROWS)

    def test_a_page_with_what_is_counted_passes(self):
        self.assertEqual(self.problems(), [])

    def test_a_figure_may_be_a_tenth_off(self):
        self.assertEqual(self.problems(("| 80 |", "| 73 |"), ("252,000", "230,000")), [])

    def test_a_stale_figure_is_refused(self):
        self.assertEqual(len(self.problems(("| 80 |", "| 71 |"))), 1)
        self.assertEqual(len(self.problems(("99,000", "72,000"))), 1)

    def test_other_words_and_missing_rows_are_refused(self):
        self.assertEqual(len(self.problems(("fuzz targets", "fuzzers"))), 1)
        self.assertEqual(len(self.problems(("| fuzz targets | 32 | 80 |\n", ""))), 1)

    def test_nothing_becomes_something(self):
        self.assertTrue(subject.difference("| old words | 0 |", "| old words | 1 |"))


if __name__ == "__main__":
    unittest.main()
