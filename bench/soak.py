#!/usr/bin/env python3
"""A worker under churn, and what is left afterwards: functions whose GPU memory together is several times the device's are called, changed, crashed, killed,
abandoned and removed, by a seed, with lambent-device killed now and then. Every answer is checked: memory that came back changed is a failure.

At the end all functions are removed, and what the worker, its launcher and lambent-device hold is compared with what they held after the first round.
"""
import argparse
import base64
import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import sys
import threading
import time

from worker_under_test import Worker, make_zip

MIB = 1 << 20
FUNCTIONS = 12
CLIENTS = 3
HOLD_MIB = 200  # of each function; the device has 1,024

# Holds its memory for as long as it lives and looks at it at every call.
SOURCE = """
import array, os, time
import lambent_cuda as cuda

device = cuda.Device()
words = array.array("I", ((int(os.environ["SEED"]) + i) & 0xffffffff for i in range(1 << 18))).tobytes()
held = [device.buffer(words) for _ in range((int(os.environ["HOLD_MIB"]) << 20) // len(words))]

def handler(event, context):
    looks = held if event.get("all") else held[::16]
    changed = sum(one.bytes() != words for one in looks)
    if event.get("crash"):
        os.abort()
    if event.get("fork") and os.fork() == 0:
        time.sleep(0.2)
        os._exit(0)
    if event.get("sleep"):
        time.sleep(event["sleep"])
    extra = device.buffer(8 << 20)
    extra.fill(3)
    return {"changed": changed}
"""


def children_of(pid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def name_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def below(pid):
    found = [pid]
    for each in found:
        found += children_of(each)
    return found[1:]


def resident(pid):
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def open_files(pid):
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def shared_memory(pid):
    """Bytes of the files in memory that this process holds open."""
    total = 0
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}").startswith(("/memfd:", "/dev/shm/")):
                    total += os.stat(f"/proc/{pid}/fd/{fd}").st_blocks * 512
    return total


class Churn:
    def __init__(self, worker, seed):
        self.worker, self.random = worker, random.Random(seed)
        self.lock = threading.Lock()
        self.counts = {}
        self.changed = 0
        self.unexpected = []

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def deploy(self, index, first=True):
        name = f"soak-{index}"
        mode = ("vmm", "vmm", "vmm", "uvm")[index % 4]
        tags = {"lambent:gpu-memory": f"{HOLD_MIB + 24}MiB", "lambent:memory-mode": mode}
        code = make_zip({"app.py": SOURCE.encode()})
        body = {"FunctionName": name, "Runtime": "python3", "Handler": "app.handler", "Role": "arn:aws:iam::0:role/any", "Timeout": 20,
                "MemorySize": 768, "Tags": tags, "Environment": {"Variables": {"SEED": str(index), "HOLD_MIB": str(HOLD_MIB)}},
                "Code": {"ZipFile": base64.b64encode(code).decode()}}
        if first:
            self.worker.request("POST", "/2015-03-31/functions", json.dumps(body))
        else:
            self.worker.request("PUT", f"/2015-03-31/functions/{name}/configuration",
                                json.dumps({"Description": str(self.random.random())}))

    def remove(self, index):
        self.worker.request("DELETE", f"/2015-03-31/functions/soak-{index}")

    def call(self, index, event):
        connection = http.client.HTTPConnection(self.worker.address[0], int(self.worker.address[1]), timeout=90)
        try:
            connection.request("POST", f"/2015-03-31/functions/soak-{index}/invocations", json.dumps(event))
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        self.count(response.headers.get("x-lambent-start", "rejected"))
        if response.status != 200 or response.headers.get("X-Amz-Function-Error"):
            return response.status, response.headers.get("x-lambent-error-type", ""), body
        if json.loads(body)["changed"]:
            with self.lock:
                self.changed += 1
        return 200, "", body

    def abandon(self, index):
        """A client that goes away in the middle."""
        connection = http.client.HTTPConnection(self.worker.address[0], int(self.worker.address[1]), timeout=5)
        connection.request("POST", f"/2015-03-31/functions/soak-{index}/invocations", '{"sleep": 0.1}')
        connection.close()

    def kill_one(self, name):
        victims = [pid for pid in below(self.worker.process.pid) if name in name_of(pid)]
        if victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.random.choice(victims), signal.SIGKILL)

    def client(self, seed, end):
        chance = random.Random(seed)
        while time.monotonic() < end:
            index = chance.randrange(FUNCTIONS)
            what = chance.random()
            # What a client may be told beside an answer, by what is done to its function here.
            allowed = {"Runtime.ExitError", "Sandbox.Failure", "Runtime.OutOfMemory"}
            try:
                if what < 0.80:
                    status, error, body = self.call(index, {"all": chance.random() < 0.1, "fork": chance.random() < 0.1})
                    if status not in (200, 404, 409) or (error and error not in allowed):
                        with self.lock:
                            self.unexpected.append(f"{status} {error} {body[:200]!r}")
                elif what < 0.85:
                    self.call(index, {"crash": True})
                elif what < 0.90:
                    self.abandon(index)
                elif what < 0.94:
                    self.count("redeployed")
                    self.deploy(index, first=False)
                elif what < 0.97:
                    self.count("replaced")
                    self.remove(index)
                    self.deploy(index)
                else:
                    self.count("killed")
                    self.kill_one("python3")
            except (OSError, http.client.HTTPException, SystemExit):
                self.count("refused")

    def run(self, seconds):
        end = time.monotonic() + seconds
        clients = [threading.Thread(target=self.client, args=(self.random.random(), end)) for _ in range(CLIENTS)]
        for each in clients:
            each.start()
        while time.monotonic() < end:
            time.sleep(min(20, max(0.1, end - time.monotonic())))
            if time.monotonic() < end:
                self.count("device_daemon_killed")
                self.kill_one("lambent-device")
        for each in clients:
            each.join()


