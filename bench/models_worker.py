"""The part of bench models that runs through a worker, in real time: many ONNX models on a host whose memory holds a few of them. Used
by models.py."""
import concurrent.futures
import json
import pathlib
import shutil
import struct
import sys
import tempfile
import time
import urllib.request

from infer import NO_LIBRARY, find_library, write_wheel
from worker_under_test import ROOT, Worker, make_zip

sys.path.insert(0, str(ROOT / "examples/20_python_packages"))
from make_model import field, value_info  # noqa: E402

HELD, HOT, SIZES_MIB = 10, 5, (1, 2, 4, 8, 16)
BODY = json.dumps({"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}]}).encode()
SYSTEMS = {"worth": (), "lru": ("--set", "eviction=lru")}


def model(mib):
    """y = (x @ a) @ b, where a row and a column together have so many bytes."""
    length = (mib << 20) // 8
    weights = struct.pack("f", 0.5) * length
    graph = field(2, "models") + field(11, value_info("x", ["n", 1])) + field(12, value_info("y", ["n", 1]))
    for name, shape, ends in (("a", (1, length), ("x", "h")), ("b", (length, 1), ("h", "y"))):
        graph += field(1, field(1, ends[0]) + field(1, name) + field(2, ends[1]) + field(4, "MatMul"))
        graph += field(5, field(1, shape[0]) + field(1, shape[1]) + field(2, 1) + field(8, name) + field(9, weights))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def ask(endpoint, name):
    """Seconds that one request takes; None: it failed."""
    began = time.monotonic()
    request = urllib.request.Request(f"{endpoint}/v2/models/{name}/infer", BODY, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
            return time.monotonic() - began
    except OSError:
        return None


def loads(worker):
    """How many requests started their model, so far."""
    lines = worker.request("GET", "/metrics").decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("lambent_invocations_total{") and 'start="cold"' in line)


def sandboxes(worker):
    return json.loads(worker.request("GET", "/v1/sandboxes"))["sandboxes"]


def deploy(worker, sizes):
    for name, mib in sizes.items():
        worker.create(name, make_zip({"model.onnx": model(mib), ".lambent/python.json":
                                      json.dumps({"version": "", "requirements": ["onnxruntime"]}).encode()}),
                      "python3", "lambent-model-server model.onnx --threads 1", tags={"lambent:kind": "http", "lambent:http-concurrency": "16"})
    deadline = time.monotonic() + 600
    for name in sizes:
        while ask(worker.endpoint, name) is None:
            if time.monotonic() > deadline:
                raise SystemExit(f"{name} did not answer")
            time.sleep(0.2)


def replay(worker, calls):
    """Of each model: the answers. Calls are sent at their times, whatever the others do."""
    began = time.monotonic()
    answers = {}

    def call(at, name):
        late = time.monotonic() - began - at
        answer = ask(worker.endpoint, name)
        return name, None if answer is None else answer + max(late, 0)

    with concurrent.futures.ThreadPoolExecutor(64) as threads:
        running = []
        for at, name in calls:
            time.sleep(max(0, at - (time.monotonic() - began)))
            running.append(threads.submit(call, at, name))
        for each in running:
            name, answer = each.result()
            answers.setdefault(name, []).append(answer)
    return answers


def figures(answers):
    all_of = [answer for each in answers.values() for answer in each]
    took = sorted(answer for answer in all_of if answer is not None)
    at = lambda share: round(took[min(len(took) - 1, int(share * len(took)))], 4) if took else None  # noqa: E731
    return {"calls": len(all_of), "failed": all_of.count(None),
            "mean_s": round(sum(took) / len(took), 4) if took else None, "p50_s": at(0.5), "p99_s": at(0.99)}


def over(some, others):
    """Of each latency; None where there was none, as nothing was answered."""
    return {key: round(some[key] / others[key], 2) if some[key] and others[key] else None for key in ("mean_s", "p50_s", "p99_s")}


def hot_figures(answers, hot):
    return figures({name: each for name, each in answers.items() if name in hot})


def run(quick, draw):
    """Some models called as 1 / (4 + rank) a second; or why they were not, under `skipped`."""
    uv = shutil.which("uv") or str(ROOT / ".venv/bin/uv")
    if not pathlib.Path(uv).exists():
        return {"skipped": "there is no uv", "systems": {}}
    if find_library() is None:
        return {"skipped": NO_LIBRARY, "systems": {}}
    count, seconds = (16, 8) if quick else (60, 120)
    sizes = {f"m{rank:02}": draw.choice(SIZES_MIB) for rank in range(count)}
    calls = sorted((draw.uniform(0, seconds), name) for rank, name in enumerate(sizes) for _ in range(poisson(draw, seconds / (4 + rank))))
    hot = set(list(sizes)[:HOT])
    with tempfile.TemporaryDirectory() as folder:
        wheels = pathlib.Path(folder) / "wheels"
        wheels.mkdir()
        write_wheel(wheels)
        common = ("--gpu", "none", "--max-queue-time", "0", "--pool", "256", "--uv", uv, "--python-wheels", str(wheels), "--python-offline")
        with Worker(*common, "--sandbox-memory", "0") as worker:
            deploy(worker, sizes)
            there = sandboxes(worker)
            limit = HELD * sum(each["host_memory_bytes"] for each in there) // len(there)
            result = {"models": count, "calls": len(calls), "sandbox_memory_mib": limit >> 20,
                      "held_by_all_mib": sum(each["host_memory_bytes"] for each in there) >> 20, "systems": {}}
            worker.flags = (*common, "--sandbox-memory", str(limit))
            worker.restart()
            alone = hot_figures(replay(worker, [call for call in calls if call[1] in hot]), hot)
            for system, flags in SYSTEMS.items():
                worker.flags = (*common, "--sandbox-memory", str(limit), *flags)
                worker.restart()
                before = loads(worker)
                answers = replay(worker, calls)
                loaded = round(loads(worker) - before)
                hot_now = hot_figures(answers, hot)
                result["systems"][system] = {**figures(answers), "loads": loaded, "hot": hot_now,
                                             "hot_over_alone": over(hot_now, alone)}
    result["alone"] = alone
    return result


def poisson(draw, mean):
    """How many arrivals at random there are where `mean` are expected."""
    count, left = 0, mean
    while (left := left - draw.expovariate(1)) > 0:
        count += 1
    return count
