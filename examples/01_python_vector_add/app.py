"""c = a + b. Event: {"count": n} or {"a": [...], "b": [...]}, and "check": true to compare with the CPU."""
import array
import os

import lambent_cuda as cuda

BUNDLE = os.path.join(os.environ.get("LAMBDA_TASK_ROOT", "."), "bundles", "vector_add")

# Once for each process: later invocations find the device and the kernel ready.
device = cuda.Device()
add = device.load(BUNDLE).kernel("vector_add")


def handler(event, context):
    count = int(event.get("count", 1 << 16))
    a = array.array("f", event["a"] if "a" in event else range(count))
    b = array.array("f", event["b"] if "b" in event else (i % 7 for i in range(count)))
    if len(a) != len(b) or not a:
        raise ValueError("a and b must have the same length, at least 1")
    count = len(a)

    result = device.buffer(4 * count)
    add(grid=(count + 255) // 256, block=256,
        args=[device.buffer(a), device.buffer(b), result, cuda.uint32(count)])
    c = result.array("f")

    answer = {"count": count, "first": c[0], "last": c[-1], "device": device.name}
    if "a" in event:
        answer["c"] = list(c)
    if event.get("check"):
        # Through an array, so that the CPU's sums are rounded to 32 bits as well.
        answer["correct"] = c == array.array("f", (x + y for x, y in zip(a, b)))
    return answer
