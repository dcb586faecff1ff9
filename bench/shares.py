"""What a share of the multiprocessors does and what it costs, for kernel functions and for handlers of a shared runtime: how long a function takes
with it alone and beside a neighbour that keeps the device busy, what the same work costs on the way through a green context, and what
happens when the share is changed while requests come.

One worker on an emulated V100 of 80 multiprocessors. Kernels take modelled time, as if each were as wide as it says; launches, processes and
messages are real and take this machine's.
"""
import argparse
import base64
import contextlib
import http.client
import json
import pathlib
import statistics
import subprocess
import tempfile
import threading
import time

from last_line import write_last_line
from open_loop import percentile
from worker_under_test import PREFIX, Worker, invocations_path, machine, make_zip

MULTIPROCESSORS, BLOCKS_OF_ONE = 80, 16  # blocks of 128 threads that one of them runs at once
SHARES = (100, 75, 50, 25)
KERNELS = """
#include <lambent/kernel.h>

extern "C" __global__ void work(unsigned long long nanoseconds, float* y) {}
LAMBENT_KERNEL_DURATION(work, [](dim3, dim3, unsigned long long nanoseconds, float*) { return nanoseconds; });
LAMBENT_KERNEL(work);
"""
HANDLER = """
import os
import lambent_cuda as cuda

device = cuda.Device()
work = device.load(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "bundles/k")).kernel("work")
y = device.buffer(4)

def handler(event, context):
    for _ in range(event["launches"]):
        work(grid=event["blocks"], block=128, args=[cuda.uint64(event["nanoseconds"]), y])
    device.synchronize()
"""


class Work:
    """So many launches, one after the other, each of so many blocks and as long on a device that is its own."""

    def __init__(self, launches, blocks, duration_us):
        self.launches, self.blocks, self.nanoseconds = launches, blocks, duration_us * 1000

    def graph(self):
        step = {"kernel": "work", "bundle": "bundles/k", "grid": [self.blocks], "block": [128],
                "arguments": [{"literal": self.nanoseconds, "datatype": "UINT64"}, {"buffer": "y", "access": "write"}]}
        return json.dumps({"buffers": [{"name": "y", "role": "output", "datatype": "FP32", "shape": [1]}], "steps": [step] * self.launches})

    def event(self):
        return {"launches": self.launches, "blocks": self.blocks, "nanoseconds": self.nanoseconds}


