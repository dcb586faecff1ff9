"""The heat in a plate whose upper edge is at 1. Event: {"size": n, "steps": k}, "check": true to compare."""
import array
import os
import struct

import lambent_cuda as cuda

BUNDLE = os.path.join(os.environ.get("LAMBDA_TASK_ROOT", "."), "bundles", "jacobi")

device = cuda.Device()
module = device.load(BUNDLE)
step, change = module.kernel("jacobi_step"), module.kernel("jacobi_change")


def handler(event, context):
    size, steps = int(event.get("size", 32)), int(event.get("steps", 50))
    if not 3 <= size <= 1024 or not 1 <= steps <= 10000:
        raise ValueError("size must be 3 to 1024, steps 1 to 10000")
    start = array.array("f", [1.0] * size + [0.0] * (size * (size - 1)))

    now, before = device.buffer(start), device.buffer(start)
    largest = device.buffer(4)
    blocks = (size + 15) // 16
    for _ in range(steps):
        now, before = before, now
        step(grid=(blocks, blocks), block=(16, 16),
             args=[before, now, cuda.int32(size), cuda.int32(size)])
    largest.fill(0)
    change(grid=(size * size + 255) // 256, block=256,
           args=[before, now, cuda.int32(size * size), largest])
    heat = now.array("f")

    answer = {"size": size, "steps": steps, "centre": heat[(size // 2) * size + size // 2],
              "last_change": struct.unpack("f", largest.bytes())[0]}
    if event.get("check"):
        reference = _on_cpu(start, size, steps)
        answer["correct"] = all(abs(x - y) < 1e-5 for x, y in zip(heat, reference))
    return answer


def _on_cpu(heat, size, steps):
    for _ in range(steps):
        after = heat[:]
        for y in range(1, size - 1):
            for i in range(y * size + 1, y * size + size - 1):
                after[i] = 0.25 * (heat[i - 1] + heat[i + 1] + heat[i - size] + heat[i + size])
        heat = after
    return heat
