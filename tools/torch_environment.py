#!/usr/bin/env python3
"""Makes a virtual environment with PyTorch (tests/nvidia_driver/requirements.txt, 3 GB from PyPI) in a folder, if it is not there, and
prints its Python. For tests and benchmarks that run real models; on the CPU it is the same PyTorch.

usage: torch_environment.py FOLDER
"""
import pathlib
import shutil
import subprocess
import sys

WANTED = pathlib.Path(__file__).resolve().parents[1] / "tests/nvidia_driver/requirements.txt"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).absolute()
    python = folder / "bin/python"
    has = python.exists() and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0
    if not has:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "-r", WANTED], check=True)
    print(python)


if __name__ == "__main__":
    main()
