#!/usr/bin/env python3
"""Pipelines on MIG slices through a real worker, beside the simulator: how far the simulator of bench paper-fluidfaas is off.

Usage: paper_fluidfaas_worker.py [--quick] [--out FILE] [--seed N] [--seconds N] [--policy NAME] [--torch-only] [--torch-rate N] [--batches]

Two emulated A100s cut into 3g.40gb and two 2g.20gb each; processes, channels, hand-overs, moves of memory, the Runtime API and HTTP are real. A component
sleeps for the time that its profile says for the slice it finds itself on, and holds a 256th of the weights that it is planned with. What starts, hand-overs,
requests and moves of memory cost is measured first, with functions and arrivals that are not judged; nothing is fitted. Then Poisson arrivals go through a
fresh worker, and those very arrivals, at the moments when they were really sent, through slice_node: the same dispatcher and policy in virtual time.
The same arrivals go through a second fresh worker too: by what its two runs differ no simulator can be judged.

Where there is a PyTorch (tools/torch_environment.py), the paper's four applications follow with real networks as components: fluidfaas_torch.py.
"""
import argparse
import base64
import concurrent.futures
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

import fluidfaas_torch
from last_line import write_last_line
from worker_under_test import PREFIX, PROGRAMS, ROOT, Worker, invocations_path, machine, make_zip

GPUS = 2
CONTEXT_MB = 512
# Of the weights that a component is planned with it holds this share: what is moved is real memory of this machine.
HELD = 1 / 256
OUTPUT_BYTES = 1 << 20
SHAPES = {"2g.20gb": {"multiprocessors": 28, "memory_mb": 19968}, "3g.40gb": {"multiprocessors": 42, "memory_mb": 40192}}
GOAL_PCT = 10
SIMULATIONS = 20
FIRST_S = 2

APP = """
import json, os, time
from lambent.pipeline import Component, Pipeline, device

with open(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "components.json")) as file:
    COMPONENTS = json.load(file)

class Sleeper(Component):
    def __init__(self, about):
        self.about = about

    def setup(self):
        self.seconds = self.about["ms"][str(device().multiprocessors)] / 1e3
        self.weights = device().buffer(self.about["held_bytes"])
        self.output = device().tensor("uint8", (self.about["output_bytes"],))

    def forward(self, value):
        time.sleep(self.seconds)
        return self.output

class App(Pipeline):
    def define_dag(self, value):
        for one in COMPONENTS:
            value = self.register(one["name"], Sleeper, value, about=one)
        return value

    def decode(self, event):
        return {"value": event}

    def encode(self, outputs):
        return {"bytes": len(next(iter(outputs.values())).bytes())}
"""


# A network that reads its weights once for all rows.
TOGETHER = """
import array, time
from lambent.pipeline import Component, Pipeline, device

class Network(Component):
    batches = %s

    def forward(self, x):
        time.sleep((60 + 6 * (x.shape[0] - 1)) / 1e3)
        return x

class App(Pipeline):
    def define_dag(self, x):
        return self.register("network", Network, x)

    def decode(self, event):
        return {"x": device().tensor("uint8", (1, %d), bytes(%d))}

    def encode(self, outputs):
        return {"bytes": len(outputs["network"].bytes())}
"""
TOGETHER_SLO_MS, TOGETHER_MOST = 500, 16


class Batched:
    """One component on one slice. `batches`: it takes several requests at once; `most`: in a job."""

    def __init__(self, name, batches, most):
        self.name, self.share, self.batches, self.most = name, 1, batches, most

    def package(self, costs):
        made = {"pipeline": 1, "handler": "app.App", "inputs": ["x"], "outputs": ["network"], "batch": self.most, "slo": {"ms": TOGETHER_SLO_MS},
                "components": [{"name": "network", "inputs": ["$x"]}]}
        return make_zip({"app.py": (TOGETHER % (self.batches, OUTPUT_BYTES, OUTPUT_BYTES)).encode(), "pipeline.json": json.dumps(made).encode()})


