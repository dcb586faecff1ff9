"""y = x * w0 * w1 * w2: what 07_kernel_matmul_chain computes, as a function that holds its GPU.

The event is x, SIZE x SIZE numbers of 32 bits as application/octet-stream, and so is the answer. A JSON
event takes an x of its own; with "check": true it compares a few rows with the CPU. It is as fast as a Python
function can be made: kernels and constants are loaded once, buffers are used again.
"""
import array
import os

import lambent_cuda as cuda

SIZE = int(os.environ.get("MATRIX_SIZE", "1024"))
LAYERS = 3
BUNDLE = os.path.join(os.environ.get("LAMBDA_TASK_ROOT", "."), "bundles", "blas")


def weights(layer, size):
    """As 07_kernel_matmul_chain has them."""
    period = [((i * (layer + 3)) % 13 - 6) / (4 * size) for i in range(13 * 64)]
    repeated = array.array("f", period) * (size * size // len(period) + 1)
    return repeated[:size * size]


device = cuda.Device()
multiply = device.load(BUNDLE).kernel("sgemm")
constants = [device.buffer(weights(layer, SIZE)) for layer in range(LAYERS)]
source = device.buffer(4 * SIZE * SIZE)
between = [device.buffer(4 * SIZE * SIZE) for _ in range(2)]
answer = bytearray(4 * SIZE * SIZE)
NUMBERS = [cuda.int32(n) for n in (SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, 0, 0)]
NUMBERS += [cuda.float32(1), cuda.float32(0)]
BLOCKS = (SIZE + 63) // 64
served = 0


def chain(x):
    """x as bytes; the product as bytes that the next call overwrites."""
    source.write(x)
    value = source
    for layer, constant in enumerate(constants):
        result = between[layer % 2]
        multiply(grid=(BLOCKS, BLOCKS), block=(16, 16), args=[value, constant, result] + NUMBERS)
        value = result
    value.read_into(answer)
    return answer


def row_on_the_cpu(row):
    for layer in range(LAYERS):
        w = weights(layer, SIZE)
        row = [sum(a * b for a, b in zip(row, w[column::SIZE])) for column in range(SIZE)]
    return row


def handler(event, context):
    global served
    served += 1
    if isinstance(event, (bytes, bytearray)):
        if len(event) != len(answer):
            raise ValueError("x has %d bytes instead of %d" % (len(event), len(answer)))
        return bytes(chain(event))
    x = array.array("f", (i % 7 - 3 for i in range(SIZE * SIZE)))
    y = array.array("f", bytes(chain(x.tobytes())))
    told = {"size": SIZE, "served": served, "trace": sum(y[i * SIZE + i] for i in range(SIZE))}
    if event.get("check"):
        # A row of the answer depends on that row of x alone.
        rows = [slice(row * SIZE, (row + 1) * SIZE) for row in (0, SIZE // 2, SIZE - 1)]
        told["correct"] = all(abs(a - b) < 1e-4
                              for row in rows for a, b in zip(y[row], row_on_the_cpu(x[row])))
    return told
