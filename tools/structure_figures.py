#!/usr/bin/env python3
"""Counts what docs/internals/structure.md says of the structure, so that its table cannot go stale.

A figure of the page may be a tenth off what is counted now, so that not every change is one of the page. Words of a row may not.
"""
import argparse
import pathlib
import re
import sys

import check_classes
import check_layering

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/internals/structure.md"
HEAD = "| | before | now |\n|---|---|---|\n"
OFF = 0.1
# What each had before (methods / files), by its full name now.
CLASSES = {"worker::Worker": "107 / 8", "dispatch::Dispatcher": "113 / 10", "executor::Executor": "92 / 12", "forward_server::ServedProcess": "89 / 5",
           "scheduling::Fleet": "106 / 5", "worker::PipelineHost": "56 / 6", "shim::Residency": "57 / 3", "worker::ExecutorHost": "56 / 3"}
MUTEX = re.compile(r"^\s*(?:(?:mutable|static|inline|constinit)\s+)*(?:lambent::)?(?:Mutex|PlainMutex)\s+\w+", re.MULTILINE)


def text(path):
    return path.read_text(encoding="utf-8", errors="replace")


def lines_of(paths):
    """Rounded to thousands, as people say it."""
    return f"{round(sum(text(path).count(chr(10)) for path in paths), -3):,}"


def sources():
    return [path for path in (ROOT / "src").rglob("*") if path.suffix in (".h", ".cc", ".c")]


def is_test(path):
    return not check_classes.is_product(path.with_suffix(".cc").relative_to(ROOT))


def class_rows(classes):
    by_name = {check_classes.shown(name): each for name, each in classes.items()}
    for name, before in CLASSES.items():
        each = by_name[name]
        yield f"methods / files: {name.rsplit('::', 1)[-1]}", before, f"{each.methods} / {len(each.files)}"


def rows():
    layout = check_layering.read_layout()
    classes, functions = check_classes.read(ROOT)
    product, tests = [path for path in sources() if not is_test(path)], [path for path in sources() if is_test(path)]
    mutexes = sum(len(MUTEX.findall(text(path))) for path in product if path.name not in ("mutex.h", "plain_mutex.h"))
    threaded = re.search(r"^threaded=\(([^)]*)\)", text(ROOT / "tools/dev/check.sh"), re.MULTILINE).group(1).split()
    stories = ROOT / "tests"
    allowed = [line for line in text(ROOT / "tools/prose_allowance.txt").splitlines() if line and not line.startswith("#")]
    locks = [line for line in text(ROOT / "tools/lock_allowance.txt").splitlines() if line and not line.startswith("#")]
    yield "folders below `src/`", "44", f"{len(layout.floors)} floors and `bin`; {len(layout.floor_of)} modules, whose arrows `tools/check_layering.py` holds"
    yield from class_rows(classes)
    yield "classes above 40 methods", "12", str(sum(each.methods > 40 for each in classes.values()))
    yield "longest function, in lines", "189", str(max(each.lines for each in functions))
    yield "files named `X_part.cc` and the like", "54", str(sum(path.stem.endswith("_part") for path in product))
    yield "places that list an event's fields", "8", "1, and the sentences of `lambent why`"
    yield "places that list a function's fields", "6", "1"
    yield ("mutexes that clang proves", "0 of 70", f"all {mutexes}; `tools/lock_allowance.txt` is empty" if not locks else
           f"of {mutexes} not those of `tools/lock_allowance.txt`")
    yield "programs under the thread sanitizer", "3", f"{len(threaded)}, and the conformance suite of the emulated driver"
    yield ("stories in the scenario language", "98, of dispatch",
           f"{len(list(stories.rglob('*.scenario')))}, and {len(list(stories.rglob('*.story')))} longer ones (`.story`); also of slices and workflows")
    yield "fuzz targets", "32", str(len(list((ROOT / "tests/fuzz").glob("*_fuzz.cc"))))
    yield ("integration tests in Python", "420",
           f"{sum(len(re.findall(r'^    (?:async )?def test_', text(path), re.MULTILINE)) for path in (ROOT / 'tests/integration').glob('*.py')):,}")
    yield "C++ product lines, test lines", "146,000, 48,000", f"{lines_of(product)}, {lines_of(tests)}"
    yield "old words", "2,078 when they were first counted", str(len(allowed))


def table(counted):
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in counted)


NUMBER = re.compile(r"\d[\d,]*")


def difference(written, counted):
    """What is wrong with the row on the page; nothing if its words are these and its figures near enough."""
    if NUMBER.sub("N", written) != NUMBER.sub("N", counted):
        return f"the page says '{written}', and should say '{counted}'"
    for old, new in zip(NUMBER.findall(written), NUMBER.findall(counted)):
        before, now = (int(number.replace(",", "")) for number in (old, new))
        if abs(now - before) > OFF * max(now, before):
            return f"the page says '{written}', and it is '{counted}'"
    return ""


def problems(page, counted):
    found = re.search(re.escape(HEAD) + r"((?:\|.*\n)*)", page)
    written = found.group(1).splitlines() if found else []
    expected = table(counted)[len(HEAD):].splitlines()
    if len(written) != len(expected):
        return [f"{len(written)} rows, where {len(expected)} are counted"]
    return [wrong for pair in zip(written, expected) if (wrong := difference(*pair))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    given = parser.parse_args()
    counted = list(rows())
    if given.write:
        page = text(PAGE)
        PAGE.write_text(re.sub(re.escape(HEAD) + r"(?:\|.*\n)*", lambda _: table(counted), page), encoding="utf-8")
    wrong = problems(text(PAGE), counted)
    print("\n".join([*wrong, "tools/structure_figures.py --write counts again"]) if wrong else f"{len(counted)} rows of {PAGE.name} are as counted")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
