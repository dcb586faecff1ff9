#!/usr/bin/env python3
"""Which versions of the C library the programs and libraries below a folder need.

As a program: `symbols.py FOLDER [--most 2.34]` prints the highest version and who needs it; exits with 1 if one is above --most,
or needs a library that is not part of every system.
"""
import argparse
import pathlib
import re
import subprocess
import sys

MOST = "2.34"  # Ubuntu 22.04 has 2.35; Red Hat Enterprise Linux 9 and its kin have 2.34
# The C library, the unwinder of every system, and what stands beside it in the package.
ALLOWED = re.compile(r"^(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux-x86-64)\.so(\.\d+)?$")


def number(version):
    return tuple(int(part) for part in version.split("."))


def elf_files(folder):
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file() and not path.is_symlink():
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def needs(path):
    """(libraries, {"GLIBC": highest version, ...}) that the file at `path` names."""
    text = subprocess.run(["objdump", "-p", path], check=True, capture_output=True, text=True).stdout
    libraries = re.findall(r"^\s+NEEDED\s+(\S+)", text, re.M)
    versions = {}
    for kind, version in re.findall(r"\s(GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+)$", text.partition("Version References:")[2], re.M):
        versions[kind] = max(versions.get(kind, version), version, key=number)
    return libraries, versions


def check(folder, most=MOST):
    """(highest version of glibc, [offence]) of the ELF files below `folder`."""
    highest, offences = "2.2.5", []
    for path in elf_files(folder):
        libraries, versions = needs(path)
        name = path.relative_to(folder)
        glibc = versions.get("GLIBC", "2.2.5")
        highest = max(highest, glibc, key=number)
        if number(glibc) > number(most):
            offences.append(f"{name} needs GLIBC_{glibc}, above {most}")
        offences += [f"{name} needs {kind}_{versions[kind]}: libstdc++ is to be linked into it" for kind in ("GLIBCXX", "CXXABI")
                     if kind in versions]
        offences += [f"{name} needs {library}" for library in libraries if not ALLOWED.match(library)]
    return highest, offences


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--most", default=MOST)
    arguments = parser.parse_args()
    highest, offences = check(arguments.folder, arguments.most)
    print("\n".join(offences) or f"GLIBC_{highest} is the highest version that {len(list(elf_files(arguments.folder)))} files need")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
