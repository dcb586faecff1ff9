"""./dev soak --node: the running system under mixed load while a seeded script kills, stops, fills, starves and floods it. Whatever is done: nothing
that was acknowledged is lost, each invocation has one outcome and the right one, neighbours are unharmed, and nothing is left afterwards.

Standard library only. LAMBENT_PREFIX names the build. The last line of its output is one JSON object.
"""
import argparse
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("LAMBENT_PREFIX", str(ROOT / "build/release"))
for folder in (ROOT / "bench", ROOT / "tests/integration", pathlib.Path(os.environ["LAMBENT_PREFIX"]) / "share/lambent/python"):
    sys.path.append(str(folder))

import functions  # noqa: E402
import leftovers  # noqa: E402
from faults import KINDS, Faults, schedule  # noqa: E402
from load import Load  # noqa: E402
from promises import Promises  # noqa: E402
from world import World  # noqa: E402

MIB = 1 << 20
GPU_FUNCTIONS = 10
SKIPPED = 77  # the exit status that ctest knows


def parse():
    parser = argparse.ArgumentParser(prog="./dev soak --node", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, help="how long faults are made (60)")
    parser.add_argument("--hours", type=float, help="the same in hours")
    parser.add_argument("--seed", type=int, help="of the schedule of faults and of the load; the time, if none is given")
    parser.add_argument("--only", default="", metavar="KIND,KIND", help=f"no other faults than these of {', '.join(KINDS)}; 'none': no fault at all")
    parser.add_argument("--no-slices", action="store_true", help="without the second node, which runs a pipeline over MIG slices")
    parser.add_argument("--executor-objects", choices=("host", "shared", "elastic"), help="of both nodes' workers; their default, if none is given")
    parser.add_argument("--schedule", action="store_true", help="print what would be done, and do nothing")
    parser.add_argument("--keep", metavar="FOLDER", help="work in this folder, and leave logs and state in it")
    options = parser.parse_args()
    if options.seconds is not None and options.hours is not None:
        parser.error("say SECONDS or --hours, not both")
    options.seconds = options.hours * 3600 if options.hours is not None else 60 if options.seconds is None else options.seconds
    options.seed = int(time.time()) % 1_000_000 if options.seed is None else options.seed
    options.only = tuple(filter(None, options.only.split(",")))
    unknown = set(options.only) - set(KINDS) - {"none"}
    if unknown:
        parser.error(f"no such kind of fault: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    if not 0 < options.seconds <= 7 * 24 * 3600:
        parser.error("from a second to a week")
    if options.keep and os.path.isdir(options.keep) and os.listdir(options.keep):
        parser.error(f"{options.keep} is not empty")
    return options


def deploy(world):
    functions.deploy_main(world.nodes["main"], GPU_FUNCTIONS)
    if "sliced" in world.nodes:
        functions.deploy_sliced(world.nodes["sliced"])


def first_round(world):
    """Of every kind once: what a worker keeps once it has worked is no leak."""
    deploy(world)
    node = world.nodes["main"]
    for name in ("calm-0", "parent", "gpu-0", "gpu-1", "shared-0"):
        node.invoke(name, {"n": 1, "mark": 0})
    node.invoke("kernel-0", {"inputs": [{"name": "x", "data": [1, 1, 2, 3]}]})
    node.invoke("flow", {"n": 1, "mark": 0, "kernel": True})
    if "sliced" in world.nodes:
        world.nodes["sliced"].invoke("pipeline", {"n": 1})
    return {name: leftovers.settle(each) for name, each in world.nodes.items()}


def every_outcome(world, load, promises):
    """Waits for the last outcomes, and looks at all of them once more: they are the ones that they were."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and any(promises.pending(name) for name in world.nodes):
        load.outcomes(load.dice, "")
        time.sleep(0.5)  # outcomes are asked for, not told
    for name in world.nodes:
        for invocation, promise in promises.pending(name):
            promises.violation(f"{promise.function} {invocation}: acknowledged {time.monotonic() - promise.at:.0f} s ago, and has no outcome")
    for name in world.nodes:
        for invocation, promise in promises.finished(name):
            load.look_at_outcome(invocation, promise)


def every_version(load):
    for name, may_be in sorted(load.versions.items()):
        load.look_at_version(name, may_be, time.monotonic())


def say(promises, words):
    print(f"{time.monotonic() - promises.started:.0f} s: {words}", flush=True)


def last_kill(world, faults, load, promises):
    """Once more kill -9, and everything that was acknowledged is looked at: now without excuses."""
    say(promises, "kill -9 of all nodes, and a look at all that was acknowledged")
    for node in world.nodes.values():
        faults.kill(node)
    every_outcome(world, load, promises)
    every_version(load)


def leaks(before, after, left):
    def growth(key):
        return sum(max(0, after[name][key] - before[name][key]) for name in before)
    return {"processes": growth("processes") + sum(len(each.get("processes", ())) for each in left.values()), "fds": growth("fds"),
            "shm": growth("shm_bytes") + sum(len(each.get("shm", ())) for each in left.values()),
            "device_bytes": growth("device_bytes"), "rss_mb": round(growth("rss_bytes") / 1e6, 1),
            "objects": growth("objects"), "run_files": growth("run_files"), "code_files": growth("code_files"),
            "cgroups": sum(len(each.get("cgroups", ())) for each in left.values()), "mounts": sum(len(each.get("mounts", ())) for each in left.values()),
            "ledgers": sum(len(each.get("ledgers", ())) for each in left.values())}


# A few MB of resident memory are the allocator's.
MOST_LEFT = {"processes": 0, "fds": 2, "shm": 0, "device_bytes": 0, "rss_mb": 64, "objects": 0, "run_files": 0, "code_files": 0, "cgroups": 0,
             "mounts": 0, "ledgers": 0}


def judge_leaks(leaked, promises):
    for what, most in MOST_LEFT.items():
        if leaked[what] > most:
            promises.violation(f"left over: {what} {leaked[what]}")


def commit():
    asked = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return asked.stdout.strip() or None


def print_table(promises, faults_made):
    for kind in sorted(promises.outcomes):
        counts = collections.Counter(promises.outcomes[kind])
        print(f"{kind:14}" + "  ".join(f"{outcome} {count}" for outcome, count in counts.most_common()))
    print("faults        " + "  ".join(f"{kind} {count}" for kind, count in sorted(faults_made.items())))


def gives_namespaces():
    """Whether this machine lets a worker make what it puts its sandboxes into."""
    inner = [] if os.geteuid() == 0 else ["unshare", "-U"]
    return any(subprocess.run(["unshare", flags, "--mount-proc", "--kill-child", *inner, "true"], capture_output=True).returncode == 0
               for flags in ("-nmpiuCf", "-UrnmpiuCf"))


def main():
    options = parse()
    faults = [] if "none" in options.only else schedule(options.seed, options.seconds, options.only, not options.no_slices)
    if options.schedule:
        for each in faults:
            print(f"{each.at:9.1f} s  {each.kind}")
        return 0
    if not gives_namespaces():
        print("this machine gives no namespaces, and no worker starts without: SKIPPED")
        return SKIPPED
    again = f"./dev soak --node {options.seconds:g} --seed {options.seed}" + (f" --only {','.join(options.only)}" if options.only else "") + \
        (" --no-slices" if options.no_slices else "") + (f" --executor-objects {options.executor_objects}" if options.executor_objects else "")
    print(f"{again}  ({len(faults)} faults)", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the node ends with us
    promises, commit_of_this = Promises(), commit()
    around = leftovers.shared_state()
    world = World(promises, options.keep, sliced=not options.no_slices,
                  flags=("--executor-objects", options.executor_objects) if options.executor_objects else ())
    load_started = None
    try:
        before = first_round(world)
        deploy(world)
        load = Load(world, options.seed, GPU_FUNCTIONS)
        doer = Faults(world, load)
        promises.started = load_started = time.monotonic()
        load.start()
        doer.run(faults, options.seconds)
        say(promises, "the load ends")
        load.stop()
        worked_seconds = time.monotonic() - load_started
        last_kill(world, doer, load, promises)
        say(promises, "all functions are removed")
        after = {name: leftovers.settle(each, before[name]) for name, each in world.nodes.items()}
        for node in world.nodes.values():
            node.intact.acquire()  # for good: nobody starts it again
            status = node.stop()
            if status != 0:
                promises.violation(f"{node.name}: asked to stop, it ended with status {status}")
        left = {name: leftovers.after_the_end(node, around) for name, node in world.nodes.items()}
    finally:
        world.close(keep_files=options.keep is not None)
    print_table(promises, promises.faults)
    for name in before:
        print(f"{name}: held before {before[name]}\n{name}: held after  {after[name]}\n{name}: outlived it {left[name]}")
    leaked = leaks(before, after, left)
    judge_leaks(leaked, promises)
    for each in promises.violations:
        print(f"violation at {each['at_seconds']} s (seed {options.seed}): {each['what']}\n  done last: {each['last_faults']}")
    if promises.violation_count:
        print(f"{promises.violation_count} violations. The same faults again: {again}")
    calls = {kind: dict(sorted(of_kind.items())) for kind, of_kind in sorted(promises.outcomes.items())}
    print(json.dumps({"bench": "soak-node", "commit": commit_of_this, "seed": options.seed, "hours": round(worked_seconds / 3600, 3), "faults": dict(sorted(
        promises.faults.items())), "outcomes": calls, "acknowledged_async": len(promises.accepted), "violations": promises.violation_count, "leaked": leaked}))
    return 1 if promises.violation_count else 0


if __name__ == "__main__":
    sys.exit(main())
