"""The harness itself: how pages are read, what is a command, what looks like what, and that a page that does not work fails."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import play
import shell_commands
from markdown import Block, Heading, Inline, cells_of, file_named_for, pieces_of
from reader import Reader
from shell_commands import commands_of, is_shell, looks_like, missing_lines

PAGE = """# Title

Write `hello/app.py`:

```python
print("a")
```

## Next
    $ echo one \\
          two
    one two

- `in a list`

    not code, but the list's own

| what | example |
|---|---|
| a `b` | `echo a \\| cat`; `true` |
"""


class MarkdownTest(unittest.TestCase):
    def test_a_page_is_read_in_its_order(self):
        pieces = pieces_of(PAGE)
        self.assertEqual([type(piece) for piece in pieces], [Heading, Inline, Block, Heading, Block, Inline, Inline, Inline, Inline])
        self.assertEqual(file_named_for(pieces[2], ".py"), "hello/app.py")
        self.assertIsNone(file_named_for(pieces[2], ".toml"))
        self.assertEqual(pieces[2].text, 'print("a")')
        self.assertEqual([(piece.text, piece.is_example) for piece in pieces[6:]], [("b", False), ("echo a | cat", True), ("true", True)])

    def test_a_block_that_does_not_end_is_told(self):
        with self.assertRaisesRegex(ValueError, "line 3"):
            pieces_of("a\n\n```\nb\n")

    def test_cells_are_parted_outside_of_code_only(self):
        self.assertEqual(cells_of("| a | `b | c` | d \\| e |"), ["a", "`b | c`", "d \\| e"])


class CommandsTest(unittest.TestCase):
    def test_lines_without_prompt_are_what_was_printed(self):
        command, = commands_of([piece for piece in pieces_of(PAGE) if isinstance(piece, Block)][1])
        self.assertEqual((command.text, command.printed), ("echo one \\\n      two", ["one two"]))

    def test_without_prompts_every_line_is_a_command(self):
        found = commands_of(Block(0, "", "# why\nls; ls   # what\n\ncat <<E\ntext\nE\nlambent ls", ""))
        self.assertEqual([command.text for command in found], ["ls; ls   # what", "cat <<E\ntext\nE", "lambent ls"])

    def test_commands_and_other_text_are_told_apart(self):
        for text in ("lambent ls", "A=1 B=$PWD/x ./program", "$ anything", "# first\nlambent ls", "build/release/tests/x --y", "X=3"):
            self.assertTrue(is_shell(Block(0, "", text, "")), text)
        for text in ("lambent: it failed", "worker -> launcher", "312 ms  queue 0", '{"a": 1}', "fail cuMemAlloc call 3"):
            self.assertFalse(is_shell(Block(0, "", text, "")), text)
        self.assertFalse(is_shell(Block(0, "toml", "lambent ls", "")))

    def test_numbers_and_ids_may_differ_and_words_may_not(self):
        line = "312 ms  queue 4.0 | run 226   cold   gpu 0   id 4f2c..."
        self.assertTrue(looks_like(line, "7.1 ms  queue 0 | run 0.2   cold   gpu 1   id 0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a"))
        self.assertFalse(looks_like(line, "7.1 ms  queue 0 | run 0.2   warm   gpu 1   id 0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a"))
        self.assertFalse(looks_like(line, "7.1 ms  queue 0 | run 0.2   cold   gpu 1"))

    def test_json_has_to_be_the_same(self):
        self.assertTrue(looks_like('{"a": [1, 2]}', '{"a":[1,2]}'))
        self.assertFalse(looks_like('{"a": [1, 2]}', '{"a":[1,3]}'))
        self.assertTrue(looks_like('{"id": "6f1c...0b.0", "n": 3}', '{"id": "0e6c9d1e.0", "n": 4}'))

    def test_lines_are_expected_in_their_order(self):
        self.assertEqual(missing_lines(["a 1", "b 2"], "x\na 7\nb 8\n"), [])
        self.assertEqual(missing_lines(["b 1", "a 2"], "x\na 7\nb 8\n"), ["a 2"])


class PlayTest(unittest.TestCase):
    """Pages that are made here, played as the real ones are."""

    def play(self, page, table="", **variables):
        probe = subprocess.run(["unshare", "-Urnmpf", "--mount-proc", "true"], capture_output=True)
        if probe.returncode != 0:
            self.skipTest("this machine gives no namespaces")
        with tempfile.TemporaryDirectory(prefix="lambent-docs-") as folder:
            (pathlib.Path(folder) / "page.md").write_text(page)
            (pathlib.Path(folder) / "readers.toml").write_text(table)
            code = ("import sys, play, pathlib, reader; play.REPOSITORY = pathlib.Path(sys.argv[1]); (play.REPOSITORY / 'examples').mkdir();"
                    "play.protect_sources(play.REPOSITORY);"
                    "play.Reader = lambda page: reader.Reader(page, play.REPOSITORY / 'readers.toml');"
                    "sys.exit(play.report([play.play_page('page.md')]))")
            done = subprocess.run(["unshare", "-Urnmpf", "--mount-proc", "--kill-child", sys.executable, "-B", "-c", code, folder],
                                  capture_output=True, text=True, timeout=120, cwd=pathlib.Path(play.__file__).parent, env={**os.environ, **variables})
        return done.returncode, done.stdout + done.stderr

    def test_a_page_that_works_is_played_to_its_end(self):
        page = ("Write `a.json`:\n\n```json\n{\"a\": 1}\n```\n\n```\nexport B=2\ncat a.json && echo $B\n```\n\nprints\n\n```\n{\"a\": 1}\n3\n```\n"
                "\n    $ echo THING\n    thing 4\n")
        status, said = self.play(page, '[[page]]\nname = "page.md"\nstands_for.THING = "thing 9"\n')
        self.assertEqual(status, 0, said)
        self.assertIn("3 commands run, 0 not", said)

    def test_a_page_writes_to_its_clone_and_not_through_it(self):
        page = "Go:\n\n    $ echo mine > examples/new && echo mine > new && cat new\n    mine\n\n    $ echo mine >> readers.toml\n"
        status, said = self.play(page)
        self.assertEqual(status, 1, said)
        self.assertIn("Read-only file system", said)
        self.assertIn("page.md:6", said)
        self.assertNotIn("page.md:3", said)

    def test_what_does_not_work_is_told_with_its_line(self):
        for page, line, words in (("a\n\n    echo a; false; echo b\n", 3, "ended with 1"),
                                  ("a\n\n    $ echo a\n    b\n", 3, "did not print a line like"),
                                  ("a\n\n```\nnothing printed this\n```\n", 4, "nothing on this page printed"),
                                  ("a\n\n```json\n{]\n```\n", 4, "this is no json"),
                                  ("a\n\n```cuda\nint a;\n```\n", 4, "does not name the file"),
                                  ("a\n\n    ./dev bench invoke\n", 3, "No such file"),
                                  ("a\n\n    lambent no-such-verb\n", 3, "ended with 2")):
            status, said = self.play(page)
            self.assertEqual(status, 1, said)
            self.assertIn(f"page.md:{line}: ", said)
            self.assertIn(words, said)

    def test_an_entry_of_the_table_that_is_of_no_use_is_told(self):
        status, said = self.play("a\n\n    echo a\n", '[[page]]\nname = "page.md"\nbefore."echo b" = "true"\n')
        self.assertEqual(status, 1, said)
        self.assertIn("before: echo b", said)

    def test_a_command_on_the_list_is_not_run(self):
        status, said = self.play("a\n\n    echo a > /no/such/folder/b\n", '[[not_run]]\ncommand = "echo a"\nreason = "why not"\n')
        self.assertEqual(status, 0, said)
        self.assertIn("0 commands run, 1 not", said)

    def test_a_command_that_needs_much_is_run_in_the_whole_tests_only_and_where_its_wheels_are(self):
        page, table = "a\n\n    $ echo a\n    b\n", '[[not_run]]\ncommand = "echo a"\nreason = "why not"\nwhole = true\n'
        with tempfile.TemporaryDirectory() as wheels:
            status, said = self.play(page, table, LAMBENT_WHOLE_TESTS="1", LAMBENT_FRAMEWORK_WHEELS=wheels)
            self.assertEqual(status, 0, said)
            (pathlib.Path(wheels) / "installed.txt").write_text("")
            self.assertEqual(self.play(page, table, LAMBENT_WHOLE_TESTS="", LAMBENT_FRAMEWORK_WHEELS=wheels)[0], 0)
            status, said = self.play(page, table, LAMBENT_WHOLE_TESTS="1", LAMBENT_FRAMEWORK_WHEELS=wheels)
        self.assertEqual(status, 1, said)
        self.assertIn("did not print a line like", said)

    def test_what_is_left_running_is_told(self):
        status, said = self.play("a\n\n```sh\nsetsid -f python3 -c 'import signal; signal.pause()'\n```\n")
        self.assertEqual(status, 1, said)
        self.assertIn("processes were left behind", said)


class ReaderTest(unittest.TestCase):
    def test_the_table_is_well_formed(self):
        for page in Reader("").pages:
            Reader(page)


if __name__ == "__main__":
    unittest.main()
