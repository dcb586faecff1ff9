#!/usr/bin/env python3
"""Limits the size of classes and functions under src/, tests excluded.

A class may declare 40 methods and have its member functions in 4 .cc files; a function may have 80 lines.
Methods are counted in headers and in .cc files (a private Impl counts). Every overload is a method;
constructors, destructors, operators, deleted and defaulted functions and data members are not.
tools/class_limits.txt lists the exceptions, one a line: `methods CLASS 107`, `files CLASS 8`, `lines FUNCTION 95`.
Those numbers may only fall: one that is too low, too high or not needed fails the check. --update lowers them.
--table prints every class, the largest first. This is a reader of our own C++ style, not a compiler.
"""
import bisect
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST = {"methods": 40, "files": 4, "lines": 80}

NOT_CODE = re.compile(
    r"""//(?:\\\n|[^\n])*|/\*.*?\*/                     # comments
    |(?:u8|[uUL])?R"(?P<end>[^()\\\s]*)\(.*?\)(?P=end)" # raw strings
    |"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'     # strings and characters; 1'000 is a number
    """, re.DOTALL | re.VERBOSE)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)(?:\\\n|[^\n])*", re.MULTILINE)
TOKEN = re.compile(r'"[^"]*"|operator\s*(?:\(\s*\)|\[\s*\]|""\s*\w+|[^\s\w(]+)|\w+|::|->|[=!<>+*/|&^%-]=|\S')
WORD = re.compile(r"[A-Za-z_]\w*$")
MACRO = re.compile(r"[A-Z][A-Z0-9_]+$")
# What may stand before parentheses that hold no parameters.
NOT_A_NAME = {"alignas", "decltype", "noexcept", "explicit", "requires", "__attribute__", "static_assert", "throw"}
TEST_SUPPORT = {"virtual_host.h", "random_world.h"}
NO_METHOD = {"friend", "using", "typedef", "static_assert", "operator", "enum"}
PARENTHESES = "()"  # one token for a balanced pair with its contents


class Class:
    def __init__(self, name, path, line):
        self.name, self.path, self.line = name, path, line
        self.methods, self.files = 0, set()


class Function:
    def __init__(self, name, path, line, lines):
        self.name, self.path, self.line, self.lines = name, path, line, lines


def only_code(text):
    """The text without comments, contents of strings and preprocessor lines; its lines keep their numbers.
    Of `#if A #else B #endif` the first branch stays, so that braces balance."""
    def blank(match):
        breaks = "\n" * match.group(0).count("\n")
        return breaks or " " if match.group(0)[0] == "/" else match.group(0)[-1] + breaks + match.group(0)[-1]

    text = NOT_CODE.sub(blank, text)
    if "#" not in text:
        return text
    parts, position = [], 0
    skipped, zero = [], []  # for every open #if: whether its present branch is left out; whether it is `#if 0`
    for match in DIRECTIVE.finditer(text):
        between = text[position:match.start()]
        parts.append("\n" * between.count("\n") if any(skipped) else between)
        parts.append("\n" * match.group(0).count("\n"))
        position = match.end()
        word = match.group(1)
        if word in ("if", "ifdef", "ifndef"):
            zero.append(bool(re.match(r"\s*#\s*if\s+0\b", match.group(0))))
            skipped.append(zero[-1])
        elif word in ("else", "elif") and skipped:
            skipped[-1] = not (zero[-1] and word == "else")
        elif word == "endif" and skipped:
            skipped.pop()
            zero.pop()
    parts.append(text[position:])
    return "".join(parts)


def pairs_of(text):
    """Where every bracket that opens is closed."""
    closes, opened = {}, []
    for match in re.finditer(r"[(){}\[\]]", text):
        if match.group(0) in "({[":
            opened.append((match.group(0), match.start()))
        else:
            while opened:
                kind, start = opened.pop()
                closes[start] = match.start()
                if kind + match.group(0) in ("()", "{}", "[]"):
                    break
    return closes


