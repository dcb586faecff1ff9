"""What it is worth that a run of a workflow has its later functions started ahead: a chain of functions whose starts and calls take so long,
begun with no sandbox, with and without (`--set foresee=false`), in turns in one run; on the emulated GPU.

docs/internals/benchmarks.md says what each figure means. Usage: workflow_starts.py [--quick] [--rounds N] [--steps N] [--start-ms N] [--call-ms N]
"""
import argparse
import json
import re
import statistics
import time

from worker_under_test import Worker, invocations_path, machine, make_zip

CODE = """
import time
time.sleep(%f)
def handler(event, context):
    time.sleep(%f)
    return 1
"""


def deploy(worker, steps, start_s, call_s):
    for i in range(steps):
        worker.create("step%d" % i, make_zip({"app.py": CODE % (start_s, call_s)}), "python3", "app.handler", tags={"lambent:gpu-memory": "64MiB"})
    components = [{"name": "s%d" % i, "function": "step%d" % i, **({"after": ["s%d" % (i - 1)]} if i else {})} for i in range(steps)]
    worker.create("chain", make_zip({"workflow.json": json.dumps({"components": components})}), "provided.al2023", "workflow.json",
                  tags={"lambent:kind": "workflow"})


def starts_ahead(worker):
    """Sandboxes that were started ahead, by what became of them."""
    counts = re.findall(r'^lambent_starts_ahead_total\{what="(\w+)"\} (\S+)$', worker.request("GET", "/metrics").decode(), re.M)
    return {what: float(count) for what, count in counts}


def timed(worker):
    begin = time.perf_counter()
    worker.request("POST", invocations_path("chain"), "{}")
    return (time.perf_counter() - begin) * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--start-ms", type=float, default=1000)
    parser.add_argument("--call-ms", type=float, default=500)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.start_ms, options.call_ms = 2, 400, 200
    cold = {"with": [], "without": []}
    warm, wasted, started = [], 0, 0
    for _ in range(options.rounds):
        for name, flags in (("with", ()), ("without", ("--set", "foresee=false"))):
            with Worker("--gpu", "emulated:tiny", "--concurrency", "1", *flags) as worker:
                deploy(worker, options.steps, options.start_ms / 1e3, options.call_ms / 1e3)
                cold[name].append(timed(worker))
                if name == "with":
                    warm.append(timed(worker))
                    counts = starts_ahead(worker)
                    started += counts["started"]
                    wasted += counts.get("wasted", 0)
    middle = {name: round(statistics.median(times), 1) for name, times in cold.items()}
    print(json.dumps({"bench": "workflow-starts", "machine": machine(), "steps": options.steps, "start_ms": options.start_ms, "call_ms": options.call_ms,
                      "rounds": options.rounds, "cold_ms": middle, "ratio": round(middle["with"] / middle["without"], 3),
                      "warm_ms": round(statistics.median(warm), 1), "starts_ahead": {"started": started, "wasted": wasted}}))


if __name__ == "__main__":
    main()
