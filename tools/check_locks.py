#!/usr/bin/env python3
"""Lets clang prove that what a mutex guards is touched with it held, and that mutexes are annotated.

Every source under src/ that uses core/base/mutex.h, itself or by a header of its module, is compiled with -Wthread-safety as an
error. A std::mutex or pthread_mutex_t that is declared elsewhere has to stand in tools/lock_allowance.txt, whose numbers may only fall.

Usage: check_locks.py [--declared | --update]   --declared: without clang; --update lowers the list's numbers
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = ["-std=c++20", "-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety", "-Isrc", "-I.", "-Ikernels/include"]
DECLARED = re.compile(r"^\s*(?:static |mutable )*(?:std::(?:recursive_|shared_|timed_)*mutex|pthread_mutex_t)\s+\w+\s*[;={]", re.MULTILINE)
WRAPPER = "src/core/base/mutex.h"


def declared(root):
    """{module folder: mutexes of the standard's or of pthread that it declares}, tests left out."""
    found = {}
    for path in sorted((root / "src").rglob("*")):
        inside = path.relative_to(root)
        if path.suffix not in (".h", ".cc") or path.stem.endswith("_test") or "testing" in inside.parts or str(inside) == WRAPPER:
            continue
        count = len(DECLARED.findall(re.sub(r"//[^\n]*", "", path.read_text(errors="replace"))))
        if count:
            found[str(inside.parent)] = found.get(str(inside.parent), 0) + count
    return found


def read_allowance(path):
    rows = (line.split() for line in path.read_text().splitlines() if line.strip() and line[0] != "#")
    return {folder: int(count) for folder, count in rows}


def offences(found, allowed):
    for folder, count in sorted(found.items()):
        if count > allowed.get(folder, 0):
            yield f"{folder} declares {count} mutexes without annotations, at most {allowed.get(folder, 0)}: use core/base/mutex.h"
        elif count < allowed[folder]:
            yield f"{folder} declares {count} mutexes without annotations only: lower its number in tools/lock_allowance.txt"
    for folder in sorted(allowed.keys() - found.keys()):
        yield f"{folder} has all mutexes annotated now: take its line out of tools/lock_allowance.txt"


def sources(root):
    """Sources below src/ that include mutex.h, or a header of their module that does."""
    wrapper = f'#include "{WRAPPER.removeprefix("src/")}"'
    texts = {path: path.read_text(errors="replace") for path in sorted((root / "src").rglob("*")) if path.suffix in (".h", ".cc")}
    headers = {path for path, text in texts.items() if path.suffix == ".h" and wrapper in text}
    for path, text in texts.items():
        if path.suffix != ".cc" or path.stem.endswith("_test"):
            continue
        beside = [f'#include "{header.relative_to(root / "src")}"' for header in headers if header.parent == path.parent]
        if any(line in text for line in [wrapper, *beside]):
            yield path.relative_to(root)


def check(source):
    """What clang says of the source's locks; all that it says if it fails for another reason."""
    run = subprocess.run(["clang++", *FLAGS, str(source)], cwd=ROOT, capture_output=True, text=True)
    return run.stderr if run.returncode != 0 else ""


def main():
    allowance = ROOT / "tools/lock_allowance.txt"
    found = declared(ROOT)
    if "--update" in sys.argv:
        old = read_allowance(allowance) if allowance.exists() else found
        lines = (f"{folder} {min(count, old[folder])}\n" for folder, count in sorted(found.items()) if folder in old)
        allowance.write_text("# Mutexes that no compiler looks at yet, by module. Numbers may only fall.\n" + "".join(lines))
    problems = list(offences(found, read_allowance(allowance)))
    proven = []
    if "--declared" not in sys.argv:
        proven = list(sources(ROOT))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            problems += filter(None, pool.map(check, proven))
    print("\n".join(problems) or f"{len(proven)} sources hold their locks; {sum(found.values())} mutexes have no annotations yet")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
