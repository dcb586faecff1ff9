"""What of kernel functions' objects goes over the host's links on a node with two GPUs, by what executors do for it
(--executor-objects): a chain of two functions on two devices, and objects that a function which starts displaces. And a chain of one
function on one device, whose outputs are kept there ("keep": "device") or copied to the host before each answer.

Two of the emulator's small devices, each with 10 GB/s to and from the host, joined by NVLink with 40 GB/s. Kernels are modelled.
What is counted are bytes; times contain the worker's own and the emulator's copies, and say little of a GPU.
"""
import argparse
import base64
import contextlib
import http.client
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from last_line import write_last_line
from worker_under_test import PREFIX, Worker, invocations_path, machine, make_zip

sys.path.insert(0, str(PREFIX / "share/lambent/python"))
from lambent.client import Client  # noqa: E402

SYSTEMS = ("elastic", "lent", "host")
OBJECT = 8 << 20
HOPS = 12
KEPT_HOPS = 40
KEPT_CHAINS = 5
MADE = 24
KERNEL = """
#include <lambent/kernel.h>

extern "C" __global__ void pass(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
LAMBENT_KERNEL(pass);
"""
NVLINK = "[topology]\nnvlink = [[0, 1]]\nnvlink_gb_per_s = 40.0\nnvlink_latency_us = 1\n"


