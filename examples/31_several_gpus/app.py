"""c = a + b, a part on each of the function's GPUs. Event: {"count": n}, and "check": true to compare with the CPU."""
import array
import os

import lambent_cuda as cuda

BUNDLE = os.path.join(os.environ.get("LAMBDA_TASK_ROOT", "."), "bundles", "vector_add")

# Once for each process: a context and the kernel on each device. They are numbered from 0.
devices = [cuda.Device(ordinal) for ordinal in range(int(os.environ.get("GPUS", "2")))]
kernels = [device.load(BUNDLE).kernel("vector_add") for device in devices]


def handler(event, context):
    count = int(event.get("count", 1 << 16))
    a = array.array("f", range(count))
    b = array.array("f", (i % 7 for i in range(count)))
    share = -(-count // len(devices))

    results = []
    for i, (device, add) in enumerate(zip(devices, kernels)):
        part = slice(i * share, min((i + 1) * share, count))
        size = part.stop - part.start
        result = device.buffer(4 * size)
        # Returns at once: all devices work at the same time.
        add(grid=(size + 255) // 256, block=256, args=[device.buffer(a[part]), device.buffer(b[part]), result, cuda.uint32(size)])
        results.append(result)
    c = array.array("f")
    for result in results:
        c.extend(result.array("f"))

    answer = {"count": count, "first": c[0], "last": c[-1], "gpus": len(devices),
              "free_bytes": [device.memory_info()[0] for device in devices]}
    if event.get("check"):
        answer["correct"] = c == array.array("f", (x + y for x, y in zip(a, b)))
    return answer
