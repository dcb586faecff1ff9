#!/usr/bin/env python3
"""bench overload: a worker asked for ten times what it can do, one with 10,000 functions, and one with 10,000 idle connections.

docs/internals/benchmarks.md says what each figure means. Usage: overload.py [--quick] [--only load,functions,connections] [--set KEY=VALUE]
"""
import argparse
import base64
import contextlib
import http.client
import json
import os
import pathlib
import random
import resource
import socket
import threading
import time
import uuid

from open_loop import OpenLoop, percentile, poisson
from worker_under_test import Worker, invocations_path, machine, make_zip

RUN_MS = 40
# Name: weight, and what it asks for relative to each other. The first two flood; what the others ask for is so much of the capacity, at 1x and at 10x.
FLOODS = {"flood": (1, 0.4), "flood-twice": (2, 0.4)}
MODEST = {"steady": (1, 0.15), "modest": (1, 0.05), "rare": (1, 0.01)}
FUNCTIONS = {**FLOODS, **MODEST}
CLIENTS = 20  # while the capacity is measured
SEED = 1
# A run sleeps for as long as its kernels would take: the token of the GPU is held, the machine's cores are not.
HANDLER = b"""import time
def handler(event, context):
    time.sleep(%d / 1000)
    return {}
""" % RUN_MS
ECHO = b"def handler(event, context):\n    return event\n"


def log(text):
    print(text, flush=True)


def request_of(name, body=b"{}"):
    return (b"POST " + invocations_path(name).encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)) + body


def rounded(value, digits=3):
    return None if value is None else round(value, digits)


def resident_kb(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * (os.sysconf("SC_PAGE_SIZE") >> 10)


def function_json(name, code, tags):
    return json.dumps({"FunctionName": name, "Runtime": "python3", "Handler": "app.handler", "Role": "arn:aws:iam::0:role/any",
                       "Code": {"ZipFile": base64.b64encode(code).decode()}, "Timeout": 60, "MemorySize": 256, "Tags": tags})


# ---- Ten times too much

def fair_shares(demand, weights, capacity):
    """Max-min by weight: nobody gets more than it asks for, and what is left goes to those who want more, by their weights."""
    shares, hungry, left = {}, set(demand), capacity
    while hungry:
        unit = left / sum(weights[name] for name in hungry)
        sated = {name for name in hungry if demand[name] <= unit * weights[name]}
        if not sated:
            return shares | {name: unit * weights[name] for name in hungry}
        for name in sated:
            shares[name] = demand[name]
            left -= demand[name]
        hungry -= sated
    return shares


def jain(values):
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values)) if any(values) else None


def rates_at(times, capacity):
    return ({name: share * capacity * (times - sum(each for _, each in MODEST.values())) / sum(each for _, each in FLOODS.values())
             for name, (_, share) in FLOODS.items()} | {name: share * capacity for name, (_, share) in MODEST.items()})


def latencies_ms(answers, names):
    found = [answer.latency_s * 1e3 for answer in answers if answer.kind in names and answer.good]
    return {"p50_ms": rounded(percentile(found, 0.5), 1), "p99_ms": rounded(percentile(found, 0.99), 1)}


def over_service(answers, names):
    """How long the admitted took, in times of what their runs took on this machine, as loaded as it is."""
    good = [answer for answer in answers if answer.kind in names and answer.good and answer.run_s]
    service = sum(answer.run_s for answer in good) / len(good) if good else None
    ratios = [answer.latency_s / service for answer in good]
    return {"run_ms": rounded(service and service * 1e3, 1), "p50": rounded(percentile(ratios, 0.5), 2), "p99": rounded(percentile(ratios, 0.99), 2)}


