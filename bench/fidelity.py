#!/usr/bin/env python3
"""bench fidelity: how far the simulator is off from a worker on the emulated GPU, for the same arrivals.

The simulator knows the node from calibrations made before. Errors are in per cent of the worker's figures, beside how much its runs differ.
Where a device is nearly full, one start some milliseconds sooner may decide all that follows, in the simulator as in the worker. So what is compared is the
mean of several runs of the one with that of many of the other, each of which takes every value from one of the calibrations, drawn for it.
The worker's device is emulated, so this is consistency between two models of one GPU, not truth about one. docs/internals/benchmarks.md says more.
Real delays count times the time scale, so on a busy machine a lower one is nearer to what would be without them, and takes as much longer.
Usage: fidelity.py [--quick] [--traces DIR] [--only t7,t4] [--time-scale 10]
"""
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile

from replay import ONE_AT_A_TIME, PRESET, arguments_of, run_replay, shared
from worker_under_test import PREFIX, PROGRAMS, Worker, machine

POLICIES = ("mqfq-sticky", "fcfs")
CONCURRENCY, POOL = 2, 10
# The worker's defaults, in real seconds.
KEEP_ALIVE_S, LONGEST_WAIT_S = 600, 300
# So small that the host copies the memory that moves in a fraction of the time that the modelled link takes: with 16, moves waited
# for the host's memory wherever other programs used it too, and took a tenth longer than the link does.
MEMORY_SCALE = 64
# The generated workload, and how much of the device it asks for.
SEED, LOAD = 3, 0.5
GOALS = {"mean_error_pct": 5, "p99_error_pct": 10}
COMPARED = ("invocations", "mean_s", "p50_s", "p99_s", "cold_ratio")


class Scale:
    """How long a run is, in modelled seconds, and how much faster than real time the model goes."""

    def __init__(self, quick, time_scale=None):
        self.time_scale = time_scale or (20 if quick else 10)
        self.window = 80 if quick else 400
        self.give_up = 200 if quick else 600
        self.repeats = 5 if quick else 9
        self.calibrations, self.simulations, self.runs = (1, 1, 2) if quick else (3, 20, 3)
        self.naive_window = self.naive_give_up = 0  # of bench replay, whose function we use


def worker(policy, scale):
    return Worker("--gpu", f"emulated:{PRESET}", "--time-scale", str(scale.time_scale), "--memory-scale", str(MEMORY_SCALE), "--policy", policy,
                  "--pool", str(POOL), "--concurrency", str(CONCURRENCY), "--drain", "1",
                  "--set", "queue_wait_s=1000000", "--max-queue-time", "0")


def calibrate(scale, profile):
    """Measures a node of its own; what it runs has nothing to do with any trace."""
    with worker("mqfq-sticky", scale) as node:
        done = subprocess.run([str(PROGRAMS / "lambent"), "calibrate", "--endpoint", node.endpoint, "-o", str(profile), "--json",
                               "--repeats", str(scale.repeats), "--paper-function", str(PREFIX / "examples/06_paper_function")],
                              capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"calibrating failed: {done.stderr}")
    measured = json.loads(done.stdout)
    del measured["profile"]  # a file that is gone when this is read
    return measured


def mixed(profiles, draw):
    """A profile of the same node; each of its lines is from one of several."""
    return "".join(draw.choice(line) for line in zip(*(profile.read_text().splitlines(keepends=True) for profile in profiles), strict=True))


def simulate(trace, policy, scale, profile):
    command = [str(PROGRAMS / "lambent"), "simulate", *([str(trace)] if trace else []), "--profile", str(profile),
               "--policy", policy, "--concurrency", str(CONCURRENCY), "--pool", str(POOL), "--duration", str(scale.window),
               # The worker's own patience is in real seconds.
               "--keep-alive", str(KEEP_ALIVE_S * scale.time_scale), "--longest-wait", str(LONGEST_WAIT_S * scale.time_scale),
               "--seed", "1" if trace else str(SEED), "--functions", str(shared("catalogue/mqfq_table1.csv")), "--json", "--quiet", *ONE_AT_A_TIME]
    if not trace:
        command += ["--load", str(LOAD)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)[0]


def measure(trace, policy, scale):
    with worker(policy, scale) as node:
        figures, note = run_replay(node, trace, policy, scale, 120 + 2 * (scale.window + scale.give_up) / scale.time_scale,
                                   seed=SEED, load=LOAD)
    if figures is None or not figures["valid"] or figures["failed"]:
        return None, note if figures is None else figures.get("invalid_because") or f"{figures['failed']} failed: {note}"
    return figures, note


def error_pct(ours, theirs):
    return round(100 * (ours - theirs) / theirs, 2) if theirs else None


def spread_pct(runs, key, middle):
    return round(100 * (max(run[key] for run in runs) - min(run[key] for run in runs)) / middle, 2)


