#!/usr/bin/env python3
"""Upgrades of a worker under load: each kind of function is called without a pause, on connections that are kept and on new ones, and
meanwhile the worker becomes the installed program, several times. Every answer is checked. How often each asynchronous invocation ran is counted.

The emulated GPU; processes, HTTP and disks are real. Usage: upgrade.py [--quick] [--upgrades N] [--new PREFIX], the build to upgrade to (the same one without it).
"""
import argparse
import array
import base64
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from open_loop import percentile
from worker_under_test import PREFIX, Worker, invocations_path, machine, make_zip

PAUSE_S = 0.02  # of a client between its calls: the machine's cores are the clients' and the functions' too
SETTLE_S = 60

HANDLER = """
import uuid
NAME = str(uuid.uuid4())
def handler(event, context):
    return {"y": event["x"] * 2, "process": NAME}
"""
NOTED = """
def handler(event, context):
    print("ran", event["n"], flush=True)
"""
OWN = """
import uuid
import lambent_cuda as cuda
NAME = str(uuid.uuid4())
held = cuda.Device().buffer(bytes([21]) * (8 << 20))
def handler(event, context):
    return {"y": 2 * held.bytes()[-1], "process": NAME}
"""
SHARED = """
import array, os, uuid
import lambent_cuda as cuda
NAME = str(uuid.uuid4())
device = cuda.Device()
scale = device.load(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "bundles/k")).kernel("scale")
x, y = device.buffer(array.array("f", [21])), device.buffer(4)
def handler(event, context):
    scale(grid=1, block=1, args=[x, y, cuda.float32(2), cuda.uint32(1)])
    return {"y": y.array("f")[0], "process": NAME}
"""
SERVER = """
import http.server, os, uuid
NAME = str(uuid.uuid4())
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"y": 42, "process": "%s"}' % NAME.encode()
        self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
PIPELINE = """
import uuid
from lambent.pipeline import Component, Pipeline
NAME = str(uuid.uuid4())
class Half(Component):
    def forward(self, value):
        return {"y": value["y"] + 21, "process": NAME}
class App(Pipeline):
    def define_dag(self, value):
        return self.register("second", Half, self.register("first", Half, value))
    def decode(self, event):
        return {"value": {"y": 0}}
    def encode(self, outputs):
        return outputs["second"]
