import array
import os

import lambent_cuda as cuda

# Once for each process: later invocations find the device and the kernel ready.
device = cuda.Device()
scale = device.load(os.path.join(os.environ["LAMBDA_TASK_ROOT"], "bundles", "scale")).kernel("scale")


def handler(event, context):
    values = array.array("f", event.get("values", [1, 2, 3]))
    if not values:
        return {"scaled": []}
    scaled = device.buffer(4 * len(values))
    scale(grid=(len(values) + 255) // 256, block=256,
          args=[device.buffer(values), scaled, cuda.float32(event.get("factor", 2)), cuda.uint32(len(values))])
    return {"scaled": list(scaled.array("f")), "device": device.name}
