"""The part of bench models that runs through a worker, in real time: many ONNX models on a host whose memory holds ten of them, called as
functions of an Azure trace were. Used by models.py."""
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import shutil
import struct
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import models_arrivals
from infer import NO_LIBRARY, find_library, write_wheel
from models_explicit import ExplicitLoader
from models_triton import Triton
from worker_under_test import ROOT, Worker, make_zip

sys.path.insert(0, str(ROOT / "examples/20_python_packages"))
from make_model import field, value_info  # noqa: E402

HELD, HOT, SIZES_MIB = 10, 5, (1, 2, 4, 8, 16, 28)
BODY = json.dumps({"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}]}).encode()
# models, rounds, seconds that only warm up, seconds that count.
Plan = collections.namedtuple("Plan", "models rounds warm_up seconds")
WHOLE, QUICK = Plan(200, 2, 20, 60), Plan(24, 1, 3, 8)
# The worker's flags; None: the limit is what it lets sandboxes hold.
SYSTEMS = {"worth": (), "kept": (), "lru": ("--set", "eviction=lru"), "explicit": ("--sandbox-memory", "0")}
ALONE, KEPT = "alone", "kept"
KEPT_WITHIN_S = 60
# What counts a system's loads so far, a Counter by model, and what it holds, in MiB.
Meter = collections.namedtuple("Meter", "loads held_mib")


def model(mib):
    """y = x @ a @ square @ b, where the square has so many bytes."""
    side = math.isqrt((mib << 20) // 4)
    graph = field(2, "models") + field(11, value_info("x", ["n", 1])) + field(12, value_info("y", ["n", 1]))
    for name, shape, ends in (("a", (1, side), ("x", "h")), ("square", (side, side), ("h", "g")), ("b", (side, 1), ("g", "y"))):
        weights = struct.pack("f", 1 / side) * (shape[0] * shape[1])
        graph += field(1, field(1, ends[0]) + field(1, name) + field(2, ends[1]) + field(4, "MatMul"))
        graph += field(5, field(1, shape[0]) + field(1, shape[1]) + field(2, 1) + field(8, name) + field(9, weights))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def post(endpoint, path, body=b""):
    """What was wrong; None: it was answered."""
    request = urllib.request.Request(endpoint + path, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
            return None
    except urllib.error.HTTPError as error:
        return f"{error}: {error.read().decode(errors='replace')[:300]}"
    except OSError as error:
        return str(error)


def infer(endpoint, name):
    return post(endpoint, f"/v2/models/{name}/infer", BODY)


def cold_starts(worker):
    """How often each model was started for a request, so far."""
    counts = collections.Counter()
    for line in worker.request("GET", "/metrics").decode().splitlines():
        if line.startswith("lambent_invocations_total{") and 'start="cold"' in line:
            counts[line.partition('function="')[2].partition('"')[0]] += int(float(line.rpartition(" ")[2]))
    return counts


def sandboxes(worker):
    return json.loads(worker.request("GET", "/v1/sandboxes"))["sandboxes"]


def held_mib(worker):
    return sum(each["host_memory_bytes"] for each in sandboxes(worker) if each["state"] != "stopping") / 2**20


def meter_of(worker):
    return Meter(lambda: cold_starts(worker), lambda: held_mib(worker))


def deploy(worker, sizes):
    """All of them; and the bytes that one of each size holds."""
    packages = {mib: make_zip({"model.onnx": model(mib), ".lambent/python.json":
                               json.dumps({"version": "", "requirements": ["onnxruntime"]}).encode()}) for mib in set(sizes.values())}
    for name, mib in sizes.items():
        worker.create(name, packages[mib], "python3", "lambent-model-server model.onnx --threads 1",
                      tags={"lambent:kind": "http", "lambent:http-concurrency": "16"}, memory_mib=1024)
    one_of = {mib: name for name, mib in sizes.items()}
    for name in one_of.values():
        if wrong := infer(worker.endpoint, name):
            raise SystemExit(f"{name}: {wrong}")
    holds = {each["function"]: each["host_memory_bytes"] for each in sandboxes(worker)}
    return {mib: holds[name] for mib, name in one_of.items()}


def keep(worker, models):
    """Says of each that one of it is to be ready, and waits until that is so."""
    for name in models:
        arn = urllib.parse.quote(f"arn:aws:lambda:us-east-1:000000000000:function:{name}", safe="")
        worker.request("POST", f"/2017-03-31/tags/{arn}", json.dumps({"Tags": {"lambent:min-instances": "1"}}))
    deadline = time.monotonic() + KEPT_WITHIN_S
    while missing_ones := models - {each["function"] for each in sandboxes(worker) if each["state"] == "idle"}:
        if time.monotonic() > deadline:
            raise SystemExit(f"not ready after {KEPT_WITHIN_S} s: {', '.join(sorted(missing_ones))}")
        time.sleep(0.1)


def replay(calls, ask):
    """[(when it was due, its model, seconds until its answer or None)]. Calls are sent at their times, whatever the others do."""
    began = time.monotonic()

    def call(at, name):
        wrong = ask(name)
        return at, name, time.monotonic() - began - at if wrong is None else None

    with concurrent.futures.ThreadPoolExecutor(128) as threads:
        running = []
        for at, name in calls:
            time.sleep(max(0, at - (time.monotonic() - began)))
            running.append(threads.submit(call, at, name))
        return [each.result() for each in running]


def figures(latencies):
    took = sorted(latency for latency in latencies if latency is not None)
    at = lambda share: round(took[min(len(took) - 1, int(share * len(took)))], 5) if took else None  # noqa: E731
    return {"calls": len(latencies), "failed": list(latencies).count(None),
            "mean_s": round(sum(took) / len(took), 5) if took else None, "p50_s": at(0.5), "p99_s": at(0.99)}


def over(some, others):
    """Of each latency; None where there was none, as nothing was answered."""
    return {key: round(some[key] / others[key], 2) if some[key] and others[key] else None for key in ("mean_s", "p50_s", "p99_s")}


class Turn:
    """One system's part of a round: its answers, its loads and what it held after its warm-up."""

    def __init__(self, meter, calls, ask, warm_up):
        self.load_1min = round(os.getloadavg()[0], 1)
        self.held = []
        self._over, self._before = threading.Event(), None
        watcher = threading.Thread(target=self._watch, args=(meter, warm_up))
        watcher.start()
        answers = replay(calls, ask)
        self._over.set()
        watcher.join()
        self.loads = meter.loads() - (self._before or collections.Counter())
        self.answers = [(name, latency) for at, name, latency in answers if at >= warm_up]

    def _watch(self, meter, warm_up):
        self._over.wait(warm_up)
        self._before = meter.loads()
        while not self._over.wait(0.5):
            self.held.append(meter.held_mib())


def ask_of(system, worker, holds, limit):
    """How a client of the system asks a model."""
    if system != "explicit":
        return lambda name: infer(worker.endpoint, name)
    path = "/v2/repository/models/{}/{}"
    loader = ExplicitLoader(holds, limit, lambda name: post(worker.endpoint, path.format(name, "load")),
                            lambda name: post(worker.endpoint, path.format(name, "unload")))

    return ask_loaded(worker.endpoint, loader)


def ask_loaded(endpoint, loader):
    def ask(name):
        with loader.loaded(name):
            return infer(endpoint, name)
    return ask


def run_triton(plan, folder, sizes, rounds, hot, tell):
    """The same arrivals at Triton with explicit loading, and the hot models by themselves; in room for ten models as they are there."""
    packed = {mib: model(mib) for mib in set(sizes.values())}
    triton = Triton(folder, {name: packed[mib] for name, mib in sizes.items()})
    turns = {ALONE: [], "triton": []}
    try:
        triton.start()
        measured = triton.measure({mib: name for name, mib in sizes.items()})
        triton.stop()
        holds = {name: measured[mib] for name, mib in sizes.items()}
        room = HELD * sum(holds.values()) // len(sizes)
        for number, calls in enumerate(rounds):
            for system, of_system in turns.items():
                triton.start()
                mine = [call for call in calls if call[1] in hot] if system == ALONE else calls
                ask = ask_loaded(triton.endpoint, triton.loader(holds, room))
                of_system.append(Turn(Meter(triton.loads, triton.held_mib), mine, ask, plan.warm_up))
                triton.stop()
                tell(f"round {number + 1}, Triton, {system}: {of_system[-1].loads.total()} loads, load of the machine {of_system[-1].load_1min}")
    finally:
        triton.stop()
    alone = summary(turns[ALONE], sizes, hot, None)
    return {"room_mib": room >> 20, "holds_mib": {str(mib): round(measured[mib] / 2**20, 1) for mib in sorted(measured)}, "alone": alone,
            **summary(turns["triton"], sizes, hot, alone["hot"])}


def summary(turns, sizes, hot, alone):
    """Of a system's turns together."""
    pooled = [answer for turn in turns for answer in turn.answers]
    loads = sum((turn.loads for turn in turns), collections.Counter())
    held = [mib for turn in turns for mib in turn.held]
    of_hot = figures([latency for name, latency in pooled if name in hot])
    return {**figures([latency for _, latency in pooled]), "loads": loads.total(), "hot_loads": sum(loads[name] for name in hot),
            "loaded_mib": sum(sizes[name] * count for name, count in loads.items()),
            "held_mib": {"mean": round(sum(held) / len(held), 1), "most": round(max(held), 1)} if held else None,
            "hot": of_hot, "hot_over_alone": over(of_hot, alone) if alone else None,
            "rounds": [{**{key: value for key, value in figures([latency for name, latency in turn.answers if name in hot]).items()
                           if key in ("mean_s", "p50_s", "p99_s")}, "loads": turn.loads.total(), "load_1min": turn.load_1min} for turn in turns]}


def missing():
    """Why nothing can run here, if so; and uv."""
    uv = shutil.which("uv") or str(ROOT / ".venv/bin/uv")
    if not pathlib.Path(uv).exists():
        return "there is no uv", uv
    return (NO_LIBRARY if find_library() is None else None), uv


def workload(plan, trace, draw):
    """The sizes of the models; of each round [(second, name)]; the models that are called most once all is warm."""
    rows = (models_arrivals.drawn_functions(trace, plan.models, draw) if trace
            else models_arrivals.drawn_minutes(plan.models, plan.rounds * 2 + 2, draw))
    names = [f"m{number:03}" for number in range(len(rows))]
    sizes = {name: draw.choice(SIZES_MIB) for name in names}
    span = plan.warm_up + plan.seconds
    rounds = [[(at, names[number]) for at, number in models_arrivals.calls_of(rows, each * -(-span // 60), span, draw)]
              for each in range(plan.rounds)]
    called = collections.Counter(name for calls in rounds for at, name in calls if at >= plan.warm_up)
    return sizes, rounds, {name for name, _ in called.most_common(HOT)}


class Catalogs:
    """What each system has learnt of the models: every one begins with what the deployment left, and goes on with its own."""

    def __init__(self, worker):
        self.state, self.kept = worker.folder / "state", worker.folder / "kept"

    def save(self, system):
        shutil.rmtree(self.kept / system, ignore_errors=True)
        (self.kept / system).mkdir(parents=True)
        for file in self.state.glob("catalog.db*"):
            shutil.copy(file, self.kept / system)

    def restore(self, system):
        for file in self.state.glob("catalog.db*"):
            file.unlink()
        kept = self.kept / system
        for file in (kept if kept.exists() else self.kept / "deployed").iterdir():
            shutil.copy(file, self.state)


def run(plan, draw, trace=None, tell=lambda line: None, with_triton=False):
    """Systems in turns, in another order each round; or why they did not run, under `skipped`. trace: of models_arrivals.read_trace.

    with_triton: Triton too, after the others, which installs its package from PyPI."""
    why, uv = missing()
    if why:
        return {"skipped": why, "systems": {}}
    sizes, rounds, hot = workload(plan, trace, draw)
    with tempfile.TemporaryDirectory() as folder:
        wheels = pathlib.Path(folder) / "wheels"
        wheels.mkdir()
        write_wheel(wheels)
        common = ("--gpu", "none", "--max-queue-time", "0", "--pool", "256", "--uv", uv, "--python-wheels", str(wheels), "--python-offline")
        with Worker(*common, "--sandbox-memory", "0") as worker:
            holds = deploy(worker, sizes)
            limit = HELD * sum(holds[mib] for mib in sizes.values()) // len(sizes)
            worker.stop()
            catalogs = Catalogs(worker)
            catalogs.save("deployed")
            turns = {system: [] for system in (ALONE, *SYSTEMS)}
            for number, calls in enumerate(rounds):
                order = [*turns][number % len(turns):] + [*turns][:number % len(turns)]
                for system in order:
                    catalogs.restore(system)
                    worker.flags = (*common, *(() if system in ("explicit", ALONE) else ("--sandbox-memory", f"{limit >> 20}M")),
                                    *SYSTEMS.get(system, ("--sandbox-memory", "0")))
                    worker.start()
                    if system == KEPT:
                        keep(worker, hot)
                    ask = ask_of(system, worker, {name: holds[mib] for name, mib in sizes.items()}, limit)
                    mine = [call for call in calls if call[1] in hot] if system == ALONE else calls
                    turns[system].append(Turn(meter_of(worker), mine, ask, plan.warm_up))
                    worker.stop()
                    catalogs.save(system)
                    tell(f"round {number + 1}, {system}: {turns[system][-1].loads.total()} loads, load of the machine {turns[system][-1].load_1min}")
        triton = None
        if with_triton:
            (pathlib.Path(folder) / "triton").mkdir()
            triton = run_triton(plan, pathlib.Path(folder) / "triton", sizes, rounds, hot, tell)
    alone = summary(turns[ALONE], sizes, hot, None)
    return {"models": len(sizes), "called": len({name for calls in rounds for _, name in calls}),
            "calls": sum(at >= plan.warm_up for calls in rounds for at, _ in calls), "rounds": plan.rounds, "warm_up_s": plan.warm_up,
            "seconds": plan.seconds, "sandbox_memory_mib": limit >> 20,
            "holds_mib": {str(mib): round(holds[mib] / 2**20, 1) for mib in sorted(holds)},
            "hot_sizes_mib": sorted(sizes[name] for name in hot), "alone": alone,
            "systems": {system: summary(turns[system], sizes, hot, alone["hot"]) for system in SYSTEMS}, **({"triton": triton} if triton else {})}
