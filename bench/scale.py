#!/usr/bin/env python3
"""bench scale: one worker with 100,000 functions of 10,000 tenants, 64 emulated GPUs (the most that a node has), 10,000 connections and
as many sandboxes as the machine carries, beside one with ten functions in the same minutes.

docs/internals/benchmarks.md says what each figure means. Whatever was lost on the way (a function of a list, one after a restart, the answer on a
connection) ends it with an error. Usage: scale.py [--quick] [--functions N] [--tenants N] [--connections N] [--sandboxes N] [--devices N]
"""
import argparse
import base64
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import time

from open_loop import OpenLoop, percentile
from worker_under_test import PROGRAMS, PREFIX, Worker, invocations_path, machine, make_zip

FULL = {"functions": 100_000, "tenants": 10_000, "connections": 10_000, "sandboxes": 2_000, "devices": 64}
QUICK = {"functions": 2_000, "tenants": 200, "connections": 500, "sandboxes": 24, "devices": 8}
FEW = 10
CLIENTS = 32  # of a deployment
PAGE = 50  # of Lambda's ListFunctions
LEFT_FREE_KB = 5 << 20  # of the machine's memory, whatever is asked for
ECHO = b"def handler(event, context):\n    return event\n"
NATIVE = PREFIX / "bench/echo/bootstrap"


def log(text):
    print(text, flush=True)


def rounded(value, digits=3):
    return None if value is None else round(value, digits)


def ratio(one, other):
    return rounded(one / other, 2) if one is not None and other else None


