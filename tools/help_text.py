"""What the programs say of themselves: the verbs of lambent, and the options of each by its --help. Used by man_pages.py, and by options.py and
the tests of tests/docs.
"""
import dataclasses
import functools
import os
import pathlib
import re
import subprocess

BIN = pathlib.Path(os.environ.get("LAMBENT_PREFIX", "build/release")).resolve() / "bin"
PARENTS = ("objects", "slices", "bundle", "tenants", "tokens", "audit", "alias", "versions",
           "volumes", "config", "cluster", "secrets")  # their verbs have options of their own


@dataclasses.dataclass
class Option:
    """names: -o and --output; value: what follows, empty for a switch; default: empty if none is told."""
    names: list
    value: str
    default: str
    meaning: str
    required: bool = False


@functools.cache
def help_of(*words):
    """What `lambent WORDS --help-all` prints to a user who has no home, so that it is the same everywhere."""
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME")}
    done = subprocess.run([str(BIN / "lambent"), *words, "--help-all"], capture_output=True, text=True, timeout=60, env=environment)
    if done.returncode != 0:
        raise ValueError(f"lambent {' '.join(words)} --help-all: {done.stderr}")
    return done.stdout


def sections_of(*words):
    """The parts of a help by their headings; what stands before the first under an empty one."""
    sections, heading = {"": []}, ""
    for line in help_of(*words).split("\n"):
        if re.fullmatch(r"[A-Za-z][\w ',]*:", line):
            heading = line[:-1]
        sections.setdefault(heading, []).append(line)
    return sections


def subcommands_of(*words):
    """The verbs below one, in the order of its help, whatever groups they stand in."""
    lines = [line for heading, lines in sections_of(*words).items() if heading.lower() not in ("options", "positionals", "example")
             for line in lines]
    return re.findall(r"^  ([a-z]+)(?: {2,}|$)", "\n".join(lines), re.MULTILINE)


def verbs():
    """Every verb of lambent, in the order of its help; some are programs of their own."""
    own = re.findall(r"^  lambent ([a-z]+)", help_of(), re.MULTILINE)
    return own + [verb for verb in subcommands_of() if verb not in own]


def commands():
    """Every verb as the words after lambent; of those with verbs of their own, these instead."""
    return [words for verb in verbs() for words in ([(verb, sub) for sub in subcommands_of(verb)] if verb in PARENTS else [(verb,)])]


def options_of(*words):
    """The options of a command, as its help lists them."""
    sections = sections_of(*words)
    of_python = "options" in sections  # argparse's, with other columns than CLI11's
    lines = sections["options" if of_python else "Options"][1:]
    options = []
    for line, below in zip(lines, [*lines[1:], ""]):
        if line.startswith("  -"):
            if of_python:
                left, _, meaning = line.strip().partition("  ")
            elif below.startswith(30 * " "):
                left, meaning = line, ""
            else:
                left, meaning = line[:30], line[30:]
            options.append(option_from(left.strip(), meaning.strip()))
        elif line.strip() and options:
            options[-1].meaning = (options[-1].meaning + " " + line.strip()).strip()
    return options


def option_from(left, meaning):
    names, _, value = left.replace(", -", ",-").partition(" ")
    names = [re.sub(r"\{.*", "", name) for name in names.split(",")]
    required = "REQUIRED" in value
    value = re.sub(r" ?(Excludes|Needs): .*| REQUIRED| \.\.\.", "", value)
    default = ""
    found = re.match(r"^([A-Z]+)((?::[^=]*)?)(?:=(.*))?$", value)
    if found:
        value, checked, default = found[1], found[2].lstrip(":"), found[3] or ""
        if checked.startswith("{"):
            value = checked.strip("{}").replace(",", "|")
        elif checked:
            value += " " + re.sub(r"^(INT|UINT) in |[\[\]]", "", checked).replace(" - ", " to ")
    return Option(names, value, default, meaning, required)
