"""c = a * b for square matrices. Event: {"size": n}, and "check": true to compare with the CPU."""
import array
import os

import lambent_cuda as cuda

BUNDLE = os.path.join(os.environ.get("LAMBDA_TASK_ROOT", "."), "bundles", "matmul_tiled")
TILE = 16

device = cuda.Device()
multiply = device.load(BUNDLE).kernel("matmul_tiled_16")


def handler(event, context):
    size = int(event.get("size", 64))
    if not 1 <= size <= 1024:
        raise ValueError("size must be 1 to 1024")
    a = array.array("f", (i % 7 - 3 for i in range(size * size)))
    b = array.array("f", (i % 5 - 2 for i in range(size * size)))

    result = device.buffer(4 * size * size)
    blocks = (size + TILE - 1) // TILE
    multiply(grid=(blocks, blocks), block=(TILE, TILE),
             args=[device.buffer(a), device.buffer(b), result, cuda.int32(size)])
    c = result.array("f")

    answer = {"size": size, "trace": sum(c[i * size + i] for i in range(size))}
    if event.get("check"):
        # Whole numbers, small enough to be exact in 32 bits.
        columns = [b[column::size] for column in range(size)]
        answer["correct"] = all(
            c[row * size + column] == sum(x * y for x, y in zip(a[row * size:(row + 1) * size],
                                                                columns[column]))
            for row in range(size) for column in range(size))
    return answer