def figures_of(times, capacity, most_each, seconds, answers, start):
    """Of one rate: what was served and what was shed. Goodput is counted by when answers came, in the middle of the run."""
    weights = {name: weight for name, (weight, _) in FUNCTIONS.items()}
    rates = rates_at(times, capacity)
    first, last = start + seconds * 0.25, start + seconds
    served = {name: sum(a.kind == name and a.good and first <= a.done < last for a in answers) / (last - first) for name in FUNCTIONS}
    asked = {name: sum(a.kind == name and first <= a.due < last for a in answers) / (last - first) for name in FUNCTIONS}
    fair = fair_shares({name: min(asked[name], most_each) for name in FUNCTIONS}, weights, sum(served.values()))
    shed = [a for a in answers if not a.good]
    codes = {}
    for answer in shed:
        codes[str(answer.status)] = codes.get(str(answer.status), 0) + 1
    quarters = []
    for quarter in range(4):
        low, high = start + seconds * quarter / 4, start + seconds * (quarter + 1) / 4
        part = [a for a in answers if a.good and low <= a.due < high]
        quarters.append({"floods": latencies_ms(part, FLOODS), "modest": latencies_ms(part, MODEST)})
    return {"offered_per_s": rounded(sum(rates.values()), 1), "goodput_per_s": rounded(sum(served.values()), 1),
            "goodput_share": rounded(sum(served.values()) / capacity),
            "served_over_fair": {name: rounded(served[name] / fair[name]) if fair[name] else None for name in FUNCTIONS},
            "jain": rounded(jain([served[name] / fair[name] for name in FUNCTIONS if fair[name]]), 4),
            "shed_share": {name: rounded(sum(a.kind == name for a in shed) / max(1, sum(a.kind == name for a in answers)), 4) for name in FUNCTIONS},
            "shed_codes": codes, "shed_clear": rounded(sum(a.clear for a in shed) / len(shed), 4) if shed else None,
            "retry_after_s": [min(after), max(after)] if (after := [a.retry_after for a in shed if a.retry_after]) else None,
            "floods": latencies_ms(answers, FLOODS), "modest": latencies_ms(answers, MODEST), "all": latencies_ms(answers, FUNCTIONS),
            "over_service": {"floods": over_service(answers, FLOODS), "modest": over_service(answers, MODEST)},
            "quarters": quarters, "latest_sent_ms": rounded(max(a.sent - a.due for a in answers) * 1e3, 1)}


def run_at(worker, times, capacity, seconds, kinds):
    loop = OpenLoop(worker.address, kinds)
    before = worker.cpu_seconds()
    start = time.monotonic()
    answers = loop.run(poisson(rates_at(times, capacity), seconds, SEED))
    cpu = (worker.cpu_seconds() - before) / (time.monotonic() - start)
    return loop, answers, start, cpu


RECOVERY_MOST_S = 60


def recovery(loop, usual_s, most_s):
    """The load has ended, its clients wait on. Seconds until a fresh request of each function has been answered in its usual time, and for
    all of them: never zero, as a queue that is a few runs long has been served before the second request is due."""
    start, since, after = time.monotonic(), {}, {}
    tolerance = {name: 2 * usual + 0.05 for name, usual in usual_s.items()}
    while len(after) < len(FUNCTIONS) and time.monotonic() - start < most_s:
        sent = {name: loop.send(name, time.monotonic()) for name in FUNCTIONS if name not in after}
        end = time.monotonic() + 0.25
        while time.monotonic() < end:
            loop.poll(end - time.monotonic())
        since.update({name: [*since.get(name, []), answer] for name, answer in sent.items()})
        for name, probes in since.items():
            fast = [probe.done for probe in probes if probe.good and probe.latency_s <= tolerance[name]]
            if name not in after and fast:
                after[name] = fast[0] - start
    return {"floods_s": rounded(max((after.get(name, most_s) for name in FLOODS)), 3),
            "modest_s": rounded(max((after.get(name, most_s) for name in MODEST)), 3)}


