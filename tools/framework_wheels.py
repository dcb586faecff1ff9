#!/usr/bin/env python3
"""Fills a folder with the wheels of real frameworks (tests/frameworks/requirements.txt, 3 GB from PyPI), unless they are there, and prints it.
A package that PyPI has no wheel of, llama-cpp-python, is built, which takes a C++ compiler, CMake and some minutes. For the tests of
tests/frameworks and the pages of the documentation, which install from there without a network.

usage: framework_wheels.py FOLDER, with the Python that sandboxes are to run
"""
import os
import pathlib
import subprocess
import sys

WANTED = pathlib.Path(__file__).resolve().parents[1] / "tests/frameworks/requirements.txt"
PATIENCE_S = 3600  # for all of it; an index that does not answer is given up after a minute or so
BUILD = "-DLLAVA_BUILD=OFF -DGGML_NATIVE=OFF"  # without pictures, and for any processor with AVX2


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).absolute()
    installed, wanted = folder / "installed.txt", WANTED.read_text()
    if not installed.exists() or installed.read_text() != wanted:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.whl"):
            if not old.name.startswith("llama_cpp_python"):
                old.unlink()
        environment = {"CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count()), "CMAKE_ARGS": BUILD} | os.environ
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--timeout", "10",
                   "--retries", "1", "--find-links", folder, "-w", folder, "-r", WANTED]
        try:
            subprocess.run(command, check=True, env=environment, timeout=PATIENCE_S)
        except (subprocess.SubprocessError, OSError) as error:
            sys.exit(f"framework_wheels.py: {error}")
        installed.write_text(wanted)
    print(folder)


if __name__ == "__main__":
    main()
