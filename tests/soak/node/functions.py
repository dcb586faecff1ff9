"""The functions that the sceptic deploys: well-behaved ones whose every answer can be checked, and hostile ones. Sources and packages only."""
import functools
import json

import test_kernel_functions as kernels
import test_pipelines as pipelines
from harness import make_zip

HOLD_MIB = 80  # of each function with a GPU; all of them together are more than the devices have

CALM = """
import time
def handler(event, context):
    time.sleep(event.get("seconds", 0))
    return {"n": event["n"] * event["n"] + 7, "mark": event["mark"]}
"""
# Has children, some of which outlive the invocation.
PARENT = """
import os, time
grown = []
def handler(event, context):
    grown[:] = [pid for pid in grown if os.waitpid(pid, os.WNOHANG)[0] == 0]
    child = os.fork()
    if child == 0:
        time.sleep(0.05)
        os._exit(event["n"] % 100)
    if event["n"] % 5 == 0:
        grown.append(os.fork())
        if grown[-1] == 0:
            os.setsid()
            time.sleep(3)
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return {"n": os.waitstatus_to_exitcode(status), "mark": event["mark"]}
"""
# Holds device memory for as long as it lives and finds it as it left it, wherever it lay meanwhile.
GPU = """
import array, os
import lambent_cuda as cuda

device = cuda.Device()
scale = device.load(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "bundles/k")).kernel("scale")
words = array.array("I", ((int(os.environ["SEED"]) + i) & 0xffffffff for i in range(1 << 18))).tobytes()
held = [device.buffer(words) for _ in range((int(os.environ["HOLD_MIB"]) << 20) // len(words))]

def handler(event, context):
    x = array.array("f", [event["n"], 1, 2, 3])
    y = device.buffer(16)
    scale(grid=1, block=4, args=[device.buffer(x), y, cuda.float32(3), cuda.uint32(4)])
    changed = sum(each.bytes() != words for each in (held if event.get("all") else held[::16]))
    return {"n": y.array("f")[0], "changed": changed, "mark": event["mark"]}
"""
SHARED = """
import array, os
import lambent_cuda as cuda

device = cuda.Device()
scale = device.load(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "bundles/k")).kernel("scale")

def handler(event, context):
    x = array.array("f", [event["n"], 1, 2, 3])
    y = device.buffer(16)
    scale(grid=1, block=4, args=[device.buffer(x), y, cuda.float32(3), cuda.uint32(4)])
    return {"n": y.array("f")[0], "changed": 0, "mark": event["mark"]}
"""
STEP = "def handler(event, context): return event['n'] + 1\n"
VERSION = "def handler(event, context): return {'version': %d}\n"
WORKFLOW = {"components": [
    {"name": "list", "function": "lists", "input": "$input.n"},
    {"name": "each", "function": "step", "for_each": "$list", "input": {"n": "$item"}},
    {"name": "tensor", "function": "kernel-0", "when": "$input.kernel",
     "inline": True, "input": {"x": "$each"}}],
    "output": {"n": "$each", "tensor": "$tensor", "mark": "$input.mark"}}

