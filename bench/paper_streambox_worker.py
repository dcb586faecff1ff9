#!/usr/bin/env python3
"""bench paper-streambox-worker: the StreamBox paper's workflows and its baselines through a real worker on an emulated GPU, beside the model.

Four systems, each a worker of its own: processes, messages, objects, scheduling and memory are real, kernels and copies take their modelled time
(example 11's networks). Baselines are the worker with a process for each function, its data through the host (infless) or lent on the device
(astraea), and the shared executor with a static pool and one copy after the other (stream-only). What was sent, at the moments when it was sent,
then goes through the model of bench paper-streambox. Times are modelled seconds.
A full run first tunes the baselines, on a load of its own, and takes --minutes (14) at most: what does not fit is left out, and named.
Usage: paper_streambox_worker.py [--quick] [--out FILE] [--traces DIR] [--minutes 14] [--only image,traffic,...] [--systems streambox,...] [--tune]
"""
import argparse
import concurrent.futures
import contextlib
import copy
import http.client
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from device_memory import Samples, between
from paper_streambox_functions import MOST_OBJECTS, NETWORK_MS, WORKFLOWS, HandlerPackages, Packages, event_of, mean_ms, needs_object
from worker_under_test import PREFIX, PROGRAMS, ROOT, Worker, invocations_path, machine

SYSTEMS = ("infless", "astraea", "stream-only", "streambox")
PROCESSES = ("infless", "astraea")
# Ours with one thing changed, for who names them with --systems.
ABLATIONS = ("layered", "layered-fine-grained")
# Every network a handler in a sandbox: with a GPU runtime of its own, or one for the tenant. Not beside the model, which has neither.
HANDLERS = {"handlers-own": "own", "handlers-shared": "shared"}
# What a system is started with beside what all are; ours with nothing.
FLAGS = {"infless": ("--executor-objects", "host"), "astraea": ("--executor-objects", "shared"),
         "stream-only": ("--executor-objects", "shared", "--executor-pool", "static", "--executor-transfers", "first-come"),
         "streambox": (), **dict.fromkeys(HANDLERS, ()), **{name: ("--executor-pool", name) for name in ABLATIONS}}
# Calls at once on the device, and of one function: for ours, and for all where nothing is tuned, what the model gives ours. A baseline has
# the one of these that is best on a load of its own.
SETTING = (8, 8)
TUNED = ((8, 8), (4, 4), (16, 8))
SLO_MS = 200
# The paper's, of a runtime, for all four.
RUNTIME_MIB, RUNTIME_START_S = 1335, 5.5
SHORT_START_S = 1  # where the first request is not what is asked
KEEP_ALIVE_S, HOLD_S = 600, 1
LIGHT, BUSY = 0.25, 0.7  # of what the device could do with the networks one after the other
TENANT_SHARE = 0.15
SEED = 11
KEYS = ("requests", "answered", "in_time_pct", "goodput_per_s", "p50_ms", "p99_ms", "mean_ms", "memory_mb", "peak_memory_mb", "startup_ms")


class Scale:
    def __init__(self, quick):
        self.time_scale = 0.5  # what the emulation costs counts half
        self.window_s = 4 if quick else 6
        self.warm_s = 2
        self.start_s = 0.5 if quick else RUNTIME_START_S
        self.quick = quick


# --- Loads ---

def counts(name, folder, seed):
    """Requests of each minute: the paper's own, or of the same kind."""
    if folder:
        with open(folder / "streambox" / f"{name}-load.txt", encoding="ascii") as file:
            return [float(line) for line in file][:500]
    chance, level, made = random.Random(f"{seed} {name}"), 300, []
    for minute in range(500):
        if name == "bursty":
            if chance.random() < 0.1:
                level = 300 if level > 1000 else 2900
            made.append(max(level, 1200 if chance.random() < 1 / 7 else 0))
        elif name == "periodic":
            made.append(max(0, 130 + 200 * math.sin(minute / 40) + 240 * (chance.random() - 1)))
        else:
            made.append(67 if chance.random() < 1 / 38 else 0)
    return made


