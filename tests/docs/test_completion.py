"""What `lambent completion` writes completes the words that the programs' help lists, no more and no fewer."""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import help_text  # noqa: E402

SCRIPTS = (("demo",), ("dev",), ("run",))  # of Python


def script_for(shell):
    done = subprocess.run([str(help_text.BIN / "lambent"), "completion", shell], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def names_of(*words):
    """The options of a command as its help lists them; --help is all that is told of a Python script's."""
    options = help_text.options_of(*words) if words not in SCRIPTS else []
    names = {name for option in options for name in option.names} | {"-h", "--help"}
    return names | (names_of("simulate") if words == ("sweep",) else set())


class BashTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if shutil.which("bash") is None:
            raise unittest.SkipTest("bash is not installed")
        cls.script = script_for("bash")

    def completed(self, lines):
        """What bash offers after each of these lines; an empty last word is what a space asks for."""
        asked = "".join(f"COMP_WORDS=({' '.join(repr(word) for word in ['lambent', *words])}); COMP_CWORD={len(words)}; _lambent; "
                        "printf '%s ' \"${COMPREPLY[@]}\"; echo\n" for words in lines)
        done = subprocess.run(["bash", "--norc", "-c", self.script + asked], capture_output=True, text=True, timeout=60, cwd="/")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [set(line.split()) for line in done.stdout.split("\n")[:-1]]

    def test_verbs_are_completed(self):
        verbs = set(help_text.verbs())
        everything, begun, below = self.completed([[""], ["se"], ["objects", ""]])
        self.assertEqual(everything, verbs)
        self.assertEqual(begun, {verb for verb in verbs if verb.startswith("se")})
        self.assertEqual(below, set(help_text.subcommands_of("objects")))

    def test_the_options_of_every_verb_are_completed(self):
        commands = sorted(help_text.commands())
        for words, offered in zip(commands, self.completed([[*words, "-"] for words in commands])):
            with self.subTest(" ".join(words)):
                self.assertEqual(offered | {"-h", "--help"}, names_of(*words))

    def test_values_are_completed_where_there_are_few(self):
        few, file, after = self.completed([["plan", "--rank", ""], ["deploy", "--code", "/et"], ["invoke", "f", "--jso"]])
        self.assertEqual(few, {"balance", "throughput"})
        self.assertEqual(file, {"/etc"})
        self.assertEqual(after, {"--json"})

    def test_the_values_that_help_lists_are_completed(self):
        """Of every option of every verb, so that no way to write a check hides them."""
        listed = {(*words, name): set(option.value.removeprefix("TEXT ").split("|")) for words in help_text.commands() if words not in SCRIPTS
                  for option in help_text.options_of(*words) if "|" in option.value for name in option.names}
        for known in (("serve", "--executor-pool"), ("serve", "--policy"), ("simulate", "--policy"), ("sweep", "--policy"),
                      ("serve", "--slice-policy"), ("slices", "advise", "--policy"), ("replay", "--spread")):
            self.assertIn(known, listed)
        self.assertEqual(dict(zip(listed, self.completed([[*words, ""] for words in listed]))), listed)


class OtherShellsTest(unittest.TestCase):
    def test_they_are_told_the_same_verbs_and_options(self):
        for shell in ("zsh", "fish"):
            script = script_for(shell)
            for words in help_text.commands():
                for name in (words[-1], *(name.lstrip("-") for name in names_of(*words) - {"-h"})):
                    self.assertRegex(script, rf"(?<![\w-])(--?)?{re.escape(name)}(?![\w-])", (shell, words))

    def test_their_scripts_are_well_formed_where_the_shells_are_installed(self):
        for shell in ("bash", "zsh", "fish"):
            if shutil.which(shell) is None:
                continue
            with self.subTest(shell):
                done = subprocess.run([shell, "-n"], input=script_for(shell), capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_another_shell_is_refused(self):
        done = subprocess.run([str(help_text.BIN / "lambent"), "completion", "tcsh"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 13)
        self.assertIn("none of bash, zsh and fish", done.stderr)


if __name__ == "__main__":
    unittest.main()
