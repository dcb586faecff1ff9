#!/usr/bin/env python3
"""bench managed-memory: the ways of memory of the MQFQ-Sticky paper's Figure 4 through a real worker on an emulated GPU.

16 copies of a function with 1.5 GB each and 0.9 s of execution (the paper's FFT) on a GPU of 16 GB, called in turn: one at a time, and all
queued, first come first served. Sandboxes, messages and moves are real; kernels, faults and the link take modelled time. Seconds a call are modelled ones, and each is
told over that of one copy alone, which is always warm. Usage: managed_memory.py [--quick] [--rounds N]
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import threading
import time

from worker_under_test import PROGRAMS, Worker, invocations_path, machine, make_zip

PRESET, TIME_SCALE, MEMORY_SCALE = "emulated:v100-16gb", 4, 64
COPIES, MIB, EXECUTION_S = 16, 1500, 0.897
WAYS = {  # the worker's flags, the function's memory mode
    "faults": (("--managed-memory", "faults"), "uvm"),
    "advise": (("--managed-memory", "advise"), "uvm"),
    "prefetch": (("--managed-memory", "prefetch"), "uvm"),
    "vmm": ((), "vmm"),
}
KERNEL = """
#include <lambent/kernel.h>
// Works on all of its memory for as long as it is told.
extern "C" __global__ void work(unsigned* words, unsigned long long nanoseconds) { words[0] += nanoseconds > 0 ? 1 : 0; }
LAMBENT_KERNEL_DURATION(work, [](dim3, dim3, unsigned*, unsigned long long nanoseconds) { return nanoseconds; });
LAMBENT_KERNEL(work);
"""
HANDLER = f"""
import lambent_cuda as cuda
device = cuda.Device()
work = device.load("/var/task/bundles/work").kernel("work")
memory = device.buffer({MIB} << 20)
def handler(event, context):
    work(grid=1, block=1, args=[memory, cuda.uint64({int(EXECUTION_S * 1e9)})])
    device.synchronize()
"""


def package():
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder) / "work.cu", pathlib.Path(folder) / "work"
        source.write_text(KERNEL)
        subprocess.run([str(PROGRAMS / "lambent-bundle"), "build", str(source), "-o", str(out)], check=True, capture_output=True)
        files = {"bundles/work/" + str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    return make_zip({"app.py": HANDLER.encode(), **files})


def moved_bytes(worker):
    lines = worker.request("GET", "/metrics").decode().splitlines()
    return {way: sum(float(line.rpartition(" ")[2]) for line in lines
                     if line.startswith("lambent_gpu_memory_moved_bytes_total{") and f'direction="{way}"' in line) for way in ("in", "out")}


def measure(code, way, rounds):
    flags, mode = WAYS[way]
    with Worker("--gpu", PRESET, "--time-scale", str(TIME_SCALE), "--memory-scale", str(MEMORY_SCALE), "--concurrency", "1",
                "--policy", "fcfs", *flags) as worker:
        names = [f"fft-{i}" for i in range(COPIES)]

        def call(name):
            start = time.monotonic()
            worker.request("POST", invocations_path(name), b"{}")
            return (time.monotonic() - start) * TIME_SCALE

        for name in names:
            worker.create(name, code, "python3", "app.handler",
                          tags={"lambent:gpu-memory": f"{MIB + 36}MiB", "lambent:memory-mode": mode, "lambent:launch-mode": "model"})
        call(names[0])
        alone = statistics.mean(call(names[0]) for _ in range(5))
        for name in names:
            call(name)
        before = moved_bytes(worker)
        in_turn = [call(name) for _ in range(rounds) for name in names]
        moved = {direction: (amount - before[direction]) / len(in_turn) / (1 << 20) for direction, amount in moved_bytes(worker).items()}

        callers = [threading.Thread(target=lambda name=name: [call(name) for _ in range(rounds)]) for name in names]
        start = time.monotonic()
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        queued = (time.monotonic() - start) * TIME_SCALE / (rounds * COPIES)
    return {"alone_s": round(alone, 4), "in_turn_s": round(statistics.mean(in_turn), 4), "in_turn_over_alone": round(statistics.mean(in_turn) / alone, 3),
            "queued_s": round(queued, 4), "queued_over_alone": round(queued / alone, 3), "moved_mib_a_call": {k: round(v, 1) for k, v in moved.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds")
    parser.add_argument("--rounds", type=int, default=20, help="calls of each copy")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    code, rounds = package(), 2 if options.quick else options.rounds
    result = {"name": "managed-memory", "machine": machine(), "rounds": rounds, "copies": COPIES, "time_scale": TIME_SCALE, "ways": {}}
    for way in options.ways:
        result["ways"][way] = one = measure(code, way, rounds)
        print(f"{way:10} alone {one['alone_s']:.3f} s, in turn x {one['in_turn_over_alone']:.3f}, queued x {one['queued_over_alone']:.3f}", flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
