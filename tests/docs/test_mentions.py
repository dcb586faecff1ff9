"""What the pages mention without its being run: programs, verbs, flags, benchmarks and scripts exist, every verb and option has its
place in the documentation, and readers.toml speaks of nothing that is gone.
"""
import difflib
import os
import pathlib
import re
import shlex
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import help_text  # noqa: E402
import options
import shell_commands
from listed_tests import listed_tests
from markdown import Block, Heading, Inline, cells_of, pieces_of
from reader import Reader

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PREFIX = help_text.BIN.parent
NO_PAGES = {"build", "dist"}  # folders of the repository that hold none of its own
FLAG = re.compile(r"--?[a-z][a-z0-9-]*")
# Programs that are not ours: nothing is known of their flags.
FOREIGN = ("aws", "curl", "nvcc", "nvidia-smi", "pip", "git", "cmake", "ninja", "docker", "podman", "sudo", "apt", "apt-get", "tar")


def pages():
    return sorted(str(path.relative_to(REPOSITORY)) for path in REPOSITORY.rglob("*.md")
                  if not any(part in NO_PAGES or part.startswith(".") for part in path.relative_to(REPOSITORY).parts))


def mentions():
    """(page, line, command) of every command on every page, in blocks, tables and sentences."""
    for page in pages():
        for piece in pieces_of((REPOSITORY / page).read_text()):
            if isinstance(piece, Block) and shell_commands.is_shell(piece):
                for command in shell_commands.commands_of(piece):
                    yield page, command.line, command.text
            elif isinstance(piece, Inline) and " " in piece.text and shell_commands.is_command(piece.text):
                yield page, piece.line, piece.text


def words_of(command):
    """The words of the first command of a line, without what is set before it; in a synopsis without its brackets."""
    command = re.sub(r"\s#.*$", "", shell_commands.ASSIGNMENTS.sub("", command.replace("\\\n", " ")))
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    end = next((at for at, word in enumerate(words) if word in ("&&", "||", "|", "&", ";", ">", "--") or word.endswith(";")), len(words))
    last = [words[end].rstrip(";")] if end < len(words) and words[end].endswith(";") and words[end] != ";" else []
    return [word.strip("[]") for word in words[:end] + last]


def flags_of(words):
    return [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]


def wrong_with(command):
    """Why a command cannot be meant, or None."""
    words = words_of(command)
    # A program of an archive that was unpacked is ours, too.
    program, rest = re.sub(r"^lambent-[\d.]+-linux-x86_64/bin/", "", words[0]), words[1:]
    if program == "lambent":
        return wrong_with_lambent(rest)
    if program == "lambent-bundle":
        return wrong_with_lambent(["bundle", *rest])
    if program == "./dev":
        return wrong_with_dev(rest)
    if program == "ctest":
        return wrong_with_ctest(rest)
    if program.startswith(("lambent-", "emulated-gpu")):
        path = PREFIX / "bin" / program
        text = path.read_bytes() if path.exists() else None
        return f"there is no program {program}" if text is None else next(
            (f"{program} knows no {flag}" for flag in flags_of(rest) if flag.lstrip("-").encode() not in text), None)
    if program.startswith("build/release/"):
        return None if (PREFIX / program.removeprefix("build/release/")).exists() else f"there is no {program}"
    if program in ("python3", "python") and rest:
        if rest[0] == "-m":
            if rest[1].partition(".")[0] in sys.stdlib_module_names:
                return None
            module = PREFIX / "share/lambent/python" / rest[1].replace(".", "/")
            return None if module.is_dir() or module.with_suffix(".py").is_file() else f"there is no module {rest[1]}"
        return None if "/" not in rest[0] or (REPOSITORY / rest[0]).is_file() else f"there is no {rest[0]}"
    return None