class Function:
    """A chain of equal components. `ms` on a 2g.20gb; on a 3g.40gb two thirds of that. The result is its output's size."""

    def __init__(self, name, share, components, weights_mb, ms, slo_scale=None):
        self.name, self.share, self.weights_mb, self.slo_scale = name, share, weights_mb, slo_scale
        self.components = [f"part{i}" for i in range(components)]
        self.ms = {"2g.20gb": ms, "3g.40gb": ms * 28 / 42}

    def pipeline(self):
        parts = [{"name": name, "inputs": [self.components[i - 1] if i else "$value"]} for i, name in enumerate(self.components)]
        made = {"pipeline": 1, "handler": "app.App", "inputs": ["value"], "components": parts, "outputs": [self.components[-1]]}
        return {**made, "slo": {"scale": self.slo_scale}} if self.slo_scale else made

    def profile(self, costs):
        """With what was measured of sleeping and of starts; both sides are given this."""
        ms = {shape: round(slept + costs["oversleep_ms"], 3) for shape, slept in self.ms.items()}
        each = {"weights_mb": self.weights_mb, "memory_mb": self.weights_mb + 256, "output_bytes": OUTPUT_BYTES, "probability": 1, "ms": ms}
        return {"profile": 1, "context_mb": CONTEXT_MB, "start_ms": round(costs["start_ms"], 1), "shapes": SHAPES,
                "components": {name: each for name in self.components}}

    def held_bytes(self):
        return int(self.weights_mb * HELD * (1 << 20))

    def package(self, costs):
        ms = {str(SHAPES[shape]["multiprocessors"]): slept for shape, slept in self.ms.items()}
        parts = [{"name": name, "ms": ms, "held_bytes": self.held_bytes(), "output_bytes": OUTPUT_BYTES} for name in self.components]
        return make_zip({name: content if isinstance(content, bytes) else content.encode() for name, content in {
            "app.py": APP, "components.json": json.dumps(parts), "pipeline.json": json.dumps(self.pipeline()),
            "profile.json": json.dumps(self.profile(costs))}.items()})


# The first fits every slice, the second a 3g.40gb alone or three 2g.20gb, the third nowhere in one piece.
JUDGED = (Function("small", 0.6, 2, 4096, 60, slo_scale=4), Function("large", 0.25, 3, 12288, 90, slo_scale=4),
          Function("huge", 0.15, 3, 16384, 60, slo_scale=4))
GUESS = {"oversleep_ms": 0, "start_ms": 500}


class Node:
    """A worker on the emulated node, and what is asked of it."""

    def __init__(self, folder, policy, slices="all"):
        self.worker = Worker("--gpu", f"emulated:{folder / 'node.toml'}", "--pipeline-slices", slices, "--slice-policy", policy, "--drain", "1")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.worker.close()

    def ask(self, path):
        return json.loads(self.worker.request("GET", path))

    def create(self, function, costs):
        self.worker.request("POST", "/2015-03-31/functions", json.dumps({
            "FunctionName": function.name, "Runtime": "python3", "Handler": "pipeline.json", "Role": "arn:aws:iam::0:role/any",
            "Code": {"ZipFile": base64.b64encode(function.package(costs)).decode()}, "Timeout": 60, "MemorySize": 256,
            "Tags": {"lambent:kind": "pipeline"}}))

    def invoke(self, name):
        """{"latency_ms", "run_ms" (of it on the instance), "start", "error"}; of one that failed the error alone."""
        begin = time.perf_counter()
        connection = http.client.HTTPConnection(self.worker.address[0], int(self.worker.address[1]), timeout=120)
        try:
            connection.request("POST", invocations_path(name), b'{"n":1}')
            response = connection.getresponse()
            body = response.read()
        except OSError as error:
            return {"latency_ms": None, "start": None, "error": str(error)}
        finally:
            connection.close()
        took = (time.perf_counter() - begin) * 1e3
        if response.status >= 400 or response.getheader("X-Amz-Function-Error"):
            return {"latency_ms": None, "start": None, "error": f"HTTP {response.status}: {body[:200]!r}"}
        if json.loads(body) != {"bytes": OUTPUT_BYTES}:
            return {"latency_ms": None, "start": None, "error": f"a wrong answer: {body[:200]!r}"}
        return {"latency_ms": took, "run_ms": int(response.getheader("x-lambent-run-us")) / 1e3, "start": response.getheader("x-lambent-start"),
                "error": None}

    def must(self, name):
        told = self.invoke(name)
        if told["error"]:
            raise SystemExit(f"{name}: {told['error']}")
        return told

    def warm_ms(self, name, times, key="latency_ms"):
        return statistics.median(self.must(name)[key] for _ in range(times))

    def slices(self):
        return [{"gpu": int(one["slice"].partition(":")[0]), "shape": one["shape"], "multiprocessors": one["multiprocessors"],
                 "memory_mb": one["memory_mb"]} for one in self.ask("/v1/slices")["slices"]]

    def busy_s(self):
        return sum(one["busy_s"] for one in self.ask("/v1/slices")["slices"])

    def delete(self, name, wait=True):
        """Milliseconds until all slices are free."""
        self.worker.request("DELETE", f"/2015-03-31/functions/{name}")
        begin = time.perf_counter()
        while wait and any(one["holders"] for one in self.ask("/v1/slices")["slices"]):
            if time.perf_counter() - begin > 20:
                raise SystemExit(f"the slices of {name} are not given back")
            time.sleep(0.002)
        return (time.perf_counter() - begin) * 1e3


