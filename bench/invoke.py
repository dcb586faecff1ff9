#!/usr/bin/env python3
"""bench invoke: latency and rate of warm invocations beside a bare echo that makes the same hops, in the same run.

docs/internals/benchmarks.md says what each figure means. Usage: invoke.py [--quick] [--repeats N] [--seconds S]
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from worker_under_test import PREFIX, PROGRAMS, Worker, invocations_path, machine, make_zip, serving

SANDBOXES = 4  # of each function, and runtimes of the bare echo
CLIENTS = (1, 20, 96)
PYTHON_ECHO = b"def handler(event, context):\n    return event\n"


@contextlib.contextmanager
def bare_echo(where, kind):
    """The bare echo with its runtimes; yields its address."""
    with serving(PROGRAMS / "bare_echo", where, kind, SANDBOXES) as (_, address):
        yield address


def load(address, connections, seconds, path="/", headers=()):
    """One closed-loop run of http_load; what it printed."""
    flags = [text for header in headers for text in ("--header", header)]
    run = subprocess.run(
        [str(PROGRAMS / "http_load"), "--connections", str(connections), "--seconds", str(seconds), "--warm-up", "0.2",
         "--path", path, *flags, address], stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"http_load on {path} failed: {run.stdout}")
    return json.loads(run.stdout)


def middle(values, digits=1):
    return round(statistics.median(values), digits)


def spread(values, digits=1):
    return [round(min(values), digits), round(max(values), digits)]


class Series:
    """The repeats of one transport and runtime."""

    def __init__(self):
        self.p50, self.p99, self.ratio, self.pair_ratio, self.ack = [], [], [], [], []
        self.rps = {clients: [] for clients in CLIENTS}
        self.cpu = {clients: [] for clients in CLIENTS}

    def add(self, clients, run, cpu_us):
        self.rps[clients].append(run["rps"])
        self.cpu[clients].append(cpu_us)

    def summary(self, bare, bare_pair):
        return {
            "p50_added_us": middle(self.p50), "p50_added_us_spread": spread(self.p50),
            "p99_added_us": middle(self.p99), "p99_added_us_spread": spread(self.p99),
            "bare_p50_us": middle(bare), "p50_ratio": middle(self.ratio, 2),
            "p50_ratio_spread": spread(self.ratio, 2),
            "bare_socketpair_p50_us": middle(bare_pair), "p50_ratio_to_socketpair": middle(self.pair_ratio, 2),
            "rps": {str(clients): middle(values, 0) for clients, values in self.rps.items()},
            "rps_spread": {str(clients): spread(values, 0) for clients, values in self.rps.items()},
            "rps_96_over_20": round(statistics.median(b / a for a, b in zip(self.rps[20], self.rps[96])), 3),
            "worker_cpu_us_per_invocation": {str(clients): middle(values) for clients, values in self.cpu.items()},
            "async_ack_p50_us": middle(self.ack) if self.ack else None,
        }


def measure(worker, series, address, name, clients, seconds):
    """One run of `clients` against a function; the latencies count when one client waits alone."""
    before = worker.cpu_seconds()
    run = load(address, clients, seconds, invocations_path(name))
    cpu = worker.cpu_seconds() - before
    # The warm-up of 0.2 s is in the CPU time, so its requests must be counted too.
    requests = run["requests"] * (run["seconds"] + 0.2) / run["seconds"]
    series.add(clients, run, 1e6 * cpu / requests)
    return run


def benchmark(repeats, seconds):
    bootstrap = (PREFIX / "bench/echo/bootstrap").read_bytes()
    functions = {"native": (make_zip({"bootstrap": (bootstrap, 0o755)}), "provided.al2023", "bootstrap"),
                 "python": (make_zip({"app.py": PYTHON_ECHO}), "python3", "app.handler")}
    series = {(transport, runtime): Series() for transport in ("uds", "http") for runtime in functions}
    bare = {transport: {"--tcp-runtimes": [], "--runtimes": []} for transport in ("uds", "http")}
    bare_rps = {transport: {str(clients): [] for clients in CLIENTS} for transport in ("uds", "http")}

    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lambent-bench-")))
        # As the bare echo, it refuses nothing because it would wait.
        worker = stack.enter_context(Worker("--gpu", "none", "--set", f"host_concurrency={SANDBOXES * 2}", "--max-queue-time", "0"))
        for name, (code, runtime, handler) in functions.items():
            worker.create(name, code, runtime, handler, max_concurrency=SANDBOXES)
            worker.request("POST", invocations_path(name), b"{}")
        address = {"uds": f"unix:{worker.socket}", "http": worker.endpoint}
        echo = {(transport, kind): stack.enter_context(
            bare_echo(f"unix:{folder}/bare{kind}.sock" if transport == "uds" else "tcp", kind))
            for transport in bare for kind in bare[transport]}

        for repeat in range(repeats):
            for transport in bare:
                for kind, values in bare[transport].items():
                    values.append(load(echo[transport, kind], 1, seconds)["p50_us"])
                for clients in CLIENTS:
                    run = load(echo[transport, "--tcp-runtimes"], clients, seconds / 2)
                    bare_rps[transport][str(clients)].append(run["rps"])
                for runtime in functions:
                    each = series[transport, runtime]
                    for clients in CLIENTS:
                        run = measure(worker, each, address[transport], runtime, clients, seconds)
                        if clients == 1:
                            each.p50.append(run["p50_us"])
                            each.p99.append(run["p99_us"])
                            each.ratio.append(run["p50_us"] / bare[transport]["--tcp-runtimes"][-1])
                            each.pair_ratio.append(run["p50_us"] / bare[transport]["--runtimes"][-1])
                    ack = load(address[transport], 1, seconds / 2, invocations_path(runtime),
                               ["X-Amz-Invocation-Type: Event"])
                    each.ack.append(ack["p50_us"])
            print(f"repeat {repeat + 1} of {repeats} done", file=sys.stderr)

    result = {}
    for transport in bare:
        result[transport] = {
            runtime: series[transport, runtime].summary(bare[transport]["--tcp-runtimes"], bare[transport]["--runtimes"])
            for runtime in functions}
        result[transport]["bare_rps"] = {clients: middle(values, 0) for clients, values in bare_rps[transport].items()}
    return result


def print_table(result):
    print(f"{'':14}{'p50 us':>9}{'p99 us':>9}{'bare p50':>10}{'ratio':>7}{'rps 1':>8}{'rps 20':>8}{'rps 96':>8}"
          f"{'cpu us':>8}{'ack p50':>9}")
    for transport in ("uds", "http"):
        for runtime in ("native", "python"):
            row = result[transport][runtime]
            print(f"{transport + ' ' + runtime:14}{row['p50_added_us']:9}{row['p99_added_us']:9}{row['bare_p50_us']:10}"
                  f"{row['p50_ratio']:7}{row['rps']['1']:8.0f}{row['rps']['20']:8.0f}{row['rps']['96']:8.0f}"
                  f"{row['worker_cpu_us_per_invocation']['20']:8}{row['async_ack_p50_us']:9}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="at most 45 s: shorter runs, fewer repeats")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--seconds", type=float, help="of each run")
    arguments = parser.parse_args()
    repeats = arguments.repeats or (2 if arguments.quick else 5)
    seconds = arguments.seconds or (0.5 if arguments.quick else 2.0)

    about = machine()
    result = benchmark(repeats, seconds)
    print_table(result)
    cpu = max(result[transport]["native"]["worker_cpu_us_per_invocation"]["20"] for transport in ("uds", "http"))
    print(json.dumps({
        "bench": "invoke", "quick": arguments.quick, "repeats": repeats, "seconds_per_run": seconds,
        "sandboxes_per_function": SANDBOXES, "machine": about, **result,
        "worker_cpu_us_per_invocation": cpu, "rps_per_worker_core": round(1e6 / cpu),
        "async_ack_p50_us": result["http"]["native"]["async_ack_p50_us"]}))


if __name__ == "__main__":
    main()
