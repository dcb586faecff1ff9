#!/usr/bin/env python3
"""bench paper-mqfq-worker: points of the MQFQ-Sticky paper's evaluation through a real worker on an emulated GPU.

Each point is a trace under a policy: the worker's figures (real sandboxes, real messages, the emulated device's clock) beside those of the simulator, which
knows the node from a calibration made before. Times are modelled seconds. What `paper-mqfq` says of many settings is simulated; this says how far to trust it.
A run whose overhead is above 2 % of the mean, memory moves included, is INVALID, as `lambent replay` has it: then the machine was too busy, or the time
scale too high. With `--rows FILE` each point is a line of that file once it is done; the same command goes on after the last one, and makes again those that
were INVALID. All nine traces with `--only table3` took two hours as two such commands at once, each with its own traces and FILE.
Usage: paper_mqfq_worker.py [--quick] [--traces DIR] [--only table3,figure7,table4] [--trace t3 | --trace t1,t2,... | --trace all] [--rows FILE]
       [--time-scale 4] [--window 600]
"""
import argparse
import json
import pathlib
import subprocess
import tempfile
import tomllib

from fidelity import KEEP_ALIVE_S, LONGEST_WAIT_S, MEMORY_SCALE, calibrate
from replay import ONE_AT_A_TIME, PRESET, run_replay, shared
from worker_under_test import PROGRAMS, ROOT, Worker, machine

# As the papers have it: nothing is foreseen, and every cold start holds a token.
CALLED = ("--set", "foresee=false")
TOKENS = ("--set", "starts_outside_tokens=0", "--set", "eviction=lru", *CALLED)
FAITHFUL = ("--policy", "mqfq-sticky", "--set", "over_run_s=10", *TOKENS)
# What each system is started with; "ours" with nothing but what the place is. Names as in bench/paper_mqfq/systems.h.
SYSTEMS = {
    # Of the faithful two the stronger: without second containers, as the other baselines.
    "mqfq-nodup": FAITHFUL,
    "fcfs": ("--policy", "fcfs", "--set", "fcfs_moves_off=true", *TOKENS),
    "batch": ("--policy", "batch", *TOKENS),
    "uniform": ("--policy", "mqfq-uniform", "--set", "over_run_s=10", *TOKENS),
    # With our eviction and two cold starts beside the tokens.
    "mqfq-pool": ("--policy", "mqfq-sticky", *CALLED),
    "fcfs-pool": ("--policy", "fcfs", *CALLED),
    "batch-pool": ("--policy", "batch", *CALLED),
    "ours": (),
    "ours-one": (),
}
# Whose functions have as many sandboxes as they like.
SECOND_SANDBOXES = ("ours", "ours, queueing")
# Of Table 4: 48 processors take the catalogue's time on a CPU, asleep: they are modelled.
HYBRID = {
    "cpu-only": (*FAITHFUL, "--set", "hybrid=top-share", "--set", "gpu_share=0"),
    "1 gpu": (*FAITHFUL, "--set", "hybrid=off"),
    "cpu+gpu, top half": (*FAITHFUL, "--set", "hybrid=top-share", "--set", "gpu_share=0.5"),
    "cpu+gpu, queueing": (*FAITHFUL, "--set", "hybrid=queueing"),
    "ours, queueing": ("--set", "hybrid=queueing"),
}
HOST = ("--set", "host_concurrency=48", "--set", "host_sandboxes=96")
CONCURRENCY, POOL = 2, 16
SEED, LOAD = 3, 0.5
KEYS = ("mean_s", "p50_s", "p99_s", "cold_ratio", "gpu_cold_ratio", "memory_mean_s", "utilisation")
LINK_KEYS = ("host_to_device_gb_per_s", "device_to_host_gb_per_s")  # of a preset's [link] and of a calibration
MOST_OVERHEAD_SHARE = 0.02  # of the mean, as `lambent replay` has it (kMostOverheadShare)


class Scale:
    """How long a run is, in modelled seconds, and how much faster than real time the model goes."""

    def __init__(self, quick, time_scale=None, window=None):
        self.time_scale = time_scale or (20 if quick else 4)
        self.window = window or (30 if quick else 600)
        self.give_up = 250 if quick else 600
        self.repeats = 3 if quick else 9
        self.naive_window = self.naive_give_up = 0  # of bench replay, whose function we use


def deployed_with(name, variants):
    """Flags of replay and simulate alike: what the functions are. Those of ours have as many sandboxes as they like."""
    return (*(() if name in SECOND_SANDBOXES else ONE_AT_A_TIME), *(("--cpu-variants",) if variants else ()))


