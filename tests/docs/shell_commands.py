"""Commands as a page prints them: which blocks are commands, where one command ends and the next begins, what is printed between
them, and whether what came looks like that. Used by play.py and the tests of this folder.
"""
import dataclasses
import json
import re
import subprocess

PROGRAMS = ("lambent lambent-bundle lambent-grpc lambent-launcher lambent-shim lambent-worker emulated-gpu aws curl openssl ctest cmake python3 python pip echo "
            "export cd mkdir cat printf cp mv rm ls kill wait git tar nvcc sudo docker podman nvidia-smi apt apt-get ninja sha256sum source "
            "head seq for").split()
ASSIGNMENTS = re.compile(r"^(?:[A-Z_][A-Z0-9_]*=\S* +)*")
PROMPT = "$ "


@dataclasses.dataclass
class Command:
    """One command. printed: what the page shows below it; empty where it shows nothing."""
    line: int
    text: str
    printed: list


def first_word(line):
    rest = ASSIGNMENTS.sub("", line.strip().removeprefix(PROMPT)).split()
    return rest[0] if rest else ""


def is_command(line):
    word = first_word(line)
    return word in PROGRAMS or bool(re.fullmatch(r"(\./|build/)[\w./-]*\w", word)) or bool(re.match(r"^[A-Za-z_][A-Za-z0-9_]*=\S+$", line.strip()))


def is_shell(block):
    """Whether a block holds commands, as its language says or, without one, its first line."""
    if block.language in ("sh", "bash", "shell", "console"):
        return True
    lines = [line for line in block.text.split("\n") if line.strip() and not line.strip().startswith("#")]
    return block.language == "" and bool(lines) and (lines[0].startswith(PROMPT) or is_command(lines[0]))


def is_complete(text):
    """Whether the shell would begin to run this, or wait for more lines."""
    if text.endswith("\\"):
        return False
    done = subprocess.run(["bash", "-n"], input=text + "\n", capture_output=True, text=True)
    return "unexpected end of file" not in done.stderr and "unexpected EOF" not in done.stderr and "here-document" not in done.stderr


def commands_of(block):
    """The commands of a block. Where lines begin with a prompt, the other lines are what was printed."""
    commands, lines = [], block.text.split("\n")
    prompted = any(line.startswith(PROMPT) for line in lines)
    at = 0
    while at < len(lines):
        line = lines[at]
        number = block.line + at
        at += 1
        if prompted and not line.startswith(PROMPT):
            if line.strip() and commands:
                commands[-1].printed.append(line)
            continue
        if not line.strip() or line.strip().startswith("#"):
            continue
        text = line.removeprefix(PROMPT)
        while not is_complete(text) and at < len(lines):
            text += "\n" + lines[at].removeprefix("> " if prompted else "")
            at += 1
        commands.append(Command(number, text, []))
    return commands


def shape_of(line):
    """A line as a pattern: numbers stand for any number, a shortened id for the whole one, ... for anything."""
    pattern, at = "", 0
    tokens = re.compile(r"(?P<any>[\w-]*\.\.\.[\w.-]*|…)|(?P<id>[0-9a-f]{8}-[0-9a-f-]{27}(?:\.\d+)?)|(?P<number>\d+(?:[.,]\d+)*)|(?P<blank>\s+)")
    for found in tokens.finditer(line):
        pattern += re.escape(line[at:found.start()])
        pattern += {"any": r".*", "id": r"[0-9a-f-]{36}(?:\.\d+)?", "number": r"\d+(?:[.,]\d+)*", "blank": r"\s+"}[found.lastgroup]
        at = found.end()
    return re.compile(pattern + re.escape(line[at:]))


def looks_like(expected, line):
    """Whether a printed line is as the page shows it. JSON without ... is to be the same; of the rest the shape counts."""
    if "..." not in expected:
        try:
            value = json.loads(expected)
        except ValueError:
            value = None
        if isinstance(value, (dict, list)):
            try:
                return json.loads(line) == value
            except ValueError:
                return False
    return shape_of(expected.strip()).fullmatch(line.strip()) is not None


def missing_lines(expected, output):
    """Those of the expected lines that did not come, in this order."""
    lines, missing, at = output.split("\n"), [], 0
    for each in expected:
        found = next((number for number in range(at, len(lines)) if looks_like(each, lines[number])), None)
        if found is None:
            missing.append(each)
        else:
            at = found + 1
    return missing
