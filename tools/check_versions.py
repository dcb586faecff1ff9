#!/usr/bin/env python3
"""Holds every place that names the version of Lambent against the one of CMakeLists.txt, from which programs, packages and the wheel take
theirs: the Python project, the chart, the names of packages in docs, and the newest section of the changelog."""
import pathlib
import re
import sys

VERSION = r"(\d+\.\d+\.\d+)"
SOURCE = ("CMakeLists.txt", rf"^project\(lambent VERSION {VERSION} ")
# Each is there at least once, and all that is found is the version.
PLACES = [
    ("python/pyproject.toml", rf'^version = "{VERSION}"'),
    ("share/kubernetes/lambent/Chart.yaml", rf"^version: {VERSION}"),
    ("share/kubernetes/lambent/Chart.yaml", rf"^appVersion: {VERSION}"),
    ("share/kubernetes/lambent/values.yaml", rf"lambent:{VERSION}"),
    ("share/kubernetes/daemonset.yaml", rf"lambent:{VERSION}"),
    ("docs/get-started/install.md", rf"lambent[-_]{VERSION}"),
    ("docs/operate/kubernetes.md", rf"lambent[-_]{VERSION}"),
    ("docs/operate/upgrade.md", rf"lambent-{VERSION}-linux"),
    ("tests/docs/readers.toml", rf"lambent[-_]{VERSION}"),
    ("README.md", rf"^Version {VERSION}"),
]
CHANGES = ("CHANGELOG.md", rf"^## {VERSION} - \d{{4}}-\d\d-\d\d$")


def named(root, path, pattern):
    """The versions that a file names there, with their lines."""
    text = (root / path).read_text()
    return [(text.count("\n", 0, found.start()) + 1, found[1]) for found in re.finditer(pattern, text, re.MULTILINE)]


def offences(root):
    [(_, version)] = named(root, *SOURCE)
    found = []
    for path, pattern in PLACES:
        places = named(root, path, pattern)
        if not places:
            found.append(f"{path}: names no version by {pattern}")
        found += [f"{path}:{line}: {other}, but CMakeLists.txt has {version}" for line, other in places if other != version]
    sections = named(root, *CHANGES)
    if not sections or sections[0][1] != version:
        found.append(f"CHANGELOG.md: its first section with a date is not {version}")
    return found


def main():
    found = offences(pathlib.Path(__file__).resolve().parent.parent)
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print("every place names the version of CMakeLists.txt")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
