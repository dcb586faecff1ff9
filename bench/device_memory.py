#!/usr/bin/env python3
"""How much memory of an emulated device is in use, all processes together: samples, as NVML gives them.

As a program, `device_memory.py NODE SECONDS FILE`: a line for each sample, "MONOTONIC_S BYTES", until its standard input ends. It is a
program because the library knows one node in a process. Used by bench/paper_streambox_worker.py.
"""
import ctypes
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

from worker_under_test import PREFIX


class Samples:
    """Taken by a process of its own from now until close()."""

    def __init__(self, node, every_s=0.02):
        self.file = tempfile.NamedTemporaryFile("r", prefix="lambent-memory-")
        self.process = subprocess.Popen([sys.executable, "-B", __file__, str(node), str(every_s), self.file.name], stdin=subprocess.PIPE)
        self.taken = []

    def close(self):
        """All of them, [(monotonic second, bytes)]."""
        if self.process.poll() is None:
            self.process.communicate()
            self.taken = [(float(at), int(used)) for at, used in (line.split() for line in self.file)]
            self.file.close()
        return self.taken


def between(samples, begin, end):
    """Bytes in the mean and at most; None if none was taken there."""
    used = [one for at, one in samples if begin <= at <= end]
    return (sum(used) / len(used), max(used)) if used else (None, None)


def main():
    node, every_s = sys.argv[1], float(sys.argv[2])
    os.environ["EMULATED_CUDA_NODE"] = node
    library = ctypes.CDLL(str(next(pathlib.Path(PREFIX).rglob("lib/emulated/libnvidia-ml.so.1"))))
    memory = (ctypes.c_ulonglong * 3)()  # total, free, used
    device = ctypes.c_void_p()
    for result in (library.nvmlInit_v2(), library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))):
        if result:
            raise SystemExit(f"NVML: error {result}")
    with open(sys.argv[3], "w", encoding="ascii") as file:
        while not select.select([sys.stdin], [], [], every_s)[0]:
            if library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)):
                raise SystemExit("NVML has no memory to tell of")
            file.write(f"{time.monotonic():.4f} {memory[2]}\n")


if __name__ == "__main__":
    main()
