#!/usr/bin/env python3
"""What it is worth that calls of several runs of a workflow are one invocation: ResNet-50 and then AlexNet for a picture, as the StreamBox paper's
Traffic has them for each car, through a real worker on one emulated V100. At each load the ways take turns: calls of a network one at a time, side by
side on streams, as batches of what came meanwhile, and as batches that wait a moment for more.

Processes, messages, objects, scheduling and batches are real; kernels and copies take their modelled time, and times are modelled ones.
docs/internals/benchmarks.md says what each figure means. Usage: workflow_batches.py [--quick] [--out FILE] [--seconds N] [--rates 50,150,...]
"""
import argparse
import json
import os
import pathlib
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from last_line import write_last_line
from open_loop import OpenLoop
from paper_streambox_functions import deploy
from worker_under_test import PROGRAMS, ROOT, Worker, invocations_path, machine

sys.path.insert(0, str(ROOT / "python"))
from lambent.kernels import Graph, uint64  # noqa: E402
from lambent.workflow import Workflow, item  # noqa: E402

TIME_SCALE = 0.25  # what the emulation costs counts a quarter
SLO_MS = 200
WAIT_MS = 5
# Milliseconds and the share of the multiprocessors that a batch of so many takes by itself, as the model of bench paper-streambox has them
# (bench/paper_streambox/networks.cc): ResNet-50 is bound by its operations, AlexNet by reading its weights.
NETWORKS = {"resnet50": {1: (3.98, 0.433), 2: (4.76, 0.694), 4: (6.99, 0.917), 8: (12.71, 0.989)},
            "alexnet": {1: (3.44, 0.096), 2: (2.32, 0.251), 4: (2.12, 0.525), 8: (3.11, 0.706)}}
MOST = 8
WHOLE_DEVICE = 80 * 16  # blocks of 128 threads that a V100 runs at once
PICTURE = (3, 224, 224)
OUTPUTS = {"resnet50": ("picture", PICTURE), "alexnet": ("classes", (5,))}
# How many calls of a network run at once, and for how long one waits for others; None: calls are not put together.
WAYS = {"one_at_a_time": (1, None), "side_by_side": (8, None), "batches": (8, 0), "batches_that_wait": (8, WAIT_MS)}
PICTURES = 32
FOR_EACH = 12  # cars in a frame, at most
SEED = 31

KERNEL = """#include <lambent/kernel.h>
using Nanoseconds = unsigned long long;
extern "C" __global__ void network(Nanoseconds, const float*, float*) {}
LAMBENT_KERNEL_DURATION(network, [](dim3, dim3, Nanoseconds duration, auto...) { return duration; });
LAMBENT_KERNEL(network);
"""


def compiled(folder):
    """The kernel's bundle: it is only timed."""
    source, bundle = folder / "network.cu", folder / "network"
    source.write_text(KERNEL)
    subprocess.run([str(PROGRAMS / "lambent"), "bundle", "build", str(source), "-o", str(bundle), "--host-only"], check=True, capture_output=True,
                   timeout=300)
    return bundle


def deploy_way(worker, folder, bundle, way):
    """Its two networks, the workflow over them, and one that runs that for each picture of a list."""
    instances, wait_ms = WAYS[way]
    for name, sizes in NETWORKS.items():
        graph = Graph(f"{way}_{name}")
        kernel = graph.bundle(str(bundle)).kernel("network")
        out, shape = OUTPUTS[name]
        image, made = graph.input("image", "FP32", (MOST, *PICTURE)), graph.output(out, "FP32", (MOST, *shape))
        for size, (took_ms, fills) in sizes.items():
            with graph.variant(size):
                kernel(round(fills * WHOLE_DEVICE), 128, [uint64(round(took_ms * 1e6)), image, made])
        if wait_ms is not None:
            # The worker's clock is not the modelled one. Each network has its part of what the workflow may take.
            graph.batches(wait_ms=wait_ms / TIME_SCALE, slo_ms=SLO_MS / len(NETWORKS) / TIME_SCALE)
        graph.save(str(folder / graph.name), timeout_s=120, launch_mode="model", max_concurrency=instances)
        deploy(worker, folder / graph.name)
    car = Workflow(f"{way}_car")
    make = car.call(f"{way}_resnet50", {"image": car.input.image}, name="make")
    plate = car.call(f"{way}_alexnet", {"image": make.picture}, name="plate", inline=True)
    car.output(plate.classes)
    frame = Workflow(f"{way}_frame")
    frame.output(frame.call(f"{way}_car", {"image": item}, name="cars", for_each=frame.input.images))
    for flow in (car, frame):
        flow.save(str(folder / flow.name), timeout_s=120)
        deploy(worker, folder / flow.name)


def put_pictures(worker):
    """References to pictures, each a tensor of one element of the first dimension."""
    shape = [1, *PICTURE]
    content = bytes(4 * PICTURE[0] * PICTURE[1] * PICTURE[2])
    path = "/v1/objects?datatype=FP32&shape=" + ",".join(map(str, shape))
    return [{"object": json.loads(worker.request("POST", path, content))["object"], "datatype": "FP32", "shape": shape} for _ in range(PICTURES)]


def request_of(way, picture):
    body = json.dumps({"image": picture}).encode()
    return (b"POST " + invocations_path(f"{way}_car").encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)) + body