def resident_kb(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * (os.sysconf("SC_PAGE_SIZE") >> 10)


def peak_kb(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


def available_kb():
    return int(re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1))


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def raise_file_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def http_request(method, path, body=b"", token=None):
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if token:
        head += f"Authorization: Bearer {token}\r\n"
    return (head + f"Content-Length: {len(body)}\r\n\r\n").encode() + body


class Node(Worker):
    """A worker with tokens; its operator is this user over the Unix socket."""

    def __init__(self, *flags):
        super().__init__("--auth", "tokens", "--drain", "1", *flags)
        self.token = None  # of the default tenant

    def operate(self, method, path, body=None):
        connection = http.client.HTTPConnection("localhost", timeout=120)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(120)
        connection.sock.connect(str(self.socket))
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise SystemExit(f"{method} {path}: HTTP {response.status}: {content[:300]!r}")
        return json.loads(content) if content else None

    def new_token(self, tenant):
        return self.operate("POST", f"/v1/tenants/{tenant}/tokens", {"name": "scale", "scopes": ["deploy", "invoke", "read"]})["secret"]

    def ask(self, path, token=None):
        return self.request("GET", path, headers={"Authorization": f"Bearer {token or self.token}"})


def all_at_once(worker, requests, expected, what):
    """Sends {key: bytes} by CLIENTS clients; seconds of each tenth of them. Ends the run unless each has the expected status."""
    loop, wrong, tenths, keys = OpenLoop(worker.address, requests), [], [], list(requests)
    loop.on_answer = lambda answer: wrong.append(answer) if answer.status != expected else None
    start = time.monotonic()
    for index, key in enumerate(keys):
        while loop.outstanding >= CLIENTS:
            loop.poll(1)
        loop.send(key, time.monotonic())
        if (index + 1) * 10 // len(keys) > index * 10 // len(keys):
            tenths.append(time.monotonic() - start)
    if not loop.settle(120) or wrong:
        raise SystemExit(f"{what}: {len(wrong)} of {len(keys)} failed, the first with status {wrong[0].status if wrong else None}")
    loop.close()
    return [after - before for before, after in zip([0, *tenths], tenths)]


def function_body(name, code, tags=None, runtime="python3"):
    return json.dumps({"FunctionName": name, "Runtime": runtime, "Handler": "app.handler", "Role": "arn:aws:iam::0:role/any", "Timeout": 60,
                       "MemorySize": 128, "Code": {"ZipFile": code}, "Tags": tags or {}}).encode()


def deploy(worker, named, code, tags=None, runtime="python3"):
    """named: [(token, name)]."""
    requests = {(token, name): http_request("POST", "/2015-03-31/functions", function_body(name, code, tags, runtime), token)
                for token, name in named}
    return all_at_once(worker, requests, 201, "deployments")


def make_tenants(worker, count):
    """{tenant: token}, over the operator's socket; seconds."""
    names, start = [f"team-{i:05}" for i in range(count)], time.monotonic()

    def make(name):
        worker.operate("POST", "/v1/tenants", {"name": name, "weight": 1, "quotas": {"concurrency": 4, "functions": 1000}})
        return name, worker.new_token(name)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        tokens = dict(pool.map(make, names))
    return tokens, time.monotonic() - start


def latencies(pairs, count, rounds=6):
    """Warm calls of several workers by turns: {label: (p50_ms, p99_ms, worker's CPU us)}; pairs: {label: (worker, name)}."""
    taken, cpu = {label: [] for label in pairs}, dict.fromkeys(pairs, 0)
    for turn in range(rounds + 1):
        for label, (worker, name) in pairs.items():
            loop = OpenLoop(worker.address, {name: http_request("POST", invocations_path(name), b"{}", worker.token)})
            before = worker.cpu_seconds()
            for _ in range(count // rounds):
                answer = loop.send(name, time.monotonic())
                if not loop.settle(60) or not answer.good:
                    raise SystemExit(f"{name}: {answer.status}")
                if turn > 0:  # the first warms up
                    taken[label].append(answer.latency_s * 1e3)
            if turn > 0:
                cpu[label] += worker.cpu_seconds() - before
            loop.close()
    return {label: {"p50_ms": rounded(percentile(each, 0.5)), "p99_ms": rounded(percentile(each, 0.99)),
                    "worker_cpu_us": rounded(cpu[label] / len(each) * 1e6, 1)} for label, each in taken.items()}


def longest_stall_ms(worker, seconds):
    """The worker has nothing to do: how long a probe took at most and at the median, and what of a core it used."""
    loop, taken = OpenLoop(worker.address, {"probe": http_request("GET", "/healthz")}), []
    before, start = worker.cpu_seconds(), time.monotonic()
    while time.monotonic() - start < seconds:
        answer = loop.send("probe", time.monotonic())
        if not loop.settle(30) or answer.status != 200:
            raise SystemExit(f"/healthz: {answer.status}")
        taken.append(answer.latency_s * 1e3)
        time.sleep(0.005)
    loop.close()
    return {"longest_ms": rounded(max(taken), 1), "p50_ms": rounded(percentile(taken, 0.5)),
            "cores": rounded((worker.cpu_seconds() - before) / (time.monotonic() - start), 4)}


def keep_asking(worker, token):
    connection = http.client.HTTPConnection(worker.address[0], int(worker.address[1]), timeout=120)

    def ask(path):
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise SystemExit(f"GET {path}: HTTP {response.status}: {content[:300]!r}")
        return content
    return ask


def pages(ask, path, rows, following, parameter):
    """All of a list: names, seconds, pages, the slowest page in ms."""
    names, count, slowest, start, marker = set(), 0, 0, time.monotonic(), ""
    while True:
        began = time.monotonic()
        page = json.loads(ask(path + (f"?{parameter}={marker}" if marker else "")))
        slowest = max(slowest, time.monotonic() - began)
        count += 1
        names |= {row.get("FunctionName") or row["name"] for row in page[rows]}
        if not (marker := page.get(following) or ""):
            return names, {"seconds": rounded(time.monotonic() - start, 2), "pages": count, "slowest_page_ms": rounded(slowest * 1e3, 1)}


def lists(worker, expected):
    """What `lambent ls`, Lambda's clients and the dashboard ask, over all functions of the default tenant."""
    ask, found = keep_asking(worker, worker.token), {}
    for label, arguments in {"lambda": ("/2015-03-31/functions", "Functions", "NextMarker", "Marker"),
                             "v1": ("/v1/functions", "functions", "next", "after"),
                             "dashboard": ("/v1/activity/functions", "functions", "next", "after")}.items():
        names, found[label] = pages(ask, *arguments)
        if names != expected:
            raise SystemExit(f"{label}: {len(names)} functions are listed, {len(expected)} are there")
    start = time.monotonic()
    listed = subprocess.run([str(PROGRAMS / "lambent"), "--endpoint", worker.endpoint, "ls"], capture_output=True, text=True, check=False,
                            timeout=600, env={**os.environ, "LAMBENT_TOKEN": worker.token})
    rows = len(listed.stdout.splitlines()) - 1
    if listed.returncode != 0 or rows != len(expected):
        raise SystemExit(f"lambent ls: {listed.returncode}, {rows} rows, {len(expected)} functions: {listed.stderr[-300:]}")
    found["lambent_ls_s"] = rounded(time.monotonic() - start, 2)
    first = time.monotonic()
    ask("/v1/functions")
    found["first_page_ms"] = rounded((time.monotonic() - first) * 1e3, 1)
    return found


def dashboard_events(worker, seconds):
    """What a page that stays open costs: bytes a second, and of a core."""
    connection = socket.create_connection((worker.address[0], int(worker.address[1])), 30)
    connection.sendall(f"GET /v1/activity/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {worker.token}\r\n\r\n".encode())
    connection.settimeout(0.2)
    before, start, received = worker.cpu_seconds(), time.monotonic(), 0
    first = b""
    while time.monotonic() - start < seconds:
        with contextlib.suppress(TimeoutError):
            data = connection.recv(1 << 20)
            first = first or data
            received += len(data)
    connection.close()
    if not first.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"/v1/activity/events: {first[:200]!r}")
    return {"kb_per_s": rounded(received / 1024 / seconds, 1), "cores": rounded((worker.cpu_seconds() - before) / seconds, 4)}


def metrics(worker, tenant_token):
    """Of the operator and of a tenant with few functions: bytes, and ms of the median of five."""
    found = {}
    for label, token in {"of_default": worker.token, "of_a_tenant": tenant_token}.items():
        ask, taken = keep_asking(worker, token), []
        for _ in range(5):
            start = time.monotonic()
            text = ask("/metrics")
            taken.append((time.monotonic() - start) * 1e3)
        found[label] = {"bytes": len(text), "series": sum(not line.startswith(b"#") for line in text.splitlines()),
                        "ms": rounded(percentile(taken, 0.5), 1)}
    return found


def sandboxes(worker, names, most):
    """One call of each until so many sandboxes live, or the machine's memory is nearly used: how many there are, and what each takes."""
    rss, started, taken, start = resident_kb(worker.process.pid), 0, [], time.monotonic()
    requests = {name: http_request("POST", invocations_path(name), b"{}", worker.token) for name in names[:most]}
    loop, free, files = OpenLoop(worker.address, requests), available_kb(), open_files(worker.process.pid)
    for name in names[:most]:
        if started % 16 == 0 and available_kb() < LEFT_FREE_KB:
            log(f"  {available_kb() >> 10} MiB of memory are left: no more than {started} sandboxes here")
            break
        answer = loop.send(name, time.monotonic())
        if not loop.settle(60) or not answer.good:
            raise SystemExit(f"{name}: {answer.status}")
        taken.append(answer.latency_s * 1e3)
        started += 1
    loop.close()
    seconds = time.monotonic() - start
    live = len(json.loads(worker.ask("/v1/sandboxes"))["sandboxes"])
    return {"asked_for": most, "started": started, "live": live, "bound": "memory" if started < most else "as asked",
            "cold_p50_ms": rounded(percentile(taken, 0.5), 1), "last_tenth_over_first": ratio(
                percentile(taken[-max(1, started // 10):], 0.5), percentile(taken[:max(1, started // 10)], 0.5)),
            "per_s": rounded(started / seconds, 1), "worker_rss_kb_each": rounded((resident_kb(worker.process.pid) - rss) / max(1, live), 1),
            "machine_kb_each": rounded((free - available_kb()) / max(1, live), 0),
            "worker_files_each": rounded((open_files(worker.process.pid) - files) / max(1, live), 2)}


def connections(worker, count, others):
    """Each asks once and rests; then each calls a function once more on the connection that it has."""
    # Each sandbox has five descriptors of the worker, and a connection one here and one there.
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    asked_for, count = count, min(count, limit - open_files(worker.process.pid) - 500)
    rss, held, start = resident_kb(worker.process.pid), [], time.monotonic()
    probe = http_request("GET", "/healthz")
    for _ in range(count):
        held.append(socket.create_connection((worker.address[0], int(worker.address[1])), 10))
        held[-1].sendall(probe)
        if not held[-1].recv(4096).startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"connection {len(held)} has no answer")
    opened = time.monotonic() - start
    idle_kb = (resident_kb(worker.process.pid) - rss) / count
    beside = latencies(others, 120, 3)
    call, start = http_request("POST", invocations_path(others["many"][1]), b"{}", worker.token), time.monotonic()
    answered = 0
    for first in range(0, count, CLIENTS):
        some = held[first:first + CLIENTS]
        for one in some:
            one.sendall(call)
        for one in some:
            one.settimeout(60)
            answered += one.recv(4096).startswith(b"HTTP/1.1 200")
    calls_s = time.monotonic() - start
    active_kb = (resident_kb(worker.process.pid) - rss) / count
    for one in held:
        one.close()
    if answered != count:
        raise SystemExit(f"{answered} of {count} connections were answered")
    return {"asked_for": asked_for, "count": count, "bound": "descriptors" if count < asked_for else "as asked",
            "open_s": rounded(opened, 2), "answered": answered, "rss_kb_each": rounded(idle_kb, 2),
            "rss_kb_each_after_a_call": rounded(active_kb, 2), "calls_per_s": rounded(count / calls_s, 1), "warm": beside,
            "p50_ratio": ratio(beside["many"]["p50_ms"], beside["few"]["p50_ms"])}


def instructions(resting, tenants, quick):
    """What an invocation costs dispatch, by callgrind: with ten functions that are called, and with as many among all that rest."""
    program = PROGRAMS / "dispatch_bench"
    if shutil.which("valgrind") is None or not program.exists():
        return None
    few, many = (1000, 3000) if quick else (4000, 12_000)

    def counted(case):
        with tempfile.TemporaryDirectory(prefix="lambent-callgrind-") as folder:
            done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", str(program), "--one", case],
                                  capture_output=True, text=True, timeout=1800, check=True)
        return int(re.search(r"Collected : (\d+)", done.stderr).group(1))

    def each(rest):
        return (counted(f"shipped,{FEW},{many}{rest}") - counted(f"shipped,{FEW},{few}{rest}")) / (many - few)

    alone = each(f",tenants={FEW}")
    among = each(f",tenants={tenants},resting={resting}")
    return {"few": rounded(alone, 0), "many": rounded(among, 0), "ratio": ratio(among, alone)}


def remove_some(worker, names):
    tenths = all_at_once(worker, {name: http_request("DELETE", f"/2015-03-31/functions/{name}", b"", worker.token) for name in names}, 204, "removals")
    return rounded(len(names) / sum(tenths), 1)


def run(size, quick):
    python = base64.b64encode(make_zip({"app.py": ECHO})).decode()
    native = base64.b64encode(make_zip({"bootstrap": (NATIVE.read_bytes(), 0o755)})).decode() if NATIVE.exists() else None
    result = {"size": size, "open_files_limit": raise_file_limit()}
    with contextlib.ExitStack() as stack:
        flags = ("--pool", str(size["sandboxes"] + FEW))
        many = stack.enter_context(Node("--gpu", f"emulated:tiny-x{size['devices']}", *flags))
        few = stack.enter_context(Node("--gpu", "emulated:tiny", *flags))
        gpus = len(many.operate("GET", "/v1/devices")["devices"])
        if gpus != size["devices"]:
            raise SystemExit(f"{gpus} GPUs are there, not {size['devices']}")
        many.token, few.token = many.new_token("default"), few.new_token("default")
        result["rss_mb_empty"] = rounded(resident_kb(many.process.pid) / 1024, 1)

        before = resident_kb(many.process.pid)
        tokens, seconds = make_tenants(many, size["tenants"])
        result["tenants"] = {"count": len(tokens), "per_s": rounded(len(tokens) / seconds, 1),
                             "rss_kb_each": rounded((resident_kb(many.process.pid) - before) / len(tokens), 2)}
        log(f"tenants: {result['tenants']}")

        # Half are of one tenant, whose lists are long; the others of all tenants by turns.
        own = [f"f{i:06}" for i in range(size["functions"] // 2)]
        teams = list(tokens)
        others = [(tokens[teams[i % len(teams)]], f"g{i:06}") for i in range(size["functions"] - len(own))]
        deploy(few, [(few.token, name) for name in own[:FEW]], python)
        deploy(many, [(many.token, name) for name in own[:FEW]], python)
        before, start = resident_kb(many.process.pid), time.monotonic()
        tenths = deploy(many, [(many.token, name) for name in own[FEW:]] + others, python)
        deployed = size["functions"] - FEW
        result["functions"] = {"count": size["functions"], "deploy_s": rounded(time.monotonic() - start, 1),
                               "per_s": rounded(deployed / sum(tenths), 1), "last_tenth_over_first": ratio(tenths[-1], tenths[0]),
                               "rss_kb_each": rounded((resident_kb(many.process.pid) - before) / deployed, 2)}
        log(f"functions: {result['functions']}")

        both = {"few": (few, own[3]), "many": (many, own[3])}
        result["warm"] = latencies(both, 120 if quick else 1200)
        result["warm_p50_ratio"] = ratio(result["warm"]["many"]["p50_ms"], result["warm"]["few"]["p50_ms"])
        result["warm_p99_ratio"] = ratio(result["warm"]["many"]["p99_ms"], result["warm"]["few"]["p99_ms"])
        log(f"warm: {result['warm']}")
        result["at_rest"] = {label: longest_stall_ms(worker, 2 if quick else 12) for label, (worker, _) in both.items()}
        log(f"at rest: {result['at_rest']}")
        result["lists"] = lists(many, set(own))
        result["dashboard_events"] = dashboard_events(many, 3 if quick else 60)
        result["metrics"] = metrics(many, tokens[teams[0]])
        log(f"lists: {result['lists']}, events: {result['dashboard_events']}, metrics: {result['metrics']}")

        names = [f"s{i:06}" for i in range(size["sandboxes"])]
        deploy(many, [(many.token, name) for name in names], native or python, runtime="provided.al2023" if native else "python3")
        result["sandboxes"] = sandboxes(many, names, size["sandboxes"]) | {"kind": "native" if native else "python"}
        log(f"sandboxes: {result['sandboxes']}")
        result["lists_beside_sandboxes"] = lists(many, set(own) | set(names))
        result["metrics_beside_sandboxes"] = metrics(many, tokens[teams[0]])
        result["connections"] = connections(many, size["connections"], both)
        log(f"connections: {result['connections']}")
        removed = own[-(size["functions"] // 50):]
        result["removals_per_s"] = remove_some(many, removed)

        result["rss_mb_full"] = rounded(resident_kb(many.process.pid) / 1024, 1)
        result["rss_mb_peak"] = rounded(peak_kb(many.process.pid) / 1024, 1)
        result["restart_s"] = {label: rounded(worker.restart(), 2) for label, (worker, _) in both.items()}
        result["rss_mb_after_restart"] = rounded(resident_kb(many.process.pid) / 1024, 1)
        left = (set(own) | set(names)) - set(removed)
        found, _ = pages(keep_asking(many, many.token), "/2015-03-31/functions", "Functions", "NextMarker", "Marker")
        if found != left:
            raise SystemExit(f"after a restart {len(found)} functions are listed, {len(left)} are there")
        for team in {teams[0], teams[len(teams) // 2], teams[-1]}:
            found, _ = pages(keep_asking(many, tokens[team]), "/2015-03-31/functions", "Functions", "NextMarker", "Marker")
            if found != {name for token, name in others if token == tokens[team]}:
                raise SystemExit(f"after a restart {team} has {len(found)} functions")
        result["warm_after_restart"] = latencies(both, 60 if quick else 240)
        log(f"restart: {result['restart_s']} s")
    result["instructions_per_invocation"] = instructions(size["functions"], size["tenants"], quick)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"with {QUICK}")
    for name, count in FULL.items():
        parser.add_argument(f"--{name}", type=int, help=f"instead of {count:,}")
    options = parser.parse_args()
    size = {name: getattr(options, name) or (QUICK if options.quick else FULL)[name] for name in FULL}
    print(json.dumps({"bench": "scale", "quick": options.quick, "machine": machine(), "emulated": True, **run(size, options.quick)}))


if __name__ == "__main__":
    main()
