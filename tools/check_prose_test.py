#!/usr/bin/env python3
"""The check of prose must be able to fail: it is run on small trees with one fault each."""
import pathlib
import tempfile
import unittest

import check_prose as subject


class ProseTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def found(self, allowed=None):
        return list(subject.offences(*subject.count(self.root), allowed or {}))

    def test_a_coinage_in_a_page_is_named_with_the_word_to_write(self):
        self.write("docs/a.md", "Memory lies aside.\n")
        self.assertEqual(self.found(), ["'aside' stands 1 times in docs, at most 0: write offloaded (check_prose.py --list aside)"])

    def test_comments_and_sentences_in_literals_are_prose(self):
        for text in ("// It has a seat.\n", "/* It has a seat. */\n", 'auto a = "there is no such seat";\n', "// It\n// is made anew.\n",
                     "// nobody's\n", "// as of\n// late\n"):
            with self.subTest(text):
                self.write("src/f/m/a.cc", text)
                self.assertEqual(len(self.found()), 1)

    def test_code_is_not_prose(self):
        self.write("src/f/m/a.cc", 'int seat = lane("aside"); // `seat` and seat_of and n::lane\n')
        self.write("docs/a.md", "`lane` and\n```\nan aside\n```\n    seat\n[x](lane.md)\n")
        self.assertEqual(self.found(), [])

    def test_the_user_nobody_and_the_lanes_of_a_warp_are_the_fields_own_words(self):
        self.write("docs/a.md", "It runs as nobody, or becomes nobody (65534); the lanes of a warp; lanes of one mask and its own lane.\n")
        self.write("src/f/m/a.cc", "auto a = R\"({\"function\": \"nobody\"})\"; // we become nobody\n")
        self.assertEqual(self.found(), [])
        self.write("docs/a.md", "\"nobody waits\" in a lane\n")
        self.assertEqual(len(self.found()), 2)

    def test_words_that_only_look_like_it_pass(self):
        self.write("docs/a.md", "A plane has room for it; it can stand alone, by itself; the warehouse is outdoors.\n")
        self.assertEqual(self.found(), [])

    def test_numbers_may_only_fall(self):
        self.write("docs/a.md", "anew and anew\n")
        self.assertEqual(self.found({("anew", "docs"): 2}), [])
        self.assertIn("at most 1", self.found({("anew", "docs"): 1})[0])
        self.assertIn("lower its number", self.found({("anew", "docs"): 3})[0])
        self.assertIn("take its line out", self.found({("anew", "docs"): 2, ("seat", "docs"): 1})[0])

    def lengths(self, text):
        return [name for name, _ in subject.lengths_in(text)]

    def test_long_sentences_are_found(self):
        self.assertEqual(self.lengths("Short. " + "word " * 35 + "end. Short.\n"), ["long-sentence"])
        self.assertEqual(self.lengths("word\n" * 36), ["long-sentence"])
        self.assertEqual(self.lengths("- item\n  " + "word " * 35 + "\n"), ["long-sentence"])
        self.write("docs/a.md", "word " * 36)
        self.assertEqual(self.found(), ["'long-sentence' stands 1 times in docs, at most 0: write at most 35 words a sentence "
                                        "(check_prose.py --list long-sentence)"])

    def test_sentences_end_with_their_paragraph_and_code_is_no_sentence(self):
        words = "word " * 20
        for text in (f"{words}\n\n{words}\n", f"- {words}\n- {words}\n", f"{words}\n1. {words}\n", "# " + "word " * 40 + "\n",
                     "```\n" + "word " * 40 + "\n```\n", "`" + "word " * 40 + "`\n", "    " + "word " * 40 + "\n", "| " + "w " * 40 + "|\n"):
            with self.subTest(text[:20]):
                self.assertEqual(self.lengths(text), [])

    def test_long_lines_of_tables_are_found(self):
        self.assertEqual(self.lengths("| a |\n|---|\n| " + "x" * 200 + " |\n"), ["long-table-line"])
        self.assertEqual(self.lengths("```\n| " + "x" * 200 + " |\n```\n"), [])

    def test_types_of_the_glossary_exist(self):
        self.write("src/f/m/x.h", "struct alignas(8) Flow {};\nenum class Kind { kOne };\nstruct Outer::Inner {};\n")
        self.write("docs/reference/glossary.md", "`m::Flow`, `Kind`, `Outer::Inner`, `flow`, `LD_PRELOAD`\n")
        self.assertEqual(list(subject.check_glossary(self.root)), [])
        self.write("docs/reference/glossary.md", "One\n`m::Fleet`\n")
        self.assertEqual(list(subject.check_glossary(self.root)), ["docs/reference/glossary.md:2: no header declares Fleet"])

    def test_a_module_readme_has_a_length(self):
        self.write("src/f/m/README.md", "word. " * 400)
        self.assertEqual(self.found(), [])
        self.write("src/f/m/README.md", "word. " * 401)
        self.assertEqual(self.found(), ["src/f/m/README.md has 401 words; at most 400"])
        self.assertEqual(self.found({("readme", "src/f/m/README.md"): 401}), [])
        self.assertIn("lower its number", self.found({("readme", "src/f/m/README.md"): 500})[0])


if __name__ == "__main__":
    unittest.main()
