#!/usr/bin/env python3
"""bench http: what the way through the worker adds to a request to a program that listens, beside the program alone, in one run.

docs/internals/benchmarks.md says what each figure means. Usage: http_functions.py [--quick] [--repeats N] [--seconds S]
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys

from worker_under_test import PROGRAMS, Worker, machine, make_zip

CLIENTS = (1, 8)
LARGE = 16 * 1024 * 1024  # bytes of a streamed body


@contextlib.contextmanager
def bare():
    """The program alone; yields its address."""
    process = subprocess.Popen([str(PROGRAMS / "http_echo"), "tcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def load(address, connections, seconds, path="/", size=64):
    run = subprocess.run([str(PROGRAMS / "http_load"), "--connections", str(connections), "--seconds", str(seconds),
                          "--warm-up", "0.3", "--path", path, "--body-size", str(size), address],
                         stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"http_load on {path} failed: {run.stdout}")
    return json.loads(run.stdout)


PYTHON = b'''import http.server, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        if self.path.endswith("/work"):
            end = time.perf_counter() + 0.001
            while time.perf_counter() < end:
                pass
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
'''


@contextlib.contextmanager
def bare_python():
    process = subprocess.Popen([sys.executable, "-c", PYTHON.decode()], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PORT": "0"})
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def deploy(worker, name):
    program = (PROGRAMS / "http_echo").read_bytes()
    worker.create(name, make_zip({"http_echo": (program, 0o755)}), "provided.al2023", "./http_echo function",
                  max_concurrency=100, tags={"lambent:kind": "http"})
    worker.create("python", make_zip({"server.py": PYTHON}), "python3.11", "python3 server.py",
                  tags={"lambent:kind": "http"})


def middle(values, digits=1):
    return round(statistics.median(values), digits)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.seconds = 1, 0.5
    figures = {"added_p50_us": [], "added_p99_us": [], "bare_p50_us": [], "rate_ratio": {n: [] for n in CLIENTS},
               "bare_rate": {n: [] for n in CLIENTS}, "rate": {n: [] for n in CLIENTS}, "stream_ratio": [],
               "python": [], "python_1_ms": []}
    with Worker("--gpu", "none") as worker, bare() as address, bare_python() as python:
        deploy(worker, "echo")
        for _ in range(options.repeats):
            for clients in CLIENTS:
                alone = load(address, clients, options.seconds)
                through = load(worker.endpoint, clients, options.seconds, "/f/echo/")
                figures["bare_rate"][clients].append(alone["rps"])
                figures["rate"][clients].append(through["rps"])
                figures["rate_ratio"][clients].append(through["rps"] / alone["rps"])
                if clients == 1:
                    figures["bare_p50_us"].append(alone["p50_us"])
                    figures["added_p50_us"].append(through["p50_us"] - alone["p50_us"])
                    figures["added_p99_us"].append(through["p99_us"] - alone["p99_us"])
            for path, ratios in (("/", "python"), ("/work", "python_1_ms")):
                figures[ratios].append(load(worker.endpoint, 1, options.seconds, "/f/python" + path)["rps"] /
                                       load(python, 1, options.seconds, path)["rps"])
            alone = load(address, 1, options.seconds, size=LARGE)
            through = load(worker.endpoint, 1, options.seconds, "/f/echo/", LARGE)
            figures["stream_ratio"].append(through["rps"] / alone["rps"])
    result = {"benchmark": "http", "machine": machine(),
              "added_p50_us": middle(figures["added_p50_us"]), "added_p99_us": middle(figures["added_p99_us"]),
              "added_p50_us_spread": [round(min(figures["added_p50_us"]), 1), round(max(figures["added_p50_us"]), 1)],
              "bare_p50_us": middle(figures["bare_p50_us"]),
              "rate": {n: middle(v, 0) for n, v in figures["rate"].items()},
              "bare_rate": {n: middle(v, 0) for n, v in figures["bare_rate"].items()},
              "rate_ratio": {n: middle(v, 2) for n, v in figures["rate_ratio"].items()},
              "python": middle(figures["python"], 2), "python_1_ms": middle(figures["python_1_ms"], 2),
              "large_body_ratio": middle(figures["stream_ratio"], 2)}
    print(f"a request alone takes {result['bare_p50_us']} us, through the worker {result['added_p50_us']} us more (p50)")
    for clients in CLIENTS:
        print(f"{clients} clients: {result['rate'][clients]:.0f} of {result['bare_rate'][clients]:.0f} requests a second"
              f" ({result['rate_ratio'][clients]:.0%})")
    print(f"a server in Python: {result['python']:.0%} of its rate alone; where each request takes it 1 ms,"
          f" {result['python_1_ms']:.0%}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
