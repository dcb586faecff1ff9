"""What a page of Markdown says that can be tried: its blocks, its inline code and the examples of its tables, in their order. Used by
play.py, which does what a page says, and by the tests of this folder.
"""
import dataclasses
import re

FENCE = re.compile(r"^( *)(```+)(\w*)\s*$")
HEADING = re.compile(r"^#+ +(.*)$")
LIST_ITEM = re.compile(r"^ {0,3}([-*+]|\d+\.) ")
INLINE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)


@dataclasses.dataclass
class Heading:
    line: int
    text: str


@dataclasses.dataclass
class Block:
    """Fenced or indented code. line: of the page, where the text begins; before: the paragraph that it follows, which may name a file."""
    line: int
    language: str
    text: str
    before: str


@dataclasses.dataclass
class Inline:
    """Code in a sentence or a table. is_example: it stands in a column of a table that is headed so."""
    line: int
    text: str
    is_example: bool = False


def cells_of(row):
    """The cells of a row of a table; a | inside code or behind a backslash parts nothing."""
    cells, cell, in_code, escaped = [], "", False, False
    for character in row.strip().strip("|"):
        if character == "`":
            in_code = not in_code
        if character == "|" and not in_code and not escaped:
            cells.append(cell.strip())
            cell = ""
        else:
            cell += character
        escaped = character == "\\"
    return cells + [cell.strip()]


def inline_of(text, line, is_example=False):
    return [Inline(line + text[:found.start()].count("\n"), " ".join(found[2].split("\n")).replace("\\|", "|").strip(), is_example)
            for found in INLINE.finditer(text)]


def pieces_of(text):
    """The pieces of a page, in order."""
    pieces, paragraph, before = [], [], ""
    lines = text.split("\n")
    example_column, in_list, number = None, False, 0

    def end_paragraph():
        nonlocal before
        if paragraph:
            words = "\n".join(line for _, line in paragraph)
            pieces.extend(inline_of(words, paragraph[0][0]))
            before = words
            paragraph.clear()

    while number < len(lines):
        line = lines[number]
        number += 1
        fence = FENCE.match(line)
        if fence:
            end_paragraph()
            first, body = number + 1, []
            while number < len(lines) and lines[number].strip() != fence[2]:
                body.append(lines[number].removeprefix(fence[1]))
                number += 1
            if number == len(lines):
                raise ValueError(f"line {first - 1}: this block does not end")
            number += 1
            pieces.append(Block(first, fence[3], "\n".join(body), before))
            before = ""
        elif line.startswith("    ") and not paragraph and not in_list:
            first, body = number, [line[4:]]
            while number < len(lines) and (lines[number].startswith("    ") or
                                           not lines[number].strip() and number + 1 < len(lines) and
                                           lines[number + 1].startswith("    ")):
                body.append(lines[number][4:])
                number += 1
            pieces.append(Block(first, "", "\n".join(body), before))
            before = ""
        elif HEADING.match(line):
            end_paragraph()
            before, in_list = "", False
            pieces.append(Heading(number, HEADING.match(line)[1]))
        elif line.startswith("|"):
            end_paragraph()
            cells = cells_of(line)
            if number < len(lines) and re.fullmatch(r"[|\s:-]+", lines[number]) and "-" in lines[number]:
                example_column = next((at for at, cell in enumerate(cells) if cell.lower().startswith("example")), None)
            for at, cell in enumerate(cells):
                pieces.extend(inline_of(cell, number, is_example=at == example_column))
        elif not line.strip():
            end_paragraph()
            example_column = None
        else:
            if not line.startswith(" ") and not paragraph:
                in_list = False
            if LIST_ITEM.match(line):
                end_paragraph()
                in_list = True
            paragraph.append((number, line))
    end_paragraph()
    return pieces


def file_named_for(block, endings):
    """The file that a block is said to be: the last name with such an ending in the paragraph before it, or None."""
    names = [found[2] for found in INLINE.finditer(block.before)]
    names = [name for name in names if re.fullmatch(r"\w[\w./-]*", name) and name.endswith(endings)]
    return names[-1] if names else None