class Reader:
    """Reads one file: what it declares at namespace and class level, and the bodies of its functions."""

    def __init__(self, path, text, classes, functions):
        self.path, self.classes, self.functions = path, classes, functions
        self.text = only_code(text)
        self.closes = pairs_of(self.text)
        self.lines = [match.start() for match in re.finditer("\n", self.text)]
        self.outside = []  # (namespace, qualified name as written) of functions with a body outside of a class

    def line_at(self, position):
        return bisect.bisect_left(self.lines, position) + 1

    def read(self):
        self.scope(0, len(self.text), (), None)

    def end_of_angles(self, position):
        """Past the `>` that closes the `<` at `position`; none: it is an operator."""
        depth = 0
        while match := re.compile(r"[<>(\[{;]").search(self.text, position):
            mark, position = match.group(0), match.end()
            if mark == "<":
                depth += 1
            elif mark == ">" and self.text[match.start() - 1] != "-":
                depth -= 1
                if depth == 0:
                    return position
            elif mark in "([":
                position = self.closes.get(match.start(), position) + 1
            elif mark in "{;":
                return None
        return None

    def scope(self, position, end, names, owner):
        """Reads declarations; `names` are those of the namespaces and classes around them."""
        head, start = [], position
        while match := TOKEN.search(self.text, position, end):
            token, position = match.group(0), match.end()
            if not head:
                start = match.start()
            if token == "(":
                head.append(PARENTHESES + self.text[position:position + 40].lstrip()[:1])
                position = self.closes.get(match.start(), position) + 1
            elif token == "[":
                position = self.closes.get(match.start(), position) + 1
            elif token == "<" and head and (past := self.end_of_angles(match.start())):
                position = past
            elif token == ";":
                self.declaration(head, owner)
                head = []
            elif token == ":" and len(head) == 1 and head[0] in ("public", "protected", "private"):
                head = []
            elif token == "{":
                close = self.closes.get(match.start(), end)
                head = self.block(head, start, position, close, names, owner)
                position = close + 1
            elif token == "}":
                head = []
            else:
                head.append(token)

    def block(self, head, start, position, close, names, owner):
        """What a block in braces after `head` is; returns what stands before the next token then."""
        head = without_macros(head)
        plain = [token for token in head if token != "inline"]
        if plain[:1] == ["namespace"]:
            inner = tuple(t for t in plain[1:] if WORD.match(t)) or (f"({self.path})",)
            self.scope(position, close, names + inner, None)
            return []
        if plain[:1] == ["extern"] and len(plain) == 2:
            self.scope(position, close, names, owner)
            return []
        equals = "=" in head
        parameters = next((i for i, token in enumerate(head) if token.startswith(PARENTHESES)), None)
        if parameters is None and not equals:
            kinds = [i for i, token in enumerate(head) if token in ("class", "struct", "union")]
            if "enum" in head:
                return ["enum"]
            if kinds:
                self.a_class(head[kinds[0] + 1:], start, position, close, names)
                return ["enum"]  # until the semicolon, as of an enum
            return head + ["{}"] if head else []
        if equals and (parameters is None or head.index("=") < parameters):
            return head + ["{}"]
        after = head[parameters + 1:]
        if ":" in after and not (head[-1].startswith(PARENTHESES) or head[-1] == "{}"):
            return head + ["{}"]  # a member in a constructor's list
        self.a_function(head, parameters, start, close, names, owner)
        return []

    def a_class(self, head, start, position, close, names):
        if ":" in head:
            head = head[:head.index(":")]
        own = [token for token in head if WORD.match(token) and token != "final"]
        # `struct Outer::Inner {` is written with its qualifiers; attributes stand before the name.
        name = [own.pop()] if own else [f"(unnamed at {self.path}:{self.line_at(start)})"]
        tokens = [token for token in head if token != "final"]
        while len(tokens) >= 3 and tokens[-2] == "::":
            tokens = tokens[:-2]
            name.insert(0, tokens[-1])
        known = resolve(self.classes, names, name)
        full = names + tuple(name) if known is None else known.name
        each = self.classes.get(full)
        if each is None:
            each = self.classes[full] = Class(full, self.path, self.line_at(start))
        self.scope(position, close, full, each)

    def declaration(self, head, owner):
        if owner is None or not head:
            return
        head = without_macros(head)
        if is_method(head, owner.name[-1]):
            owner.methods += 1

    def a_function(self, head, parameters, start, close, names, owner):
        line = self.line_at(start)
        name = name_before(head, parameters)
        lines = self.line_at(close) - line + 1
        if owner is not None:
            if is_method(head, owner.name[-1]):
                owner.methods += 1
            if self.path.endswith(".cc"):
                owner.files.add(self.path)
        elif len(name) > 1:
            self.outside.append((names, name[:-1]))
        self.functions.append((names, name, Function(None, self.path, line, lines)))