def overload(quick, tokens, concurrency, flags):
    seconds = {"capacity": 2, "light": 2, "1x": 3, "10x": 6} if quick else {"capacity": 15, "light": 30, "1x": 60, "10x": 60}
    code = make_zip({"app.py": HANDLER})
    kinds = {name: request_of(name) for name in FUNCTIONS}
    result = {"run_ms": RUN_MS, "tokens": tokens, "max_concurrency": concurrency, "flags": list(flags)}
    with Worker("--gpu", "emulated:v100-16gb", "--memory-scale", "16", "--concurrency", str(tokens), "--pool", "32", "--drain", "1", *flags) as worker:
        for name, (weight, _) in FUNCTIONS.items():
            worker.request("POST", "/2015-03-31/functions", function_json(name, code, {
                "lambent:gpu-memory": "256MiB", "lambent:max-concurrency": str(concurrency), "lambent:weight": str(weight)}))
        loop = OpenLoop(worker.address, kinds)
        loop.keep_busy(list(FUNCTIONS), CLIENTS, 2 if quick else 5)  # sandboxes start
        answers = loop.keep_busy(list(FUNCTIONS), CLIENTS, seconds["capacity"])
        loop.settle(10)
        loop.close()
        capacity = sum(a.good for a in answers) / (max(a.done for a in answers if a.good) - min(a.sent for a in answers))
        result["capacity_per_s"] = rounded(capacity, 1)
        log(f"capacity {capacity:.1f} invocations/s ({tokens} tokens, runs of {RUN_MS} ms, {concurrency} of a function at once)")
        rows = {}
        for label, times in (("light", 0.5), ("1x", 1), ("10x", 10)):
            loop, answers, start, cpu = run_at(worker, times, capacity, seconds[label], kinds)
            if label == "10x":
                rss = resident_kb(worker.process.pid)
                usual = {name: percentile([a.latency_s for a in light if a.kind == name and a.good], 0.5) or 0.1 for name in FUNCTIONS}
                result["recovery"] = recovery(loop, usual, RECOVERY_MOST_S)
            loop.settle(60)
            loop.close()
            if label == "light":
                light = answers
            rows[label] = {"times": times, "seconds": seconds[label], **figures_of(times, capacity, capacity * concurrency / tokens, seconds[label], answers, start),
                           "worker_cores": rounded(cpu, 2)}
            if label == "10x":
                rows[label]["rss_mb"] = rounded(rss / 1024, 1)
            row = rows[label]
            log(f"{label:>5}: goodput {row['goodput_share']}, Jain {row['jain']}, shed {row['shed_codes']}, clear {row['shed_clear']}, "
                f"p50/p99 ms floods {row['floods']['p50_ms']}/{row['floods']['p99_ms']}, modest {row['modest']['p50_ms']}/{row['modest']['p99_ms']}")
        result |= {"rows": rows, "goodput_share": rows["10x"]["goodput_share"], "jain": rows["10x"]["jain"], "shed_clear": rows["10x"]["shed_clear"],
                   "recovery_s": result["recovery"]["modest_s"],
                   "p99_ratio_10x_to_1x": {who: ratio(rows["10x"][who]["p99_ms"], rows["1x"][who]["p99_ms"]) for who in ("floods", "modest")}}
    log(f"recovery: {result['recovery']}")
    return result


def ratio(one, other):
    return rounded(one / other, 2) if one and other else None


# ---- Clients that come again as they were told

