"""The adversary's own judgement: it can fail, and says so."""
import json
import pathlib
import unittest

import adversary
import verdicts
from verdicts import Broken, Check, Checks, Outcome, Skip


def raiser(error):
    def run(_):
        raise error
    return run


def judged(run, known=""):
    return verdicts.judge(Check("A", "a check", run, True, known), None)


class VerdictsTest(unittest.TestCase):
    def test_what_gets_through_has_failed_unless_it_is_known(self):
        self.assertEqual(judged(lambda _: {"tried": 3}).verdict, "held")
        self.assertEqual(judged(raiser(Broken("it got out"))).verdict, "failed")
        known = judged(raiser(Broken("it got out")), known="docs/x.md")
        self.assertEqual(known.verdict, "known")
        self.assertIn("docs/x.md", known.words)

    def test_a_check_that_breaks_has_failed_also_where_a_weakness_is_known(self):
        self.assertEqual(judged(raiser(KeyError("x"))).verdict, "failed")
        self.assertEqual(judged(raiser(OSError("gone")), known="docs/x.md").verdict, "failed")

    def test_a_known_weakness_that_is_gone_is_told(self):
        self.assertIn("no longer seen", judged(lambda _: None, known="docs/x.md").words)

    def test_what_is_known_is_described_where_it_says(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        known = [each.known for each in adversary.checks.all if each.known]
        self.assertTrue(known)
        listed = (root / "docs/internals/adversary.md").read_text().partition("Open, and shown as *known*")[2].partition("\n## ")[0]
        self.assertEqual(listed.count("\n- "), len(known))
        for place in known:
            page, _, part = place.partition("#")
            headings = [line.strip("# ").lower().replace(" ", "-") for line in (root / page).read_text().splitlines() if line.startswith("#")]
            self.assertTrue(not part or part in headings, place)
            self.assertIn(place.removeprefix("docs/"), listed)

    def test_a_skip_says_why_and_fails_nothing(self):
        skipped = judged(raiser(Skip("needs root")))
        self.assertEqual((skipped.verdict, skipped.words), ("skipped", "needs root"))
        self.assertEqual(verdicts.exit_code([skipped]), 0)

    def test_one_failure_is_the_exit_code_and_so_is_an_empty_run(self):
        held, failed = judged(lambda _: None), judged(raiser(Broken("x")))
        self.assertEqual(verdicts.exit_code([held]), 0)
        self.assertEqual(verdicts.exit_code([held, failed]), 1)
        self.assertEqual(verdicts.exit_code([]), 1)

    def test_the_report_holds_every_outcome_and_the_counts(self):
        outcomes = [judged(lambda _: {"calls": 62}), judged(raiser(Broken("x"))), judged(raiser(Skip("y")))]
        told = json.loads(verdicts.report(outcomes, {"short": True}))
        self.assertEqual(told["counts"], {"held": 1, "failed": 1, "known": 0, "skipped": 1})
        self.assertEqual(told["checks"][0]["numbers"], {"calls": 62})
        self.assertIn("A sandbox", verdicts.table(outcomes))

    def test_the_short_form_and_the_sections_choose(self):
        checks = Checks()
        checks("A", "quick")(lambda _: None)
        checks("F", "slow", short=False)(lambda _: None)
        self.assertEqual([each.title for each in checks.chosen(True, "")], ["quick"])
        self.assertEqual([each.title for each in checks.chosen(False, "F")], ["slow"])


if __name__ == "__main__":
    unittest.main()
