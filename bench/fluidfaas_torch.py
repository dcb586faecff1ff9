"""Of bench paper-fluidfaas-worker: the paper's four applications with PyTorch networks as components instead of sleepers, through real workers.

The networks (fluidfaas_stages/) are small and run on the processors of this machine, one thread each; their times are measured first, alone. The
slices are the emulated ones that decide placement, and the weights that a component is planned with are the paper's, so that functions of three
networks and more have to be cut where a slice is small. The same arrivals go through each policy, on one invoker node with two GPUs and on two
with one GPU each, between which the client takes turns. Each answer is held against one computed without a worker.
"""
import base64
import concurrent.futures
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import time

from worker_under_test import PREFIX, ROOT, Worker, make_zip

HERE = pathlib.Path(__file__).resolve().parent / "fluidfaas_stages"
TORCH = pathlib.Path(os.environ.get("LAMBENT_TORCH", ROOT / "build/torch"))
PICTURES = 16
CONTEXT_MB, WEIGHTS_MB, WORKING_MB = 512, 7168, 1024  # three of them do not fit a 2g.20gb; five do not fit a 3g.40gb
SHAPES = {"2g.20gb": {"multiprocessors": 28, "memory_mb": 19968}, "3g.40gb": {"multiprocessors": 42, "memory_mb": 40192}}
SLO_SCALE = 3
CLOSE = 1e-4  # relative: rounding differs with alignment
START_MS = 3000


def why_not():
    """A sentence if this cannot run here, else None."""
    if not (TORCH / "bin/python").exists():
        return f"no PyTorch in {TORCH}: tools/torch_environment.py {TORCH} installs it, 3 GB"
    return None


def packages():
    """The folder with PyTorch that sandboxes are shown."""
    return next((TORCH / "lib").glob("python3*/site-packages")).resolve()


def measure():
    done = subprocess.run([TORCH / "bin/python", "-B", HERE / "measure.py", str(PICTURES)], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"the networks could not be measured:\n{done.stderr}")
    return json.loads(done.stdout)


