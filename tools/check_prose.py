#!/usr/bin/env python3
"""Holds our prose to the field's words: pages, module READMEs, comments, help and errors.

Each pattern below is a coinage or a turn of phrase with the plain form beside it. Where old text still has some,
tools/prose_allowance.txt says how many in which area; these numbers may only fall. A module's README has at most 400 words.
On pages, sentences over 35 words and lines of tables over 200 characters count the same way (`long-sentence`, `long-table-line`).
The types that docs/reference/glossary.md names must exist.

Usage: check_prose.py [--list PATTERN | --update]   --list shows where a pattern stands, --update lowers the numbers
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_README_WORDS = 400
MOST_SENTENCE_WORDS = 35
MOST_TABLE_LINE = 200
# name: (pattern, what to write instead). Matched without case, on text without code.
PATTERNS = {
    "seat": (r"\bseats?\b", "kernel instance"),
    # Of a warp lanes are CUDA's own word, and --lanes is a flag of before.
    "lane": (r"(?<!own )(?<!--)(?<!of-)\blanes?\b(?! of (?:a warp|one mask)| synchronise)", "stage process, or device pool"),
    "aside": (r"\baside\b", "offloaded"),
    "room": (r"\b(?:a|this|the|each|every|which|other|pure) rooms?\b(?! (?:for|is|left|on|to|beside|of memory))", "module, or free memory"),
    "house": (r"\b(?:the|our|this) house\b", "architecture, or project"),
    "door": (r"\bdoors?\b", "adapter, or interface"),
    "let-go": (r"\blets? go\b|\blet-go\b", "release"),
    "make-way": (r"\bmakes? way\b", "evict, or is evicted"),
    "in-hand": (r"\bin hand\b", "in flight"),
    "held-back": (r"\bheld back\b|\bholds? back\b", "deferred, defer"),
    "patience": (r"\bpatience\b", "grace period"),
    "passage": (r"\bpassages?\b|\bpassepartouts?\b", "gate scope, gate bypass"),
    "tenure": (r"\btenures?\b", "allocation mode"),
    "lend": (r"\b(?:lends?|lent|lending|lenders?|loans?|borrow(?:s|ed|er|ers|ing)?)\b", "export, share, import"),
    "books": (r"\bnobody's books\b|\bon the books\b|\bin (?:its|the) books\b", "accounting"),
    "glimpse": (r"\bglimpses?\b", "partial report"),
    # The user `nobody` of Unix and a name in quotes are none.
    "nobody": (r"(?<!as )(?<!become )(?<!/)(?:(?<!['\"])\bnobody(?:'s)?\b|\bnobody(?:'s)?\b(?!['\"]))(?! \(65534\)|:)"
               r"|\bsomebody\b|\beverybody\b|\bwhoever\b", "the subject: no client, a user, all functions"),
    "what-is-there": (r"\bwhat is there\b|\bwhat there is\b", "the noun"),
    "of-late": (r"\bof late\b", "recently"),
    "anew": (r"\banew\b", "again"),
    "alone": (r"(?<!by )(?<!stand )(?<!stands )(?<!left )(?<!leaves )\balone\b(?!-)", "only"),
}


# Counted by length, on pages only.
LENGTHS = {
    "long-sentence": f"at most {MOST_SENTENCE_WORDS} words a sentence",
    "long-table-line": f"at most {MOST_TABLE_LINE} characters a line",
}


def words_of_page(text):
    """A page without fenced blocks, code spans and link targets."""
    text = re.sub(r"^[ >]*(```+|~~~+).*?^[ >]*\1", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)
    text = re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\]\([^()\s]*\)", "]", text)


def sentences(text):
    """The sentences of a page; tables and headings have none, and one does not go beyond its paragraph or item of a list."""
    # Spans become one word each; a block leaves an empty line.
    text = re.sub(r"^[ >]*(```+|~~~+).*?^[ >]*\1", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?<!`)(`+)(?!`)(?:(?!\n\s*\n).)*?(?<!`)\1(?!`)", "code", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^()\s]*\)", "]", text)
    block = []
    for line in text.split("\n") + [""]:
        is_text = line.strip() and not re.match(r"\s*[|#]| {4}(?=\S)", line) or block and re.match(r" {4}\S", line)
        if not is_text or re.match(r"\s*(?:[-*+>]|\d+\.)\s", line):
            yield from (each for each in re.split(r"(?<=[.!?])[\"')*_\]]*\s+", " ".join(block)) if each)
            block = []
        if is_text:
            block.append(line.strip())


def lengths_in(text):
    """(pattern, what) of all that is too long on a page."""
    for each in sentences(text):
        number = sum(1 for word in each.split() if re.search(r"\w", word))
        if number > MOST_SENTENCE_WORDS:
            yield "long-sentence", f"{number} words: {each[:100]}"
    in_code = False
    for number, line in enumerate(text.split("\n"), 1):
        in_code ^= bool(re.match(r"[ >]*(```|~~~)", line))
        if line.startswith("|") and not in_code and len(line) > MOST_TABLE_LINE:
            yield "long-table-line", f"line {number}: {len(line)} characters"


def check_glossary(root):
    """Types that the glossary names and no header declares."""
    page = root / "docs/reference/glossary.md"
    if not page.exists():
        return
    declared = set()
    for path in (root / "src").rglob("*.h"):
        declared.update(re.findall(r"\b(?:class|struct|using)\s+(?:alignas\(\w+\)\s+)?(?:\w+::)*([A-Z]\w*)", path.read_text(errors="replace")))
    for number, line in enumerate(page.read_text().split("\n"), 1):
        for name in re.findall(r"`(?:\w+::)*([A-Z]\w*[a-z]\w*)`", line):
            if name not in declared:
                yield f"docs/reference/glossary.md:{number}: no header declares {name}"


def prose_of_source(text):
    """Comments, and literals that are sentences; the rest is code."""
    parts = []
    for match in re.finditer(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', text, re.DOTALL):
        part = match.group(0)
        if part.startswith("/"):
            parts.append(re.sub(r"^\s*(?://+|\*)|`[^`\n]*`|\w*[_:]\w*", " ", part, flags=re.MULTILINE))
        elif " " in part.strip('"'):
            parts.append(part)
    return "\n".join(parts)


def prose_of_python(text):
    return "\n".join(re.findall(r'#[^\n]*|"""(?:.|\n)*?"""', text))


def area_of(path):
    """The areas in which is counted: a page's folder, a floor of src/."""
    parts = path.parts
    if parts[0] == "src":
        return "/".join(parts[:2])
    if parts[0] == "docs":
        return "docs/" + parts[1] if len(parts) > 2 else "docs"
    return parts[0] if len(parts) > 1 else "."