def wrong_with_lambent(words):
    verbs = help_text.verbs()
    if words[:1] == ["help"]:  # `lambent help VERB` is `lambent VERB --help`
        words = words[1:]
    if not words or words[0] in ("VERB", "--help", "--version"):
        return None
    if words[0] not in verbs:
        return f"lambent has no verb {words[0]}"
    if words[0] == "run":  # what stands behind FILE::FUNCTION is the function's
        words = words[:1 + next((at for at, word in enumerate(words) if "::" in word), len(words))]
    path = words[:1]
    known = {"--help-all"} | {name for option in help_text.options_of(*path) for name in option.names}  # of every verb, in no list
    if words[0] in help_text.PARENTS:
        if len(words) == 1 or words[1] == "--help":
            return None
        path = words[:2]
        if words[1] not in help_text.subcommands_of(words[0]):
            return f"lambent {words[0]} has no verb {words[1]}"
        known |= {name for option in help_text.options_of(*path) for name in option.names}
    if words[0] == "sweep":
        known |= {name for option in help_text.options_of("simulate") for name in option.names}
    return next((f"lambent {' '.join(path)} has no {flag}" for flag in flags_of(words) if flag not in known), None)


def wrong_with_dev(words):
    if not words or words[0] == "help":
        return None
    script = REPOSITORY / "tools/dev" / f"{words[0]}.sh"
    if not script.exists():
        return f"./dev has no command {words[0]}"
    text, rest = script.read_text(), words[1:]
    if words[0] == "bench" and rest and not rest[0].startswith("-") and rest[0] != "NAME":
        known = (REPOSITORY / "bench/benchmarks.txt").read_text()
        if not re.search(rf"^{re.escape(rest[0])} *:", known, re.MULTILINE):
            return f"no benchmark is called {rest[0]}"
    if words[0] in ("adversary", "bench", "soak", "demo", "gpu"):
        # They hand flags on to programs of their own.
        files = [*REPOSITORY.glob("bench/**/*.*"), *REPOSITORY.glob("tests/soak/**/*.*"), *REPOSITORY.glob("tests/adversary/*.*"), REPOSITORY / "tools/demo.py"]
        text += "".join(path.read_text() for path in files if path.suffix in (".cc", ".h", ".py", ".sh") and path.is_file())
    return next((f"./dev {words[0]} knows no {flag}" for flag in flags_of(rest) if not re.search(rf"{flag}(?![\w-])", text)), None)


def wrong_with_ctest(words):
    if words[:1] != ["-R"]:
        return None
    return None if listed_tests(PREFIX, words[1]) else f"ctest has no test like {words[1]}"


class MentionsTest(unittest.TestCase):
    maxDiff = None

    def test_every_command_of_every_page_names_programs_verbs_and_flags_that_exist(self):
        wrong, seen = [], 0
        for page, line, command in mentions():
            seen += 1
            if words_of(command) and words_of(command)[0] not in FOREIGN:
                said = wrong_with(command)
                if said:
                    wrong.append(f"{page}:{line}: `{command}`: {said}")
        self.assertGreater(seen, 150)
        self.assertEqual(wrong, [])

    def test_what_does_not_exist_is_noticed(self):
        for command, said in (("lambent launch x", "no verb launch"), ("lambent invoke f --dat 1", "no --dat"),
                              ("lambent slices melt", "no verb melt"), ("lambent-bundle build x.cu --fast", "no --fast"),
                              ("./dev bench no-such", "no benchmark"), ("./dev deploy", "no command"), ("./dev soak --hour 1", "knows no"),
                              ("lambent-melter", "no program"), ("python3 -m lambent.melter", "no module"),
                              ("ctest -R no_such_test_at_all", "no test")):
            self.assertIn(said, wrong_with(command) or "", command)

    def test_every_page_is_played_by_a_test(self):
        if "PAGES" not in os.environ:
            self.skipTest("ctest tells which pages are tests")
        self.assertEqual(sorted(os.environ["PAGES"].split()), pages(), "configure the build again: a page came or went")

    def test_readers_toml_speaks_only_of_what_is_there(self):
        table = Reader("")
        self.assertEqual([page for page in table.pages if page not in pages()], [], "these pages are gone")
        self.assertEqual(len(table.pages), len(set(table.pages)), "a page is listed twice")
        found = list(mentions())
        unused = [entry["command"] for entry in table.not_run_entries
                  if not any(command.startswith(entry["command"]) and entry.get("page", page) == page for page, _, command in found)]
        self.assertEqual(unused, [], "no page has these commands any more")
        self.assertTrue(all(entry["reason"] for entry in table.not_run_entries))


