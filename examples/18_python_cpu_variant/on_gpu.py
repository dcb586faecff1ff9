"""c = a + b on the GPU. Event: {"count": n}, and "check": true to compare with plain Python."""
import os

import lambent_cuda as cuda

from vectors import answer, inputs

device = cuda.Device()
add = device.load(os.path.join(os.environ.get("LAMBDA_TASK_ROOT", "."), "bundles", "vector_add")).kernel("vector_add")


def handler(event, context):
    a, b = inputs(event)
    count = len(a)
    result = device.buffer(4 * count)
    add(grid=(count + 255) // 256, block=256, args=[device.buffer(a), device.buffer(b), result, cuda.uint32(count)])
    return answer(event, a, b, result.array("f"))