def batched(worker, way):
    """(batches, calls in them) of each network until now."""
    text = worker.request("GET", "/metrics").decode()

    def count(what, name):
        return sum(float(value) for value in re.findall(rf'^lambent_{what}_total\{{function="{way}_{name}"[^}}]*\}} (\S+)$', text, re.M))
    return {name: (count("batches", name), count("batched_calls", name)) for name in NETWORKS}


def poisson(rate, seconds, chance):
    """[(second, picture)]: so many a second, both of the machine's clock."""
    arrivals, at = [], chance.expovariate(rate)
    while at < seconds:
        arrivals.append((at, chance.randrange(PICTURES)))
        at += chance.expovariate(rate)
    return arrivals


def quantile(ordered, share):
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2) if ordered else None


def measure(worker, way, rate, seconds, pictures):
    """One load through one way; rate and seconds are modelled."""
    # The same arrivals for all ways.
    arrivals = poisson(rate * TIME_SCALE, seconds / TIME_SCALE, random.Random(f"{SEED} {rate}"))
    before, cpu = batched(worker, way), worker.cpu_seconds()
    loop = OpenLoop(worker.address, {number: request_of(way, picture) for number, picture in enumerate(pictures)})
    answers = loop.run(arrivals)
    loop.settle(120)
    cpu = worker.cpu_seconds() - cpu
    loop.close()
    good = [answer for answer in answers if answer.good]
    taken = sorted(answer.latency_s * 1e3 * TIME_SCALE for answer in good)
    after = batched(worker, way)
    calls_a_run = {}
    for name in NETWORKS:
        batches, calls = (now - then for now, then in zip(after[name], before[name]))
        calls_a_run[name] = round(len(good) / (len(good) - calls + batches), 2) if good else None
    span_s = (max(answer.done for answer in good) - min(answer.due for answer in answers)) * TIME_SCALE if good else None
    return {"requests": len(answers), "answered": len(good), "answered_per_s": round(len(good) / span_s, 1) if good else 0,
            "in_time_pct": round(100 * sum(one <= SLO_MS for one in taken) / len(answers), 2), "p50_ms": quantile(taken, 0.5),
            "p99_ms": quantile(taken, 0.99), "calls_a_run": calls_a_run, "worker_cpu_us": round(cpu * 1e6 / len(answers))}


def for_each(worker, way, pictures, runs):
    """Modelled ms of a run over FOR_EACH pictures by itself, at the median."""
    body, times = json.dumps({"images": pictures[:FOR_EACH]}), []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        worker.request("POST", invocations_path(f"{way}_frame"), body)
        times.append((time.perf_counter() - begin) * 1e3 * TIME_SCALE)
    return round(statistics.median(times[1:]), 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--seconds", type=float, default=2.5, help="modelled, of each load")
    parser.add_argument("--rates", default="50,150,250,350,450,550", help="requests a modelled second")
    options = parser.parse_args()
    rates, seconds, runs, warm_s = [float(rate) for rate in options.rates.split(",")], options.seconds, 20, 2
    if options.quick:
        rates, seconds, runs, warm_s = [50, 350], 0.5, 3, 1
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    about, rows = machine(), []
    with tempfile.TemporaryDirectory(prefix="lambent-batches-") as name, \
            Worker("--gpu", "emulated:v100-16gb", "--time-scale", str(TIME_SCALE), "--memory-scale", "16", "--concurrency", "8", "--pool", "512",
                   "--keep-alive", "3600", "--set", "queue_wait_s=1000000", "--max-queue-time", "0") as worker:
        folder = pathlib.Path(name)
        bundle = compiled(folder)
        for way in WAYS:
            deploy_way(worker, folder, bundle, way)
        pictures = put_pictures(worker)
        for way in WAYS:  # until all instances are there, and batches as large as they become
            loop = OpenLoop(worker.address, {0: request_of(way, pictures[0])})
            loop.keep_busy([0], 2 * MOST, warm_s)
            loop.settle(60)
            loop.close()
        for rate in rates:
            row = {"offered_per_s": rate}
            for way in WAYS:
                row[way] = measure(worker, way, rate, seconds, pictures)
                print(f"{rate:5.0f}/s {way:18} {row[way]['in_time_pct']:6.1f} % in time, p50 {row[way]['p50_ms']} ms, p99 {row[way]['p99_ms']} ms, "
                      f"{row[way]['answered_per_s']:6.1f} answers/s, calls a run {row[way]['calls_a_run']}, {row[way]['worker_cpu_us']} us", flush=True)
            row["load_1min"] = round(os.getloadavg()[0], 2)
            rows.append(row)
        each = {way: for_each(worker, way, pictures, runs) for way in WAYS}
    write_last_line({"bench": "workflow-batches", "quick": options.quick, "emulated": True, "machine": about, "time_scale": TIME_SCALE, "seed": SEED,
                     "slo_ms": SLO_MS, "wait_ms": WAIT_MS, "most": MOST, "seconds": seconds, "networks_ms": {
                         network: {str(size): took for size, (took, _) in sizes.items()} for network, sizes in NETWORKS.items()},
                     "rows": rows, "most_answered_per_s": {way: max(row[way]["answered_per_s"] for row in rows) for way in WAYS},
                     "for_each": {"pictures": FOR_EACH, "run_ms": each}}, options.out)


if __name__ == "__main__":
    main()
