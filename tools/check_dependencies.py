#!/usr/bin/env python3
"""Holds the packages listed in tools/dev/*packages.txt against the table in docs/internals/dependencies.md.

Each package has its line there, and no others are named. Prints what differs, and exits with 1 if anything does.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def listed_packages(folder):
    names = set()
    for path in sorted(folder.glob("*packages.txt")):
        names |= {line.split()[0] for line in path.read_text().splitlines() if line.strip() and line[0] != "#"}
    return names


def documented_packages(text):
    cells = (line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def differences(listed, documented):
    return [f"{name} is installed, but dependencies.md does not say why" for name in sorted(listed - documented)] + [
        f"dependencies.md names {name}, which is not installed" for name in sorted(documented - listed)
    ]


def main():
    listed = listed_packages(ROOT / "tools/dev")
    found = differences(listed, documented_packages((ROOT / "docs/internals/dependencies.md").read_text()))
    print("\n".join(found) or f"{len(listed)} packages have their reasons")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
