#!/usr/bin/env python3
"""bench models: many models on a device that holds a few of them, in the simulator, with the arrivals of a trace: which leave by what they
cost, by least recent use, and as a server that loads and unloads whole models has it; and the busiest models by themselves. Then, where
uv and onnxruntime are installed, ONNX models through a worker whose host memory holds ten of them: by worth, by least recent use, and
loaded and unloaded by a client.

docs/internals/benchmarks.md says what each figure means. Usage: models.py [--quick] [--only PART] [--traces DIR] [--trace NAME] [--models N]
Of DIR it reads NAME/invocations.csv.gz, calls by the minute of the Azure Functions trace of 2019; without it, models are as
popular as k^-1 says and called at random.
"""
import argparse
import csv
import json
import pathlib
import random
import subprocess
import tempfile

import models_arrivals
import models_starts
import models_worker
from worker_under_test import PREFIX, PROGRAMS, machine

DEVICE_GIB, HELD, HOT = 16, 10, 5
SEED = 7
SIMULATED_TRACE = "azure2019_8h"
LOADED_GB_PER_S, START_S = 4, 0.3  # of a file that is in the page cache, and before it
SYSTEMS = {
    "worth": ("--set", "eviction=worth"),
    "lru": ("--set", "eviction=lru"),
    # A client of a server with explicit loading: the least recently used is unloaded, and loaded from its file when it is wanted.
    "explicit": ("--policy", "fcfs", "--set", "memory_rule=every-sandbox", "--set", "eviction=lru"),
}


def trace_of(options, name):
    return models_arrivals.read_trace(options.traces / name / "invocations.csv.gz") if options.traces else None


def write_workload(folder, minutes, draw):
    """The trace and the catalogue; the models, the busiest first."""
    names = [f"m{rank:03d}" for rank in range(len(minutes))]
    calls = sorted((60_000 * minute + draw.randrange(60_000), name) for name, row in zip(names, minutes, strict=True)
                   for minute, count in enumerate(row) for _ in range(count))
    with open(folder / "trace.csv", "w") as file:
        file.write("t_ms,function\n" + "".join(f"{at},{name}\n" for at, name in calls))
    shares = [draw.choice((0.25, 0.5, 1, 1.5, 2)) for _ in names]
    unit = DEVICE_GIB * 1024 / HELD / (sum(shares) / len(shares))  # the mean model is a tenth of the device
    with open(folder / "models.csv", "w") as file:
        file.write("name,gpu_warm_s,cpu_warm_s,gpu_cold_s,device_memory_mib,times_source,memory_source\n")
        for name, share in zip(names, shares, strict=True):
            mib, run = int(unit * share), draw.choice((0.005, 0.01, 0.02, 0.04))
            cold = run + START_S + mib * 1.048576e-3 / LOADED_GB_PER_S
            file.write(f"{name},{run},{run * 20},{cold:.3f},{mib},guess,guess\n")
    return names