def offered(name, folder, workflow, share, window_s, tenants, seed):
    """[[second, tenant, cars, people], ...]: the minutes pressed into the window, as many requests as take this share of the device."""
    chance = random.Random(f"{seed} {name} {workflow} {share}")
    if name == "even":
        minutes = [1]
    else:
        minutes = counts(name, folder, seed)
    total = max(2, round(share * window_s * 1e3 / mean_ms(workflow)))
    each_s = window_s / len(minutes)
    at = sorted((minute + chance.random()) * each_s for minute in chance.choices(range(len(minutes)), minutes, k=total))
    return [[second, chance.randrange(tenants), chance.randint(0, MOST_OBJECTS), chance.randint(0, MOST_OBJECTS)] for second in at]


# --- One system ---

class Node:
    """A worker as one of the systems, a workflow of each tenant on it, and what is asked of it."""

    def __init__(self, packages, system, workflow, tenants, scale, settings=None):
        self.system, self.workflow, self.tenants, self.scale = system, workflow, tenants, scale
        self.concurrency, self.instances = settings or SETTING
        node = packages.folder / "node.toml"
        node.write_text(node_text(scale))
        self.worker = Worker("--gpu", f"emulated:{node}", "--time-scale", str(scale.time_scale), "--memory-scale", "16", "--drain", "1",
                             "--concurrency", str(self.concurrency), "--pool", "512", "--keep-alive", str(KEEP_ALIVE_S / scale.time_scale),
                             "--executor-pool-hold", str(HOLD_S / scale.time_scale), "--object-memory", "4G", "--set", "queue_wait_s=1000000", "--max-queue-time", "0",
                             *FLAGS[system])
        self.samples = Samples(self.worker.folder / "run/gpu-node")
        own = system in PROCESSES
        if system in HANDLERS:
            packages = HandlerPackages(packages.folder, HANDLERS[system])
        try:
            self.names = [packages.deploy(self.worker, workflow, f"t{number}", lambda name, at=number: f"t{at}-{name}" if own else f"t{at}",
                                          self.instances) for number in range(tenants)]
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.samples.close()
        self.worker.close()

    def put(self, count):
        """So many pictures for requests."""
        shape = needs_object(self.workflow)
        path = "/v1/objects?datatype=FP32&shape=" + ",".join(map(str, shape))
        content = bytes(4 * math.prod(shape))
        return [json.loads(self.worker.request("POST", path, content))["object"] for _ in range(count)]

    def ask(self, tenant, event):
        """(latency in modelled ms or None, the request's id, what went wrong)."""
        begin = time.perf_counter()
        connection = http.client.HTTPConnection(self.worker.address[0], int(self.worker.address[1]), timeout=180)
        try:
            connection.request("POST", invocations_path(self.names[tenant]), json.dumps(event))
            response = connection.getresponse()
            body = response.read()
        except OSError as error:
            return None, None, str(error)
        finally:
            connection.close()
        took = (time.perf_counter() - begin) * 1e3 * self.scale.time_scale
        if response.status >= 400 or response.getheader("X-Amz-Function-Error"):
            return None, None, f"HTTP {response.status}: {body[:300]!r}"
        return took, response.getheader("x-amzn-RequestId"), None

    def send(self, arrivals):
        """What became of each, in the order in which they were really sent, and when the first second was (monotonic)."""
        pictures = self.put(len(arrivals))
        begin = time.monotonic() + 0.3

        def one(arrival, picture):
            _, tenant, cars, people = arrival
            at_s = (time.monotonic() - begin) * self.scale.time_scale
            latency, request, error = self.ask(tenant, event_of(self.workflow, picture, cars, people, self.system in HANDLERS))
            return {"arrival": [max(0, at_s), tenant, cars, people], "latency_ms": latency, "request": request, "error": error, "picture": picture}

        with concurrent.futures.ThreadPoolExecutor(256) as pool:
            waiting = []
            for arrival, picture in zip(arrivals, pictures):
                time.sleep(max(0, begin + arrival[0] / self.scale.time_scale - time.monotonic()))  # an open loop: it comes when it comes
                waiting.append(pool.submit(one, arrival, picture))
            told = sorted((each.result() for each in waiting), key=lambda each: each["arrival"][0])
        for each in told:
            self.worker.request("DELETE", f"/v1/objects/{each['picture']}")
        return told, begin

    def rest(self, seconds):
        """So many modelled ones: how long what is idle is looked at, and what a load leaves behind."""
        time.sleep(seconds / self.scale.time_scale)

    def calls_of(self, request):
        """Every call of a run that is still known, those of workflows within it too."""
        try:
            run = json.loads(self.worker.request("GET", f"/v1/invocations/{request}/trace"))
        except SystemExit:
            return
        for call in run["calls"]:
            if "device" in call:
                yield call
            elif "run_ms" in call:
                yield from self.calls_of(call["invocation"])

    def startup_ms(self, told):
        """From when a call is made until it runs, in the mean over calls."""
        waits = [sum(call[key] for key in ("queue_ms", "sandbox_ms", "init_ms", "memory_ms")) * self.scale.time_scale
                 for each in told if each["request"] for call in self.calls_of(each["request"])]
        return statistics.fmean(waits) if waits else None


