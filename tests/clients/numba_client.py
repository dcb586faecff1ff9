"""numba-cuda at work on whatever libcuda.so.1 its process finds: kernels of Python, compiled to PTX while they run. Prints the name of each part that held."""
import math
import os

os.environ.update(NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS="0", NUMBA_CUDA_WARN_ON_IMPLICIT_COPY="0")

import numpy  # noqa: E402
from numba import cuda, float32, int32  # noqa: E402

COUNT = 1000
RANDOM = numpy.random.default_rng(20261129)


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@cuda.jit
def add_strided(a, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = a[i // 2, i % 2] + 1


@cuda.jit
def multiply(a, b, out):
    tile_a = cuda.shared.array((16, 16), float32)
    tile_b = cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(a.shape[1] // 16):
        tile_a[ty, tx] = a[y, tx + k * 16]
        tile_b[ty, tx] = b[ty + k * 16, x]
        cuda.syncthreads()
        for j in range(16):
            total += tile_a[ty, j] * tile_b[j, tx]
        cuda.syncthreads()
    out[y, x] = total


@cuda.jit
def reduce(values, out):
    part = cuda.shared.array(0, float32)  # as large as the launch says
    t, i = cuda.threadIdx.x, cuda.grid(1)
    part[t] = values[i] if i < values.size else 0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])


@cuda.jit
def atomics(values, out):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(out, 0, values[i])
        cuda.atomic.max(out, 1, values[i])
        cuda.atomic.min(out, 2, values[i])
        cuda.atomic.cas(out, 3, 0, 77)
        cuda.atomic.exch(out, 4, 5)
        cuda.atomic.or_(out, 5, 1 << (i % 31))


@cuda.jit
def functions(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        out[0, i] = math.sin(v) + math.cos(v)
        out[1, i] = math.exp(-v) * math.log(v + 1)
        out[2, i] = math.sqrt(v) + v ** 1.5
        out[3, i] = math.atan2(v, 2.0) + math.tanh(v)
        out[4, i] = math.erf(v) + math.lgamma(v + 1)
        out[5, i] = math.floor(v * 10) + math.fmod(v, 0.3)


@cuda.jit(device=True)
def collatz_length(n):
    length = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        length += 1
    return length


@cuda.jit
def lengths(out):
    local = cuda.local.array(4, int32)
    i = cuda.grid(1)
    if i < out.size:
        for j in range(4):
            local[j] = collatz_length(i + 1) * (j + 1)
        out[i] = local[i % 4]


@cuda.jit
def warp_sum(values, out):
    i = cuda.grid(1)
    value = values[i]
    for distance in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xffffffff, value, distance)
    ballot = cuda.ballot_sync(0xffffffff, values[i] > 500)
    if cuda.laneid == 0:
        out[i // 32, 0] = value
        out[i // 32, 1] = cuda.popc(ballot)


@cuda.jit
def greet(values):
    if cuda.grid(1) == 1:
        print("thread", cuda.grid(1), "has", values[1])


TABLE = numpy.arange(16, dtype=numpy.float32) ** 2


@cuda.jit
def look_up(out):
    table = cuda.const.array_like(TABLE)
    out[cuda.grid(1)] = table[15 - cuda.grid(1)]


@cuda.jit
def quotients(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] // b[i] * 100 + a[i] % b[i]


def arrays():
    a, b = RANDOM.random(COUNT, numpy.float32), RANDOM.random(COUNT, numpy.float32)
    out = numpy.zeros_like(a)
    add[4, 256](a, b, out)
    assert (out == a + b).all()
    pairs = numpy.arange(64.0).reshape(32, 2)
    strided = cuda.device_array(64)
    add_strided[2, 8](cuda.to_device(pairs), strided)
    assert (strided.copy_to_host() == pairs.ravel() + 1).all()


def shared_memory():
    a, b = RANDOM.random((64, 64), numpy.float32), RANDOM.random((64, 64), numpy.float32)
    out = numpy.zeros((64, 64), numpy.float32)
    multiply[(4, 4), (16, 16)](a, b, out)
    assert numpy.allclose(out, a @ b, rtol=1e-4)
    total = numpy.zeros(1, numpy.float32)
    reduce[8, 128, 0, 128 * 4](a.ravel()[:COUNT], total)
    assert numpy.isclose(total[0], a.ravel()[:COUNT].sum(), rtol=1e-4)


def atomic_operations():
    values = RANDOM.integers(0, 1000, COUNT).astype(numpy.int32)
    out = numpy.array([0, -1, 10 ** 6, 0, 0, 0], numpy.int32)
    atomics[4, 256](values, out)
    assert out.tolist() == [values.sum(), values.max(), values.min(), 77, 5, 2 ** 31 - 1], out


def mathematics():
    for dtype, tolerance in ((numpy.float64, 1e-12), (numpy.float32, 2e-5)):
        x = numpy.linspace(0.01, 3, 200, dtype=dtype)
        out = numpy.zeros((6, x.size), dtype)
        functions[1, 256](x, out)
        w = x.astype(numpy.float64)
        expected = [numpy.sin(w) + numpy.cos(w), numpy.exp(-w) * numpy.log(w + 1), numpy.sqrt(w) + w ** 1.5,
                    numpy.arctan2(w, 2) + numpy.tanh(w), [math.erf(v) + math.lgamma(v + 1) for v in w]]
        for row, wanted in enumerate(expected):
            assert numpy.allclose(out[row], wanted, rtol=tolerance, atol=tolerance), row
        assert numpy.allclose(out[5], numpy.floor(w * 10) + numpy.fmod(w, 0.3), atol=1e-4)


def device_functions():
    out = numpy.zeros(100, numpy.int32)
    lengths[1, 128](out)

    def length(n):
        return 0 if n == 1 else 1 + length(n // 2 if n % 2 == 0 else 3 * n + 1)
    assert out.tolist() == [length(i + 1) * (i % 4 + 1) for i in range(100)]


def warps():
    values = RANDOM.integers(0, 1000, 256).astype(numpy.int32)
    out = numpy.zeros((8, 2), numpy.int32)
    warp_sum[2, 128](values, out)
    rows = values.reshape(8, 32)
    assert (out[:, 0] == rows.sum(1)).all()
    assert (out[:, 1] == (rows > 500).sum(1)).all()


def constants_and_integers():
    out = numpy.zeros(16, numpy.float32)
    look_up[1, 16](out)
    assert (out == TABLE[::-1]).all()
    a = RANDOM.integers(-1000, 1000, COUNT).astype(numpy.int64)
    b = RANDOM.integers(1, 50, COUNT).astype(numpy.int64) * RANDOM.choice([-1, 1], COUNT)
    found = numpy.zeros(COUNT, numpy.int64)
    quotients[4, 256](a, b, found)
    assert (found == a // b * 100 + a % b).all()


def streams():
    stream = cuda.stream()
    a = cuda.to_device(numpy.arange(COUNT, dtype=numpy.float32), stream)
    out = cuda.device_array_like(a, stream)
    for _ in range(3):
        add[4, 256, stream](a, a, out)
        add[4, 256, stream](out, a, a)
    begin, end = cuda.event(), cuda.event()
    begin.record(stream)
    end.record(stream)
    stream.synchronize()
    assert begin.elapsed_time(end) >= 0
    assert (a.copy_to_host() == 27 * numpy.arange(COUNT)).all()


def printing():
    greet[1, 32](numpy.array([1.5, 2.5]))
    cuda.synchronize()


def main():
    for part in (arrays, shared_memory, atomic_operations, mathematics, device_functions, warps, constants_and_integers, streams, printing):
        part()
        print(part.__name__, flush=True)


if __name__ == "__main__":
    main()
