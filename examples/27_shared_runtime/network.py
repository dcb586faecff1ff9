"""One network of a workflow, as a handler in a sandbox of its own that shares a GPU runtime with the others.

Event: the network's inputs by name, each a reference (an object, or memory that another network put), and `reads`: how many calls
take an output, where that is not one. Weights are in GPU memory once, whichever of its sandboxes brought them. What goes to another
network is handed on where it lies; what goes to the client is copied to the host. The launches are timed, not computed."""
import array
import json
import os

import lambent_cuda as cuda
from lambent import objects

ROOT = os.environ.get("LAMBDA_TASK_ROOT", ".")
with open(os.path.join(ROOT, "network.json"), encoding="utf-8") as file:
    NETWORK = json.load(file)
LAUNCHES = 8
PART = array.array("f", [0.01]) * (1 << 20)


def bring(buffer):
    """The weights, over the link; a real network reads them from a file."""
    for at in range(0, buffer.size, 4 * len(PART)):
        buffer.write(memoryview(PART).cast("B")[:buffer.size - at], at)


device = cuda.Device()
occupy = device.load(os.path.join(ROOT, "bundles", "occupy")).kernel("occupy")
weights = device.shared("weights of " + NETWORK["name"], NETWORK["weights_bytes"], bring)


def hand_on(output, reads):
    made = device.tensor("float32", output["shape"])
    if output["to"] == "network":
        return device.put(made, reads) if reads else None
    values = made.array()
    if output["to"] == "object":
        return objects.put(values, datatype="FP32", shape=output["shape"])
    best = max(range(len(values)), key=values.__getitem__)
    return {"best": best, "score": values[best]}


def handler(event, context):
    inputs = [device.get(event[name]) for name in NETWORK["inputs"]]
    workspace = device.buffer(NETWORK["workspace_bytes"])
    for _ in range(LAUNCHES):
        occupy(grid=NETWORK["blocks"], block=128, args=[cuda.uint64(NETWORK["nanoseconds"] // LAUNCHES)])
    device.synchronize()
    del workspace, inputs  # back to the runtime before anything is handed on
    reads = event.get("reads") or {}
    return {name: hand_on(output, reads.get(name, 1)) for name, output in NETWORK["outputs"].items()}
