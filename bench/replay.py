#!/usr/bin/env python3
"""bench replay: one workload under four scheduling policies, each on a worker of its own with the same emulated GPU.

All times are emulated: real time x the time scale. docs/internals/benchmarks.md says what each figure means.
Usage: replay.py [--quick] [--traces DIR] [--only t7,t4]
"""
import argparse
import contextlib
import json
import pathlib
import signal
import subprocess

from worker_under_test import PREFIX, PROGRAMS, ROOT, Worker, machine

POLICIES = ("fcfs-naive", "fcfs", "batch", "mqfq-sticky")
PRESET = "v100-16gb"
KEYS = ("mean_s", "p50_s", "p99_s", "variance", "cold_ratio", "utilisation")
# The paper's: two invocations at once on the GPU, ten warm sandboxes.
CONCURRENCY, POOL = 2, 10
SEED, LOAD = 1, 0.6


class Scale:
    """How long a run is, in modelled seconds, and how much faster than real time the model goes."""

    def __init__(self, quick):
        self.time_scale = 20 if quick else 10
        self.window = 40 if quick else 600
        # FCFS naive starts a sandbox for every invocation and never catches up: a sample of it.
        self.naive_window = 20 if quick else 120
        self.give_up = 80 if quick else 600
        self.naive_give_up = 20 if quick else 240


def shared(path):
    """A file of the package or, in a build folder, of the sources."""
    packaged = PREFIX / "share/lambent" / path
    return packaged if packaged.exists() else ROOT / "share" / path


# A function has one sandbox at work under every policy: the baselines are stronger so.
ONE_AT_A_TIME = ("--max-concurrency", "1")


def run_replay(worker, trace, policy, scale, deadline_s, seed=SEED, load=LOAD, more=ONE_AT_A_TIME):
    """`lambent replay` against a worker; its JSON, or why there is none."""
    naive = policy == "fcfs-naive"
    command = [str(PROGRAMS / "lambent"), "replay", *([str(trace)] if trace else ["--seed", str(seed), "--load", str(load)]),
               "--deploy", "--json", "--functions", str(shared("catalogue/mqfq_table1.csv")),
               "--paper-function", str(PREFIX / "examples/06_paper_function"), "--endpoint", worker.endpoint,
               "--label", policy, "--time-scale", str(scale.time_scale),
               "--duration", str(scale.naive_window if naive else scale.window),
               "--give-up", str(scale.naive_give_up if naive else scale.give_up), *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return None, f"not done within {deadline_s:.0f} s"
    with contextlib.suppress(ValueError):
        return json.loads(out), " ".join(line for line in err.splitlines() if line.startswith("lambent:"))
    return None, err.strip()[-400:]


def replay_under(policy, trace, scale):
    """The figures of one policy; null where there is none, with the reason."""
    naive = policy == "fcfs-naive"
    window = scale.naive_window if naive else scale.window
    give_up = scale.naive_give_up if naive else scale.give_up
    with Worker("--gpu", f"emulated:{PRESET}", "--time-scale", str(scale.time_scale), "--memory-scale", "16", "--policy", policy,
                "--pool", str(POOL), "--concurrency", str(CONCURRENCY), "--drain", "1", "--set", "queue_wait_s=1000000", "--max-queue-time", "0") as worker:
        figures, note = run_replay(worker, trace, policy, scale, 60 + 2 * (window + give_up) / scale.time_scale)
    if figures is None:
        return {**{key: None for key in KEYS}, "valid": False, "invalid_because": note}
    row = {key: figures.get(key) for key in KEYS}
    row |= {"invocations": figures["invocations"], "failed": figures["failed"],
            "gpu_cold_ratio": figures["gpu_cold_ratio"], "queue_mean_s": figures["queue_mean_s"],
            "overhead_share": figures["overhead_share"], "valid": figures["valid"],
            "invalid_because": figures.get("invalid_because"), "window_s": window}
    if naive:
        row["sampled"] = True
    if figures["invocations"] == 0:
        row |= {key: None for key in KEYS} | {"invalid_because": "no invocation succeeded: " + note}
    if note:
        row["note"] = note
    return row


def ratio(rows, policy):
    """How much longer the mean latency is under `policy` than under MQFQ-Sticky; null if a run is no good.

    A run that gave up on some invocations is none: the mean of those that were answered flatters it.
    """
    theirs, ours = rows[policy], rows["mqfq-sticky"]
    if any(not row["valid"] or not row["mean_s"] or row["failed"] for row in (theirs, ours)):
        return None
    return round(theirs["mean_s"] / ours["mean_s"], 3)


def print_row(name, policy, row):
    def text(value, width, digits=3):
        return f"{value:{width}.{digits}f}" if isinstance(value, (int, float)) else f"{'-':>{width}}"
    verdict = "" if row["valid"] else f"  INVALID: {row['invalid_because']}"
    print(f"{name:10} {policy + (' *' if row.get('sampled') else ''):14}{text(row['mean_s'], 9)}{text(row['p50_s'], 9)}"
          f"{text(row['p99_s'], 9)}{text(row['variance'], 10)}{text(row['cold_ratio'], 7)}{text(row['utilisation'], 7)}"
          f"{verdict}", flush=True)


def arguments_of(description, quick):
    """A parser of the flags of a benchmark that reads traces."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"at most 45 s: {quick}")
    parser.add_argument("--traces", type=pathlib.Path, help="a folder with mqfq24/t*.csv")
    parser.add_argument("--only", help="these traces, such as t7,t4")
    return parser


def main():
    arguments = arguments_of(__doc__, "a short window, faster").parse_args()
    scale = Scale(arguments.quick)
    traces = {"generated": None}
    if arguments.traces:
        found = sorted(path for path in (arguments.traces / "mqfq24").glob("t*.csv") if "_functions" not in path.name)
        wanted = arguments.only.split(",") if arguments.only else ["t7"] if arguments.quick else None
        traces = {path.stem: path for path in found if wanted is None or path.stem in wanted}
        if not traces:
            raise SystemExit(f"no such trace in {arguments.traces}/mqfq24")

    about = machine()
    print(f"emulated {PRESET}, times in emulated seconds, {scale.window} s of each trace at {scale.time_scale} x real time")
    print(f"{'trace':10} {'policy':14}{'mean':>9}{'p50':>9}{'p99':>9}{'variance':>10}{'cold':>7}{'util':>7}")
    results, fcfs, batch = {}, {}, {}
    for name, trace in traces.items():
        rows = results[name] = {}
        for policy in POLICIES:
            rows[policy] = replay_under(policy, trace, scale)
            print_row(name, policy, rows[policy])
        fcfs[name], batch[name] = ratio(rows, "fcfs"), ratio(rows, "batch")
    print("* a sample of a shorter window: it never catches up")
    print(json.dumps({
        "bench": "replay", "quick": arguments.quick, "time": "emulated", "device": f"emulated:{PRESET}",
        "time_scale": scale.time_scale, "window_s": scale.window, "naive_window_s": scale.naive_window,
        "concurrency": CONCURRENCY, "pool": POOL, "workload": "traces" if arguments.traces else
        {"generator_seed": SEED, "offered_load": LOAD}, "machine": about, "traces": results,
        "fcfs_over_mqfq": fcfs, "batch_over_mqfq": batch}))


if __name__ == "__main__":
    main()
