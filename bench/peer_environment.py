"""The servers that benchmarks compare with: each in an environment of its own, build/peer/NAME, with the packages that bench/peers/requirements.txt pins."""
import subprocess
import sys

from worker_under_test import ROOT

PEERS = ROOT / "bench/peers"
ENVIRONMENTS = ROOT / "build/peer"


def environment_of(name):
    """The interpreter that has that server; installs it."""
    lines = dict(line.split(": ", 1) for line in (PEERS / "requirements.txt").read_text().splitlines() if not line.startswith("#"))
    folder = ENVIRONMENTS / name
    python, mark = folder / "bin/python", folder / "installed.txt"
    if not mark.exists() or mark.read_text() != lines[name]:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *lines[name].split()], check=True)
        mark.write_text(lines[name])
    return python