def compare(trace, policy, scale, profiles):
    """The worker's runs and the simulator's; errors of the mean of these against the mean of those."""
    tries = [measure(trace, policy, scale) for _ in range(scale.runs)]
    simulations = [simulate(trace, policy, scale, profile) for profile in profiles]
    simulated = {key: statistics.fmean(one[key] for one in simulations) for key in (*COMPARED, "utilisation")}
    row = {"simulated": simulated,
           "simulated_range": {key: [choose(one[key] for one in simulations) for choose in (min, max)] for key in ("mean_s", "p99_s")}}
    runs = [figures for figures, _ in tries if figures is not None]
    if len(runs) < len(tries):
        return {**row, "mean_error_pct": None, "p99_error_pct": None, "cold_error_pct": None, "repeat_error_pct": None,
                "invalid_because": next(note for figures, note in tries if figures is None)}
    measured = {key: statistics.fmean(run[key] for run in runs) for key in COMPARED}
    return {**row, "measured": measured, "measured_runs": {key: [run[key] for run in runs] for key in ("mean_s", "p99_s")},
            "mean_error_pct": error_pct(simulated["mean_s"], measured["mean_s"]),
            "p99_error_pct": error_pct(simulated["p99_s"], measured["p99_s"]),
            # Points of the cold ratio, not per cent of it: it may be near zero.
            "cold_error_pct": round(100 * (simulated["cold_ratio"] - measured["cold_ratio"]), 2),
            "repeat_error_pct": spread_pct(runs, "mean_s", measured["mean_s"]),
            "repeat_p99_error_pct": spread_pct(runs, "p99_s", measured["p99_s"]),
            "within_range": all(low <= measured[key] <= high for key, (low, high) in row["simulated_range"].items())}


def met(row):
    """Whether the errors are within the goals above what the worker's own runs differ by."""
    if row["mean_error_pct"] is None:
        return None
    return (abs(row["mean_error_pct"]) <= GOALS["mean_error_pct"] + row["repeat_error_pct"] and
            abs(row["p99_error_pct"]) <= GOALS["p99_error_pct"] + row["repeat_p99_error_pct"])


def main():
    parser = arguments_of(__doc__, "a short window, one policy, faster")
    parser.add_argument("--time-scale", type=int, help="how much faster than real time the model goes")
    arguments = parser.parse_args()
    scale = Scale(arguments.quick, arguments.time_scale)
    traces = {"generated": None}
    if arguments.traces:
        wanted = arguments.only.split(",") if arguments.only else ["t7"] if arguments.quick else ["t2", "t4", "t7"]
        traces = {name: arguments.traces / "mqfq24" / f"{name}.csv" for name in wanted}
        for path in traces.values():
            if not path.exists():
                raise SystemExit(f"there is no {path}")
    policies = POLICIES[:1] if arguments.quick else POLICIES

    about = machine()
    results = {}
    with tempfile.TemporaryDirectory(prefix="lambent-fidelity-") as folder:
        calibrated = [pathlib.Path(folder) / f"calibrated{number}.toml" for number in range(scale.calibrations)]
        nodes = [calibrate(scale, profile) for profile in calibrated]
        profiles, draw = [pathlib.Path(folder) / f"node{number}.toml" for number in range(scale.simulations)], random.Random(1)
        for profile in profiles:
            profile.write_text(mixed(calibrated, draw))
        print(f"emulated {PRESET}, {scale.window} modelled seconds of each trace at {scale.time_scale} x real time; consistency, not truth")
        print(f"{'trace':10} {'policy':14}{'worker':>9}{'simulator':>11}{'mean err':>10}{'p99 err':>10}{'cold err':>10}{'repeat':>9}   simulated means")
        for name, trace in traces.items():
            for policy in policies:
                row = results[f"{name}/{policy}"] = compare(trace, policy, scale, profiles)
                row["goal_met"] = met(row)
                if row["mean_error_pct"] is None:
                    print(f"{name:10} {policy:14}  INVALID: {row['invalid_because']}", flush=True)
                    continue
                print(f"{name:10} {policy:14}{row['measured']['mean_s']:9.3f}{row['simulated']['mean_s']:11.3f}{row['mean_error_pct']:9.2f}%"
                      f"{row['p99_error_pct']:9.2f}%{row['cold_error_pct']:9.2f}%{row['repeat_error_pct']:8.2f}%"
                      "   {:.3f} to {:.3f}".format(*row["simulated_range"]["mean_s"]), flush=True)
    print(json.dumps({"bench": "fidelity", "quick": arguments.quick, "label": "consistency", "device": f"emulated:{PRESET}",
                      "time_scale": scale.time_scale, "window_s": scale.window, "concurrency": CONCURRENCY, "pool": POOL,
                      "goals_above_floor_pct": GOALS, "simulations": scale.simulations, "runs": scale.runs, "calibrations": nodes,
                      "machine": {**about, "load_1min_at_end": round(os.getloadavg()[0], 2)}, "traces": results}))


if __name__ == "__main__":
    main()
