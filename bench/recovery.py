"""What the failure of one component of a workflow costs: whether it is told, how long its own workflow and its neighbours
in the runtime are away, and whether another runtime on the device notices.

A workflow of two handlers in one shared runtime (gpu.runtime = "shared") on one of the emulator's small devices. The second
crashes, hangs, floods its ring, writes nonsense into it, exhausts its memory or faults; the workflow is called again at once,
until it answers. A handler of another domain is called all the while. Kernels run on this machine's cores.
"""
import argparse
import base64
import contextlib
import http.client
import json
import pathlib
import statistics
import subprocess
import tempfile
import threading
import time

from last_line import write_last_line
from worker_under_test import PREFIX, Worker, invocations_path, machine, make_zip

HARMS = ("crash", "fault", "hang", "flood", "ring", "memory", "kernel fault", "kernel hang")
TIMEOUT_S = 2  # of the component that hangs

KERNELS = """
#include <lambent/kernel.h>

extern "C" __global__ void touch(float* y) { y[threadIdx.x] = 1; }
LAMBENT_KERNEL(touch);

// Nothing writes the flag.
extern "C" __global__ void endless(const volatile int* flag, float* y) {
  while (*flag == 0) {
  }
  *y = 1;
}
LAMBENT_KERNEL(endless);

extern "C" __global__ void wild(const int* offset, float* y) {
  float* nowhere = reinterpret_cast<float*>(16ull + *offset);
  *nowhere = *y;
}
LAMBENT_KERNEL(wild);
"""
HANDLER = """
import ctypes, os
import lambent_cuda as cuda

device = cuda.Device()
kernels = device.load(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "bundles/k"))
y, flag = device.buffer(1024), device.buffer(4)
flag.fill(0)
process = os.urandom(8).hex()

def handler(event, context):
    how = event.get("how")
    if how == "crash":
        kept = device.buffer(1 << 20)
        os.abort()
    if how in ("fault", "hang"):
        kernels.kernel({"fault": "wild", "hang": "endless"}[how])(grid=1, block=1, args=[flag, y])
        device.synchronize()
    if how == "flood":
        touch = kernels.kernel("touch")
        for _ in range(200_000):
            touch(grid=1, block=32, args=[y])
        os.abort()
    if how == "ring":
        for line in open("/proc/self/maps"):
            if "lambent-forward" in line:
                begin, end = (int(each, 16) for each in line.split()[0].split("-"))
                ctypes.memset(begin, 0xa5, end - begin)
        device.synchronize()
    if how == "memory":
        kept = [device.buffer(1 << 20) for _ in range(1000)]
    kernels.kernel("touch")(grid=1, block=32, args=[y])
    device.synchronize()
    return {"process": process}
"""


def package(folder):
    (folder / "k.cu").write_text(KERNELS)
    subprocess.run([PREFIX / "bin/lambent-bundle", "build", folder / "k.cu", "-o", folder / "k"], check=True,
                   stdout=subprocess.DEVNULL)
    return {f"bundles/k/{path.relative_to(folder / 'k')}": path.read_bytes()
            for path in (folder / "k").rglob("*") if path.is_file()}


def graph(kernel):
    """x is what the kernel reads: 0 and it does no harm."""
    arguments = [{"buffer": "x"}, {"buffer": "y"}]
    return json.dumps({"buffers": [{"name": "x", "role": "input", "datatype": "INT32", "shape": [1]},
                                   {"name": "y", "role": "output", "datatype": "FP32", "shape": [32]}],
                       "steps": [{"kernel": kernel, "bundle": "bundles/k", "grid": [1], "block": [1], "arguments": arguments}]})


class Node:
    def __init__(self, worker, bundle):
        self.worker, self.bundle = worker, bundle

    def create(self, name, files, runtime, handler, timeout=60, **tags):
        self.worker.request("POST", "/2015-03-31/functions", json.dumps({
            "FunctionName": name, "Runtime": runtime, "Handler": handler, "Role": "arn:aws:iam::0:role/any",
            "Code": {"ZipFile": base64.b64encode(make_zip(files)).decode()}, "Timeout": timeout, "MemorySize": 256,
            "Tags": {f"lambent:{key.replace('_', '-')}": value for key, value in tags.items()}}))

    def handler(self, name, domain, timeout=60):
        self.create(name, {"app.py": HANDLER.encode(), **self.bundle}, "python3", "app.handler", timeout,
                    gpu_memory="32M", gpu_runtime="shared", gpu_domain=domain, max_concurrency="1")

    def kernel(self, name, kernel, timeout):
        self.create(name, {"graph.json": graph(kernel).encode(), **self.bundle}, "provided.al2023", "graph.json", timeout,
                    kind="kernel", gpu_memory="32M", gpu_domain="own", max_concurrency="1")

    def workflow(self, name, components):
        flow = json.dumps({"components": components})
        self.create(name, {"workflow.json": flow.encode()}, "provided.al2023", "workflow.json", kind="workflow")

    def call(self, name, event):
        """The answer, or the error."""
        connection = http.client.HTTPConnection(self.worker.address[0], int(self.worker.address[1]), timeout=90)
        with contextlib.closing(connection):
            connection.request("POST", invocations_path(name), json.dumps(event))
            response = connection.getresponse()
            answer = json.loads(response.read())
        failed = response.status != 200 or response.getheader("X-Amz-Function-Error")
        return (None, answer) if failed else (answer, None)

    def until_it_answers(self, name, event):
        """How long it takes, in ms, and the failures on the way."""
        begin, failures = time.monotonic(), 0
        while True:
            answer, error = self.call(name, event)
            if answer is not None:
                return (time.monotonic() - begin) * 1e3, failures
            failures += 1
            if time.monotonic() - begin > 60:
                raise SystemExit(f"{name} does not come back: {error}")


