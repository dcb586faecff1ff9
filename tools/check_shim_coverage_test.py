"""The coverage check must be able to fail."""
import unittest

from check_shim_coverage import problems_of

SYMBOLS = "cuInit\ncuMemAlloc_v2\ncuMemcpy\n"
GOOD = "cuMemAlloc_v2 hooked counted\n"


class CoverageCheck(unittest.TestCase):
    def test_is_content_when_all_is_classified(self):
        self.assertEqual(problems_of(SYMBOLS, GOOD), [])

    def test_fails_on_an_allocation_that_nobody_classified(self):
        for name in ("cuMemAllocSomewhere", "cuMemoryArrayCreate_v9", "cuCreateMem", "cuMemGetInfo_v3"):
            self.assertEqual(len(problems_of(SYMBOLS + name, GOOD)), 1, name)

    def test_fails_on_a_row_without_reason_or_symbol_and_on_one_given_twice(self):
        self.assertEqual(len(problems_of(SYMBOLS, "cuMemAlloc_v2 hooked\n")), 1)
        self.assertEqual(len(problems_of(SYMBOLS, GOOD + "cuMemGone hooked it went\n")), 1)
        self.assertEqual(len(problems_of(SYMBOLS, GOOD + GOOD)), 2)

    def test_fails_on_exports_that_are_missing_or_too_many(self):
        names = {"cuInit", "cuMemAlloc_v2", "cuMemcpy"}
        self.assertEqual(problems_of(SYMBOLS, GOOD, names | {"dlopen"}), [])
        self.assertEqual(len(problems_of(SYMBOLS, GOOD, names - {"cuInit"})), 1)
        self.assertEqual(len(problems_of(SYMBOLS, GOOD, names | {"helper"})), 1)


if __name__ == "__main__":
    unittest.main()