def points(quick):
    """(figure, name, pool, flags, whether functions have CPU variants)."""
    for name, flags in SYSTEMS.items():
        if not quick or name == "ours":
            yield "table3", name, POOL, flags, False
    for name in ("mqfq-nodup", "fcfs"):
        if not quick:
            yield "figure7", name, 4, SYSTEMS[name], False
    for name, flags in HYBRID.items():
        if not quick or name == "ours, queueing":
            yield "table4", name, POOL, (*flags, *HOST), True


def measured(trace, pool, flags, functions, scale):
    """The worker's figures, or None and why."""
    with Worker("--gpu", f"emulated:{PRESET}", "--time-scale", str(scale.time_scale), "--memory-scale", str(MEMORY_SCALE), "--pool", str(pool), "--concurrency", str(CONCURRENCY),
                "--drain", "1", "--set", "queue_wait_s=1000000", "--max-queue-time", "0", *flags) as node:
        figures, note = run_replay(node, trace, "measured", scale, 120 + 2 * (scale.window + scale.give_up) / scale.time_scale,
                                   seed=SEED, load=LOAD, more=functions)
    if figures is None or not figures["valid"] or figures["failed"]:
        return None, note if figures is None else figures.get("invalid_because") or f"{figures['failed']} failed: {note}"
    return figures, note


def moves_overhead_share(figures, node):
    """At most what moves took beyond the modelled link, of the mean: by the slower direction of an idle node's, as if nothing of the time was waiting."""
    link = tomllib.loads((ROOT / f"src/emulator/emulated_node/presets/{PRESET}.toml").read_text())["link"]
    slowest = min(1, *(node[key] / link[key] for key in LINK_KEYS))
    return (1 - slowest) * figures["memory_mean_s"] / figures["mean_s"]


def judged(figures, note, node):
    """(figures with the share of overhead of moves and of all, note), or (None, why it is invalid)."""
    if figures is None:
        return None, note
    figures["moves_overhead_share"] = moves_overhead_share(figures, node)
    share = figures["overhead_share"] + figures["moves_overhead_share"]
    if share > MOST_OVERHEAD_SHARE:
        return None, f"overhead is {100 * share:.1f} % of the mean, {100 * figures['moves_overhead_share']:.1f} % of it by moves: at most {100 * MOST_OVERHEAD_SHARE:.0f} %"
    return figures, note


def simulated(trace, pool, flags, functions, scale, profile):
    command = [str(PROGRAMS / "lambent"), "simulate", *([str(trace)] if trace else ["--seed", str(SEED), "--load", str(LOAD)]),
               "--profile", str(profile), "--concurrency", str(CONCURRENCY), "--pool", str(pool), "--duration", str(scale.window),
               # The worker's own patience is in real seconds.
               "--keep-alive", str(KEEP_ALIVE_S * scale.time_scale), "--longest-wait", str(LONGEST_WAIT_S * scale.time_scale),
               "--functions", str(shared("catalogue/mqfq_table1.csv")), "--json", "--quiet", *flags, *functions]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)[0]


def ratios(rows, figure, base):
    """Each system's mean over that of `base`, of the worker and of the simulator."""
    of = {row["system"]: row for row in rows if row["figure"] == figure}
    def over(kind, name):
        if base not in of or any(of[each][kind] is None or not of[each][kind]["mean_s"] for each in (base, name)):
            return None
        return round(of[name][kind]["mean_s"] / of[base][kind]["mean_s"], 3)
    return {name: {kind: over(kind, name) for kind in ("worker", "simulator")} for name in of if name != base}


class Rows:
    """The points that are done: those of the file, if there is one, and those of this run."""

    def __init__(self, path, scale):
        self.path, self.rows = path, []
        self.conditions = {"time_scale": scale.time_scale, "window_s": scale.window}
        if path and path.exists():
            lines = (json.loads(line) for line in path.read_text().splitlines() if line.strip())
            self.rows = [row for row in lines if all(row.get(key) == value for key, value in self.conditions.items())]

    def has(self, trace, figure, name):
        return any((row["trace"], row["figure"], row["system"]) == (trace, figure, name) and row["worker"] for row in self.rows)

    def add(self, row):
        self.rows.append({**row, **self.conditions})
        if self.path:
            with open(self.path, "a") as file:
                file.write(json.dumps(self.rows[-1]) + "\n")

    def of(self, trace):
        """The last of each point."""
        return list({(row["figure"], row["system"]): row for row in self.rows if row["trace"] == trace}.values())