def simulate(folder, flags, only=()):
    """Of each model: calls and latencies in seconds; and the figures of all."""
    done = subprocess.run(
        [str(PROGRAMS / "lambent-simulator"), str(folder / "trace.csv"), "--functions", str(folder / "models.csv"), "--gpus", "1",
         "--memory", str(DEVICE_GIB), "--pool", "100000", "--keep-alive", "1000000", "--max-concurrency", "1", "--sandbox-ms", "0",
         "--concurrency", "4", "--link", "12", "--csv", str(folder / "rows.csv"), "--json", "--quiet", *flags, *(word for name in only for word in ("--only", name))],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the simulator failed: {done.stderr}")
    with open(folder / "rows.csv") as file:
        rows = list(csv.DictReader(file))
    return json.loads(done.stdout), rows


def hot_latency(rows, hot):
    """Of the hot models, in the mean of them."""
    mine = [row for row in rows if row["function"] in hot]
    return {key: sum(float(row[key]) for row in mine) / len(mine) for key in ("mean_s", "p50_s", "p99_s")}


def figures(run, rows, hot, alone):
    latency = hot_latency(rows, hot)
    return {"mean_s": run["mean_s"], "p50_s": run["p50_s"], "p99_s": run["p99_s"], "failed": run["failed"],
            "loads": run.get("moves", {}).get("in", 0) + round(run["cold_ratio"] * run["invocations"]), "hot": latency,
            "hot_over_alone": {key: round(latency[key] / alone[key], 3) for key in latency}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--traces", type=pathlib.Path)
    parser.add_argument("--trace", choices=models_arrivals.TRACES, default=models_arrivals.TRACES[0], help="of the part through a worker")
    parser.add_argument("--seed", type=int, default=SEED, help="of the part through a worker")
    parser.add_argument("--rounds", type=int, help="of the part through a worker")
    parser.add_argument("--models", type=int)
    parser.add_argument("--only", choices=("simulated", "worker", "triton", "starts"),
                        help="a part; triton: what --triton adds to the worker's, by itself")
    parser.add_argument("--triton", action="store_true", help="beside the worker Triton with explicit loading, by nvidia-pytriton of PyPI")
    options = parser.parse_args()
    result = {"benchmark": "models", "machine": machine(), "prefix": PREFIX.name}
    if options.only in (None, "simulated"):
        result.update(simulated(options))
    if options.only in (None, "worker"):
        result["worker"] = through_worker(options)
    if options.only == "triton":
        result["triton"] = through_triton(options)
    if options.only in (None, "starts"):
        result["starts"] = beside_starts(options)
    print(json.dumps(result))


def plan_of(options):
    plan = models_worker.QUICK if options.quick else models_worker.WHOLE
    return plan._replace(models=options.models or plan.models, rounds=options.rounds or plan.rounds)


def through_triton(options):
    """On the arrivals that the worker has with the same seed."""
    sizes, rounds, hot = models_worker.workload(plan_of(options), trace_of(options, options.trace), random.Random(options.seed))
    with tempfile.TemporaryDirectory() as folder:
        result = models_worker.run_triton(plan_of(options), pathlib.Path(folder), sizes, rounds, hot, lambda line: print(line, flush=True))
    print(f"triton: {latencies(result)}; {result['loads']} loads of {result['calls']} calls; the busiest {latencies(result['hot'])}")
    return {"trace": options.trace if options.traces else None, "seed": options.seed, **result}


def through_worker(options):
    result = models_worker.run(plan_of(options), random.Random(options.seed), trace_of(options, options.trace), lambda line: print(f"worker, {line}", flush=True),
                               with_triton=options.triton)
    if "skipped" in result:
        print(f"worker: skipped, {result['skipped']}")
        return result
    alone = result["alone"]["hot"]
    print("worker, the busiest alone: " + latencies(alone))
    for system, run in {**result["systems"], **({"triton": result["triton"]} if "triton" in result else {})}.items():
        print(f"worker, {system}: {latencies(run)}; {run['loads']} loads of {run['calls']} calls, {run['loaded_mib']} MiB of files, {run['failed']} failed; "
              f"the busiest {latencies(run['hot'])}, over having the memory alone: "
              + ", ".join(f"{key.removesuffix('_s')} {value}" for key, value in run["hot_over_alone"].items()))
    return {"trace": options.trace if options.traces else None, "seed": options.seed, **result}


def beside_starts(options):
    result = models_starts.run(models_starts.QUICK if options.quick else models_starts.WHOLE, lambda line: print(f"starts, {line}", flush=True))
    if "skipped" in result:
        print(f"starts: skipped, {result['skipped']}")
        return result
    print(f"starts, one model alone: {latencies(result['alone'])}; while others start: {latencies(result['beside'])}, over alone: "
          + ", ".join(f"{key.removesuffix('_s')} {value}" for key, value in result["beside_over_alone"].items()))
    print(f"starts, of {result['starts']['calls']}: {latencies(result['starts'])}; one at a time: {latencies(result['single_start'])}")
    return result


def latencies(run):
    mean, p50, p99 = ("none" if run[key] is None else f"{run[key] * 1e3:.1f}" for key in ("mean_s", "p50_s", "p99_s"))
    return f"mean {mean} ms, p50 {p50}, p99 {p99}"


def simulated(options):
    models = options.models or (40 if options.quick else 200)
    draw = random.Random(SEED)
    trace = trace_of(options, SIMULATED_TRACE)
    minutes = (models_arrivals.busiest(trace[1])[:models] if trace
               else models_arrivals.drawn_minutes(models, 20 if options.quick else 240, draw))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        names = write_workload(folder, minutes, draw)
        hot = names[:HOT]
        (_, rows) = simulate(folder, (), hot)
        alone = hot_latency(rows, hot)
        runs = {}
        for system, flags in SYSTEMS.items():
            summary, rows = simulate(folder, flags)
            runs[system] = figures(summary[0], rows, hot, alone)
    for system, run in runs.items():
        print(f"{system}: mean {run['mean_s'] * 1e3:.1f} ms, p50 {run['p50_s'] * 1e3:.1f}, p99 {run['p99_s'] * 1e3:.1f}, {run['loads']} loads, "
              f"{run['failed']} failed; the {HOT} busiest over having the device alone: "
              + ", ".join(f"{key.removesuffix('_s')} {value}" for key, value in run["hot_over_alone"].items()))
    return {"simulated": True, "models": len(minutes), "calls": sum(map(sum, minutes)), "alone": alone, "systems": runs}


if __name__ == "__main__":
    main()