def without_macros(head):
    """Without attributes that are macros or take parentheses of their own: GUARDED_BY(x), alignas(8)."""
    kept = []
    for token in head:
        if token.startswith(PARENTHESES) and kept and (MACRO.match(kept[-1]) or kept[-1] in NOT_A_NAME):
            if MACRO.match(kept[-1]) and len(kept) == 1:
                kept.append(token)  # TEST(..), or a macro that is the whole declaration
            elif kept[-1] != "static_assert":
                kept.pop()
            continue
        kept.append(token)
    return kept


def name_before(head, parameters):
    """The name, in its parts, that stands before the parameters: A::B::c."""
    parts, i = [], parameters - 1
    if i >= 0 and head[i].startswith("operator"):
        parts, i = [head[i]], i - 1
    elif "operator" in head[:parameters]:
        i = head.index("operator") - 1
        parts = ["operator"]
    elif i >= 0 and WORD.match(head[i]):
        parts, i = [head[i]], i - 1
        if i >= 0 and head[i] == "~":
            parts, i = ["~" + parts[0]], i - 1
    while i >= 1 and head[i] == "::" and WORD.match(head[i - 1]):
        parts.insert(0, head[i - 1])
        i -= 2
    return parts or ["(unnamed)"]


def is_method(head, class_name):
    if any(token in NO_METHOD or token.startswith("operator") for token in head):
        return False
    parameters = next((i for i, token in enumerate(head) if token.startswith(PARENTHESES)), None)
    if not parameters or not WORD.match(head[parameters - 1]) or "=" in head[:parameters]:
        return False
    if head[parameters] == PARENTHESES + "*":
        return False  # a pointer to a function
    if parameters == 1 and MACRO.match(head[0]) or head[parameters - 1] == class_name:
        return False  # a macro; a constructor or destructor
    return not ("=" in head and head[-1] in ("default", "delete"))


def resolve(classes, names, parts):
    """The class that `parts` name inside `names`, as C++ looks it up from the inside out."""
    for depth in range(len(names), -1, -1):
        if each := classes.get(names[:depth] + tuple(parts)):
            return each
    return None


def is_product(path):
    testing = path.stem.endswith("_test") or "testing" in path.stem or "testing" in path.parts or path.name in TEST_SUPPORT
    return path.suffix in (".h", ".cc") and not testing


def read(root):
    """Classes by their full names, and functions."""
    classes, functions, outside, found = {}, [], [], []
    paths = [path for path in (root / "src").rglob("*") if is_product(path.relative_to(root))]
    # Headers first: they declare the classes whose methods .cc files define.
    for path in sorted(paths, key=lambda path: (path.suffix == ".cc", path)):
        name = str(path.relative_to(root))
        reader = Reader(name, path.read_text(errors="replace"), classes, found)
        reader.read()
        if path.suffix == ".cc":
            outside += [(name, names, parts) for names, parts in reader.outside]
    for name, names, parts in outside:
        if each := resolve(classes, names, parts):
            each.files.add(name)
    for names, parts, function in found:
        owner = resolve(classes, names, parts[:-1]) if len(parts) > 1 else None
        function.name = (owner.name if owner else names + tuple(parts[:-1])) + (parts[-1],)
        functions.append(function)
    return classes, functions


def shown(name):
    """Without the project's namespace, and without the path that stands for an unnamed one."""
    return "::".join(part for part in name if part != "lambent" and not part.startswith("(src/"))


def measured(classes, functions):
    """{kind: {name: [(number, where), ...]}}, the largest first; several things may have one name."""
    numbers = {kind: collections.defaultdict(list) for kind in MOST}
    for each in classes.values():
        where = f"{each.path}:{each.line}"
        numbers["methods"][shown(each.name)].append((each.methods, where))
        numbers["files"][shown(each.name)].append((len(each.files), where))
    for each in functions:
        numbers["lines"][shown(each.name)].append((each.lines, f"{each.path}:{each.line}"))
    for kind in numbers.values():
        for values in kind.values():
            values.sort(reverse=True)
    return numbers