def device_bytes(worker):
    """Of the emulated device, once two readings agree."""
    before = -1
    for _ in range(100):
        time.sleep(0.5)
        text = worker.request("GET", "/metrics").decode()
        now = sum(float(line.rpartition(" ")[2]) for line in text.splitlines()
                  if line.startswith("lambent_gpu_memory_bytes{") and 'kind="used"' in line)
        if now == before:
            return int(now)
        before = now
    return int(before)


def holdings(worker):
    ours = [worker.process.pid] + [pid for pid in below(worker.process.pid) if name_of(pid).startswith("lambent-")]
    return {"processes": len(below(worker.process.pid)), "fds": sum(map(open_files, ours)), "rss_bytes": sum(map(resident, ours)),
            "shm_bytes": sum(map(shared_memory, ours)), "device_bytes": device_bytes(worker)}


def settle(worker, churn):
    for index in range(FUNCTIONS):
        with contextlib.suppress(SystemExit, OSError):
            churn.remove(index)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and json.loads(worker.request("GET", "/v1/sandboxes"))["sandboxes"]:
        time.sleep(0.2)
    time.sleep(3)  # a lambent-device that was killed comes back, and readings with it
    return holdings(worker)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="half a minute")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    seconds = 20 if options.quick else options.minutes * 60
    started = time.monotonic()
    with Worker("--gpu", "emulated:tiny", "--context-memory", "16", "--pool", "8") as worker:
        churn = Churn(worker, options.seed)
        # One round first: what the worker keeps once it has worked is no leak.
        for index in range(FUNCTIONS):
            churn.deploy(index)
        for index in range(0, FUNCTIONS, 3):
            churn.call(index, {})
        before = settle(worker, churn)
        for index in range(FUNCTIONS):
            churn.deploy(index)
        churn.run(seconds)
        after = settle(worker, churn)
        status = worker.process.poll()
        errors = [line for line in worker.log_path.read_text(errors="replace").splitlines() if '"level":"error"' in line]
    print(json.dumps(churn.counts, indent=1))
    for name in before:
        print(f"{name:14} {before[name]:>14,} {after[name]:>14,}")
    for line in churn.unexpected[:10] + errors[:10]:
        print("unexpected:", line)
    leaked = {"processes": after["processes"] - before["processes"], "fds": after["fds"] - before["fds"],
              "shm_mb": round((after["shm_bytes"] - before["shm_bytes"]) / 1e6, 1), "device_bytes": after["device_bytes"] - before["device_bytes"],
              "rss_mb": round((after["rss_bytes"] - before["rss_bytes"]) / 1e6, 1)}
    print(json.dumps({"bench": "soak", "quick": options.quick, "hours": round((time.monotonic() - started) / 3600, 3), "calls": sum(
        churn.counts.get(start, 0) for start in ("cold", "gpu_cold", "warm")), "changed": churn.changed, "unexpected": len(churn.unexpected),
        "leaked": leaked}))
    return 1 if churn.changed or status is not None else 0


if __name__ == "__main__":
    sys.exit(main())
