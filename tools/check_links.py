#!/usr/bin/env python3
"""Holds the links of our pages against the tree: every relative link of every *.md leads to a file or
folder that is there, and every anchor to a heading. In ARCHITECTURE.md a link whose text is a name of the
code, [`module::Class::function`](file), must lead to a file of that module that defines it, and the table of
modules must list those of src/modules.cmake. So the walks there cannot go stale silently."""
import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)(?:\s+\"[^\"]*\")?\)")
DEFINITION = re.compile(r"^ {0,3}\[([^\]]+)\]:\s+(\S+)", re.MULTILINE)
NAME = re.compile(r"^`([A-Za-z_][\w]*(?:::[A-Za-z_~]\w*)+)`$")
OUTSIDE = re.compile(r"^[a-z][a-z0-9+.-]*:")
# In the table of modules, but none of the layering.
OTHER_MODULES = {"bin"}


def without_code(text):
    """The page with what stands in fenced blocks blanked, and code spans that look like links."""
    lines, fence = [], None
    for line in text.split("\n"):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence:
            if mark and line.strip().startswith(fence):
                fence = None
            line = ""
        elif mark:
            fence = mark.group(1)
            line = ""
        lines.append(line)
    return re.sub(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)",
                  lambda span: "``" if "](" in span.group(2) else span.group(0), "\n".join(lines))


def anchor_of(heading):
    """As GitHub makes it: markup gone, lower case, punctuation gone, blanks to hyphens."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[`*]", "", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text):
    found, seen = set(), {}
    for line in without_code(text).split("\n"):
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*\s*$", line)
        if heading:
            name = anchor_of(heading.group(1))
            count = seen.get(name, 0)
            seen[name] = count + 1
            found.add(name if count == 0 else f"{name}-{count}")
        found.update(re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", line))
    return found


def links(text):
    """(number of the line, text of the link, target) of every inline link and every definition."""
    text = without_code(text)
    for match in LINK.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)
    for match in DEFINITION.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2)


def check_page(root, page):
    """What is wrong with the links of one page, a sentence each."""
    text = (root / page).read_text()
    for number, _, target in links(text):
        if OUTSIDE.match(target) or target.startswith("//"):
            continue
        path, _, anchor = target.partition("#")
        where = f"{page}:{number}: {target}"
        if path.startswith("/"):
            yield f"{where} is not relative"
            continue
        file = (root / page).parent / path if path else root / page
        if not file.exists():
            yield f"{where} is not there"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            yield f"{where}: there is no such heading"


def defines(text, parts):
    """Whether a file's text defines what these parts, without the module, name. Definitions begin at the
    beginning of a line, as we format; a method may also stand in the body of its class."""
    last = re.escape(parts[-1])
    a_type = r"\b(?:class|struct|enum|enum class)\s+(?:alignas\(\w+\)\s+)?{}\b(?!\s*;)"
    if len(parts) >= 2:
        owner = re.escape(parts[-2])
        if re.search(rf"^(?!return\b)(?:\w[^;\n]*)?\b{owner}::{last}\(", text, re.MULTILINE):
            return True
        return bool(re.search(a_type.format(owner), text) and re.search(rf"^ .*\b{last}\(", text, re.MULTILINE))
    return bool(re.search(a_type.format(last), text)
                or re.search(rf"^(?!return\b)\w[\w:<>,&*\[\] ]*[ &*]{last}\(", text, re.MULTILINE))


def check_names(root, page):
    """Names of the code that the linked file, of the module that they begin with, does not define."""
    text = (root / page).read_text()
    for number, label, target in links(text):
        name = NAME.match(label)
        if not name or OUTSIDE.match(target):
            continue
        module, *parts = name.group(1).split("::")
        file = root / page
        file = file.parent / target.partition("#")[0]
        where = f"{page}:{number}: {name.group(1)}"
        if not file.is_file():
            continue  # a broken link, told elsewhere
        folder = file.resolve().parent
        if folder.name != module or (root / "src").resolve() not in folder.parents:
            yield f"{where} is not of the module that {target} lies in"
        elif not defines(file.read_text(), parts):
            yield f"{where} is not defined in {target}"


def check_modules(root, page):
    """Modules that the page's table leaves out, or that are none."""
    cmake = (root / "src" / "modules.cmake").read_text()
    modules = set(re.findall(r"^module\((\w+)", cmake, re.MULTILINE)) | OTHER_MODULES
    listed = set(re.findall(r"^\| (\w+) \|", (root / page).read_text(), re.MULTILINE)) - {"floor", "module", "path", "kind"}
    for module in sorted(modules - listed):
        yield f"{page}: the table of modules leaves out {module}"
    for module in sorted(listed - modules):
        yield f"{page}: there is no module {module}"


def pages(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "*.md"], capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return [each for each in listed.stdout.split("\0") if each and (root / each).exists()]
    skipped = {"build", ".git", ".venv"}
    return [str(each.relative_to(root)) for each in sorted(root.rglob("*.md"))
            if not skipped & set(each.relative_to(root).parts)]


def check(root):
    problems = []
    for page in pages(root):
        problems += check_page(root, page)
    problems += check_names(root, "ARCHITECTURE.md")
    problems += check_modules(root, "ARCHITECTURE.md")
    return problems


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    problems = check(root)
    for problem in problems:
        print(problem)
    if not problems:
        names = sum(1 for _, label, _ in links((root / "ARCHITECTURE.md").read_text()) if NAME.match(label))
        print(f"the links of {len(pages(root))} pages lead somewhere, {names} of them to names of the code")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