def node_text(scale):
    """One of the preset's GPU; a runtime as the paper has it; processes share it by MPS."""
    presets = [*PREFIX.rglob("v100-16gb.toml"), ROOT / "src/emulator/emulated_node/presets/v100-16gb.toml"]
    lines = []
    for line in presets[0].read_text().splitlines():
        key = line.partition("=")[0].strip()
        if key == "context_us":
            line = f"context_us = {int((scale.start_s - 0.05) * 1e6)}"
        elif key == "context_mib":
            line = f"context_mib = {RUNTIME_MIB}"
        lines.append(line + ("\nmps = true" if key == "devices" else ""))
    return "\n".join(lines) + "\n"


def busy_s():
    """(busy, all) seconds of this machine's processors until now."""
    numbers = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(numbers) - numbers[3] - numbers[4], sum(numbers)


def quantile(taken, share):
    return taken[min(len(taken) - 1, math.ceil(share * len(taken)) - 1)] if taken else None


def summary(latencies, window_s, memory_mb, peak_mb, startup_ms):
    taken = sorted(one for one in latencies if one is not None)
    in_time = sum(one <= SLO_MS for one in taken)
    return {"requests": len(latencies), "answered": len(taken), "in_time_pct": 100 * in_time / len(latencies), "goodput_per_s": in_time / window_s,
            "p50_ms": quantile(taken, 0.5), "p99_ms": quantile(taken, 0.99), "mean_ms": statistics.fmean(taken) if taken else None,
            "memory_mb": memory_mb, "peak_memory_mb": peak_mb, "startup_ms": startup_ms}


# --- Points ---

def measure(packages, system, workflow, tenants, segments, scale, settings=None):
    """Each segment's row, without the model's half, and what the model needs for it."""
    with Node(packages, system, workflow, tenants, scale, settings) as node:
        begin = [[0, tenant, 6, 6] for tenant in range(tenants)]
        first, _ = node.send(begin)
        warm, _ = node.send(offered("even", None, workflow, BUSY, scale.warm_s, tenants, SEED + 1))
        node.rest(2 * HOLD_S)
        idle_from = time.monotonic()
        node.rest(0.5)
        idle_to = time.monotonic()
        rows, windows = [], []
        for load, share, arrivals in segments:
            busy, ticks = busy_s()
            told, from_s = node.send(arrivals)
            now_busy, now_ticks = busy_s()
            windows.append((from_s, from_s + scale.window_s / scale.time_scale))
            rows.append({"workflow": workflow, "load": load, "share": share, "tenants": tenants, "system": system,
                         "settings": [node.concurrency, node.instances], "startup_ms": node.startup_ms(told), "told": told,
                         "host_busy": round((now_busy - busy) / (now_ticks - ticks), 3),
                         "late_ms": quantile(sorted((each["arrival"][0] - one[0]) * 1e3 for each, one in zip(told, arrivals)), 0.99)})
            node.rest(HOLD_S + 0.5)
        samples = node.samples.close()
    idle_mb = (between(samples, idle_from, idle_to)[0] or 0) / 1e6
    for row, window in zip(rows, windows):
        mean, peak = (used and used / 1e6 for used in between(samples, *window))
        told = row.pop("told")
        row["worker"] = {**summary([each["latency_ms"] for each in told], scale.window_s, mean, peak, row.pop("startup_ms")),
                         "idle_memory_mb": idle_mb, "first_ms": max((each["latency_ms"] or math.inf) for each in first)}
        row["errors"] = sorted({each["error"] for each in (*first, *warm, *told) if each["error"]})[:3]
        row["for_the_model"] = [[each["arrival"] for each in part] for part in (first, warm, told)]
    return rows