# Fills the device; what it takes follows from its share.
WIDE = Work(16, MULTIPROCESSORS * BLOCKS_OF_ONE, 1000)
# Fits into the least share below, so that the share changes nothing but the way to the device. A network's launches are as many and as short.
NARROW = Work(100, MULTIPROCESSORS * BLOCKS_OF_ONE // 10, 40)
# The neighbour's.
LONG = Work(4, MULTIPROCESSORS * BLOCKS_OF_ONE, 20_000)


def bundle(folder):
    (folder / "k.cu").write_text(KERNELS)
    subprocess.run([PREFIX / "bin/lambent-bundle", "build", folder / "k.cu", "-o", folder / "k", "--host-only"], check=True,
                   stdout=subprocess.DEVNULL)
    return {f"bundles/k/{path.relative_to(folder / 'k')}": path.read_bytes() for path in (folder / "k").rglob("*") if path.is_file()}


class Node:
    def __init__(self, worker, files):
        self.worker, self.files = worker, files

    def create(self, name, files, runtime, handler, **tags):
        self.worker.request("POST", "/2015-03-31/functions", json.dumps({
            "FunctionName": name, "Runtime": runtime, "Handler": handler, "Role": "arn:aws:iam::0:role/any",
            "Code": {"ZipFile": base64.b64encode(make_zip(files)).decode()}, "Timeout": 60, "MemorySize": 256,
            "Tags": {"lambent:gpu-memory": "64M", "lambent:launch-mode": "model", "lambent:max-concurrency": "1",
                     **{f"lambent:{key.replace('_', '-')}": value for key, value in tags.items()}}}))

    def kernel(self, name, work):
        self.create(name, {"graph.json": work.graph().encode(), **self.files}, "provided.al2023", "graph.json", kind="kernel")

    def handler(self, name):
        self.create(name, {"app.py": HANDLER.encode(), **self.files}, "python3", "app.handler", gpu_runtime="shared")

    def share(self, name, share):
        self.worker.request("POST", f"/2017-03-31/tags/arn%3Aaws%3Alambda%3Aus-east-1%3A000000000000%3Afunction%3A{name}",
                            json.dumps({"Tags": {"lambent:gpu-share": str(share)}}))

    def call(self, name, event):
        """How long it ran, in ms, and how it was started."""
        connection = http.client.HTTPConnection(self.worker.address[0], int(self.worker.address[1]), timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", invocations_path(name), json.dumps(event))
            response = connection.getresponse()
            answer = response.read()
        if response.status != 200 or response.getheader("X-Amz-Function-Error"):
            raise SystemExit(f"{name}: HTTP {response.status}: {answer[:500]!r}")
        return int(response.getheader("x-lambent-run-us")) / 1e3, response.getheader("x-lambent-start")


class Kind:
    """A kernel function or a handler, which do the same work."""

    def __init__(self, node, is_handler):
        self.node, self.is_handler, self.name = node, is_handler, "handler" if is_handler else "kernel"
        if is_handler:
            node.handler("asked")
        else:
            for name, work in (("wide", WIDE), ("narrow", NARROW)):
                node.kernel(name, work)

    def function_of(self, work):
        return "asked" if self.is_handler else "wide" if work is WIDE else "narrow"

    def call(self, work):
        return self.node.call(self.function_of(work), work.event() if self.is_handler else {"inputs": []})

    def give(self, work, share):
        """The share holds from the next request on, or soon after: the new place is made aside."""
        self.node.share(self.function_of(work), share)
        for _ in range(5):
            self.call(work)
        time.sleep(0.2)

    def times(self, work, repeats):
        return [self.call(work)[0] for _ in range(repeats)]


class Neighbour:
    """A function with long kernels, asked by two clients, so that the device always has some of them."""

    def __init__(self, node):
        self.node, self.over = node, threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(2)]

    def run(self):
        while not self.over.is_set():
            self.node.call("neighbour", {"inputs": []})

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        time.sleep(0.3)  # several of its requests: what is measured beside it begins when its kernels are there

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


def alone(kind, repeats):
    rows = {}
    for share in SHARES:
        kind.give(WIDE, share)
        times = kind.times(WIDE, repeats)
        rows[str(share)] = {"p50_ms": round(statistics.median(times), 2), "least_ms": round(min(times), 2)}
    # The whole device's times the other way round: what the share has of the multiprocessors.
    whole = rows["100"]["least_ms"]
    for share, row in rows.items():
        row["of_the_device"] = round(whole / row["least_ms"], 3)
    return rows


def beside(node, kind, repeats):
    rows = {}
    for mine, theirs in ((100, 100), (50, 100), (50, 50)):
        kind.give(WIDE, mine)
        node.share("neighbour", theirs)
        for _ in range(2):
            node.call("neighbour", {"inputs": []})
        with Neighbour(node):
            times = kind.times(WIDE, repeats)
        rows[f"{mine} beside {theirs}"] = {"p50_ms": round(statistics.median(times), 2), "p99_ms": round(percentile(times, 0.99), 2)}
    return rows


def overhead(kind, rounds, repeats):
    """The narrow work with all of the device and with half of it, by turns; its kernels take as long in both."""
    times = {100: [], 50: []}
    for _ in range(rounds):
        for share in times:
            kind.give(NARROW, share)
            times[share].append(statistics.median(kind.times(NARROW, repeats)))
    ratios = [half / whole for whole, half in zip(times[100], times[50])]
    return {"whole_ms": round(statistics.median(times[100]), 3), "half_ms": round(statistics.median(times[50]), 3),
            "modelled_ms": NARROW.launches * NARROW.nanoseconds / 1e6, "overhead_pct": round(100 * (statistics.median(ratios) - 1), 1),
            "overhead_pct_by_round": [round(100 * (each - 1), 1) for each in ratios]}


def change(kind, changes):
    """Requests one after the other while the share goes from 100 to 25 and back."""
    kind.give(WIDE, 100)
    over, seen, begun = threading.Event(), [], []

    def ask():
        while not over.is_set():
            at = time.monotonic()
            seen.append((at, *kind.call(WIDE)))
    asking = threading.Thread(target=ask)
    asking.start()
    for i in range(changes):
        time.sleep(0.6)  # longer than a change takes to hold, so that the next one is not seen for it
        begun.append((time.monotonic(), 25 if i % 2 == 0 else 100))
        kind.node.share(kind.function_of(WIDE), begun[-1][1])
    time.sleep(0.6)  # the last one has to hold too
    over.set()
    asking.join()
    # From the change until a request begins that has the new share: four times as long, or no more than twice.
    wide_ms = WIDE.launches * WIDE.nanoseconds / 1e6
    waits = []
    for at, share in begun:
        holds = next((when for when, took, _ in seen if when >= at and (took > 3 * wide_ms) == (share == 25)), None)
        waits.append(None if holds is None else round((holds - at) * 1e3, 1))
    return {"changes": changes, "requests": len(seen), "starts": sum(how != "warm" for _, _, how in seen), "until_it_holds_ms": waits,
            "longest_ms": round(max(took for _, took, _ in seen), 1)}


def measure(quick):
    repeats = 5 if quick else 40
    with tempfile.TemporaryDirectory() as folder, Worker("--gpu", "emulated:v100-16gb", "--concurrency", "4", "--context-memory", "16") as worker:
        node = Node(worker, bundle(pathlib.Path(folder)))
        node.kernel("neighbour", LONG)
        found = {}
        for is_handler in (False, True):
            kind = Kind(node, is_handler)
            found[kind.name] = {"alone": alone(kind, repeats), "beside": beside(node, kind, repeats),
                                "overhead": overhead(kind, 2 if quick else 7, repeats), "change": change(kind, 2 if quick else 8)}
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--out")
    parser.add_argument("--traces", help="not used")
    options = parser.parse_args()
    about = machine()
    found = measure(options.quick)
    for name, rows in found.items():
        for what, row in rows.items():
            print(f"{name:>8} {what:>9} {json.dumps(row)}")
    result = {"bench": "shares", "quick": options.quick, "emulated": True, "machine": about, **found}
    write_last_line(result, options.out)


if __name__ == "__main__":
    main()