def package(folder):
    (folder / "k.cu").write_text(KERNEL)
    subprocess.run([PREFIX / "bin/lambent-bundle", "build", folder / "k.cu", "-o", folder / "k"], check=True,
                   stdout=subprocess.DEVNULL)
    shape = [OBJECT // 4]
    graph = {"buffers": [{"name": name, "role": role, "datatype": "FP32", "shape": shape}
                         for name, role in (("x", "input"), ("y", "output"))],
             "steps": [{"kernel": "pass", "bundle": "bundles/k", "grid": [1], "block": [1],
                        "arguments": [{"buffer": "x"}, {"buffer": "y"}]}]}
    files = {"graph.json": json.dumps(graph).encode()}
    for path in (folder / "k").rglob("*"):
        if path.is_file():
            files[f"bundles/k/{path.relative_to(folder / 'k')}"] = path.read_bytes()
    return make_zip(files)


class Node:
    def __init__(self, worker, code):
        self.worker, self.code = worker, code
        self.client = Client(worker.endpoint)

    def create(self, name, mib):
        self.worker.request("POST", "/2015-03-31/functions", json.dumps({
            "FunctionName": name, "Runtime": "provided.al2023", "Handler": "graph.json", "Role": "arn:aws:iam::0:role/any",
            "Code": {"ZipFile": base64.b64encode(self.code).decode()}, "Timeout": 60, "MemorySize": 256,
            "Tags": {"lambent:kind": "kernel", "lambent:gpu-memory": f"{mib}M", "lambent:launch-mode": "model",
                     "lambent:max-concurrency": "1"}}))

    def call(self, name, x, **more):
        """Runs the function on an object; the one that it made, and how long it waited for its input, in ms."""
        request = {"inputs": [{"name": "x", "parameters": {"object": x}}],
                   "outputs": [{"name": "y", "parameters": {"object": True, **more}}]}
        connection = http.client.HTTPConnection(self.worker.address[0], int(self.worker.address[1]), timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", invocations_path(name), json.dumps(request), {"X-Amz-Log-Type": "Tail"})
            response = connection.getresponse()
            answer = json.loads(response.read())
        if response.status != 200 or "outputs" not in answer:
            raise SystemExit(f"{name}: HTTP {response.status}: {answer}")
        log = base64.b64decode(response.getheader("X-Amz-Log-Result")).decode()
        waited = float(re.search(r"Objects: ([0-9.]+) ms", log)[1])
        return answer["outputs"][0]["parameters"]["object"], waited

    def count(self):
        """What was read since the worker's start, in bytes by source, and moved, by where it is then."""
        text = self.worker.request("GET", "/metrics").decode()
        found = re.findall(r'lambent_object_(read|moved)_bytes_total\{(?:from|to)="(\w+)"\} (\S+)', text)
        return {(kind, place): float(value) for kind, place, value in found}


    def keeps(self):
        """What became of kept objects since the worker's start, in bytes."""
        text = self.worker.request("GET", "/metrics").decode()
        found = re.findall(r'lambent_object_keep_bytes_total\{event="(\w+)"\} (\S+)', text)
        return {event: float(value) for event, value in found}

    def chain(self, name, x, hops, deletes=True, **more):
        """Each output is the next input, and deleted behind it or at the end; the last is read. The times of the requests and of the read,
        in ms."""
        times, at, made_before = [], x, []
        for _ in range(hops):
            begin = time.perf_counter()
            made = self.call(name, at, **more)[0]
            times.append((time.perf_counter() - begin) * 1000)
            if at != x and deletes:
                self.client.remove(at)
            elif at != x:
                made_before.append(at)
            at = made
        begin = time.perf_counter()
        content = bytes(self.client.get(at))
        read = (time.perf_counter() - begin) * 1000
        for each in (*made_before, at):
            self.client.remove(each)
        if len(content) != OBJECT:
            raise SystemExit(f"the end of a chain has {len(content)} bytes")
        return times, read


def measure_kept(node_file, code):
    """A chain on one device, in turn with and without a copy of each output on the host, in one worker; and the same where outputs are
    deleted at the end only, so that they do not all find room on the device."""
    with Worker("--gpu", f"emulated:{node_file}", "--context-memory", "16", "--host-memory", "0", "--object-memory", "2G") as worker:
        node = Node(worker, code)
        node.create("left", 128)
        x = node.client.put(bytes(OBJECT), "FP32", (OBJECT // 4,)).id
        node.chain("left", x, 4)
        ways = {"host": {}, "device": {"keep": "device"},
                "host_to_the_end": {"deletes": False}, "device_to_the_end": {"deletes": False, "keep": "device"}}
        rows = {way: {"requests_ms": [], "reads_ms": [], "to_host_mib": 0} for way in ways}
        for _ in range(KEPT_CHAINS):
            for way, more in ways.items():
                before = node.keeps()
                times, read = node.chain("left", x, KEPT_HOPS, **more)
                grown = {event: value - before.get(event, 0) for event, value in node.keeps().items()}
                # Each output goes to the host with its request, unless it was kept and has not been read or evicted since.
                copied = KEPT_HOPS * OBJECT - grown["kept"] + grown["read"] + grown["evicted"]
                row = rows[way]
                row["requests_ms"] += times
                row["reads_ms"].append(read)
                row["to_host_mib"] += copied / (1 << 20)
        return {way: summary(row) for way, row in rows.items()}


def summary(row):
    requests = sorted(row["requests_ms"])
    return {"requests": len(requests), "request_ms": round(statistics.median(requests), 3),
            "request_p99_ms": round(requests[int(len(requests) * 0.99)], 3), "read_ms": round(statistics.median(row["reads_ms"]), 3),
            "to_host_mib": round(row["to_host_mib"]), "to_host_mib_a_request": round(row["to_host_mib"] / len(requests), 3)}


def difference(after, before):
    mib = {key: round((value - before.get(key, 0)) / (1 << 20)) for key, value in after.items()}
    return {"read_mib": {place: value for (kind, place), value in mib.items() if kind == "read"},
            "moved_mib": {place: value for (kind, place), value in mib.items() if kind == "moved"}}


def measure(system, node_file, code):
    with Worker("--gpu", f"emulated:{node_file}", "--context-memory", "16", "--host-memory", "0", "--object-memory", "2G",
                "--executor-objects", "shared" if system == "lent" else system) as worker:
        node = Node(worker, code)
        node.create("left", 64)
        node.create("right", 950)  # not beside the other
        x = node.client.put(bytes(OBJECT), "FP32", (OBJECT // 4,)).id
        for name in ("left", "right"):
            node.call(name, x)  # warm
        before, waits, at = node.count(), [], node.call("left", x)[0]
        for hop in range(HOPS):
            at, waited = node.call(("right", "left")[hop % 2], at)
            waits.append(waited)
        chain = {**difference(node.count(), before), "wait_ms": round(statistics.median(waits), 2)}

        made = [node.call("left", x)[0] for _ in range(MADE)]
        before = node.count()
        node.create("large", 900)  # beside `left` alone
        node.call("large", x)
        waits = [node.call("right", each)[1] for each in made]
        return {"chain": chain, "displaced": {**difference(node.count(), before), "wait_ms": round(statistics.median(waits), 2)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="not used")
    parser.add_argument("--out")
    parser.add_argument("--traces", help="not used")
    options = parser.parse_args()
    result = {"bench": "objects-on-devices", "quick": options.quick, "machine": machine(), **measure_all()}
    show(result)
    write_last_line(result, options.out)


def measure_all():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tiny = (PREFIX / "lib/emulated/presets/tiny.toml").read_text().replace("devices = 1", "devices = 2")
        (folder / "two.toml").write_text(tiny + NVLINK)
        code = package(folder)
        return {"emulated": True, "object_mib": OBJECT >> 20, "hops": HOPS, "made": MADE,
                "systems": {system: measure(system, folder / "two.toml", code) for system in SYSTEMS},
                "kept": {"hops": KEPT_HOPS, "chains": KEPT_CHAINS, "load": os.getloadavg()[0],
                         "outputs": measure_kept(folder / "two.toml", code)}}


def show(result):
    print(f"{'MiB over two devices':>24} {'from host':>10} {'neighbour':>10} {'moved':>10} {'wait ms':>8}")
    for system, parts in result["systems"].items():
        for part, row in parts.items():
            print(f"{system + ' ' + part:>24} {row['read_mib'].get('host', 0):>10} {row['read_mib'].get('neighbour', 0):>10} "
                  f"{row['moved_mib'].get('neighbour', 0):>10} {row['wait_ms']:>8}")
    print(f"{'outputs of a chain':>24} {'ms':>10} {'p99 ms':>10} {'MiB to host':>12} {'a request':>10} {'read ms':>8}")
    for way, row in result["kept"]["outputs"].items():
        print(f"{way:>24} {row['request_ms']:>10} {row['request_p99_ms']:>10} {row['to_host_mib']:>12} "
              f"{row['to_host_mib_a_request']:>10} {row['read_ms']:>8}")


if __name__ == "__main__":
    main()