def make_points(trace, name_of_trace, figures, rows, scale, profile, node, quick):
    for figure, name, pool, flags, variants in points(quick):
        if (figures and figure not in figures) or rows.has(name_of_trace, figure, name):
            continue
        functions = deployed_with(name, variants)
        real, note = judged(*measured(trace, pool, flags, functions, scale), node)
        model = simulated(trace, pool, flags, functions, scale, profile)
        row = {"trace": name_of_trace, "figure": figure, "system": name, "pool": pool, "flags": list(flags),
               "worker": real and {key: real.get(key) for key in (*KEYS, "overhead_share", "moves_overhead_share")}, "simulator": {key: model.get(key) for key in KEYS},
               "mean_error_pct": real and round(100 * (model["mean_s"] / real["mean_s"] - 1), 1),
               "p99_error_pct": real and round(100 * (model["p99_s"] / real["p99_s"] - 1), 1)}
        title = f"{name_of_trace} {figure} {name}"
        if real is None:
            row["invalid_because"] = note
            print(f"{title:32}{pool:5}  INVALID: {note}", flush=True)
        else:
            print(f"{title:32}{pool:5}{real['mean_s']:13.3f}{model['mean_s']:11.3f}{real['p99_s']:9.2f}{model['p99_s']:11.2f}"
                  f"{real['cold_ratio']:7.3f}{model['cold_ratio']:11.3f}", flush=True)
        rows.add(row)


def traces_of(arguments):
    """By name; the generated workload where there is no folder."""
    if not arguments.traces:
        return {"generated": None}
    names = [f"t{i}" for i in range(1, 10)] if arguments.trace == "all" else arguments.trace.split(",")
    found = {name: arguments.traces / "mqfq24" / f"{name}.csv" for name in names}
    for path in found.values():
        if not path.exists():
            raise SystemExit(f"there is no {path}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="at most 45 s: a short window, two points")
    parser.add_argument("--traces", type=pathlib.Path, help="a folder with mqfq24/t*.csv; without it the workload is generated")
    parser.add_argument("--trace", default="t3", help="which of them, with commas between them, or all (default t3, the paper's 25.7)")
    parser.add_argument("--only", help="these figures, such as table3,table4")
    parser.add_argument("--rows", type=pathlib.Path, help="a file of the points that are done: the command goes on after them")
    parser.add_argument("--time-scale", type=float, help="modelled seconds per real one (default 4)")
    parser.add_argument("--window", type=int, help="modelled seconds of each trace (default 600)")
    arguments = parser.parse_args()
    scale = Scale(arguments.quick, arguments.time_scale, arguments.window)
    traces = traces_of(arguments)
    figures = arguments.only.split(",") if arguments.only else None

    about, rows = machine(), Rows(arguments.rows, scale)
    with tempfile.TemporaryDirectory(prefix="lambent-mqfq-") as folder:
        profile = pathlib.Path(folder) / "node.toml"
        node = calibrate(scale, profile)
        print(f"emulated {PRESET}, D {CONCURRENCY}, {scale.window} modelled seconds at {scale.time_scale:g} x real time")
        print(f"{'point':32}{'pool':>5}{'worker mean':>13}{'simulator':>11}{'p99':>9}{'simulator':>11}{'cold':>7}{'simulator':>11}")
        for name, trace in traces.items():
            make_points(trace, name, figures, rows, scale, profile, node, arguments.quick)
    by_trace = {name: rows.of(name) for name in traces}
    print(json.dumps({"bench": "paper-mqfq-worker", "quick": arguments.quick, "time": "emulated", "device": f"emulated:{PRESET}",
                      "trace": arguments.trace if arguments.traces else {"generator_seed": SEED, "offered_load": LOAD},
                      "time_scale": scale.time_scale, "window_s": scale.window, "concurrency": CONCURRENCY, "calibration": node,
                      "machine": about, "points": [row for of_trace in by_trace.values() for row in of_trace],
                      # Of the first trace, as ever, and of all.
                      "over_mqfq_nodup": ratios(by_trace[next(iter(by_trace))], "table3", "mqfq-nodup"),
                      "over_1_gpu": ratios(by_trace[next(iter(by_trace))], "table4", "1 gpu"),
                      "over_mqfq_nodup_by_trace": {name: ratios(of_trace, "table3", "mqfq-nodup") for name, of_trace in by_trace.items()}}))


if __name__ == "__main__":
    main()
