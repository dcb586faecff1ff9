#!/usr/bin/env python3
"""bench paths: what a request costs the worker on each way through it, in instructions and wake-ups, beside a bare echo with the same hops.

docs/internals/benchmarks.md says what each figure means. Usage: paths.py [--quick] [--requests N] [--seconds S]
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from counts import Callgrind, spent
from infer import REQUEST, create_model, find_library, write_wheel
from process_tree import descendants
from worker_under_test import PREFIX, PROGRAMS, ROOT, Worker, invocations_path, machine, make_zip, serving

CLIENTS = (1, 20)
SANDBOXES = 4  # of each function, and runtimes of the bare echo
WARM_UP_S = 0.5  # a loop before each measurement
REST_S, AT_REST = 0.2, 0.02  # a program rests that has had less than this share of a processor for so long
LONGEST_UNREST_S = 60
PYTHON_ECHO = b"def handler(event, context):\n    return event\n"
EVENT = {"X-Amz-Invocation-Type": "Event"}


class Path:
    """One way: the request, the function that it is for (none: no worker's), and what it came to."""

    def __init__(self, name, path, body=b"{}", headers=None, function=None):
        self.name, self.path, self.body, self.headers, self.figures = name, path, body, headers or {}, {}
        self.function = function

    def ask(self, connection):
        connection.request("POST", self.path, self.body, self.headers)
        response = connection.getresponse()
        response.read()
        if response.status >= 300:
            raise SystemExit(f"{self.name}: HTTP {response.status}")

    def load(self, address, clients, seconds, folder):
        body = pathlib.Path(folder) / f"{self.name}.body"
        body.write_bytes(self.body)
        headers = [word for name, value in self.headers.items() for word in ("--header", f"{name}: {value}")]
        run = subprocess.run([str(PROGRAMS / "http_load"), "--connections", str(clients), "--seconds", str(seconds), "--warm-up", "0",
                              "--path", self.path, "--body-file", str(body), *headers, address], stdout=subprocess.PIPE, text=True, check=False)
        if run.returncode != 0:
            raise SystemExit(f"http_load on {self.path} failed: {run.stdout}")
        return json.loads(run.stdout)


def functions(worker, folder, uv):
    """Deploys one function of each kind; the ways to them."""
    native = (PREFIX / "bench/echo/bootstrap").read_bytes()
    worker.create("native", make_zip({"bootstrap": (native, 0o755)}), "provided.al2023", "bootstrap", max_concurrency=SANDBOXES)
    worker.create("python", make_zip({"app.py": PYTHON_ECHO}), "python3", "app.handler", max_concurrency=SANDBOXES)
    server = (PROGRAMS / "http_echo").read_bytes()
    worker.create("server", make_zip({"http_echo": (server, 0o755)}), "provided.al2023", "./http_echo function", max_concurrency=100,
                  tags={"lambent:kind": "http"})
    ways = [Path("native", invocations_path("native"), function="native"), Path("python", invocations_path("python"), function="python"),
            Path("asynchronous", invocations_path("native"), headers=EVENT, function="native"), Path("http", "/f/server/", function="server")]
    if uv is not None:
        create_model(worker, "m", 16)
        ways.append(Path("model", "/v2/models/m/infer", REQUEST.encode(), function="m"))
    return ways


@contextlib.contextmanager
def worker_with_functions(folder, under=()):
    uv = ROOT / ".venv/bin/uv"
    uv = uv if uv.exists() and find_library() is not None else None
    flags = []
    if uv is not None:
        wheels = pathlib.Path(folder) / "wheels"
        if not wheels.exists():
            wheels.mkdir()
            write_wheel(wheels)
        flags = ["--uv", str(uv), "--python-wheels", str(wheels), "--python-offline"]
    with Worker("--gpu", "none", "--set", f"host_concurrency={SANDBOXES * 3}", "--max-queue-time", "0", *flags, under=under) as worker:
        ways = functions(worker, folder, uv)
        connection = http.client.HTTPConnection(worker.address[0], int(worker.address[1]), timeout=300)
        for way in ways:
            deadline = time.monotonic() + 300
            while True:  # a model's packages are installed first
                try:
                    way.ask(connection)
                    break
                except SystemExit:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.2)  # nothing tells when they are there
        yield worker, ways, connection
        connection.close()


def bare_echo(under=()):
    return serving(*under, PROGRAMS / "bare_echo", "tcp", "--tcp-runtimes", SANDBOXES, stderr=subprocess.DEVNULL)


def settle(pid):
    """Waits until the program rests, without asking it, which would be counted: asynchronous runs go on after their answer."""
    deadline, before = time.monotonic() + LONGEST_UNREST_S, spent(pid)[0]
    while True:
        time.sleep(REST_S)
        now = spent(pid)[0]
        if now - before < AT_REST * REST_S * 1e9:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"the program does not come to rest within {LONGEST_UNREST_S} s")
        before = now


def ended(worker, function):
    """How many of its invocations have an outcome."""
    lines = worker.request("GET", "/metrics").decode().splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith("lambent_invocations_total{") and f'function="{function}"' in line)


