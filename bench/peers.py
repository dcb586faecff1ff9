#!/usr/bin/env python3
"""bench peers: Lambent beside other servers of functions and models, with the same work and clients in one run.

docs/internals/benchmarks.md says what each figure means. Usage: peers.py [--quick] [--repeats N] [--seconds S] [--only NAME,...]
The servers are installed into build/peer (bench/peers/requirements.txt); one that does not start is reported with its reason.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import counts
import process_tree
from infer import ROWS, free_port, model
from open_loop import OpenLoop, percentile, poisson
from peer_environment import PEERS, environment_of
from worker_under_test import PREFIX, PROGRAMS, ROOT, Worker, invocations_path, machine, make_zip

CLIENTS = (1, 8, 32, 96)
MIB = 1 << 20
EVENTS = {"echo": {"work": "echo", "text": "x" * 100}, "mib": {"work": "echo", "text": "x" * MIB}, "cpu": {"work": "cpu"},
          "model": {"work": "model", "x": [[0.5] * ROWS]}}
OPEN_RATES = {"echo": 300, "mib": 10, "cpu": 60, "model": 300}  # requests a second of the open loop, the same for all
TENSOR = {"inputs": [{"name": "x", "shape": [1, ROWS], "datatype": "FP32", "data": [0.5] * ROWS}]}
DEPLOYMENTS = 10


def as_tensors(work):
    """The request by the Open Inference Protocol."""
    if work == "model":
        return TENSOR
    return {"inputs": [{"name": "event", "shape": [1], "datatype": "BYTES", "data": [json.dumps(EVENTS[work])]}]}


def plain(path):
    return {work: (path, json.dumps(event)) for work, event in EVENTS.items()}


class NotRun(Exception):
    """A server that did not start, with what it said."""


class Peer:
    """One server, started; pid is the root of its processes. What it prints goes to its log, unless it answers questions (talks)."""
    talks = False

    def __init__(self, name, words, port, requests, folder, environment=None):
        self.name, self.requests, self.address, self.folder = name, requests, f"http://127.0.0.1:{port}", folder
        self.log_path = folder / f"{name}.log"
        begin = time.monotonic()
        with open(self.log_path, "wb") as log:
            self.process = process_tree.start([str(word) for word in words], cwd=folder, stdin=subprocess.PIPE,
                                              stdout=subprocess.PIPE if self.talks else log, stderr=log, text=True, env={**os.environ, **(environment or {})})
        self.pid = self.process.pid
        try:
            self._await("echo", begin + 90)
            self.cold_ms = 1e3 * (time.monotonic() - begin)
            for work in requests:  # Triton loads one model after the other
                self._await(work, begin + 90)
        except NotRun:
            self.close()
            raise
        self.warm()

    def _await(self, work, deadline):
        """Until that work is answered."""
        while True:
            try:
                post(self.address, *self.requests[work])
                return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise NotRun(f"{error}; {self.log_path.read_text(errors='replace')[-600:]}") from None
                time.sleep(0.02)

    def warm(self):
        """Once each work: imports and sessions are made at first use."""
        for path, body in self.requests.values():
            for _ in range(8):
                post(self.address, path, body)

    def deployments_per_second(self):
        return None

    def close(self):
        process_tree.end(self.process)
        self.process.stdin.close()
        if self.talks:
            self.process.stdout.close()


class RayPeer(Peer):
    talks = True

    def deployments_per_second(self):
        self.process.stdin.write(f"{DEPLOYMENTS}\n")
        self.process.stdin.flush()
        return DEPLOYMENTS / float(self.process.stdout.readline())


class MlserverPeer(Peer):
    """Loads further models of its folder by the repository's own calls."""

    def deployments_per_second(self):
        names = [f"small{i}" for i in range(DEPLOYMENTS)]
        for name in names:
            (self.folder / "mlserver" / name).mkdir()
            (self.folder / "mlserver" / name / "model-settings.json").write_text(json.dumps({"name": name, "implementation": "mlserver_app.Peer"}))
        body = json.dumps(as_tensors("echo"))
        begin = time.monotonic()
        for name in names:
            post(self.address, f"/v2/repository/models/{name}/load", "")
            post(self.address, f"/v2/models/{name}/infer", body)
        return DEPLOYMENTS / (time.monotonic() - begin)