def calibrate(folder, repeats):
    """What this machine takes for what the simulator has constants for. Its functions are none of those that are judged."""
    starts, stops, edges, around, oversleeps = [], [], [], [], []
    with Node(folder, "slo") as node:
        for number in range(repeats):
            one = Function(f"one{number}", 1, 1, 2048, 50)
            node.create(one, GUESS)
            cold = node.must(one.name)["latency_ms"]
            warm = [node.must(one.name) for _ in range(12)]
            # Its own measurement began with the guess, which counts as twenty runs; thirteen more have come.
            about = node.ask(f"/v1/functions/{one.name}/pipeline")
            place = about["instances"][0]["stages"][0][0]["slice"]
            shape = next(each["shape"] for each in about["slices"] if each["slice"] == place)
            learnt = about["profile"]["components"]["part0"]["ms"][shape]
            share_of_guess = math.prod(1 - max(0.05, 1 / (20 + i)) for i in range(1, 14))
            oversleeps.append((learnt - one.ms[shape]) / (1 - share_of_guess))
            ran_alone = statistics.median(each["run_ms"] for each in warm)
            edges.append(ran_alone - one.ms[shape] - oversleeps[-1])
            around.append(statistics.median(each["latency_ms"] - each["run_ms"] for each in warm))
            starts.append(cold - ran_alone - around[-1])
            stops.append(node.delete(one.name))
        two = Function("two", 1, 2, 20480, 50)  # only a 3g.40gb has room for one of its parts, none for both
        node.create(two, GUESS)
        node.must(two.name)
        ran = node.warm_ms(two.name, 12, "run_ms")
        handover = ran - 2 * (two.ms["3g.40gb"] + statistics.median(oversleeps)) - statistics.median(edges)
        node.delete(two.name)
        together = []
        for number in range(repeats):
            many = [Function(f"many{number}x{i}", 1, 1, 2048, 50) for i in range(6)]  # one on each slice
            for one in many:
                node.create(one, GUESS)
            with concurrent.futures.ThreadPoolExecutor(len(many)) as pool:
                together += [told["latency_ms"] - ran_alone - statistics.median(around) for told in pool.map(node.must, [one.name for one in many])]
            for one in many:
                node.delete(one.name, wait=one is many[-1])
    with Node(folder, "fluidfaas", slices="0:1") as node:
        turns = [Function(f"turn{i}", 1, 2, 4096, 50) for i in range(2)]
        for one in turns:
            node.create(one, GUESS)
            node.must(one.name)
        warm = node.warm_ms(turns[1].name, 8)
        moves = []
        for number in range(2 + 3 * repeats):
            told = node.must(turns[number % 2].name)
            if told["start"] == "warm":
                raise SystemExit("functions that were to take turns did not")
            if number >= 2:  # the first way out makes the room in host memory
                moves.append(told["latency_ms"] - warm)
    beside_ms = max(0, statistics.median(together) - statistics.median(starts)) / (len(many) - 1)
    move_ms = max(0.1, statistics.median(moves))
    moved = 2 * 2 * turns[0].held_bytes()  # of two components out, of two in
    copy_gb_per_s = moved / 1e6 / move_ms
    load_ms = Function("", 1, 1, 2048, 50).held_bytes() / copy_gb_per_s / 1e6
    piece_ms = 2 * OUTPUT_BYTES / copy_gb_per_s / 1e6
    return {"oversleep_ms": statistics.median(oversleeps), "edge_ms": max(0, statistics.median(edges)),
            "around_ms": statistics.median(around), "start_ms": statistics.median(starts) - load_ms,
            "start_spread_ms": [min(starts), max(starts)], "start_beside_ms": beside_ms, "handover_ms": max(0, handover - piece_ms),
            "stop_ms": statistics.median(stops), "move_ms": move_ms, "copy_gb_per_s": copy_gb_per_s}


