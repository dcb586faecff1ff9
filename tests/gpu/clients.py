"""Processes that work on the first device for a while, for probes that run several: copies within it, by the driver API alone.

    python3 clients.py work SECONDS [--lock FILE] [--turn-ms N]   prints the rounds a second; with a file, at work only while it holds its lock
    python3 clients.py fill MIB                                   prints whether so much memory can be had, and what the driver said
"""
import argparse
import ctypes
import fcntl
import subprocess
import sys
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

BYTES = 64 << 20


def open_device():
    library, context = ctypes.CDLL("libcuda.so.1"), c_void_p()
    for status, what in ((library.cuInit(c_uint(0)), "cuInit"), (library.cuDevicePrimaryCtxRetain(byref(context), c_int(0)), "a context"),
                         (library.cuCtxSetCurrent(context), "cuCtxSetCurrent")):
        if status != 0:
            sys.exit(f"{what}: the driver answered {status}")
    return library


def work(seconds, lock, turn_s):
    library = open_device()
    source, target = c_uint64(), c_uint64()
    for each in (source, target):
        if status := library.cuMemAlloc_v2(byref(each), c_size_t(BYTES)):
            sys.exit(f"cuMemAlloc answered {status}")
    file = open(lock, "a") if lock else None
    print("ready", flush=True)
    sys.stdin.readline()
    rounds, longest_wait = 0, 0.0
    start = time.monotonic()
    while time.monotonic() < start + seconds:
        asked = time.monotonic()
        if file:
            fcntl.flock(file, fcntl.LOCK_EX)
        longest_wait = max(longest_wait, time.monotonic() - asked)
        turn = time.monotonic() + turn_s
        while time.monotonic() < min(turn, start + seconds):
            for _ in range(8):
                if status := library.cuMemcpyDtoDAsync_v2(target, source, c_size_t(BYTES), None):
                    sys.exit(f"cuMemcpyDtoDAsync answered {status}")
            if status := library.cuCtxSynchronize():
                sys.exit(f"cuCtxSynchronize answered {status}")
            rounds += 1
        if file:
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(0.001)  # a lock goes to whoever waits only if nobody takes it at once
    print(rounds / (time.monotonic() - start), longest_wait, flush=True)


def fill(mib):
    library, address = open_device(), c_uint64()
    print(library.cuMemAlloc_v2(byref(address), c_size_t(mib << 20)), flush=True)


def start(*words, environment=None):
    return subprocess.Popen([sys.executable, "-B", __file__, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=environment)


def rates(count, seconds, *words, environment=None):
    """So many of them at once, begun together: [(rounds a second, longest wait for a turn in s)]."""
    processes = [start("work", seconds, *words, environment=environment) for _ in range(count)]
    try:
        for process in processes:
            if process.stdout.readline().strip() != "ready":
                sys.exit("a client did not come up: " + process.stderr.read().strip()[-300:])
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        found = []
        for process in processes:
            out, err = process.communicate(timeout=60 + 10 * seconds)
            if process.returncode != 0:
                sys.exit("a client failed: " + err.strip()[-300:])
            found.append(tuple(map(float, out.split())))
        return found
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["work", "fill"])
    parser.add_argument("amount", type=float)
    parser.add_argument("--lock")
    parser.add_argument("--turn-ms", type=float, default=100)
    options = parser.parse_args()
    if options.what == "fill":
        fill(int(options.amount))
    else:
        work(options.amount, options.lock, options.turn_ms / 1e3)


if __name__ == "__main__":
    main()