def files(root):
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "src").rglob("*"), *(root / "python").rglob("*.py"),
                        *(root / "api").glob("*.md"), *(root / "examples").rglob("*.md"), *(root / "tests").rglob("*.md")]):
        inside = path.relative_to(root)
        if path.suffix in (".md", ".h", ".cc", ".py") and "results" not in inside.parts and inside.name != "glossary.md":
            yield inside


def prose(root, path):
    text = (root / path).read_text(errors="replace")
    # Sentences go over line ends.
    return re.sub(r"\s+", " ", {".md": words_of_page, ".py": prose_of_python}.get(path.suffix, prose_of_source)(text))


def count(root):
    """({(pattern, area): how often}, READMEs that are too long)."""
    found, long_pages = {}, []
    expressions = {name: re.compile(pattern, re.IGNORECASE) for name, (pattern, _) in PATTERNS.items()}
    for path in files(root):
        text = prose(root, path)
        for name, expression in expressions.items():
            hits = len(expression.findall(text))
            if hits:
                key = name, area_of(path)
                found[key] = found.get(key, 0) + hits
        if path.suffix == ".md":
            for name, _ in lengths_in((root / path).read_text(errors="replace")):
                found[name, area_of(path)] = found.get((name, area_of(path)), 0) + 1
        if path.name == "README.md" and path.parts[0] == "src":
            length = len((root / path).read_text().split())
            if length > MOST_README_WORDS:
                long_pages.append((str(path), length))
    return found, long_pages


def read_allowance(path):
    allowed = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.strip() and not line.startswith("#"):
            name, area, number = line.split()
            allowed[name, area] = int(number)
    return allowed


def offences(found, long_pages, allowed):
    for (name, area), number in sorted(found.items()):
        most = allowed.get((name, area), 0)
        instead = PATTERNS[name][1] if name in PATTERNS else LENGTHS[name]
        if number > most:
            yield f"'{name}' stands {number} times in {area}, at most {most}: write {instead} (check_prose.py --list {name})"
        elif number < most:
            yield f"'{name}' stands {number} times in {area}: lower its number, or run check_prose.py --update"
    for name, area in sorted(allowed.keys() - found.keys() - {key for key in allowed if key[0] == "readme"}):
        yield f"'{name}' is gone from {area}: take its line out of tools/prose_allowance.txt, or run check_prose.py --update"
    lengths = dict(long_pages)
    for page, words in long_pages:
        if words > allowed.get(("readme", page), MOST_README_WORDS):
            yield f"{page} has {words} words; at most {allowed.get(('readme', page), MOST_README_WORDS)}"
        elif words < allowed["readme", page]:
            yield f"{page} has {words} words: lower its number, or run check_prose.py --update"
    for kind, page in sorted(allowed):
        if kind == "readme" and page not in lengths:
            yield f"{page} keeps to {MOST_README_WORDS} words now: take its line out of tools/prose_allowance.txt"


def main():
    allowance = ROOT / "tools/prose_allowance.txt"
    if "--list" in sys.argv:
        if sys.argv[sys.argv.index("--list") + 1] in LENGTHS:
            for path in files(ROOT):
                if path.suffix == ".md":
                    for name, what in lengths_in((ROOT / path).read_text(errors="replace")):
                        if name == sys.argv[sys.argv.index("--list") + 1]:
                            print(f"{path}: {what}")
            return 0
        expression = re.compile(PATTERNS[sys.argv[sys.argv.index("--list") + 1]][0], re.IGNORECASE)
        for path in files(ROOT):
            for match in expression.finditer(prose(ROOT, path)):
                around = match.string[max(0, match.start() - 50) : match.end() + 50]
                print(f"{path}: {around}")
        return 0
    found, long_pages = count(ROOT)
    if "--update" in sys.argv:
        first = not allowance.exists()
        old = read_allowance(allowance)
        now = found | {("readme", page): words for page, words in long_pages}
        kept = {key: number if first else min(number, old.get(key, 0)) for key, number in now.items()}
        lines = [f"{name} {area} {number}\n" for (name, area), number in sorted(kept.items()) if number]
        allowance.write_text("# How often old text still has a pattern of tools/check_prose.py. Numbers may only fall.\n" + "".join(lines))
    problems = list(offences(found, long_pages, read_allowance(allowance))) + list(check_glossary(ROOT))
    print("\n".join(problems) or f"prose keeps to its words; {sum(found.values())} old places are left")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