def short_names(names):
    """{full: the shortest of its ends that no other name ends with}"""
    counts = collections.Counter()
    ends = {}
    for name in names:
        parts = name.split("::")
        ends[name] = ["::".join(parts[-length:]) for length in range(1, len(parts) + 1)]
        counts.update(ends[name])
    return {name: next((end for end in all_ends if counts[end] == 1), name) for name, all_ends in ends.items()}


def read_limits(text):
    limits, problems = {kind: collections.defaultdict(list) for kind in MOST}, []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) != 3 or words[0] not in MOST or not words[2].isdigit():
            problems.append(f"tools/class_limits.txt:{number}: write `methods CLASS NUMBER`, `files CLASS NUMBER` or `lines FUNCTION NUMBER`")
            continue
        limits[words[0]][words[1]].append(int(words[2]))
    return limits, problems


def check(root, limits_text):
    classes, functions = read(root)
    limits, problems = read_limits(limits_text)
    for kind, by_name in measured(classes, functions).items():
        names = short_names(by_name)
        listed = {}
        for written, values in limits[kind].items():
            full = [written] if written in by_name else [name for name in by_name if name.endswith("::" + written)]
            if len(full) == 1:
                listed[full[0]] = sorted(listed.get(full[0], []) + values, reverse=True)
            elif full:
                problems.append(f"tools/class_limits.txt: {kind} {written} may be any of {', '.join(sorted(full))}")
            else:
                problems.append(f"tools/class_limits.txt: remove `{kind} {written} {values[0]}`: there is no such {what(kind)}")
        for full, values in by_name.items():
            allowed = listed.get(full, [])
            name = names[full]
            written = next((each for each in limits[kind] if full == each or full.endswith("::" + each)), name)
            too_large = sum(1 for number, _ in values if number > MOST[kind])  # they come first
            for i in range(max(len(allowed), too_large)):
                number, where = values[i] if i < len(values) else (0, "")
                limit = allowed[i] if i < len(allowed) else None
                if limit is None:
                    problems.append(f"{where}: {what(kind)} {name} has {number} {kind}; the most is {MOST[kind]}")
                elif number > limit:
                    problems.append(f"{where}: {what(kind)} {name} has grown to {number} {kind}; tools/class_limits.txt allows {limit}")
                elif number <= MOST[kind]:
                    problems.append(f"tools/class_limits.txt: remove `{kind} {written} {limit}`: it has {number} {kind}, which is allowed")
                elif number < limit:
                    problems.append(f"tools/class_limits.txt: lower `{kind} {written} {limit}` to `{kind} {written} {number}`")
    return problems, classes, functions


def what(kind):
    return "function" if kind == "lines" else "class"


def lowered(text, problems):
    """The exceptions with the changes that `problems` ask for; none of them raises or adds a number."""
    for problem in problems:
        if match := re.search(r": (?:lower `(.*?)` to `(.*?)`|remove `(.*?)`)", problem):
            old, new = match.group(1) or match.group(3), match.group(2)
            text = re.sub(rf"^{re.escape(old)}[ \t]*(?:#.*)?\n", f"{new}\n" if new else "", text, count=1, flags=re.MULTILINE)
    return text


def table(classes):
    rows = sorted(classes.values(), key=lambda each: (-each.methods, each.name))
    print("methods  files  class")
    for each in rows:
        if each.methods:
            print(f"{each.methods:7}  {len(each.files):5}  {shown(each.name)}")


def main(arguments):
    if "--table" in arguments:
        table(read(ROOT)[0])
        return 0
    limits = ROOT / "tools/class_limits.txt"
    problems, classes, functions = check(ROOT, limits.read_text())
    if "--update" in arguments:
        limits.write_text(lowered(limits.read_text(), problems))
        problems, classes, functions = check(ROOT, limits.read_text())
    print("\n".join(problems) or f"{len(classes)} classes and {len(functions)} functions keep to their limits")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
