#!/usr/bin/env python3
"""Holds that the sources of a module compile as one, so that batches of any of them do (cmake/unity.cmake).

usage: check_unity.py [BUILD_FOLDER [MODULE...]]   compiles each module's sources together, without those of cmake/unity_apart.txt

Two sources of a module can have a helper of one name, each in its own unnamed namespace; together they do not compile. Then rename
one, or name its source in the list. Exits with 1 and the compiler's words if a module does not compile, or a line of the list names
no source.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "cmake/unity_apart.txt"
NOT_BATCHED = {"forward_client", "shim", "emulated_node", "emulated_cuda", "emulated_runtime", "grpc_inference"}  # OWN_BUILD


def apart():
    return [line for line in LIST.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def commands_of(database):
    """library -> (command, folder) of one of its sources."""
    commands = {}
    for entry in json.loads(database):
        found = re.search(r"CMakeFiles/lambent_(\w+)\.dir/\S+\.(?:cc|cxx)\.o", entry["command"])
        if found:
            commands.setdefault(found.group(1), (entry["command"], entry["directory"]))
    return commands


def sources_of(folder, without):
    """The module's sources, as CMake takes them, but those of the list."""
    return [path for path in sorted(folder.glob("*.cc"))
            if not path.name.endswith("_test.cc") and str(path.relative_to(ROOT)) not in without]


def compile_together(command, folder, sources):
    """The compiler's words, or nothing."""
    words = shlex.split(command)
    words = words[1:] if "ccache" in pathlib.Path(words[0]).name else words
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as unit:
        unit.write("".join(f'#include "{source}"\n' for source in sources))
        unit.flush()
        words[words.index("-c") + 1] = unit.name
        words[words.index("-o") + 1] = os.devnull
        for flag in ("-MF", "-MT"):
            if flag in words:
                del words[words.index(flag):words.index(flag) + 2]
        words = [word for word in words if word != "-MD"]
        done = subprocess.run([*words, "-fsyntax-only", "-Wno-subobject-linkage"], cwd=folder, stderr=subprocess.PIPE, text=True, check=False)
        return done.stderr[:6000] if done.returncode else ""


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release")
    chosen = set(sys.argv[2:])
    without = apart()
    failures = [f"{LIST.name} names {path}, which does not exist" for path in without if not (ROOT / path).is_file()]
    commands = commands_of((build / "compile_commands.json").read_text(encoding="utf-8"))
    folders = [folder for folder in sorted((ROOT / "src").glob("*/*/"))
               if folder.name in commands and folder.name not in NOT_BATCHED and (not chosen or folder.name in chosen)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda folder: compile_together(*commands[folder.name], sources_of(folder, without)), folders)
        failures += [f"{folder.relative_to(ROOT)} does not compile as one:\n{words}" for folder, words in zip(folders, results) if words]
    print("\n".join(failures) or f"{len(folders)} modules compile as one, without {len(without)} sources that stand apart")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
