#!/usr/bin/env python3
"""bench etask-start: what the start of a Python process takes that a function needs before its first request, in an interpreter of its own
each time: imports, and weights that are unpickled. These are the eTask's starts of the KaaS paper, which prints 400 ms for numpy, pickle and
pycuda, 1.9 s for a process that is warm in memory and 6.8 s for TensorFlow.

Real time, and the processors' time beside it, which a crowded machine does not stretch; no GPU and no sandbox. The files are in the page cache.
A package that is not installed is left out.
Usage: etask_start.py [--quick] [--out FILE] [--python PROGRAM]
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from last_line import write_last_line
from worker_under_test import machine

PACKAGES = ("", "numpy", "onnxruntime", "torch", "tensorflow")  # "": the interpreter alone
WEIGHTS_MB = (0, 129, 1300)  # ResNet-50 and BERT-large, as example 11 has them

CHILD = """
import pickle, sys, time
begin = time.perf_counter()
if sys.argv[1]:
    __import__(sys.argv[1])
imported = time.perf_counter()
if sys.argv[2]:
    with open(sys.argv[2], "rb") as file:
        weights = pickle.load(file)
print((imported - begin) * 1e3, (time.perf_counter() - imported) * 1e3)
"""


def start(python, package, weights):
    """(whole process, its processors' time, imports, weights), ms; None if it fails."""
    words = [python, "-B", "-c", CHILD, package, weights]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    took, after = (time.perf_counter() - begin) * 1e3, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return None
    imported, loaded = (float(word) for word in done.stdout.split()[-2:])
    busy = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3
    return took, busy, imported, loaded


def write_weights(folder, megabytes):
    """A pickle of tensors of 4 MB, as many as there are; "" for none."""
    if not megabytes:
        return ""
    path = pathlib.Path(folder) / f"weights-{megabytes}"
    made = subprocess.run([sys.executable, "-c", "import os, pickle, sys\n"
                           "with open(sys.argv[1], 'wb') as file:\n"
                           "    pickle.dump({str(i): os.urandom(4_000_000) for i in range(int(sys.argv[2]) // 4)}, file, protocol=5)",
                           str(path), str(megabytes)], check=False)
    if made.returncode:
        raise SystemExit("the weights cannot be written")
    return str(path)


def measure(python, package, weights, runs):
    taken = [start(python, package, weights) for _ in range(runs + 1)][1:]  # the first one fills the page cache
    if any(one is None for one in taken):
        return None
    return {name: round(statistics.median(one[i] for one in taken), 1) for i, name in enumerate(("process_ms", "cpu_ms", "import_ms", "weights_ms"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the interpreter and numpy, small weights, two runs")
    parser.add_argument("--out")
    parser.add_argument("--python", default=sys.executable, help="the interpreter whose packages are measured")
    options = parser.parse_args()
    runs = 2 if options.quick else 5
    rows, missing = [], []
    with tempfile.TemporaryDirectory(prefix="lambent-etask-") as folder:
        files = {size: write_weights(folder, size) for size in (WEIGHTS_MB[:2] if options.quick else WEIGHTS_MB)}
        for package in PACKAGES[:2] if options.quick else PACKAGES:
            for size, path in files.items():
                found = measure(options.python, package, path, runs)
                if found is None:
                    missing.append(package)
                    break
                rows.append({"package": package or "none", "weights_mb": size, **found})
                print(f"{package or '(python)':12} {size:5} MB: process {found['process_ms']:8.1f} ms ({found['cpu_ms']:8.1f} of processors), imports {found['import_ms']:8.1f}, "
                      f"weights {found['weights_ms']:8.1f}", flush=True)
    write_last_line({"bench": "etask-start", "quick": options.quick, "machine": machine(), "runs": runs, "rows": rows, "not_installed": missing,
                     "load_1min_at_end": round(os.getloadavg()[0], 2)}, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
