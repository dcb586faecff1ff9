#!/usr/bin/env python3
"""Holds the sizes of classes and functions under src/ against tools/class_limits.txt.

A class has at most 40 methods and is defined in at most 4 source files; a function has at most 80 lines. What is larger today is
listed with its size, and the list may only shrink: a class that grows, a new one above the limit and an entry that is too high or no
longer needed are offences. Counted are declared methods, without constructors, destructors and what is defaulted or deleted.

Usage: check_classes.py [--table | --update]   --table prints the largest classes, --update lowers the list's numbers
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_METHODS, MOST_FILES, MOST_LINES = 40, 4, 80
CLASS = re.compile(r"\b(class|struct)\s+(?:alignas\([^)]*\)\s+)?((?:\w+::)*\w+)(?:\s+final)?\s*(?::[^;{()]*)?\{")
# What stands before the parameters of a method in its declaration, and the name.
METHOD = re.compile(r"(~?\w+|operator\s*[^\s(]+|operator\s*\(\s*\))\s*\(")
DEFINITION = re.compile(r"^(?=\w)(?!return\b|else\b|namespace\b|using\b)[\w:<>,&*\[\]~ ]*?\b((?:\w+::)+)(~?\w+|operator[^\s(]+)\(", re.MULTILINE)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def bare(text):
    """The text with comments, literals and directives blanked, so that braces and parentheses are the code's own."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.DOTALL)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.MULTILINE)


def closing(text, at):
    """The place of the brace that closes the one at `at`; the end if there is none."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if match.group(0) == "{" else -1
        if depth == 0:
            return match.start()
    return len(text)


def statements(body):
    """The declarations of a class's body, each without what stands in braces: methods' bodies, initialisers, nested classes."""
    out, at, start, depth = [], 0, 0, 0
    while at < len(body):
        char = body[at]
        if char == "{":
            end = closing(body, at)
            head = body[start:at]
            # A definition ends with its body; a member with an initialiser goes on to its semicolon.
            if "(" in head and not re.search(r"=\s*$", head):
                out.append(head)
                start = end + 1
            at = end
        elif char in "(<[":
            depth += char == "("
        elif char == ")":
            depth -= 1
        elif char == ";" and depth == 0:
            out.append(body[start:at])
            start = at + 1
        at += 1
    return out


def is_method(declaration, class_name):
    text = re.sub(r"\b(public|private|protected)\s*:", " ", declaration).strip()
    text = re.sub(r"\[\[.*?\]\]|\b[A-Z][A-Z_]{3,}\([^()]*\)", " ", text)  # attributes, and macros that stand for some
    text = re.sub(r"^template\s*<[^;{}]*?>\s*(?=\w)", "", text)
    if re.match(r"(using|typedef|friend|static_assert|enum|class|struct|union)\b", text) or re.search(r"=\s*(default|delete)\s*$", text):
        return False
    # Types of parameters in templates (std::function<void(int)>) are no parameters of the method.
    previous = None
    while previous != text:
        previous, text = text, re.sub(r"<[^<>;]*>", "", text)
    text = text.split("=")[0] if not re.search(r"\boperator\s*=", text) else text
    match = METHOD.search(text)
    if not match or match.group(1) in (class_name, "~" + class_name, "alignas", "decltype", "noexcept"):
        return False
    return bool(text[: match.start()].strip()) or match.group(1).startswith("operator")


def classes(text):
    """(name, number of methods) of every class that the text defines, without what lies in it."""
    text = bare(text)
    for match in CLASS.finditer(text):
        if re.search(r"\b(enum|template\s*<[^>]*)\s*$", text[max(0, match.start() - 60) : match.start()]):
            continue
        body = text[match.end() : closing(text, match.end() - 1)]
        name = match.group(2)
        last = name.split("::")[-1]
        yield name, sum(is_method(each, last) for each in statements(body))


def functions(text):
    """(name, lines) of every function that is defined at the beginning of a line."""
    text = bare(text)
    for match in re.finditer(r"^(?!namespace|class|struct|enum|union|extern|using|typedef|return|else|static_assert)\w[^;{}=]*?([\w:~]+)\s*\([^;{}]*\)[^;{}]*\{",
                             text, re.MULTILINE):
        end = closing(text, match.end() - 1)
        yield match.group(1), text.count("\n", match.start(), end) + 1


def measured(root):
    """{(kind, what): size} of all that is above a limit, and the table of classes."""
    methods, files, lines = {}, {}, {}
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".h", ".cc") or path.stem.endswith("_test") or "testing" in path.parts:
            continue
        text, module = path.read_text(errors="replace"), path.parent.name
        for name, count in classes(text):
            methods[f"{module}::{name}"] = max(count, methods.get(f"{module}::{name}", 0))
        if path.suffix == ".cc":
            for match in DEFINITION.finditer(bare(text)):
                files.setdefault(f"{module}::{match.group(1)[:-2]}", set()).add(path)
        for name, count in functions(text):
            lines[f"{module}::{name}"] = max(count, lines.get(f"{module}::{name}", 0))
    table = sorted(((methods[name], len(files.get(name, ())), name) for name in methods), reverse=True)
    over = {("methods", name): count for name, count in methods.items() if count > MOST_METHODS}
    over |= {("files", name): len(where) for name, where in files.items() if len(where) > MOST_FILES and methods.get(name)}
    over |= {("lines", name): count for name, count in lines.items() if count > MOST_LINES}
    return over, table


def read_limits(path):
    limits = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            kind, name, size = line.split()
            limits[kind, name] = int(size)
    return limits


def offences(over, limits):
    for (kind, name), size in sorted(over.items()):
        most = limits.get((kind, name))
        if most is None:
            limit = {"methods": MOST_METHODS, "files": MOST_FILES, "lines": MOST_LINES}[kind]
            yield f"{name} has {size} {kind}; at most {limit}: take it apart by who owns which state"
        elif size > most:
            yield f"{name} has grown from {most} to {size} {kind}"
        elif size < most:
            yield f"{name} has {size} {kind} only: lower its line in tools/class_limits.txt"
    for kind, name in sorted(limits.keys() - over.keys()):
        yield f"{name} keeps to the limit of {kind} now: take its line out of tools/class_limits.txt"


def main():
    limits_file = ROOT / "tools/class_limits.txt"
    over, table = measured(ROOT)
    if "--table" in sys.argv:
        print("methods  files  class")
        for methods, files, name in table[:30]:
            print(f"{methods:7}  {files:5}  {name}")
        return 0
    if "--update" in sys.argv:
        old = read_limits(limits_file) if limits_file.exists() else dict(over)
        kept = {key: min(size, old[key]) for key, size in over.items() if key in old}
        head = "# What is above the limits of tools/check_classes.py. Sizes may only fall; lines may only go.\n"
        limits_file.write_text(head + "".join(f"{kind} {name} {size}\n" for (kind, name), size in sorted(kept.items())))
    found = list(offences(over, read_limits(limits_file)))
    print("\n".join(found) or f"{len(table)} classes, {len(over)} sizes above a limit, none new or grown")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