def applications():
    """{name: networks}, as networks.py has them; its PyTorch is not needed for that."""
    code = f"import json, sys; sys.path.insert(0, {str(HERE)!r}); import networks; print(json.dumps(networks.APPLICATIONS))"
    return json.loads(subprocess.run([TORCH / "bin/python", "-B", "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout)


def package(parts, networks):
    pipeline = {"pipeline": 1, "handler": "app.App", "inputs": ["value"], "outputs": [parts[-1]], "slo": {"scale": SLO_SCALE},
                "components": [{"name": name, "inputs": [parts[i - 1] if i else "$value"]} for i, name in enumerate(parts)]}
    each = {name: {"weights_mb": WEIGHTS_MB, "memory_mb": WEIGHTS_MB + WORKING_MB, "output_bytes": networks[name]["output_bytes"], "probability": 1,
                   "ms": {shape: networks[name]["ms"] for shape in SHAPES}} for name in parts}
    profile = {"profile": 1, "context_mb": CONTEXT_MB, "start_ms": START_MS, "shapes": SHAPES, "components": each}
    return make_zip({"app.py": (HERE / "app.py").read_bytes(), "networks.py": (HERE / "networks.py").read_bytes(),
                     "application.json": json.dumps(parts).encode(), "pipeline.json": json.dumps(pipeline).encode(),
                     "profile.json": json.dumps(profile).encode()})


class Invoker:
    """One node: a worker with so many emulated GPUs, each 3g.40gb and two 2g.20gb."""

    def __init__(self, folder, policy, gpus):
        presets = [*PREFIX.rglob("a100-80gb-mig.toml"), ROOT / "src/emulator/emulated_node/presets/a100-80gb-mig.toml"]
        preset = folder / f"node{gpus}.toml"
        preset.write_text(presets[0].read_text().replace("devices = 1", f"devices = {gpus}", 1))
        self.worker = Worker("--gpu", f"emulated:{preset}", "--pipeline-slices", "all", "--slice-policy", policy, "--drain", "1",
                             "--mount-allow", str(packages()))

    def create(self, name, code):
        self.worker.request("POST", "/2015-03-31/functions", json.dumps({
            "FunctionName": name, "Runtime": "python3", "Handler": "pipeline.json", "Role": "arn:aws:iam::0:role/any",
            "Code": {"ZipFile": base64.b64encode(code).decode()}, "Timeout": 120, "MemorySize": 2048,
            "Environment": {"Variables": {"PYTHONPATH": "/opt/torch"}},
            "Tags": {"lambent:kind": "pipeline", "lambent:mounts": f"{packages()}:/opt/torch"}}))

    def invoke(self, name, number):
        """The answer, or an exception that says what was wrong."""
        return json.loads(self.worker.request("POST", f"/2015-03-31/functions/{name}/invocations", json.dumps({"number": number})))

    def slo_ms(self, name):
        return json.loads(self.worker.request("GET", f"/v1/functions/{name}/pipeline"))["slo"]["ms"]

    def stages(self, name):
        """Of the instances that it has: how many stages each."""
        told = json.loads(self.worker.request("GET", f"/v1/functions/{name}/pipeline"))
        return [len(instance["stages"]) for instance in told["instances"]]


def is_same(told, right):
    if not isinstance(told, dict) or told.get("shape") != right["shape"]:
        return False
    pairs = [(told["mean"], right["mean"]), (told["spread"], right["spread"]), *zip(told["points"], right["points"])]
    scale = abs(right["spread"]) + 1e-9
    return all(abs(one - other) <= CLOSE * max(scale, abs(other)) for one, other in pairs)


def arrivals_of(names, rate, seconds, seed):
    """[(second, function, picture)], Poisson."""
    chance, at, made = random.Random(seed), 0.0, []
    while True:
        at += chance.expovariate(rate)
        if at >= seconds:
            return made
        made.append((at, chance.choice(names), chance.randrange(PICTURES)))


def send(nodes, arrivals, answers):
    """[(arrival, latency in seconds or None, error or None)], and the makespan: from the first arrival to the last answer."""
    begin = time.perf_counter() + 0.1 - arrivals[0][0]

    def one(index, name, number):
        sent = time.perf_counter()
        try:
            told = nodes[index % len(nodes)].invoke(name, number)
        except (SystemExit, RuntimeError, OSError) as error:
            return None, str(error)[:200], time.perf_counter()
        ended = time.perf_counter()
        return ended - sent, None if is_same(told, answers[name][number]) else f"a wrong answer: {str(told)[:200]}", ended

    with concurrent.futures.ThreadPoolExecutor(128) as pool:
        waiting = []
        for index, (at, name, number) in enumerate(arrivals):
            time.sleep(max(0, begin + at - time.perf_counter()))
            waiting.append(pool.submit(one, index, name, number))
        ended = [each.result() for each in waiting]
    return ended, max(end for _, _, end in ended) - (begin + arrivals[0][0])


def run(folder, policy, nodes, gpus, measured, apps, arrivals):
    """One row."""
    opened = []
    try:
        for number in range(nodes):
            own = folder / f"{policy}-{nodes}-{number}"
            own.mkdir()
            opened.append(Invoker(own, policy, gpus))
        slo = {}
        for name, parts in apps.items():
            for node in opened:
                node.create(name, package(parts, measured["networks"]))
                if not is_same(node.invoke(name, 0), measured["answers"][name][0]):  # also its start, which is not judged
                    raise SystemExit(f"{name}: a wrong answer")
            slo[name] = opened[0].slo_ms(name)
        ended, makespan = send(opened, arrivals, measured["answers"])
        stages = {name: sorted(count for node in opened for count in node.stages(name)) for name in apps}
    finally:
        for node in opened:
            node.worker.close()
    good = [latency for latency, error, _ in ended if error is None]
    hits = sum(error is None and 1e3 * latency <= slo[name] for (latency, error, _), (_, name, _) in zip(ended, arrivals))
    taken = sorted(good) or [math.nan]
    return {"policy": policy, "nodes": nodes, "gpus_a_node": gpus, "requests": len(ended), "failed": len(ended) - len(good),
            "first_errors": sorted({error for _, error, _ in ended if error})[:2], "makespan_s": round(makespan, 3),
            "throughput_per_s": round(len(good) / makespan, 3), "mean_ms": round(1e3 * statistics.fmean(taken), 1),
            "p95_ms": round(1e3 * taken[math.ceil(0.95 * len(taken)) - 1], 1), "slo_hit_pct": round(100 * hits / len(ended), 1),
            "stages_of_instances": stages, "load_1min": round(os.getloadavg()[0], 2)}


def rows(folder, quick, seed, rate=None):
    """What is measured, printed as it comes; a sentence instead where there is no PyTorch. `rate`: requests a second; without it a third of
    what the processors could do by themselves."""
    reason = why_not()
    if reason:
        print(f"PyTorch networks as components: not run, {reason}")
        return {"why_not": reason}
    measured, apps = measure(), applications()
    work_ms = {name: sum(measured["networks"][part]["ms"] for part in parts) for name, parts in apps.items()}
    # So that what is measured is placement and not the queue of the processors.
    cores = len(os.sched_getaffinity(0))
    rate = rate or cores / 3 * 1e3 / statistics.fmean(work_ms.values())
    names = sorted(apps)[:2] if quick else sorted(apps)
    chosen = {name: apps[name] for name in names}
    arrivals = arrivals_of(names, rate, 5 if quick else 15, seed)
    print(f"PyTorch {measured['torch']} networks, ms alone: " + ", ".join(f"{name} {one['ms']:.1f}" for name, one in measured["networks"].items())
          + f"; {rate:.2f} requests a second")
    print(f"{'policy':10}{'nodes':>6}{'makespan s':>12}{'answers/s':>11}{'mean ms':>9}{'p95 ms':>9}{'SLO hits %':>12}{'failed':>8}  load  stages")
    made = []
    for nodes, gpus in ((1, 2),) if quick else ((1, 2), (2, 1)):
        for policy in ("slo",) if quick else ("slo", "fluidfaas", "esg"):
            row = run(folder, policy, nodes, gpus, measured, chosen, arrivals)
            made.append(row)
            print(f"{policy:10}{nodes:>6}{row['makespan_s']:>12.2f}{row['throughput_per_s']:>11.2f}{row['mean_ms']:>9.0f}{row['p95_ms']:>9.0f}"
                  f"{row['slo_hit_pct']:>12.1f}{row['failed']:>8}  {row['load_1min']}  {row['stages_of_instances']}", flush=True)
    return {"torch": measured["torch"], "networks": measured["networks"], "rate_per_s": round(rate, 3), "slo_scale": SLO_SCALE,
            "points": 96, "cores": cores, "rows": made}