def simulate(functions, slices, arrivals, policy, costs, seed=1):
    told = {"policy": policy, "seed": seed, "slices": slices, "arrivals": arrivals,
            "functions": [{"name": one.name, "pipeline": one.pipeline(), "profile": one.profile(costs)} for one in functions],
            "machine": {"copy_gb_per_s": costs.get("copy_gb_per_s", 12), "gpu_gb_per_s": 1e3, "moved_share": HELD,
                        **{key: costs[key] for key in ("edge_ms", "handover_ms", "stop_ms", "start_beside_ms") if key in costs}}}
    done = subprocess.run([str(PROGRAMS / "slice_node")], input=json.dumps(told), capture_output=True, text=True, timeout=100)
    if done.returncode:
        raise SystemExit(done.stderr)
    result = json.loads(done.stdout)
    for one in result["requests"]:
        if one["latency_ms"] is not None:  # the simulator has no clients
            one["latency_ms"] += costs.get("around_ms", 0)
    return result


def poisson(functions, rate, seconds, seed):
    """[[second, name], ...] at a rate of all together."""
    chance, at, made = random.Random(seed), 0.0, []
    names, shares = [one.name for one in functions], [one.share for one in functions]
    while True:
        at += chance.expovariate(rate)
        if at >= seconds:
            return made
        made.append([at, chance.choices(names, shares)[0]])


def offered(functions, rate, plan, seed):
    """Arrivals, and from when on they are judged: first one of each function alone, then a ramp, so that it is not luck which instances there are."""
    alone = [[FIRST_S * number, one.name] for number, one in enumerate(functions)]
    begin, chance = FIRST_S * len(functions), random.Random(seed)
    ramped = [[begin + at, name] for at, name in poisson(functions, rate, plan["ramp_s"] + plan["seconds"], seed)
              if chance.random() < at / plan["ramp_s"]]
    return alone + ramped, begin + plan["ramp_s"]


def send(node, arrivals):
    """[{"function", "at_s", "latency_ms", "start", "error"}], in the order in which they were really sent."""
    begin = time.perf_counter() + 0.2

    def one(name):
        at_s = time.perf_counter() - begin
        return {"function": name, "at_s": max(0, at_s), **node.invoke(name)}

    with concurrent.futures.ThreadPoolExecutor(512) as pool:
        waiting = []
        for at, name in arrivals:
            time.sleep(max(0, begin + at - time.perf_counter()))
            waiting.append(pool.submit(one, name))
        return sorted((each.result() for each in waiting), key=lambda each: each["at_s"])