class Watched:
    """A handler of another domain, called over and over."""

    def __init__(self, node):
        self.node, self.times, self.processes, self.failures = node, [], set(), 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.over.is_set():
            begin = time.monotonic()
            answer, _ = self.node.call("far", {})
            self.times.append((time.monotonic() - begin) * 1e3)
            if answer is None:
                self.failures += 1
            else:
                self.processes.add(answer["process"])
            time.sleep(0.01)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def measure(node, harm):
    kernel = harm.startswith("kernel ")
    flow = {"kernel fault": "kernel_fault", "kernel hang": "kernel_hang"}.get(harm, "flow")
    good = {"x": {"datatype": "INT32", "shape": [1], "data": [1]}} if kernel else {}
    # The flag that is 0 hangs; an offset that is 0 faults, and so does any other.
    bad = {"x": {"datatype": "INT32", "shape": [1], "data": [0]}} if kernel else {"how": harm}
    again = ("flow", {}) if harm == "kernel fault" else (flow, good)
    if harm != "kernel fault":
        node.until_it_answers(flow, good)
    node.until_it_answers("near", {})
    with Watched(node) as far:
        time.sleep(0.3)
        quiet = list(far.times)
        answer, error = node.call(flow, bad)
        if answer is not None:
            raise SystemExit(f"{harm}: the workflow answered {answer}")
        back, failures = node.until_it_answers(*again)
        near, near_failures = node.until_it_answers("near", {})
        # A client whose work does not end breaks its executor only after a while.
        time.sleep(12 if harm == "hang" else 0.5)
        late, late_failures = node.until_it_answers(*again)
    return {"error": error["errorType"], "message": error["errorMessage"][:160], "back_ms": round(back, 1),
            "failures_until_back": failures, "near_ms": round(near, 1), "near_failures": near_failures,
            "later_ms": round(late, 1), "later_failures": late_failures,
            "far": {"failures": far.failures, "processes": len(far.processes), "calls": len(far.times),
                    "p50_ms": round(statistics.median(far.times), 2), "p50_before_ms": round(statistics.median(quiet), 2),
                    "worst_ms": round(max(far.times), 1)}}


def measure_all(harms):
    with tempfile.TemporaryDirectory() as folder:
        bundle = package(pathlib.Path(folder))
        with Worker("--gpu", "emulated:tiny", "--context-memory", "16", "--host-memory", "0") as worker:
            node = Node(worker, bundle)
            node.handler("first", "own")
            node.handler("second", "own", TIMEOUT_S)
            node.handler("near", "own")
            node.handler("far", "far")
            node.kernel("endless", "endless", TIMEOUT_S)
            node.kernel("wild", "wild", TIMEOUT_S)
            for name, component in (("flow", "second"), ("kernel_fault", "wild"), ("kernel_hang", "endless")):
                node.workflow(name, [{"name": "begin", "function": "first", "input": {}},
                                     {"name": "then", "function": component, "input": "$input", "after": ["begin"]}])
            node.until_it_answers("far", {})
            return {harm.replace(" ", "_"): measure(node, harm) for harm in harms}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one harm")
    parser.add_argument("--out")
    parser.add_argument("--traces", help="not used")
    options = parser.parse_args()
    about = machine()
    harms = measure_all(HARMS[:1] if options.quick else HARMS)
    result = {"bench": "recovery", "quick": options.quick, "emulated": True, "machine": about, "timeout_s": TIMEOUT_S, "harms": harms}
    print(f"{'':>14} {'told as':>28} {'back ms':>8} {'near ms':>8} {'later':>8} {'far: failed':>11} {'worst ms':>9}")
    for harm, row in harms.items():
        print(f"{harm:>14} {row['error']:>28} {row['back_ms']:>8} {row['near_ms']:>8} {row['later_ms']:>8} {row['far']['failures']:>11} "
              f"{row['far']['worst_ms']:>9}")
    write_last_line(result, options.out)


if __name__ == "__main__":
    main()