def post(address, path, body):
    request = urllib.request.Request(address + path, body.encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def start_peer(name, folder, processes):
    """One of the others, as its own guide runs it with so many processes."""
    python = environment_of(name)
    port = free_port()
    paths = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    tensors = {work: ("/v2/models/m/infer", json.dumps(as_tensors(work))) for work in EVENTS}
    if name == "uvicorn":
        return Peer(name, [python, "-m", "uvicorn", "asgi_app:app", "--port", port, "--workers", processes, "--no-access-log", "--log-level",
                           "warning"], port, plain("/work"), folder, paths)
    if name == "litserve":
        return Peer(name, [python, "litserve_app.py", port, processes], port, plain("/predict"), folder, paths)
    if name == "bentoml":
        events = {work: ("/work", json.dumps({"event": event})) for work, event in EVENTS.items()}
        return Peer(name, [python.parent / "bentoml", "serve", "bentoml_app:Peer", "--port", port, "--host", "127.0.0.1"], port, events, folder,
                    {**paths, "PEER_PROCESSES": str(processes), "BENTOML_DO_NOT_TRACK": "True"})
    if name == "ray":
        return RayPeer(name, [python, "ray_app.py", port, processes], port, plain("/work"), folder, {**paths, "RAY_USAGE_STATS_ENABLED": "0"})
    if name == "mlserver":
        served = folder / "mlserver"
        served.mkdir()
        (served / "settings.json").write_text(json.dumps({"host": "127.0.0.1", "http_port": port, "grpc_port": free_port(),
                                                          "metrics_endpoint": None, "parallel_workers": processes, "debug": False}))
        (served / "m").mkdir()
        (served / "m/model-settings.json").write_text(json.dumps({"name": "m", "implementation": "mlserver_app.Peer"}))
        return MlserverPeer(name, [python.parent / "mlserver", "start", served], port, tensors, folder, paths)
    if name == "kserve":
        return Peer(name, [python, "kserve_app.py", "--http_port", port, "--workers", processes, "--enable_latency_logging", "false"], port,
                    tensors, folder, paths)
    events = {work: ("/v2/models/event/infer", json.dumps({"inputs": [{"name": "event", "shape": [1, 1], "datatype": "BYTES", "data": [
        json.dumps(EVENTS[work])]}]})) for work in EVENTS}
    # Triton's Python backend loads the library of an interpreter by its name, which is to be that of the environment.
    paths["LD_LIBRARY_PATH"] = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"], text=True).strip()
    return Peer(name, [python, "triton_app.py", port, processes, folder], port, {**events, "model": tensors["model"]}, folder, paths)


class Lambent:
    """A worker with the work as one kind of function; cold is the first request to a function without a sandbox."""

    def __init__(self, name, folder, processes):
        self.name, self.worker = name, None
        uv = shutil.which("uv") or str(ROOT / ".venv/bin/uv")
        # All clients wait, as those of the other servers do (docs/reference/options.md).
        self.worker = Worker("--gpu", "none", "--uv", uv, "--max-queue-time", "0")
        self.pid, self.address = self.worker.process.pid, self.worker.endpoint
        try:
            self.server_mb = process_tree.pss_mb(self.pid)
            self.requests = getattr(self, "deploy_" + name.removeprefix("lambent_"))(folder, processes)
            begin = time.monotonic()
            post(self.address, *next(iter(self.requests.values())))
            self.cold_ms = 1e3 * (time.monotonic() - begin)
            for path, body in self.requests.values():
                for _ in range(8):
                    post(self.address, path, body)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def program(folder, *names):
        python = {"version": "", "requirements": ["onnxruntime==1.32.0", *names]}
        files = {path.name: path.read_bytes() for path in [*PEERS.glob("*.py"), folder / "model.onnx"]}
        return make_zip({**files, ".lambent/python.json": json.dumps(python).encode()})

    def deploy_function(self, folder, processes):
        self.worker.create("work", self.program(folder), "python3", "function_app.handler", max_concurrency=processes)
        self.await_environment("work")
        return plain(invocations_path("work"))

    def deploy_http(self, folder, processes):
        code = self.program(folder, "uvicorn==0.54.0", "uvloop==0.23.0", "httptools==0.9.0")
        self.worker.create("work", code, "python3", f"python3 serve_asgi.py {processes}",
                           tags={"lambent:kind": "http", "lambent:http-concurrency": "96"})
        self.await_environment("work")
        return plain("/f/work/")

    def deploy_model(self, folder, processes):
        code = make_zip({"model.onnx": model(), ".lambent/python.json": json.dumps({"version": "", "requirements": [
            "onnxruntime==1.32.0"]}).encode()})
        self.worker.create("m", code, "python3", f"lambent-model-server model.onnx --threads {processes}",
                           tags={"lambent:kind": "http", "lambent:http-concurrency": "96"})
        self.await_environment("m")
        return {"model": ("/v2/models/m/infer", json.dumps(TENSOR))}

    def await_environment(self, name):
        """A function is Active when its packages are there."""
        deadline = time.monotonic() + 300
        while True:
            state = json.loads(self.worker.request("GET", f"/2015-03-31/functions/{name}/configuration"))
            if state["State"] == "Active":
                return
            if state["State"] == "Failed" or time.monotonic() > deadline:
                raise NotRun(json.dumps(state)[-600:])
            time.sleep(0.1)

    def deployments_per_second(self):
        if self.name != "lambent_function":
            return None
        code = make_zip({"app.py": b"def handler(event, context):\n    return event\n"})
        begin = time.monotonic()
        for i in range(DEPLOYMENTS):
            self.worker.create(f"small{i}", code, "python3", "app.handler")
            post(self.address, invocations_path(f"small{i}"), "{}")
        return DEPLOYMENTS / (time.monotonic() - begin)

    def close(self):
        self.worker.close()


def sleeps_of(root):
    return sum(counts.spent(pid)[1] for pid in process_tree.descendants(root))


def closed_loop(system, work, clients, seconds, folder):
    """http_load's figures, with what the server's processes took: CPU seconds, sleeps and, where the processor counts them, instructions."""
    path, body = system.requests[work]
    (folder / "body.json").write_text(body)
    before, slept = process_tree.cpu_seconds(system.pid), sleeps_of(system.pid)
    with counts.instructions_of(process_tree.descendants(system.pid)) as instructions:
        run = subprocess.run([str(PROGRAMS / "http_load"), "--connections", str(clients), "--seconds", str(seconds), "--warm-up", "0.3",
                              "--path", path, "--body-file", str(folder / "body.json"), system.address],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        return {"failed": (run.stderr or run.stdout).strip()[-200:]}
    figures = json.loads(run.stdout)
    # The warm-up's requests cost too: the load is even, so its share of the time is its share of the cost.
    share, requests = figures["seconds"] / (figures["seconds"] + 0.3), max(figures["requests"], 1)
    cpu = (process_tree.cpu_seconds(system.pid) - before) * share
    sleeps = max(0, sleeps_of(system.pid) - slept) * share
    return {"rps": figures["rps"], "p50_us": figures["p50_us"], "p99_us": figures["p99_us"],
            "rps_per_core": round(figures["requests"] / max(cpu, 0.01), 1), "sleeps": round(sleeps / requests, 3),
            "instructions": round(instructions[0] * share / requests) if instructions else None}


def open_loop(system, work, seconds):
    """Poisson arrivals at the same rate for all; latencies count from when a request was due."""
    path, body = system.requests[work]
    host = system.address.removeprefix("http://")
    request = (f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()
    loop = OpenLoop(host.split(":"), {work: request})
    try:
        answers = loop.run(poisson({work: OPEN_RATES[work]}, seconds, 7))
        loop.settle(20)
    finally:
        loop.close()
    good = [answer.latency_s * 1e6 for answer in answers if answer.good]
    if not good:
        return {"failed": "no request was answered"}
    return {"rate": OPEN_RATES[work], "answered": round(len(good) / len(answers), 4), "p50_us": round(percentile(good, 0.5), 1),
            "p99_us": round(percentile(good, 0.99), 1)}


def measure(system, options, folder):
    time.sleep(1)
    row = {"cold_ms": round(system.cold_ms, 1), "idle_mb": round(process_tree.pss_mb(system.pid), 1), "work": {}}
    if hasattr(system, "server_mb"):
        row["server_mb"] = round(system.server_mb, 1)
    for work in system.requests:
        row["work"][work] = {str(clients): closed_loop(system, work, clients, options.seconds, folder) for clients in options.clients}
        row["work"][work]["open"] = open_loop(system, work, options.seconds)
    deployments = system.deployments_per_second()
    if deployments is not None:
        row["deployments_per_second"] = round(deployments, 2)
    return row


def medians(rows):
    """Of dicts with the same keys, the median of each figure; a failure stays."""
    first = rows[0]
    if isinstance(first, dict):
        keys = [key for key in first if all(key in row for row in rows)]
        return {key: medians([row[key] for row in rows]) for key in keys} or next(row for row in rows if "failed" in row)
    if first is None or isinstance(first, str):
        return first
    return round(statistics.median(rows), 4)


def lines(name, row):
    """A system's figures for people."""
    yield (f"{name}: cold {row['cold_ms']:.0f} ms, idle {row['idle_mb']:.0f} MiB"
           + (f", {row['deployments_per_second']:.1f} deployments/s" if "deployments_per_second" in row else ""))
    for work, by_clients in row["work"].items():
        yield f"  {work}: " + "; ".join(
            f"{clients}: {figures['failed']}" if "failed" in figures else
            f"{clients}: " + (f"{figures['rps']:.0f}/s, " if "rps" in figures else "") + f"p50 {figures['p50_us']:.0f}, p99 {figures['p99_us']:.0f} us"
            for clients, figures in by_clients.items())


NAMES = ("lambent_function", "lambent_http", "lambent_model", "uvicorn", "litserve", "bentoml", "ray", "mlserver", "kserve", "triton")


def run_all(names, options):
    rows, not_run = {name: [] for name in names}, {}
    for _ in range(options.repeats):
        for name in names:
            if name in not_run:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                folder = pathlib.Path(scratch)
                for source in PEERS.glob("*.py"):
                    shutil.copy(source, folder)
                (folder / "model.onnx").write_bytes(model())
                print(f"{name} ...", file=sys.stderr)
                try:
                    system = (Lambent if name.startswith("lambent_") else start_peer)(name, folder, options.processes)
                except (NotRun, subprocess.CalledProcessError) as reason:
                    not_run[name] = str(reason)
                    continue
                with contextlib.closing(system):
                    rows[name].append(measure(system, options, folder))
                print("\n".join(lines(name, rows[name][-1])), file=sys.stderr)
    return {name: medians(found) for name, found in rows.items() if found}, not_run


def over_peers(systems):
    """Requests a second of ours over each peer's: handlers as functions, the ASGI program as an HTTP function, the model as a model."""
    result = {}
    for ours in ("lambent_function", "lambent_http", "lambent_model"):
        for peer in systems:
            if peer.startswith("lambent_") or ours not in systems:
                continue
            result.setdefault(ours, {})[peer] = {
                work: {clients: round(figures["rps"] / theirs["rps"], 2)
                       for clients, figures in by_clients.items()
                       if clients != "open" and "rps" in figures and "rps" in (theirs := systems[peer]["work"][work][clients])}
                for work, by_clients in systems[ours]["work"].items()}
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", default=",".join(NAMES), help="of " + ", ".join(NAMES))
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="of each server (default: a processor each)")
    options = parser.parse_args()
    options.clients = CLIENTS
    if options.quick:
        options.repeats, options.seconds, options.clients = 1, 0.5, (1, 8)
    names = options.only.split(",")
    if unknown := set(names) - set(NAMES):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    systems, not_run = run_all(names, options)
    for name, row in systems.items():
        print("\n".join(lines(name, row)))
    for name, reason in not_run.items():
        print(f"{name}: not run: {reason}")
    print(json.dumps({"benchmark": "peers", "machine": machine(), "prefix": PREFIX.name, "processes": options.processes,
                      "systems": systems, "not_run": not_run, "ours_over_peer": over_peers(systems)}))


if __name__ == "__main__":
    main()
