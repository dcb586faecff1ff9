#!/usr/bin/env python3
"""Lets clang prove that what a mutex guards is touched with it held, and that mutexes are annotated.

Every source under src/ that includes core/base/mutex.h or plain_mutex.h, itself or by another header, is compiled with
-Wthread-safety as an error. A std::mutex or pthread_mutex_t that is declared elsewhere has to stand in tools/lock_allowance.txt,
whose numbers may only fall.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = ["-std=c++20", "-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety", "-Isrc", "-I.", "-Ikernels/include"]
DECLARED = re.compile(r"^\s*(?:static |mutable )*(?:std::(?:recursive_|shared_|timed_)*mutex|pthread_mutex_t)\s+\w+\s*[;={]", re.MULTILINE)
WRAPPERS = ("src/core/base/mutex.h", "src/core/base/plain_mutex.h")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def declared(root):
    """{module folder: mutexes of the standard's or of pthread that it declares}, tests left out."""
    found = {}
    for path in sorted((root / "src").rglob("*")):
        inside = path.relative_to(root)
        if path.suffix not in (".h", ".cc") or path.stem.endswith("_test") or "testing" in inside.parts or str(inside) in WRAPPERS:
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
    """Sources below src/ that include a wrapper, directly or by other headers; tests left out."""
    includes = {path.relative_to(root): INCLUDE.findall(path.read_text(errors="replace"))
                for path in sorted((root / "src").rglob("*")) if path.suffix in (".h", ".cc")}
    reached, before = {wrapper.removeprefix("src/") for wrapper in WRAPPERS}, 0
    while before != len(reached):
        before = len(reached)
        reached |= {str(path.relative_to("src")) for path, names in includes.items() if not reached.isdisjoint(names)}
    for path in includes:
        test = path.stem.endswith("_test") or "testing" in path.parts
        if path.suffix == ".cc" and not test and str(path.relative_to("src")) in reached:
            yield path


def commands(build):
    """{source: the definitions and include folders with which the build compiles it}."""
    path = build / "compile_commands.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    return {str(pathlib.Path(row["file"]).relative_to(ROOT)): [word for word in shlex.split(row["command"]) if word.startswith(("-D", "-I"))]
            for row in rows if pathlib.Path(row["file"]).is_relative_to(ROOT / "src")}


def check(source, defined=()):
    """What clang says of the source's locks; all that it says if it fails for another reason."""
    run = subprocess.run(["clang++", *FLAGS, *defined, str(source)], cwd=ROOT, capture_output=True, text=True)
    return "" if run.returncode == 0 else run.stderr


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--declared", action="store_true", help="only what is declared, without clang")
    only.add_argument("--update", action="store_true", help="lower the list's numbers first")
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build/release", metavar="BUILD",
                        help="a build folder, for its definitions and generated headers (default: build/release)")
    return parser.parse_args()


def main():
    given = options()
    allowance = ROOT / "tools/lock_allowance.txt"
    found = declared(ROOT)
    if given.update:
        old = read_allowance(allowance) if allowance.exists() else found
        lines = (f"{folder} {min(count, old[folder])}\n" for folder, count in sorted(found.items()) if folder in old)
        allowance.write_text("# Mutexes that no compiler looks at yet, by module. Numbers may only fall.\n" + "".join(lines))
    problems = list(offences(found, read_allowance(allowance)))
    proven = []
    if not given.declared:
        defined = commands(given.build.resolve())
        proven = list(sources(ROOT))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            problems += filter(None, pool.map(check, proven, (defined.get(str(source), ()) for source in proven)))
    print("\n".join(problems) or f"{len(proven)} sources hold their locks; {sum(found.values())} mutexes have no annotations yet")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