def model_point(row, scale):
    """For streambox_node: the first requests, then those that warm it up, then the segment."""
    first, warm, told = row.pop("for_the_model")
    warm_s, told_s = 40, 60
    arrivals = [*first, *([warm_s + one[0], *one[1:]] for one in warm), *([told_s + one[0], *one[1:]] for one in told)]
    concurrency, instances = row["settings"]
    settings = {"devices": 1, "tenants": row["tenants"], "batch": 1, "jobs": concurrency, "keep_weights_s": KEEP_ALIVE_S}
    if row["system"] in PROCESSES:
        settings |= {"streams": instances, "start_after_s": 1e9}
    system = "streambox" if row["system"] in ABLATIONS else row["system"]
    return {"system": system, "workflow": row["workflow"], "length_s": told_s + scale.window_s, "told_from_s": told_s,
            "settings": settings, "arrivals": arrivals}, len(first), len(first) + len(warm)


def add_model(rows, scale):
    if rows[0]["system"] in HANDLERS:
        for row in rows:
            del row["for_the_model"]
            row["model"] = dict.fromkeys(row["worker"])
        round_halves(rows)
        return
    points = [model_point(row, scale) for row in rows]
    told = {"constants": {"runtime_start_s": scale.start_s, "runtime_gb": RUNTIME_MIB * 1048576 / 1e9},
            "points": [point for point, *_ in points]}
    done = subprocess.run([str(PROGRAMS / "streambox_node")], input=json.dumps(told), capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(done.stderr)
    for row, (_, first, judged), found in zip(rows, points, json.loads(done.stdout)):
        row["model"] = {**summary(found["latencies_ms"][judged:], scale.window_s, found["memory_mb"], found["peak_memory_mb"], found["startup_ms"]),
                        "idle_memory_mb": found["idle_memory_mb"], "first_ms": max((one or math.inf) for one in found["latencies_ms"][:first])}
    round_halves(rows)


def round_halves(rows):
    for row in rows:
        for half in ("worker", "model"):
            row[half] = {key: value if value is None or isinstance(value, int) else round(value, 3) if math.isfinite(value) else None
                         for key, value in row[half].items()}


def with_start(scale, start_s):
    changed = copy.copy(scale)
    changed.start_s = start_s
    return changed


def plan(quick, folder, scale):
    """(workflow, tenants, [(load, share, arrivals)], seconds that a runtime takes to start), what matters most first."""
    def segment(load, workflow, share, tenants=1):
        return load, share, offered(load, folder, workflow, share, scale.window_s, tenants, SEED)
    if quick:
        return [("image", 1, [segment("bursty", "image", LIGHT)], scale.start_s)]
    cells = [("traffic", 1, [*(segment(load, "traffic", LIGHT) for load in ("bursty", "periodic", "sporadic")), segment("bursty", "traffic", BUSY)],
              scale.start_s)]
    cells += [("traffic", tenants, [segment("periodic", "traffic", tenants * TENANT_SHARE, tenants)], SHORT_START_S) for tenants in (3, 6)]
    return cells + [(name, 1, [segment("bursty", name, LIGHT)], SHORT_START_S) for name in WORKFLOWS if name != "traffic"]


def ratios(rows):
    """Ours over each baseline: geometric means over the points of one tenant."""
    def key(row):
        return row["workflow"], row["load"], row["share"], row["tenants"]
    ours = {key(row): row for row in rows if row["system"] == "streambox"}
    found = {}
    for system in SYSTEMS[:-1]:
        pairs = [(ours[key(row)], row) for row in rows if row["system"] == system and key(row) in ours and row["tenants"] == 1]
        if not pairs:
            continue
        found[system] = {}
        for half in ("worker", "model"):
            def mean(of, half=half):
                logs = [math.log(of(mine[half], theirs[half])) for mine, theirs in pairs
                        if all(side[half][key] for side in (mine, theirs) for key in ("p50_ms", "goodput_per_s", "memory_mb"))]
                return math.exp(statistics.fmean(logs)) if logs else None
            memory = mean(lambda mine, theirs: mine["memory_mb"] / theirs["memory_mb"])
            found[system][half] = {"memory_reduction_pct": memory and round(100 * (1 - memory), 1)}
            for name, of in {"throughput_ratio": lambda mine, theirs: mine["goodput_per_s"] / theirs["goodput_per_s"],
                             "e2e_p50_ratio": lambda mine, theirs: theirs["p50_ms"] / mine["p50_ms"],
                             "e2e_mean_ratio": lambda mine, theirs: theirs["mean_ms"] / mine["mean_ms"]}.items():
                value = mean(of)
                found[system][half][name] = value and round(value, 3)
    return found


def sharing(rows):
    """Of sandboxed functions that share a runtime, over the same as processes: {workflow: what, in the mean over its points}."""
    def value(row, name):
        return row["worker"][name]
    found = {}
    for workflow in WORKFLOWS:
        mine, theirs = ([row for row in rows if row["workflow"] == workflow and row["tenants"] == 1 and row["system"] == system]
                        for system in ("handlers-shared", "handlers-own"))
        if not mine or len(mine) != len(theirs):
            continue
        found[workflow] = {
            f"{name}_reduction_pct": round(100 * (1 - statistics.fmean(value(row, name) / value(other, name) for row, other in zip(mine, theirs))), 1)
            for name in ("memory_mb", "peak_memory_mb", "idle_memory_mb")}
        for name in ("p50_ms", "first_ms"):
            pairs = [value(other, name) / value(row, name) for row, other in zip(mine, theirs) if value(row, name) and value(other, name)]
            found[workflow][f"{name}_ratio"] = round(statistics.fmean(pairs), 3) if pairs else None
    return found


# --- Telling ---

HEAD = (f"{'workflow':8} {'load':>13} {'system':15}" + "".join(f"{name:>17}" for name in (
    "in time %", "p50 ms", "p99 ms", "mean MB", "idle MB", "first s", "start ms")) + "  busy")


def print_row(row):
    def pair(key, unit=1, digits=1):
        return "".join(f"{'-' if value is None else f'{value / unit:.{digits}f}':>{width}}"
                       for value, width in ((row["worker"][key], 9), (row["model"][key], 8)))
    load = f"{row['load']} {row['share']:.2f}" + (f" x{row['tenants']}" if row["tenants"] > 1 else "")
    print(f"{row['workflow']:8} {load:>13} {row['system']:15}" + pair("in_time_pct") + pair("p50_ms") + pair("p99_ms") + pair("memory_mb", digits=0)
          + pair("idle_memory_mb", digits=0) + pair("first_ms", 1e3, 2) + pair("startup_ms") + f"{row['host_busy']:6.2f}"
          + (f"  {row['errors']}" if row["errors"] else ""), flush=True)


def tune(packages, scale, systems, until, left_out):
    """The best setting of each baseline on one load of its own: the most in time, then the least memory; and all that was found. What could not
    be measured is appended to `left_out`."""
    short = with_start(scale, 0.5)
    short.window_s, short.warm_s = 3, 1
    chosen, found = {}, []
    for system in (name for name in SYSTEMS[:-1] if name in systems):
        for settings in TUNED:
            if time.monotonic() > until:
                left_out.append(["tuning", list(settings), system, "no time"])
                print(f"{system}: no time for {settings}", flush=True)
                continue
            segment = ("even", BUSY, offered("even", None, "traffic", BUSY, short.window_s, 1, SEED + 2))
            rows, why = attempt(packages, system, "traffic", 1, [segment], short, settings)
            if not rows:
                left_out.append(["tuning", list(settings), system, why])
                print(f"{system} with {settings}: {why}", flush=True)
                continue
            worker = rows[0]["worker"]
            found.append({"system": system, "settings": settings, "in_time_pct": worker["in_time_pct"], "memory_mb": worker["memory_mb"]})
            print(f"{system:12} at once {settings[0]:3}, of one function {settings[1]:3}: in time {worker['in_time_pct']:.1f} %, "
                  f"memory {worker['memory_mb'] or 0:.0f} MB", flush=True)
        mine = [one for one in found if one["system"] == system]
        if mine:
            chosen[system] = max(mine, key=lambda one: (one["in_time_pct"], -(one["memory_mb"] or 0)))["settings"]
    return chosen, found


def attempt(packages, system, workflow, tenants, segments, scale, settings, models=False):
    """(rows, None), or (None, why there are none): one system that fails does not take the others with it, nor does the model beside it."""
    try:
        rows = measure(packages, system, workflow, tenants, segments, scale, settings)
        if models:
            add_model(rows, scale)
        return rows, None
    except (Exception, SystemExit) as error:  # pylint: disable=broad-except
        return None, f"{type(error).__name__}: {error}"[:300]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="at most 45 s: a short window, one point of two systems")
    parser.add_argument("--out")
    parser.add_argument("--traces", type=pathlib.Path, help="a folder with streambox/*-load.txt; without it loads of the same kind are made")
    parser.add_argument("--only", help="these workflows, such as image,traffic")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--tenants", help="only the points of so many, such as 1,3")
    parser.add_argument("--time-scale", type=float)
    parser.add_argument("--tune", action="store_true", help="the baselines' settings, on a load of its own; a table alone")
    parser.add_argument("--untuned", action="store_true", help="all systems with the settings that ours has")
    parser.add_argument("--minutes", type=float, default=14, help="what would go beyond is left out")
    options = parser.parse_args()
    scale = Scale(options.quick)
    scale.time_scale = options.time_scale or scale.time_scale
    systems = ("infless", "streambox") if options.quick else [name for name in (*SYSTEMS, *HANDLERS, *ABLATIONS) if name in options.systems.split(",")]
    begin = time.monotonic()
    end = begin + 60 * options.minutes
    about, rows, left_out, chosen, tuned = machine(), [], [], {}, []

    def result():
        return {"bench": "paper-streambox-worker", "quick": options.quick, "emulated": True, "machine": about, "time_scale": scale.time_scale,
                "window_s": scale.window_s, "seed": SEED, "slo_ms": SLO_MS, "loads": "traces" if options.traces else "made",
                "runtime_mib": RUNTIME_MIB, "networks_ms": NETWORK_MS, "flags": {name: list(FLAGS[name]) for name in systems},
                "tuning": tuned, "ratios": ratios(rows), "sharing": sharing(rows), "rows": rows, "left_out": left_out, "took_s": round(time.monotonic() - begin),
                "load_1min_at_end": round(os.getloadavg()[0], 2)}

    def keep():
        line = json.dumps(result())
        if options.out:
            pathlib.Path(options.out).write_text(line + "\n")
        return line

    with tempfile.TemporaryDirectory(prefix="lambent-streambox-") as folder, contextlib.suppress(KeyboardInterrupt):
        packages = Packages(folder)
        if options.tune or not (options.quick or options.untuned):
            chosen, tuned = tune(packages, scale, systems, end if options.tune else begin + 60 * options.minutes / 3, left_out)
        if options.tune:
            return 0
        print(f"{'QUICK RUN; ' if options.quick else ''}one emulated V100, modelled seconds at {scale.time_scale} x real time; "
              f"real processes on {about['cores']} cores; worker, model\n{HEAD}", flush=True)
        slowest = 0  # of a system in a cell
        for workflow, tenants, segments, start_s in plan(options.quick, options.traces, scale):
            if options.only and workflow not in options.only.split(",") or options.tenants and str(tenants) not in options.tenants.split(","):
                continue
            cell = with_start(scale, start_s)
            for system in systems:
                began = time.monotonic()
                if began + slowest * (0.6 if len(segments) == 1 and slowest else 1) > end:
                    left_out.append([workflow, tenants, system, "no time"])
                    continue
                found, why = attempt(packages, system, workflow, tenants, segments, cell, chosen.get(system), models=True)
                slowest = max(slowest, time.monotonic() - began)
                if not found:
                    left_out.append([workflow, tenants, system, why])
                    print(f"{workflow:8} {system:12} failed: {why}", flush=True)
                    continue
                for row in found:
                    row["runtime_start_s"] = start_s
                    print_row(row)
                rows += found
                keep()
    for one in left_out:
        print("left out:", *one)
    print(keep())
    return 0


if __name__ == "__main__":
    sys.exit(main())
