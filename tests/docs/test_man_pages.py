"""The manual pages that packages bring: one for each verb, which groff formats without a complaint, and with every option in it."""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import help_text  # noqa: E402
import man_pages  # noqa: E402


class ManPagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = man_pages.pages("1.2.3", 86400)

    def formatted(self, text):
        done = subprocess.run(["groff", "-ww", "-Tutf8", "-man", "-P-cbou"], input=text, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), text)
        return done.stdout

    def test_every_verb_has_a_page_and_the_first_page_names_them_all(self):
        self.assertEqual(set(self.pages), {"lambent.1"} | {f"lambent-{verb}.1" for verb in help_text.verbs()})
        for verb in help_text.subcommands_of():
            self.assertIn(f"lambent\\-{verb} (1)", self.pages["lambent.1"])

    def test_every_option_of_every_verb_is_in_its_page(self):
        for words in help_text.commands():
            text = self.pages[f"lambent-{words[0]}.1"].replace("\\-", "-")
            for option in help_text.options_of(*words):
                for name in option.names:
                    self.assertRegex(text, re.escape(name) + r"(?![\w-])", words)

    def test_the_same_sources_give_the_same_pages(self):
        help_text.help_of.cache_clear()
        self.assertEqual(man_pages.pages("1.2.3", 86400), self.pages)

    def test_groff_formats_them_without_a_complaint(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        for name, text in self.pages.items():
            with self.subTest(name):
                shown = self.formatted(text)
                self.assertIn("NAME", shown)
                self.assertIn("lambent", shown)
        self.assertIn("EXAMPLE", self.formatted(self.pages["lambent-invoke.1"]))

    def test_a_page_that_is_no_roff_fails(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        with self.assertRaises(AssertionError):
            self.formatted(self.pages["lambent-invoke.1"] + ".NOSUCHREQUEST x\n")

    def test_what_help_says_is_no_request_of_roff(self):
        self.assertEqual(man_pages.escaped(".SH -x\\n\n'y"), "\\&.SH \\-x\\en\n\\&'y")


if __name__ == "__main__":
    unittest.main()