class Told(threading.Thread):
    """Sends one piece of work after the other; what is refused comes again when it was told to, until it is served."""
    SORTS = ("with_id", "by_connection", "unknown")

    def __init__(self, address, sort, ended):
        super().__init__()
        self.address, self.sort, self.ended = address, sort, ended
        self.connection, self.found = None, []  # (of the time told, whether it was served)
        self.failures = []  # texts

    def run(self):
        try:
            while not self.ended.is_set():
                self.work()
        except Exception as error:  # a thread's own would be printed and forgotten
            self.failures.append(f"told, {self.sort}: {error!r}")
        finally:
            if self.connection is not None:
                self.connection.close()

    def work(self):
        key, told_s, refused, served = {"amz-sdk-invocation-id": str(uuid.uuid4())} if self.sort == "with_id" else {}, None, None, None
        try:
            while served is None and not self.ended.is_set():
                sent = time.monotonic()
                status, wait_s = self.send(key)
                if told_s is None and status == 429:
                    told_s, refused = wait_s, time.monotonic()
                if status == 200:
                    served = sent
                self.ended.wait(0.2 if status == 200 else wait_s)
        finally:  # also where a request failed: a wait that led to nothing
            if told_s:
                end = time.monotonic() if served is None else served
                self.found.append(((end - refused) / told_s, served is not None))

    def send(self, key):
        """Status, and seconds until it may come again."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.address[0], int(self.address[1]), timeout=60)
        self.connection.request("POST", invocations_path("told"), b"{}", key)
        response = self.connection.getresponse()
        response.read()
        if self.sort != "by_connection" or response.getheader("Connection") == "close":
            self.connection.close()
            self.connection = None
        if response.status not in (200, 429):
            raise RuntimeError(f"HTTP {response.status}")
        return response.status, int(response.getheader("retry-after-ms", "0")) / 1e3


def raise_failures(clients):
    failures = [failure for client in clients for failure in client.failures]
    if failures:
        raise SystemExit(f"{len(failures)} of {len(clients)} clients failed: {failures[:3]}")


def told(quick, times, tokens=2):
    """A flood of new clients at so many times the capacity, and beside it a few of each sort that come as they are told."""
    seconds, each = (16, 4) if quick else (60, 8)
    with Worker("--gpu", "emulated:v100-16gb", "--memory-scale", "16", "--concurrency", str(tokens), "--pool", "32", "--drain", "1") as worker:
        worker.request("POST", "/2015-03-31/functions", function_json("told", make_zip({"app.py": HANDLER}), {
            "lambent:gpu-memory": "256MiB", "lambent:max-concurrency": str(tokens)}))
        loop = OpenLoop(worker.address, {"told": request_of("told")})
        loop.keep_busy(["told"], CLIENTS, 3)
        answers = loop.keep_busy(["told"], CLIENTS, 2 if quick else 10)
        loop.settle(10)
        capacity = sum(a.good for a in answers) / (max(a.done for a in answers if a.good) - min(a.sent for a in answers))
        ended = threading.Event()
        clients = [Told(worker.address, sort, ended) for sort in Told.SORTS for _ in range(each)]
        for client in clients:
            client.start()
        try:
            flood = loop.run(poisson({"told": times * capacity}, seconds, SEED))
        finally:
            ended.set()
            for client in clients:
                client.join()
        loop.settle(10)
        loop.close()
    raise_failures(clients)
    result = {"times": times, "seconds": seconds, "capacity_per_s": rounded(capacity, 1), "flood_served_share": rounded(
        sum(a.good for a in flood) / len(flood), 4), "flood": latencies_ms(flood, ["told"])}
    for sort in Told.SORTS:
        ratios = [ratio for client in clients if client.sort == sort for ratio, _ in client.found]
        served = sum(served for client in clients if client.sort == sort for _, served in client.found)
        result[sort] = {"served": served, "not_served": len(ratios) - served,
                        **{f"p{int(share * 100)}": rounded(percentile(ratios, share), 2) for share in (0.5, 0.9, 0.99)}}
    log(f"told at {times}x: " + ", ".join(f"{sort} p50/p90 {result[sort]['p50']}/{result[sort]['p90']}" for sort in Told.SORTS))
    return result


# ---- 10,000 functions

def invoke_p50_ms(worker, name, count):
    loop, found = OpenLoop(worker.address, {name: request_of(name)}), []
    for _ in range(count + 10):
        answer = loop.send(name, time.monotonic())
        if not loop.settle(30) or not answer.good:
            raise SystemExit(f"{name}: {answer.status}")
        found.append(answer.latency_s * 1e3)
    loop.close()
    return percentile(found[10:], 0.5)


def deploy_many(worker, first, last, code):
    """So many functions by 32 clients; seconds."""
    bodies = {index: function_json(f"f{index:05}", code, {}).encode() for index in range(first, last)}
    kinds = {index: b"POST /2015-03-31/functions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body for index, body in bodies.items()}
    loop, failed, start = OpenLoop(worker.address, kinds), [], time.monotonic()
    loop.on_answer = lambda answer: failed.append(answer) if answer.status != 201 else None
    for index in range(first, last):
        while loop.outstanding >= 32:
            loop.poll(1)
        loop.send(index, time.monotonic())
    if not loop.settle(60) or failed:
        raise SystemExit(f"{len(failed)} functions were not deployed, the first with status {failed[0].status if failed else None}")
    loop.close()
    return time.monotonic() - start


def list_all(worker):
    """Page by page; how many, and seconds."""
    start, count, marker = time.monotonic(), 0, ""
    while True:
        page = json.loads(worker.request("GET", "/2015-03-31/functions" + (f"?Marker={marker}" if marker else "")))
        count += len(page["Functions"])
        if not (marker := page.get("NextMarker", "")):
            return count, time.monotonic() - start


def timed(worker, path):
    start = time.monotonic()
    content = worker.request("GET", path)
    return len(content), (time.monotonic() - start) * 1e3


def functions(quick):
    count, samples = (1000, 100) if quick else (10_000, 500)
    code = make_zip({"app.py": ECHO})
    chance = random.Random(SEED)
    with Worker("--gpu", "none", "--drain", "1") as worker:
        deploy_many(worker, 0, 10, code)
        few_ms = invoke_p50_ms(worker, "f00003", samples)
        rss_few = resident_kb(worker.process.pid)
        seconds = deploy_many(worker, 10, count, code)
        rss = resident_kb(worker.process.pid)
        many_ms = invoke_p50_ms(worker, "f00003", samples)
        others = [f"f{chance.randrange(10, count):05}" for _ in range(3 if quick else 10)]
        others_ms = [invoke_p50_ms(worker, name, samples // 10) for name in others]
        listed, list_s = list_all(worker)
        metrics_bytes, metrics_ms = timed(worker, "/metrics")
        status_bytes, status_ms = timed(worker, "/v1/functions")
        restart_s = worker.restart()
        listed_again, _ = list_all(worker)
        restarted_ms = invoke_p50_ms(worker, others[0], samples // 10)
    if listed != count or listed_again != count:
        raise SystemExit(f"{count} functions were deployed, {listed} are listed, {listed_again} after a restart")
    result = {"count": count, "deploy_s": rounded(seconds, 2), "restart_s": rounded(restart_s, 2), "invoke_p50_ms": rounded(many_ms),
              "invoke_p50_ratio_to_10": ratio(many_ms, few_ms), "others_p50_ms": [rounded(each) for each in others_ms],
              "after_restart_p50_ms": rounded(restarted_ms), "rss_mb": rounded(rss / 1024, 1), "rss_kb_each": rounded((rss - rss_few) / count, 2),
              "list_s": rounded(list_s, 2), "metrics_bytes": metrics_bytes, "metrics_ms": rounded(metrics_ms, 1),
              "status_bytes": status_bytes, "status_ms": rounded(status_ms, 1)}
    log(f"{count} functions: deployed in {result['deploy_s']} s, restart {result['restart_s']} s, p50 {result['invoke_p50_ratio_to_10']} of that "
        f"with ten, {result['rss_kb_each']} KiB each, /metrics {metrics_bytes >> 10} KiB in {metrics_ms:.0f} ms")
    return result


# ---- 10,000 idle connections

def open_idle(address, count):
    """Connections that have asked something once and now say nothing."""
    held, probe = [], b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.suppress(OSError):
        for _ in range(count):
            held.append(socket.create_connection((address[0], int(address[1])), 10))
            held[-1].sendall(probe)
            if not held[-1].recv(4096).startswith(b"HTTP/1.1 200"):
                held.pop().close()
    return held


def still_open(held):
    """How many have not been closed by the other end."""
    count = 0
    for one in held:
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError, OSError):
            one.recv(1)
            continue
        count += 1
    return count


def connections(quick):
    count, samples = (2000, 200) if quick else (10_000, 2000)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < count + 200:
        raise SystemExit(f"{count} connections need as many open files; the hard limit is {hard}")
    with Worker("--gpu", "none", "--drain", "1") as worker:
        deploy_many(worker, 0, 1, make_zip({"app.py": ECHO}))
        alone_ms = invoke_p50_ms(worker, "f00000", samples)
        before = resident_kb(worker.process.pid)
        start = time.monotonic()
        held = open_idle(worker.address, count)
        seconds = time.monotonic() - start
        rss = resident_kb(worker.process.pid)
        beside_ms = invoke_p50_ms(worker, "f00000", samples)
        cpu, quiet_s = worker.cpu_seconds(), 1 if quick else 10
        time.sleep(quiet_s)  # what idle ones cost while nothing happens
        idle_cores = (worker.cpu_seconds() - cpu) / quiet_s
        result = {"count": count, "held": still_open(held), "open_s": rounded(seconds, 2), "rss_kb_each": rounded((rss - before) / count, 2),
                  "p50_ms": rounded(beside_ms), "idle_cores": rounded(idle_cores, 4)}
        for one in held:
            one.close()
        # The machine may have been busier meanwhile: alone once more.
        result["p50_ratio"] = ratio(2 * beside_ms, alone_ms + invoke_p50_ms(worker, "f00000", samples))
    log(f"{result['held']} of {count} idle connections held: {result['rss_kb_each']} KiB each, p50 beside them {result['p50_ratio']} of alone")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="parts; without it all, and with --quick those that are short: load, functions, connections")
    parser.add_argument("--set", action="append", default=[], help="of the worker under load, as `lambent serve --set`")
    options = parser.parse_args()
    flags = [word for each in options.set for word in ("--set", each)]
    parts = (options.only or ("load,functions,connections" if options.quick else "load,declared,told,functions,connections")).split(",")
    started = machine()
    result = {"bench": "overload", "quick": options.quick, "machine": started, "emulated": True}
    if "load" in parts:
        result |= overload(options.quick, 2, 1, flags)
    if "declared" in parts:
        result["declared_concurrency"] = overload(options.quick, 4, 4, flags)
    if "told" in parts:
        result["told"] = [told(options.quick, times) for times in ((10,) if options.quick else (10, 40))]
    if "functions" in parts:
        result["functions_10000"] = functions(options.quick)
    if "connections" in parts:
        result["idle_connections_10000"] = connections(options.quick)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