"""
KERNELS = """
#include <lambent/kernel.h>
extern "C" __global__ void scale(const float* x, float* y, float factor, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i] * factor;
}
LAMBENT_KERNEL(scale);
"""


def log(text):
    print(text, flush=True)


# ---- Functions of every kind

def bundle():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "k.cu").write_text(KERNELS)
        subprocess.run([PREFIX / "bin/lambent-bundle", "build", folder / "k.cu", "-o", folder / "k", "--host-only"], check=True,
                       stdout=subprocess.DEVNULL)
        return {f"bundles/k/{path.relative_to(folder / 'k')}": path.read_bytes() for path in (folder / "k").rglob("*") if path.is_file()}


def graph():
    step = {"kernel": "scale", "bundle": "bundles/k", "grid": [1], "block": [1],
            "arguments": [{"buffer": "x"}, {"buffer": "y"}, {"literal": 2.0, "datatype": "FP32"}, {"literal": 1, "datatype": "UINT32"}]}
    return json.dumps({"buffers": [{"name": "x", "role": "input", "datatype": "FP32", "shape": [1]},
                                   {"name": "y", "role": "output", "datatype": "FP32", "shape": [1]}], "steps": [step]})


def pipeline():
    each = {"weights_mb": 100, "memory_mb": 600, "output_bytes": 1000, "probability": 1, "ms": {"2g.20gb": 5}}
    return {"pipeline.json": json.dumps({"pipeline": 1, "handler": "app.App", "inputs": ["value"], "outputs": ["second"],
                                         "components": [{"name": "first", "inputs": ["$value"]}, {"name": "second", "inputs": ["first"]}]}),
            "profile.json": json.dumps({"profile": 1, "context_mb": 100, "start_ms": 300,
                                        "shapes": {"2g.20gb": {"multiprocessors": 28, "memory_mb": 19968}},
                                        "components": {"first": each, "second": each}})}


def workflow():
    return json.dumps({"components": [{"name": "one", "function": "plain", "input": {"x": 5.25}},
                                      {"name": "two", "function": "plain", "input": {"x": "$one.y"}},
                                      {"name": "three", "function": "plain", "input": {"x": "$two.y"}}]})


GPU = {"lambent:gpu-memory": "64MiB"}


def kinds_of(kernels):
    """Name: (files, runtime, handler, tags)."""
    python = ("python3", "app.handler")
    return {"plain": ({"app.py": HANDLER}, *python, {}),
            "noted": ({"app.py": NOTED}, *python, {}),
            "workflow": ({"workflow.json": workflow()}, "provided.al2023", "workflow.json", {"lambent:kind": "workflow"}),
            "served": ({"app.py": SERVER}, "python3", "python3 app.py", {"lambent:kind": "http"}),
            "own": ({"app.py": OWN}, *python, GPU),
            "shared": ({"app.py": SHARED, **kernels}, *python, {**GPU, "lambent:gpu-runtime": "shared"}),
            "kernel": ({"graph.json": graph(), **kernels}, "provided.al2023", "graph.json", {"lambent:kind": "kernel"}),
            "pipeline": ({"app.py": PIPELINE, **pipeline()}, "python3", "pipeline.json", {"lambent:kind": "pipeline"})}


def request_of(kind):
    """Path and body."""
    if kind == "served":
        return "/f/served/", b"{}"
    if kind == "kernel":
        return invocations_path(kind), json.dumps({"inputs": [{"name": "x", "data": [21]}]}).encode()
    return invocations_path(kind), b'{"x": 21}'


def value_of(kind, body):
    """What was computed, 42, and the process that did, where it tells."""
    answer = json.loads(body)
    if kind != "kernel":
        return answer["y"], answer["process"]
    output, = answer["outputs"]
    data = output["data"] if "data" in output else array.array("f", base64.b64decode(output["raw"])).tolist()
    return data[0], None


# ---- Clients

class Caller(threading.Thread):
    """One that ends before it is told to has failed, whatever ended it."""

    def __init__(self, worker, name, ended):
        super().__init__(name=name)
        self.worker, self.ended, self.failures = worker, ended, []  # texts

    def run(self):
        try:
            self.call()
        except Exception as error:  # a thread's own would be printed and forgotten
            self.failures.append(f"{self.name}: its client ended by {error!r}")

    def call(self):
        raise NotImplementedError


def join(callers, ended):
    """Ends them. What ended before that is a failure of its own."""
    early = [each for each in callers if not each.is_alive()]
    ended.set()
    for each in callers:
        each.join()
    for each in early:
        each.failures.append(f"{each.name}: its client ended before the others")


class Client(Caller):
    """Calls one function without a pause, on a connection that it keeps or on a new one each time."""

    def __init__(self, worker, kind, keeps, ended):
        super().__init__(worker, f"{kind}, {'kept' if keeps else 'new'} connection", ended)
        self.kind, self.keeps, self.answers = kind, keeps, []  # (begin, seconds, process, whether cold)

    def call(self):
        path, body = request_of(self.kind)
        connection = None
        while not self.ended.is_set():
            begin = time.monotonic()
            try:
                if connection is None:
                    connection = http.client.HTTPConnection(self.worker.address[0], int(self.worker.address[1]), timeout=120)
                connection.request("POST", path, body)
                response = connection.getresponse()
                content = response.read()
                self.take(begin, response, content)
                if not self.keeps or response.getheader("Connection", "").lower() == "close":
                    connection.close()
                    connection = None
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"{self.name}: {error!r}")
                connection.close()
                connection = None
            time.sleep(PAUSE_S)
        if connection is not None:
            connection.close()

    def take(self, begin, response, content):
        took = time.monotonic() - begin
        if response.status == 200 and not response.getheader("X-Amz-Function-Error"):
            try:
                value, process = value_of(self.kind, content)
            except (KeyError, ValueError, IndexError, TypeError) as error:
                self.failures.append(f"{self.kind}: no answer of its kind, {error!r}: {content[:200]!r}")
                return
            if value == 42:
                self.answers.append((begin, took, process, response.getheader("x-lambent-start") == "cold"))
                return
        self.failures.append(f"{self.kind}: HTTP {response.status}: {content[:200]!r}")


class Submitter(Caller):
    """Sends asynchronous invocations, each of which notes that it ran."""

    def __init__(self, worker, ended):
        super().__init__(worker, "asynchronous", ended)
        self.sent = 0

    def call(self):
        while not self.ended.is_set():
            connection = http.client.HTTPConnection(self.worker.address[0], int(self.worker.address[1]), timeout=120)
            with contextlib.closing(connection):
                try:
                    connection.request("POST", invocations_path("noted"), json.dumps({"n": self.sent}),
                                       {"X-Amz-Invocation-Type": "Event"})
                    response = connection.getresponse()
                    response.read()
                    if response.status == 202:
                        self.sent += 1
                    else:
                        self.failures.append(f"asynchronous: HTTP {response.status}")
                except (OSError, http.client.HTTPException) as error:
                    self.failures.append(f"asynchronous: {error!r}")
            time.sleep(PAUSE_S)


def runs_of(worker, sent):
    """How often each asynchronous invocation ran, by what it printed; waits until each has run."""
    end = time.monotonic() + SETTLE_S
    while True:
        text = worker.request("GET", "/v1/functions/noted/log?limit=4194304").decode()
        counts = {}
        for line in text.splitlines():
            if " " in line and line.split()[-2:-1] == ["ran"]:
                counts[int(line.split()[-1])] = counts.get(int(line.split()[-1]), 0) + 1
        if all(number in counts for number in range(sent)) or time.monotonic() > end:
            return [counts.get(number, 0) for number in range(sent)]
        time.sleep(0.2)


# ---- Upgrades

class Installation:
    """Programs in a folder of their own, where packages would put a new file in the place of the old one."""

    def __init__(self, folder, prefix):
        self.programs = folder / "bin"
        self.programs.mkdir()
        for path in (prefix / "bin").iterdir():
            if path.is_file() and path.name.startswith(("lambent", "emulated-gpu")):
                os.link(path, self.programs / path.name) if same_disk(path, folder) else shutil.copy2(path, self.programs)
        for name in ("lib", "share"):
            (folder / name).symlink_to(prefix / name)
        self.install(prefix)

    def install(self, prefix):
        for name in ("lambent-worker", "lambent-launcher", "lambent-device", "lambent-executor"):
            shutil.copy2(prefix / "bin" / name, self.programs / "new")
            (self.programs / "new").rename(self.programs / name)


def same_disk(path, folder):
    return path.stat().st_dev == folder.stat().st_dev


def events(worker, name):
    found = []
    for line in worker.log_path.read_text(errors="replace").splitlines():
        if f'"event":"{name}"' in line:
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return found


def upgrade(worker, installation, prefix):
    """Seconds from the signal until the new program listens, and until it has kept its sandboxes."""
    before = len(events(worker, "listening"))
    installation.install(prefix)
    begin = time.monotonic()
    worker.process.send_signal(signal.SIGUSR2)
    while len(events(worker, "listening")) == before:
        if worker.process.poll() is not None or events(worker, "not_replaced") or time.monotonic() > begin + 90:
            raise SystemExit("the worker was not replaced:\n" + worker.log_path.read_text(errors="replace")[-3000:])
        time.sleep(0.02)
    return begin, time.monotonic()


def figures_of(kind, clients, spans):
    answers = sorted(answer for client in clients if client.kind == kind for answer in client.answers)
    failures = [failure for client in clients if client.kind == kind for failure in client.failures]
    beside = [took for begin, took, _, _ in answers if not any(low - took <= begin <= high for low, high in spans)]
    kept = 0
    for low, high in spans:
        before = {process for begin, took, process, _ in answers if begin + took <= low and process}
        after = next((process for begin, _, process, _ in answers if begin >= high), None)
        kept += after in before
    first = {low: max((took for begin, took, _, _ in answers if low - took <= begin <= high + 1), default=0) for low, high in spans}
    return {"requests": len(answers) + len(failures), "failures": len(failures), "p50_ms": round(percentile(beside, 0.5) * 1e3, 1),
            "longest_beside_ms": round(max(beside) * 1e3, 1), "longest_over_each_upgrade_s": [round(each, 2) for each in first.values()],
            "same_process_afterwards": kept if kind not in ("kernel", "workflow") else None,
            "cold": sum(cold for begin, _, _, cold in answers if begin >= spans[0][0])}, failures


def run(upgrades, between_s, new):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lambent-upgrade-"))
    try:
        installation = Installation(folder, PREFIX)
        with Worker("--gpu", "emulated:a100-80gb-mig", "--memory-scale", "16", "--pipeline-slices", "0:1,0:2", "--context-memory", "16",
                    "--drain", "30", "--set", "queue_wait_s=60", programs=installation.programs) as worker:
            return run_on(worker, installation, upgrades, between_s, new)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_on(worker, installation, upgrades, between_s, new):
    kinds = kinds_of(bundle())
    for name, (files, runtime, handler, tags) in kinds.items():
        package = make_zip({path: content if isinstance(content, bytes) else content.encode() for path, content in files.items()})
        worker.create(name, package, runtime, handler, max_concurrency=None if name == "pipeline" else 2, tags=tags)
    called, ended = [kind for kind in kinds if kind != "noted"], threading.Event()
    clients = [Client(worker, kind, keeps, ended) for kind in called for keeps in (True, False)]
    submitter = Submitter(worker, ended)
    for each in [*clients, submitter]:
        each.start()
    spans = []
    try:
        wait_for_answers(clients)
        time.sleep(between_s)  # calls go on before, between and after the upgrades
        for _ in range(upgrades):
            spans.append(upgrade(worker, installation, new))
            log(f"upgrade {len(spans)}: {spans[-1][1] - spans[-1][0]:.2f} s until the new program listened")
            time.sleep(between_s)
    finally:
        join([*clients, submitter], ended)
    rows, failures = {}, submitter.failures
    for kind in called:
        rows[kind], failed = figures_of(kind, clients, spans)
        failures = failures + failed
        log(f"{kind:>9}: {rows[kind]}")
    runs = runs_of(worker, submitter.sent)
    kept = [{"kept": each.get("kept"), "ended": each.get("ended")} for each in events(worker, "sandboxes_kept")]
    return {"upgrades": upgrades, "until_it_listens_s": [round(high - low, 2) for low, high in spans], "sandboxes": kept, "rows": rows,
            "requests": sum(row["requests"] for row in rows.values()) + submitter.sent, "failures": len(failures), "failed": failures[:10],
            "longest_s": max(max(row["longest_over_each_upgrade_s"]) for row in rows.values()),
            "asynchronous": {"sent": submitter.sent, "never_ran": runs.count(0), "ran_more_than_once": sum(each > 1 for each in runs)}}


def wait_for_answers(clients):
    """Until each has an answer: what has to start first has started."""
    end = time.monotonic() + SETTLE_S
    while not all(client.answers for client in clients):
        failures = [failure for client in clients for failure in client.failures]
        if failures or time.monotonic() > end:
            raise SystemExit(f"no answer of {[client.kind for client in clients if not client.answers]}: {failures[:3]}")
        time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--upgrades", type=int, help="how many; 10 without it, with --quick 2")
    parser.add_argument("--new", type=pathlib.Path, default=PREFIX, help="the build that the worker becomes")
    options = parser.parse_args()
    started = machine()
    result = run(options.upgrades or (2 if options.quick else 10), 4 if options.quick else 10, options.new)
    result = {"bench": "upgrade", "quick": options.quick, "machine": started, "emulated": True, "same_build": options.new == PREFIX, **result}
    print(json.dumps(result))
    if result["failures"] or result["asynchronous"]["never_ran"]:
        raise SystemExit(f"{result['failures']} requests failed, {result['asynchronous']['never_ran']} asynchronous ones never ran")


if __name__ == "__main__":
    main()