@contextlib.contextmanager
def whole_runs(worker, way):
    """Around what counts runs; yields a list that takes how many were asked for. SystemExit if not all of them have ended by then: the worker
    is asked after the count, whose part its answer is not."""
    if worker is None:
        yield []
        return
    before, asked = ended(worker, way.function), []
    yield asked
    done = ended(worker, way.function) - before
    live = json.loads(worker.request("GET", "/v1/activity/live"))["invocations"]
    if live or done < sum(asked):
        raise SystemExit(f"{way.name}: of {sum(asked)} runs {done} had ended when they were counted, and {len(live)} are under way")


def watched(way, pid, address, clients, seconds, folder, worker=None):
    """A closed loop, with what the program and those below it spent on each request. A loop before it starts what it needs."""
    way.load(address, clients, WARM_UP_S, folder)
    settle(pid)  # its last runs are not of the measured loop
    with whole_runs(worker, way) as asked:
        settle(pid)  # nor is the worker's answer
        below = [other for other in descendants(pid) if other != pid]
        before, before_below = spent(pid), sum(spent(other)[1] for other in below)
        run = way.load(address, clients, seconds, folder)
        settle(pid)
        after, after_below = spent(pid), sum(spent(other)[1] for other in below)
        requests = run["requests"]
        asked.append(requests)
    return {"p50_us": round(run["p50_us"], 1), "rps": round(run["rps"]), "cpu_us": round((after[0] - before[0]) / 1000 / requests, 1),
            "wakeups": round((after[1] - before[1]) / requests, 2), "wakeups_of_runtimes": round((after_below - before_below) / requests, 2)}


def flush_us(folder, times=200):
    """What one flush of an appended record takes on the disk that has the folder, at the median."""
    taken = []
    with open(pathlib.Path(folder) / "flushed", "wb", buffering=0) as file:
        for _ in range(times):
            file.write(bytes(4096))
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - begin) * 1e6)
    return round(statistics.median(taken), 1)


def count(way, callgrind, pid, connection, requests, worker=None):
    for _ in range(20):
        way.ask(connection)
    settle(pid)  # runs that follow these are not counted, those that follow the next are
    with whole_runs(worker, way) as asked:
        settle(pid)
        callgrind.since_last(pid)
        for _ in range(requests):
            way.ask(connection)
        asked.append(requests)
        settle(pid)
        instructions = callgrind.since_last(pid)
    return round(instructions / requests)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter loops, fewer requests")
    parser.add_argument("--requests", type=int, help="counted under callgrind, on each way")
    parser.add_argument("--seconds", type=float, help="of each closed loop")
    arguments = parser.parse_args()
    requests = arguments.requests or (50 if arguments.quick else 400)
    seconds = arguments.seconds or (0.4 if arguments.quick else 3.0)

    about, result = machine(), {}
    with tempfile.TemporaryDirectory(prefix="lambent-bench-") as folder:
        flush = flush_us(folder)
        bare = Path("bare", "/")
        with bare_echo() as (pid, address):
            bare.figures = {str(clients): watched(bare, pid, address, clients, seconds, folder) for clients in CLIENTS}
        with worker_with_functions(folder) as (worker, ways, _):
            for way in ways:
                way.figures = {str(clients): watched(way, worker.process.pid, worker.endpoint, clients, seconds, folder, worker) for clients in CLIENTS}
        result = {way.name: {**way.figures, "instructions": None} for way in [bare, *ways]}
        if Callgrind.is_here():
            under = Callgrind(tempfile.mkdtemp(dir=folder))
            with worker_with_functions(folder, under.words()) as (worker, ways, connection):
                for way in ways:
                    result[way.name]["instructions"] = count(way, under, worker.process.pid, connection, requests, worker)
            under = Callgrind(tempfile.mkdtemp(dir=folder))
            with bare_echo(under.words()) as (pid, address):
                host, _, port = address.removeprefix("http://").rpartition(":")
                connection = http.client.HTTPConnection(host, int(port), timeout=60)
                result["bare"]["instructions"] = count(bare, under, pid, connection, requests)
                connection.close()
    print(f"{'':14}{'p50 us, 1':>10}{'20':>8}{'cpu us, 1':>11}{'20':>8}{'wake-ups, 1':>13}{'20':>8}{'of runtimes':>13}{'instructions':>14}")
    for name, each in result.items():
        one, many = each["1"], each["20"]
        print(f"{name:14}{one['p50_us']:10}{many['p50_us']:8}{one['cpu_us']:11}{many['cpu_us']:8}{one['wakeups']:13}{many['wakeups']:8}"
              f"{one['wakeups_of_runtimes']:13}{each.get('instructions') or '-':>14}")
    print(f"a flush of the disk: {flush} us")
    print(json.dumps({"bench": "paths", "quick": arguments.quick, "flush_us": flush, "requests": requests, "seconds_per_run": seconds, "machine": about, "paths": result}))


if __name__ == "__main__":
    main()