def summary(requests, from_s, slo_ms):
    """Of those that came from `from_s` on."""
    judged = [one for one in requests if one["at_s"] >= from_s]
    taken = sorted(one["latency_ms"] for one in judged if one["latency_ms"] is not None)
    if not taken:
        return None
    hits = sum(one["latency_ms"] is not None and one["latency_ms"] <= slo_ms[one["function"]] for one in judged)
    ended = max(one["at_s"] + one["latency_ms"] / 1e3 for one in judged if one["latency_ms"] is not None)
    waited = sum(one["start"] != "warm" if "start" in one else one["load_ms"] > 0 for one in judged)
    return {"requests": len(judged), "failed": len(judged) - len(taken), "mean_ms": round(statistics.fmean(taken), 2),
            "p50_ms": round(taken[len(taken) // 2], 2), "p95_ms": round(taken[math.ceil(0.95 * len(taken)) - 1], 2),
            "slo_hit_pct": round(100 * hits / len(judged), 2), "throughput_per_s": round(len(taken) / (ended - judged[0]["at_s"]), 3),
            "makespan_s": round(ended - judged[0]["at_s"], 3), "waited_for_instance": waited}


def errors(simulated, measured):
    relative = {f"{key}_pct": round(100 * (simulated[name] / measured[name] - 1), 2)
                for key, name in (("mean", "mean_ms"), ("p95", "p95_ms"), ("throughput", "throughput_per_s"))}
    return {**relative, "slo_hit_points": round(simulated["slo_hit_pct"] - measured["slo_hit_pct"], 2)}


def is_within(error):
    return all(abs(error[key]) <= GOAL_PCT for key in ("mean_pct", "p95_pct", "slo_hit_points", "throughput_pct"))


def compare(folder, policy, load, plan, costs, seed):
    """One policy at one load: a worker and the simulator."""
    functions = [one for one in JUDGED if one.name != "huge" or policy not in ("esg", "infless")]  # these cut nothing
    with Node(folder, policy) as node:
        slices = node.slices()
    even = poisson(functions, 100, 40, seed)
    bound = simulate(functions, slices, even, policy, costs)["cut_bound_per_s" if len(functions) == 3 else "whole_bound_per_s"]
    planned, from_s = offered(functions, load * bound, plan, seed)
    runs = []
    for _ in range(plan["runs"]):
        with Node(folder, policy) as node:
            for one in functions:
                node.create(one, costs)
            slo_ms = {one.name: node.ask(f"/v1/functions/{one.name}/pipeline")["slo"]["ms"] for one in functions}
            busy = node.busy_s()
            requests = send(node, planned)
            busy = node.busy_s() - busy
        runs.append((requests, busy))
    requests, busy = runs[0]
    arrivals = [[one["at_s"], one["function"]] for one in requests]
    # Which instance comes up first decides much of what follows, so that a start some milliseconds sooner may lead elsewhere: what is
    # compared is the mean over starts as long as the measured ones were, from the shortest to the longest.
    shortest, longest = costs["start_spread_ms"]
    results = [simulate(functions, slices, arrivals, policy, {**costs, "start_ms": shortest + (longest - shortest) * (number + 0.5) / SIMULATIONS}, number)
               for number in range(SIMULATIONS)]
    impossible = [what for result in results for what in result["impossible"]]
    if impossible:
        raise SystemExit(f"the simulator did what cannot be: {impossible[:3]}")
    measured = {**summary(requests, from_s, slo_ms), "mig_time_s": round(busy, 2)}
    each = [{**summary(result["requests"], from_s, slo_ms), "mig_time_s": result["execution_s"]} for result in results]
    simulated = {key: round(statistics.fmean(one[key] for one in each), 3) for key in measured}
    row = {"policy": policy, "load": load, "bound_per_s": round(bound, 2), "offered_per_s": round(load * bound, 2),
           "worker": measured, "simulator": simulated,
           "simulator_range": {key: [round(choose(one[key] for one in each), 3) for choose in (min, max)] for key in measured},
           "simulator_error": errors(simulated, measured),
           "worker_again": None, "repeat_error": None, "worker_within_goal": None,
           "first_errors": sorted({one["error"] for one in requests if one["error"]})[:3],
           "simulator_first_errors": sorted({one["error"] for result in results for one in result["requests"] if "error" in one})[:3],
           "load_1min": round(os.getloadavg()[0], 2)}
    if len(runs) > 1:
        row["worker_again"] = {**summary(runs[1][0], from_s, slo_ms), "mig_time_s": round(runs[1][1], 2)}
        row["repeat_error"] = errors(row["worker_again"], measured)
        row["worker_within_goal"] = is_within(row["repeat_error"])
    row["simulator_error"]["mig_time_pct"] = round(100 * (simulated["mig_time_s"] / busy - 1), 2)
    row["within_range"] = all(low <= measured[key] <= high for key, (low, high) in row["simulator_range"].items()
                              if key in ("mean_ms", "p95_ms", "slo_hit_pct", "throughput_per_s"))
    row["within_goal"] = is_within(row["simulator_error"])
    return row


def print_row(row):
    ours, theirs, off = row["worker"], row["simulator"], row["simulator_error"]
    again = "; again: mean {mean_pct:+.1f} %, p95 {p95_pct:+.1f} %, hits {slo_hit_points:+.1f}, answers {throughput_pct:+.1f} %"
    again = again.format(**row["repeat_error"]) if row["repeat_error"] else ""
    ranged = "simulated mean {:.0f} to {:.0f}".format(*row["simulator_range"]["mean_ms"])
    print(f"{row['policy']:10}{row['load']:5.2f}{row['offered_per_s']:7.1f}"
          + "".join(f"{ours[key]:9.1f}{theirs[key]:8.1f}" for key in ("mean_ms", "p95_ms", "slo_hit_pct", "throughput_per_s"))
          + f"{off['mean_pct']:8.1f}{off['p95_pct']:8.1f}{off['slo_hit_points']:8.1f}{off['throughput_pct']:8.1f}"
          + f"{row['load_1min']:6.1f}  {ranged}{again}" + (f"  {ours['failed']} failed" if ours["failed"] else ""), flush=True)


def node_file(folder):
    presets = [*PREFIX.rglob("a100-80gb-mig.toml"), ROOT / "src/emulator/emulated_node/presets/a100-80gb-mig.toml"]
    text = presets[0].read_text()
    (folder / "node.toml").write_text(text.replace("devices = 1", f"devices = {GPUS}", 1))


def with_and_without_batches(folder, quick, seconds, seed):
    """One function on one 2g.20gb under `slo`: one request a job; several that run one by one; several that the component runs as one.
    The last of these under the baselines that make batches, too."""
    together = Batched("network", True, TOGETHER_MOST)
    kinds = {"single": ("slo", Batched("network", False, 1)), "one_by_one": ("slo", Batched("network", False, TOGETHER_MOST)),
             "together": ("slo", together), "esg": ("esg", together), "infless": ("infless", together)}
    rates = [10, 40] if quick else [5, 10, 20, 40, 80]
    plan = {"ramp_s": 2 if quick else 4, "seconds": seconds or (8 if quick else 20)}
    rows = []
    for rate in rates:
        row = {"offered_per_s": rate}
        for kind, (policy, function) in kinds.items():
            with Node(folder, policy, slices="0:1") as node:
                node.create(function, GUESS)
                planned, from_s = offered([function], rate, plan, seed)
                requests = send(node, planned)
                told = node.ask(f"/v1/functions/{function.name}/pipeline")
            row[kind] = {**summary(requests, from_s, {function.name: TOGETHER_SLO_MS}), "learnt": told["profile"]["components"]["network"].get("batch_ms", {})}
        row["load_1min"] = round(os.getloadavg()[0], 2)
        rows.append(row)
        print(f"{rate:4d}/s  " + "  ".join(f"{kind}: {row[kind]['slo_hit_pct']:5.1f} % in time, {row[kind]['throughput_per_s']:5.1f} answers/s, "
                                           f"p50 {row[kind]['p50_ms']:.0f} ms" for kind in kinds), flush=True)
    return rows


def batches_only(options):
    around = machine()
    with tempfile.TemporaryDirectory(prefix="lambent-fluidfaas-") as name:
        node_file(pathlib.Path(name))
        rows = with_and_without_batches(pathlib.Path(name), options.quick, options.seconds, options.seed)
    write_last_line({"bench": "paper-fluidfaas-worker", "quick": options.quick, "emulated": True, "machine": around, "seed": options.seed,
                     "slo_ms": TOGETHER_SLO_MS, "batches": rows}, options.out)


def torch_only(options):
    around = machine()
    with tempfile.TemporaryDirectory(prefix="lambent-fluidfaas-") as name:
        with_torch = fluidfaas_torch.rows(pathlib.Path(name), options.quick, options.seed, options.torch_rate)
    write_last_line({"bench": "paper-fluidfaas-worker", "quick": options.quick, "emulated": True, "machine": around, "seed": options.seed,
                     "torch": with_torch}, options.out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, help="that are judged at each point; without it 20")
    parser.add_argument("--policy", choices=("slo", "fluidfaas", "esg"))
    parser.add_argument("--torch-only", action="store_true", help="only the applications with PyTorch networks")
    parser.add_argument("--torch-rate", type=float, help="requests a second to the PyTorch networks, for a machine that has other work")
    parser.add_argument("--batches", action="store_true", help="only a function whose component takes several requests at once, with and without")
    options = parser.parse_args()
    if options.torch_only:
        return torch_only(options)
    if options.batches:
        return batches_only(options)
    plan = {"ramp_s": 3, "seconds": 8, "policies": ["slo"], "loads": [0.4], "repeats": 1, "runs": 1} if options.quick else {
        "ramp_s": 8, "seconds": 20, "policies": ["slo", "fluidfaas", "esg"], "loads": [0.3, 0.55, 0.75], "repeats": 4, "runs": 2}
    if options.policy:
        plan["policies"] = [options.policy]
    if options.seconds:
        plan["seconds"] = options.seconds
    around = machine()
    rows = []
    print(f"{'QUICK RUN; ' if options.quick else ''}{GPUS} emulated A100, six slices; real processes on {around['cores']} cores, load {around['load_1min_at_start']}")
    with tempfile.TemporaryDirectory(prefix="lambent-fluidfaas-") as name:
        folder = pathlib.Path(name)
        node_file(folder)
        costs = calibrate(folder, plan["repeats"])
        print("calibration, ms: " + ", ".join(f"{key.removesuffix('_ms')} {costs[key]:.1f}" for key in (
            "start_ms", "start_beside_ms", "stop_ms", "edge_ms", "around_ms", "handover_ms", "oversleep_ms", "move_ms")))
        print(f"{'policy':10}{'load':>5}{'/s':>7}{'mean ms: worker, sim.':>17}{'p95 ms':>17}{'SLO hits %':>17}{'answers/s':>17}"
              f"{'errors: mean %, p95 %, SLO points, answers %':>32}  load")
        for policy in plan["policies"]:
            for load in plan["loads"]:
                rows.append(compare(folder, policy, load, plan, costs, options.seed))
                print_row(rows[-1])
        with_torch = fluidfaas_torch.rows(folder, options.quick, options.seed, options.torch_rate)
    worst = {key: max((abs(row["simulator_error"][key]) for row in rows)) for key in rows[0]["simulator_error"]}
    result = {"bench": "paper-fluidfaas-worker", "quick": options.quick, "emulated": True, "machine": around, "gpus": GPUS, "goal_pct": GOAL_PCT,
              "simulations": SIMULATIONS, "seed": options.seed, "seconds": plan["seconds"], "calibration": {
                  key: [round(v, 3) for v in value] if isinstance(value, list) else round(value, 4) for key, value in costs.items()},
              "simulator_error_pct": worst, "within_goal": f"{sum(row['within_goal'] for row in rows)} of {len(rows)}",
              "worker_within_goal": None if options.quick else f"{sum(row['worker_within_goal'] for row in rows)} of {len(rows)}", "rows": rows, "torch": with_torch}
    write_last_line(result, options.out)


if __name__ == "__main__":
    sys.exit(main())
