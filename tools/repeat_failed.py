#!/usr/bin/env python3
"""repeat_failed.py BUILD: what follows a run of ctest in the folder BUILD that failed.

The end of each failed test's output is printed last, where a log that keeps only its end still shows it. Many tests start processes that
share the machine with each other and with whatever else it does; where at most two tests failed they run once more, one after the other.
The exit status is 0 only if they pass then; what they printed the first time is told in either case, for a test that passes by itself and
fails beside others has a defect, its own or the product's. LAMBENT_REPEAT_FAILED=0 repeats none.
"""
import os
import pathlib
import re
import subprocess
import sys

AT_MOST = 2
LINES = 60


def failed_tests(build):
    """The names of the tests that failed in the latest run, in its order."""
    log = pathlib.Path(build, "Testing/Temporary/LastTestsFailed.log")
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.split(":", 1)[1] for line in lines if ":" in line]


def outputs(build):
    """What each test of the latest run printed: {name: text}."""
    text = pathlib.Path(build, "Testing/Temporary/LastTest.log").read_text(errors="replace")
    blocks = re.split(r"^\d+/\d+ Test: ", text, flags=re.M)[1:]
    found = {}
    for block in blocks:
        name, _, rest = block.partition("\n")
        match = re.search(r"^Output:\n-+\n(.*)^<end of output>$", rest, flags=re.M | re.S)
        found[name.strip()] = match[1] if match else rest
    return found


def show(names, printed, what):
    for name in names:
        lines = printed.get(name, "").rstrip().splitlines()
        print(f"\n== {name} {what}; the last {min(LINES, len(lines))} of {len(lines)} lines that it printed:")
        print("\n".join(lines[-LINES:]), flush=True)


def main(build):
    names = failed_tests(build)
    if not names:
        return 1
    first = outputs(build)
    repeat = os.environ.get("LAMBENT_REPEAT_FAILED") != "0" and len(names) <= AT_MOST
    if not repeat:
        show(names, first, "failed")
        return 1
    print(f"\n== {len(names)} failed; once more, with nothing beside: {', '.join(names)}", flush=True)
    status = subprocess.run(["ctest", "--test-dir", build, "--rerun-failed", "--output-on-failure", "-j1"], check=False).returncode
    show(names, first, "failed at first")
    if status == 0:
        print(f"\n== passed when repeated, to be looked at all the same: {', '.join(names)}", flush=True)
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
