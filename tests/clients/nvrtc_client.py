"""NVRTC, by cuda.core and by cuda.bindings, before whatever libcuda.so.1 its process finds: CUDA C++ compiled to PTX while the program runs.

Prints the name of each part that held.
"""
import ctypes
import math

import numpy
from cuda.bindings import driver as cu
from cuda.core import Device, LaunchConfig, ObjectCode, Program, ProgramOptions, launch
from cuda.core._utils.cuda_utils import CUDAError

THREADS = 64
RANDOM = numpy.random.default_rng(20261129)

SUMS = r"""
extern "C" __global__ void add(const float* a, const float* b, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}
template <int N>
__global__ void multiply(const float* a, const float* b, float* out, int n) {
  __shared__ float tile_a[N][N], tile_b[N][N];
  const int x = blockIdx.x * N + threadIdx.x, y = blockIdx.y * N + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; k += N) {
    tile_a[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
    tile_b[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
    __syncthreads();
    for (int j = 0; j < N; j++) sum += tile_a[threadIdx.y][j] * tile_b[j][threadIdx.x];
    __syncthreads();
  }
  out[y * n + x] = sum;
}
extern "C" __global__ void reverse(float* a, int n) {
  extern __shared__ float tile[];
  __shared__ int last;
  if (threadIdx.x == 0) last = n - 1;
  tile[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = tile[last - threadIdx.x];
}
"""

LANGUAGE = r"""
struct Shape { float scale; int offsets[3]; double power; };
__constant__ float coefficients[4];
__device__ int calls = 7;
__device__ float table[8] = {0, 1, 2, 3, 4, 5, 6, 7};
__device__ __noinline__ float scaled(float x, const Shape* shape) { return shape->scale * x + shape->offsets[1]; }
typedef float (*Function)(float);
__device__ float plus_one(float x) { return x + 1; }
__device__ float twice(float x) { return x * 2; }
__device__ Function functions[2] = {plus_one, twice};
__device__ __noinline__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }
extern "C" __global__ void language(Shape shape, float* out, int which) {
  const int i = threadIdx.x;
  out[i] = scaled(i, &shape) + coefficients[i & 3] + table[i & 7] + (float)shape.power;
  out[i] = functions[which](out[i]) + factorial(i & 7);
  switch (i & 7) {
    case 0: out[i] += 1; break;
    case 1: out[i] += 20; break;
    case 2: out[i] -= 3; break;
    case 3: out[i] *= 2; break;
    case 4: out[i] = -out[i]; break;
    default: out[i] += 0.5f;
  }
  atomicAdd(&calls, 1);
}
extern "C" __global__ void greet(int n) {
  if (threadIdx.x < n) printf("thread %d of %s: %.2f %lld\n", (int)threadIdx.x, "a block", 1.5, 1234567890123LL);
}
"""

WARPS = r"""
extern "C" __global__ void warps(const int* in, int* out) {
  int v = in[threadIdx.x];
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
  const unsigned large = __ballot_sync(~0u, in[threadIdx.x] > 50);
  out[threadIdx.x] = v * 100 + __popc(large) + (__any_sync(~0u, v == -1) ? 1000000 : 0);
}
extern "C" __global__ void atomics(int* a, double* d, unsigned long long* u) {
  const int t = threadIdx.x;
  atomicAdd(a, t); atomicMax(a + 1, t); atomicMin(a + 2, -t); atomicCAS(a + 3, 0, 9); atomicOr(a + 4, 1 << (t & 15));
  atomicInc((unsigned*)a + 5, 10); atomicAdd_block(a + 6, 1);
  atomicAdd(d, 0.5); atomicAdd(u, 5ull); atomicMax(u + 1, (unsigned long long)t);
}
"""

NUMBERS = r"""
#include <cuda_fp16.h>
extern "C" __global__ void mathematics(const float* x, float* out, const double* y, double* exact) {
  const int i = threadIdx.x;
  const float v = x[i];
  out[i] = sinf(v) + expf(-v) + logf(v + 2) + powf(v, 1.3f) + rsqrtf(v + 1) + erff(v) + fmodf(v, 0.7f) + atan2f(v, 2.f) + cbrtf(v);
  const double w = y[i];
  exact[i] = sin(w) + exp(-w) + log(w + 2) + pow(w, 1.3) + rsqrt(w + 1) + erf(w) + fmod(w, 0.7) + atan2(w, 2.0) + cbrt(w);
}
extern "C" __global__ void halves(const __half* a, __half* out) {
  out[threadIdx.x] = __hfma(a[threadIdx.x], a[threadIdx.x], __float2half(0.25f));
}
extern "C" __global__ void integers(const int* a, long long* out) {
  const int i = threadIdx.x, v = a[i];
  out[i] = v / 7 + v % 5 + (v << 3) + (v >> 2) + __clz(v) + __ffs(v) + __mulhi(v, 123456789) + __popc(v) + (long long)v * v
         + __byte_perm(v, 3, 0x3210);
}
"""