class ReferenceTest(unittest.TestCase):
    maxDiff = None

    def test_the_table_of_cli_md_has_every_verb_and_no_other(self):
        rows = [cells_of(line)[0] for line in (REPOSITORY / "docs/reference/cli.md").read_text().partition("\n## ")[0].split("\n")
                if line.startswith("|")][2:]
        verbs, below = set(), {}
        for row in rows:
            first, *others = row.split(", ")
            verb, _, sub = first.partition(" ")
            verbs.add(verb)
            if sub:
                below.setdefault(verb, set()).update([sub, *others])
            else:
                verbs.update(others)
        self.assertEqual(verbs, set(help_text.verbs()))
        for verb, subs in below.items():
            self.assertEqual(subs, set(help_text.subcommands_of(verb)), verb)

    def test_tags_md_has_every_tag_that_the_worker_takes_and_no_other(self):
        # Of each field: its role, column, key and tag.
        fields = r'visit\(\s*\{k\w+,\s*"[^"]+",\s*(?:k\w+|"[^"]+"),\s*"([a-z-]+)"'
        domain = REPOSITORY / "src/core/domain"
        taken = re.findall(fields, (domain / "function_fields.h").read_text())
        # Tags that are no field: they stay with the function's own.
        for header in domain.glob("*.h"):
            taken += re.findall(r'k\w+Tag = "lambent:([a-z-]+)"', header.read_text())
        told = re.findall(r"^\| `lambent:([a-z-]+)`", (REPOSITORY / "docs/reference/tags.md").read_text(), re.MULTILINE)
        self.assertEqual(sorted(told), sorted(taken))

    def test_every_verb_below_another_is_on_some_page(self):
        text = "\n".join((REPOSITORY / page).read_text() for page in pages())
        for verb in help_text.PARENTS:
            for sub in help_text.subcommands_of(verb):
                self.assertRegex(text, rf"lambent[ -]{verb} (\w+, )*{sub}\b")

    def test_options_md_has_every_option_as_help_tells_it(self):
        found = (REPOSITORY / "docs/reference/options.md").read_text()
        difference = "\n".join(difflib.unified_diff(found.split("\n"), options.page().split("\n"), "docs/reference/options.md", "--help", lineterm=""))
        self.assertEqual(difference, "", "write it again: LAMBENT_PREFIX=build/release python3 tests/docs/options.py > docs/reference/options.md")

    def test_the_options_of_every_verb_are_read_from_its_help(self):
        for words in help_text.commands():
            listed = [name for option in help_text.options_of(*words) for name in option.names if name.startswith("--")]
            columns = re.findall(r"^  (-[^\s,]+(?:, ?-[^\s,]+)*)", help_text.help_of(*words), re.MULTILINE)
            printed = [name for column in columns for name in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", column)]
            self.assertTrue(listed, words)
            self.assertEqual(sorted(listed), sorted(set(printed)), words)

    def test_every_option_of_a_verb_that_its_chapter_names_exists(self):
        """cli.md has a chapter for some verbs; a flag in it belongs to one of these verbs, or to one that it names."""
        known = {"--help-all"} | {name for words in help_text.commands() for option in help_text.options_of(*words) for name in option.names}
        wrong, heading = [], ""
        for piece in pieces_of((REPOSITORY / "docs/reference/cli.md").read_text()):
            if isinstance(piece, Heading):
                heading = piece.text
            elif isinstance(piece, Inline) and piece.text.startswith("--"):
                own = {name for verb in re.findall(r"\w+", heading) if verb in help_text.verbs() and verb not in help_text.PARENTS
                       for option in help_text.options_of(verb) for name in option.names}
                flag = FLAG.match(piece.text)[0]
                if flag not in (own if own and heading != "sweep" else known):
                    wrong.append(f"docs/reference/cli.md:{piece.line}: {flag} in chapter '{heading}'")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
