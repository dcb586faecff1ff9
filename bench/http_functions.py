#!/usr/bin/env python3
"""bench http: what the way through the worker adds to a request to a program that listens, beside the program alone, in one run.

docs/internals/benchmarks.md says what each figure means. Usage: http_functions.py [--quick] [--repeats N] [--seconds S]
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from counts import spent
from worker_under_test import PROGRAMS, Worker, machine, make_zip, serving

CLIENTS = (1, 8)
WARM_UP = 0.3  # seconds before each measurement
LARGE = 16 * 1024 * 1024  # bytes of a streamed body


@contextlib.contextmanager
def bare():
    """The program alone; yields its address."""
    with serving(PROGRAMS / "http_echo", "tcp") as (_, address):
        yield address


# One worker process that passes bodies on as they come, keeps its connections to the program, and adds the usual field.
NGINX = """
worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 100000000; client_max_body_size 0;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  upstream program {{ server {program}; keepalive 64; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://program; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_request_buffering off; proxy_buffering off;
    }}
  }}
}}
"""


@contextlib.contextmanager
def peer(nginx, program):
    """A reverse proxy before the program; yields its address and the id of its worker, or nothing where there is none."""
    if nginx is None:
        yield None, None
        return
    with tempfile.TemporaryDirectory(prefix="lambent-bench-") as folder:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = pathlib.Path(folder) / "nginx.conf"
        settings.write_text(NGINX.format(folder=folder, program=program.removeprefix("http://"), port=port))
        process = subprocess.Popen([nginx, "-c", str(settings), "-e", folder + "/error"], start_new_session=True)
        try:
            deadline = time.monotonic() + 10
            while not (workers := pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{nginx} did not start: " + (pathlib.Path(folder) / "error").read_text())
                time.sleep(0.01)
            yield f"http://127.0.0.1:{port}", int(workers[0])
        finally:
            process.terminate()
            process.wait(10)


def load(address, connections, seconds, path="/", size=64):
    run = subprocess.run([str(PROGRAMS / "http_load"), "--connections", str(connections), "--seconds", str(seconds),
                          "--warm-up", str(WARM_UP), "--path", path, "--body-size", str(size), address],
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


def load_and_watch(pid, *arguments):
    """The same, with what the process in between spent on each request."""
    before = spent(pid)
    result = load(*arguments)
    after = spent(pid)
    # Those before the measured time are not counted, but cost as much.
    requests = result["requests"] * (1 + WARM_UP / result["seconds"])
    result["cpu_us"] = (after[0] - before[0]) / 1000 / requests
    result["sleeps"] = (after[1] - before[1]) / requests
    return result


def deploy(worker, name):
    program = (PROGRAMS / "http_echo").read_bytes()
    worker.create(name, make_zip({"http_echo": (program, 0o755)}), "provided.al2023", "./http_echo function",
                  max_concurrency=100, tags={"lambent:kind": "http"})
    worker.create("python", make_zip({"server.py": PYTHON}), "python3", "python3 server.py",
                  tags={"lambent:kind": "http"})


def middle(values, digits=1):
    if not values:
        return None
    return round(statistics.median(values), digits)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--nginx", default=shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin"),
                        help="a reverse proxy to be held beside the worker")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.seconds = 1, 0.5
    figures = {"added_p50_us": [], "added_p99_us": [], "bare_p50_us": [], "rate_ratio": {n: [] for n in CLIENTS},
               "bare_rate": {n: [] for n in CLIENTS}, "rate": {n: [] for n in CLIENTS}, "stream_ratio": [],
               "cpu_us": {n: [] for n in CLIENTS}, "sleeps": {n: [] for n in CLIENTS},
               "peer_cpu_us": {n: [] for n in CLIENTS}, "peer_sleeps": {n: [] for n in CLIENTS},
               "peer_rate": {n: [] for n in CLIENTS}, "rate_over_peer": {n: [] for n in CLIENTS},
               "peer_added_p50_us": [], "python": [], "python_1_ms": []}
    with (Worker("--gpu", "none") as worker, bare() as address, bare_python() as python,
          peer(options.nginx, address) as (proxy, proxy_pid)):
        deploy(worker, "echo")
        for _ in range(options.repeats):
            for clients in CLIENTS:
                alone = load(address, clients, options.seconds)
                through = load_and_watch(worker.process.pid, worker.endpoint, clients, options.seconds, "/f/echo/")
                for key in ("cpu_us", "sleeps"):
                    figures[key][clients].append(through[key])
                if proxy is not None:
                    other = load_and_watch(proxy_pid, proxy, clients, options.seconds)
                    figures["peer_rate"][clients].append(other["rps"])
                    figures["rate_over_peer"][clients].append(through["rps"] / other["rps"])
                    figures["peer_cpu_us"][clients].append(other["cpu_us"])
                    figures["peer_sleeps"][clients].append(other["sleeps"])
                    if clients == 1:
                        figures["peer_added_p50_us"].append(other["p50_us"] - alone["p50_us"])
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
              "peer": options.nginx and pathlib.Path(options.nginx).name,
              "peer_added_p50_us": middle(figures["peer_added_p50_us"]),
              **{key: {n: middle(v, digits) for n, v in figures[key].items()}
                 for key, digits in (("cpu_us", 1), ("peer_cpu_us", 1), ("sleeps", 2), ("peer_sleeps", 2),
                                     ("peer_rate", 0), ("rate_over_peer", 2))},
              "python": middle(figures["python"], 2), "python_1_ms": middle(figures["python_1_ms"], 2),
              "large_body_ratio": middle(figures["stream_ratio"], 2)}
    print(f"a request alone takes {result['bare_p50_us']} us, through the worker {result['added_p50_us']} us more (p50)")
    for clients in CLIENTS:
        print(f"{clients} clients: {result['rate'][clients]:.0f} of {result['bare_rate'][clients]:.0f} requests a second"
              f" ({result['rate_ratio'][clients]:.0%}), {result['cpu_us'][clients]} us of processors each")
        if result["peer"]:
            print(f"  {result['peer']} with one worker process: {result['peer_rate'][clients]:.0f} requests a second"
                  f" (ours are {result['rate_over_peer'][clients]:.0%} of it), {result['peer_cpu_us'][clients]} us each")
    print(f"a server in Python: {result['python']:.0%} of its rate alone; where each request takes it 1 ms,"
          f" {result['python_1_ms']:.0%}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