HOSTILE = {  # name: (source, memory in MiB, tags, timeout in seconds)
    "fork-bomb": ("""
import os, time
def handler(event, context):
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.05)
""", 128, {}, 2),
    "memory-hog": ("def handler(e, c):\n  hoard = []\n  while True: hoard.append(bytearray(1 << 22))\n", 128, {}, 5),
    "output-flood": ("import os\ndef handler(e, c):\n  block = b'x' * (1 << 20)\n  for _ in range(128): os.write(1, block)\n  return 'done'\n",
                     128, {}, 20),
    "disk-hog": ("""
def handler(event, context):
    with open("/tmp/hoard", "wb", buffering=0) as file:
        while True: file.write(bytes(1 << 20))
""", 256, {}, 5),
    "hang": ("import time\ndef handler(e, c): time.sleep(600)\n", 64, {}, 1),
    "busy": ("def handler(e, c):\n  while True: pass\n", 64, {}, 2),
    "silent-exit": ("import os\ndef handler(e, c): os._exit(0)\n", 64, {}, 5),
    "signals": ("""
import os, signal
def handler(event, context):
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        try:
            os.kill(1, number); os.kill(-1, number)
        except OSError:
            pass
    return "there"
""", 64, {}, 5),
    "tracer": ("""
import ctypes, os
libc = ctypes.CDLL(None)
def handler(event, context):
    done = [pid for pid in range(1, 400) if pid != os.getpid() and libc.ptrace(16, pid, None, None) == 0]
    return {"traced": done}
""", 64, {}, 5),
    "device-hog": ("""
import lambent_cuda as cuda
device = cuda.Device()
def handler(event, context):
    hoard = []
    while True: hoard.append(device.buffer(4 << 20))
""", 128, {"lambent:gpu-memory": "64MiB"}, 10),
    "wild-kernel": ("""
import os
import lambent_cuda as cuda
device = cuda.Device()
kernels = device.load(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "bundles/k"))
def handler(event, context):
    offset, y = device.buffer(4), device.buffer(16)
    offset.fill(0)
    kernels.kernel("wild")(grid=1, block=1, args=[offset, y])
    device.synchronize()
    return "unharmed"
""", 256, {"lambent:gpu-memory": "64MiB"}, 10),
    "ledger-scribbler": ("""
import os
import lambent_cuda as cuda
device = cuda.Device()
def handler(event, context):
    with open("/opt/lambent/ledger", "r+b") as file: file.write(os.urandom(16384))
    return "scribbled"
""", 128, {"lambent:gpu-memory": "64MiB"}, 10),
}
# Break their executor, which is their own.
HOSTILE["wild-shared"] = (HOSTILE["wild-kernel"][0], 256, {"lambent:gpu-memory": "32MiB", "lambent:gpu-runtime": "shared",
                                                            "lambent:gpu-domain": "hostile"}, 10)
HOSTILE["endless-shared"] = (HOSTILE["wild-kernel"][0].replace('kernel("wild")', 'kernel("endless")'), 256,
                             HOSTILE["wild-shared"][2], 3)


@functools.cache
def bundle():
    return kernels.bundle_files()


def deploy_hostile(worker):
    for name, (source, memory, tags, timeout) in HOSTILE.items():
        worker.create(name, make_zip({"app.py": source, **(bundle() if tags else {})}), memory=memory, tags=tags, timeout=timeout)


def deploy_main(worker, gpu_functions):
    """The well-behaved functions of the node with whole devices."""
    for index in range(2):
        worker.create_python(f"calm-{index}", CALM, memory=64, tags={"lambent:max-concurrency": "2"})
    worker.create_python("parent", PARENT, memory=64)
    for index in range(gpu_functions):
        mode = ("vmm", "vmm", "uvm")[index % 3]
        tags = {"lambent:gpu-memory": f"{HOLD_MIB + 16}MiB", "lambent:memory-mode": mode}
        worker.create(f"gpu-{index}", make_zip({"app.py": GPU, **bundle()}), memory=512, tags=tags,
                      environment={"SEED": str(index), "HOLD_MIB": str(HOLD_MIB)})
    for index in range(2):
        worker.create(f"shared-{index}", make_zip({"app.py": SHARED, **bundle()}), memory=256,
                      tags={"lambent:gpu-memory": "32MiB", "lambent:gpu-runtime": "shared"})
        worker.create(f"kernel-{index}", make_zip({"graph.json": json.dumps(kernels.scale_graph(4, 2.0 + index)), **bundle()}),
                      runtime="provided.al2023", handler="graph.json", tags={"lambent:kind": "kernel"})
    worker.create_python("step", STEP, memory=64, tags={"lambent:max-concurrency": "2"})
    worker.create_python("lists", "def handler(event, context): return [event + i for i in range(4)]\n", memory=64)
    worker.create("flow", make_zip({"workflow.json": json.dumps(WORKFLOW)}), runtime="provided.al2023", handler="workflow.json",
                  tags={"lambent:kind": "workflow"})
    worker.create_python("flooded", CALM, memory=64)
    deploy_hostile(worker)


def deploy_sliced(worker):
    """Those of the node with MIG slices."""
    package = {"app.py": pipelines.APP, "pipeline.json": json.dumps(pipelines.pipeline()),
               "profile.json": json.dumps(pipelines.profile(15000))}
    worker.create("pipeline", make_zip(package), handler="pipeline.json", timeout=30, tags={"lambent:kind": "pipeline"})