class Client:
    def __init__(self):
        self.device = Device(0)
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.architecture = "".join(map(str, self.device.compute_capability))
        self.buffers = []

    def compile(self, source, names=(), **options):
        program = Program(source, "c++", ProgramOptions(arch="sm_" + self.architecture, std="c++17", **options))
        return program.compile("ptx", name_expressions=names)

    def put(self, array):
        buffer = self.device.allocate(array.nbytes, stream=self.stream)
        self.stream.sync()
        (error,) = cu.cuMemcpyHtoD(int(buffer.handle), array.ctypes.data, array.nbytes)
        assert error == cu.CUresult.CUDA_SUCCESS, error
        self.buffers.append(buffer)
        return int(buffer.handle)

    def get(self, address, like):
        found = numpy.zeros_like(like)
        self.stream.sync()
        (error,) = cu.cuMemcpyDtoH(found.ctypes.data, address, found.nbytes)
        assert error == cu.CUresult.CUDA_SUCCESS, error
        return found

    def run(self, kernel, *arguments, grid=1, block=THREADS, shared=0):
        launch(self.stream, LaunchConfig(grid=grid, block=block, shmem_size=shared), kernel, *arguments)

    def kernels_and_templates(self):
        code = self.compile(SUMS, names=("multiply<16>",))
        a, b = RANDOM.random(1000, numpy.float32), RANDOM.random(1000, numpy.float32)
        out = self.put(numpy.zeros_like(a))
        self.run(code.get_kernel("add"), self.put(a), self.put(b), out, numpy.int32(1000), grid=16)
        assert (self.get(out, a) == a + b).all()
        a, b = RANDOM.random((32, 32), numpy.float32), RANDOM.random((32, 32), numpy.float32)
        out = self.put(numpy.zeros_like(a))
        multiply = code.get_kernel("multiply<16>")
        assert multiply.attributes.shared_size_bytes >= 2 * 16 * 16 * 4
        self.run(multiply, self.put(a), self.put(b), out, numpy.int32(32), grid=(2, 2), block=(16, 16))
        assert numpy.allclose(self.get(out, a), a @ b, rtol=1e-4)
        row = numpy.arange(THREADS, dtype=numpy.float32)
        place = self.put(row)
        self.run(code.get_kernel("reverse"), place, numpy.int32(THREADS), shared=4 * THREADS)
        assert (self.get(place, row) == row[::-1]).all()

    def language(self):
        class Shape(ctypes.Structure):
            _fields_ = [("scale", ctypes.c_float), ("offsets", ctypes.c_int * 3), ("power", ctypes.c_double)]
        for debug in (False, True):
            ptx = self.compile(LANGUAGE, debug=debug, lineinfo=not debug).code
            error, module = cu.cuModuleLoadData(ptx)
            assert error == cu.CUresult.CUDA_SUCCESS, error
            error, kernel = cu.cuModuleGetFunction(module, b"language")
            assert error == cu.CUresult.CUDA_SUCCESS, error
            error, address, size = cu.cuModuleGetGlobal(module, b"coefficients")
            assert (error, size) == (cu.CUresult.CUDA_SUCCESS, 16), error
            coefficients = numpy.array([1, 2, 3, 4], numpy.float32)
            cu.cuMemcpyHtoD(address, coefficients.ctypes.data, 16)
            out = numpy.zeros(THREADS, numpy.float32)
            place = self.put(out)
            shape = Shape(2.0, (ctypes.c_int * 3)(0, 5, 0), 0.25)
            arguments = ((shape, place, 1), (None, ctypes.c_void_p, ctypes.c_int))
            (error,) = cu.cuLaunchKernel(kernel, 1, 1, 1, THREADS, 1, 1, 0, self.stream.handle, arguments, 0)
            assert error == cu.CUresult.CUDA_SUCCESS, error
            i = numpy.arange(THREADS)
            wanted = 2 * (2.0 * i + 5 + coefficients[i & 3] + (i & 7) + 0.25) + [math.factorial(n & 7) for n in i]
            change = {0: lambda x: x + 1, 1: lambda x: x + 20, 2: lambda x: x - 3, 3: lambda x: x * 2, 4: lambda x: -x}
            wanted = [change.get(n & 7, lambda x: x + 0.5)(x) for n, x in zip(i, wanted)]
            assert numpy.allclose(self.get(place, out), wanted), (self.get(place, out), wanted)
            error, address, size = cu.cuModuleGetGlobal(module, b"calls")
            assert (self.get(address, numpy.zeros(1, numpy.int32)) == 7 + THREADS).all()
            cu.cuModuleUnload(module)
        self.run(self.compile(LANGUAGE).get_kernel("greet"), numpy.int32(1))
        self.stream.sync()

    def warps_and_atomics(self):
        code = self.compile(WARPS)
        values = RANDOM.integers(0, 100, THREADS).astype(numpy.int32)
        out = self.put(values)
        self.run(code.get_kernel("warps"), self.put(values), out)
        rows = values.reshape(-1, 32)
        wanted = numpy.repeat(rows.sum(1) * 100 + (rows > 50).sum(1), 32)
        assert (self.get(out, values) == wanted).all()
        integers, reals, longs = numpy.zeros(7, numpy.int32), numpy.zeros(1), numpy.zeros(2, numpy.uint64)
        places = self.put(integers), self.put(reals), self.put(longs)
        self.run(code.get_kernel("atomics"), *places)
        assert self.get(places[0], integers).tolist() == [sum(range(64)), 63, -63, 9, 65535, 64 % 11, 64]
        assert self.get(places[1], reals)[0] == 32
        assert self.get(places[2], longs).tolist() == [5 * 64, 63]

    def numbers(self):
        for fast in (False, True):
            code = self.compile(NUMBERS, use_fast_math=fast, include_path=include_folders())
            w = numpy.linspace(0.01, 3, THREADS)
            x = w.astype(numpy.float32)
            out, exact = self.put(x), self.put(w)
            self.run(code.get_kernel("mathematics"), self.put(x), out, self.put(w), exact)
            wanted = (numpy.sin(w) + numpy.exp(-w) + numpy.log(w + 2) + w ** 1.3 + 1 / numpy.sqrt(w + 1)
                      + [math.erf(v) for v in w] + numpy.fmod(w, 0.7) + numpy.arctan2(w, 2) + numpy.cbrt(w))
            assert numpy.allclose(self.get(exact, w), wanted, rtol=1e-12)
            assert numpy.allclose(self.get(out, x), wanted, rtol=1e-4)
        halves = RANDOM.random(THREADS).astype(numpy.float16)
        out = self.put(halves)
        self.run(code.get_kernel("halves"), self.put(halves), out)
        assert (self.get(out, halves) == (halves.astype(numpy.float64) ** 2 + 0.25).astype(numpy.float16)).all()
        values = RANDOM.integers(-10 ** 6, 10 ** 6, THREADS).astype(numpy.int32)
        found = numpy.zeros(THREADS, numpy.int64)
        out = self.put(found)
        self.run(code.get_kernel("integers"), self.put(values), out)
        assert self.get(out, found).tolist() == [integer(int(v)) for v in values]

    def linking(self):
        caller = self.compile(r'extern __device__ int seven(int); extern "C" __global__ void k(int* out) { *out = seven(6); }',
                              relocatable_device_code=True)
        callee = self.compile(r'__device__ int seven(int n) { return n * 7; }', relocatable_device_code=True)
        # By the driver: cuda.core's Linker would take nvJitLink where that is installed.
        error, link = cu.cuLinkCreate(0, [], [])
        assert error == cu.CUresult.CUDA_SUCCESS, error
        for code in (caller, callee):
            (error,) = cu.cuLinkAddData(link, cu.CUjitInputType.CU_JIT_INPUT_PTX, code.code, len(code.code), b"part", 0, [], [])
            assert error == cu.CUresult.CUDA_SUCCESS, error
        error, image, size = cu.cuLinkComplete(link)
        assert error == cu.CUresult.CUDA_SUCCESS and size > 0, error
        linked = ObjectCode.from_cubin(ctypes.string_at(image, size))
        cu.cuLinkDestroy(link)
        number = numpy.zeros(1, numpy.int32)
        out = self.put(number)
        self.run(linked.get_kernel("k"), out, block=1)
        assert self.get(out, number)[0] == 42

    def refusals(self):
        head = b".version 8.0\n.target sm_90\n.address_size 64\n"
        tensor = (b".visible .entry k()\n{\n.reg .b32 %r<9>;\n"
                  b"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1}, {%r2}, {%r3}, {%r4};\nret;\n}\n")
        for text, code in ((head + b".visible .entry k()\n{\nnonsense;\n}\n", "CUDA_ERROR_INVALID_PTX"),
                           (head + tensor, "CUDA_ERROR_NOT_SUPPORTED"), (head, "CUDA_ERROR_NOT_FOUND")):
            try:
                ObjectCode.from_ptx(text).get_kernel("k")
            except CUDAError as error:
                assert code in str(error), error
            else:
                raise AssertionError("no " + code)


def include_folders():
    """The headers that come with NVRTC's package or a toolkit."""
    import cuda.pathfinder
    return [cuda.pathfinder.find_nvidia_header_directory("cudart")]


def integer(v):
    """What the kernel computes, as C has it."""
    bits = v & 0xffffffff
    quotient = abs(v) // 7 * (1 if v >= 0 else -1)
    remainder = abs(v) % 5 * (1 if v >= 0 else -1)
    lowest = (v & -v).bit_length()
    shifted = (bits << 3) & 0xffffffff
    signed = shifted - (1 << 32) if shifted >> 31 else shifted
    first = [quotient, remainder, signed, v >> 2, 32 - bits.bit_length(), lowest, (v * 123456789) >> 32, bin(bits).count("1")]
    # The sum of these is an int, then all is 64 bits wide; the last one is unsigned.
    total = sum(first) & 0xffffffff
    total = total - (1 << 32) if total >> 31 else total
    total += v * v + bits
    return total


def main():
    client = Client()
    for part in (client.kernels_and_templates, client.language, client.warps_and_atomics, client.numbers, client.linking, client.refusals):
        part()
        print(part.__name__, flush=True)


if __name__ == "__main__":
    main()
