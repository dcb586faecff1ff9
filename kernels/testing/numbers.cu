// Kernels that use small floats, integer intrinsics, roundings and mathematics; run by
// kernels_test. Each writes what it computes in the order in which the test expects it.
#include <lambent/kernel.h>

#include <assert.h>
#include <cuda_bf16.h>
#include <cuda_device_runtime_api.h>
#include <cuda_fp16.h>

__managed__ int managed_value = 41;

extern "C" {

__global__ void half_round_trip(const float* input, unsigned short* halves,
                                unsigned short* brains) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  halves[i] = __half_as_ushort(__float2half_rn(input[i]));
  brains[i] = __bfloat16_as_ushort(__float2bfloat16_rn(input[i]));
}

__global__ void half_values(float* halves, float* brains) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  halves[i] = __half2float(__ushort_as_half(static_cast<unsigned short>(i)));
  brains[i] = __bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(i)));
}

__global__ void half_arithmetic(float* out, __half* accumulator) {
  const __half a = __float2half(1.5f), b = __float2half(0.25f);
  const __half2 pair = __hfma2(__halves2half2(a, b), __float2half2_rn(2.0f), make_half2(b, a));
  const float2 both = __half22float2(pair);
  int n = 0;
  out[n++] = a + b;
  out[n++] = __hmul(a, b);
  out[n++] = __hdiv(a, b);
  out[n++] = both.x;
  out[n++] = both.y;
  out[n++] = hsqrt(__float2half(2.25f));
  out[n++] = __hgt(a, b) ? 1.0f : 0.0f;
  out[n++] = __half2float(__float2half_rz(1.0f + 1.9f / 1024));
  out[n++] = __half2float(__float2half_ru(1.0f + 0.1f / 1024));
  out[n++] = __half2int_rn(__float2half(2.5f));
  out[n++] = __bfloat162float(__hadd(__float2bfloat16(3.0f), __float2bfloat16(0.5f)));
  out[n++] = __low2float(__high2half2(pair));
  atomicAdd(accumulator, a);
}

// Bits of whether each holds; the first is no number.
__global__ void half_comparisons(const float* in, unsigned* out) {
  const __half none = __float2half(in[0]), one = __float2half(in[1]);
  const __half2 both = {none, one}, ones = {one, one};
  const bool holds[] = {none == one,          none != one,       __hne(none, one),
                        __hneu(none, one),    __hequ(none, one), __hltu(none, one),
                        __hgt(none, one),     both != ones,      __hbne2(both, ones),
                        __hbequ2(both, ones), ones == ones};
  unsigned bits = 0;
  for (unsigned i = 0; i < sizeof holds; i++) bits |= unsigned{holds[i]} << i;
  out[0] = bits;
  out[1] = __hisnan(__hfma_relu(none, one, one));
  out[2] = __half_as_ushort(__hfma_relu(one, __hneg(one), __float2half(-1.0f)));
  out[2] |= __half_as_ushort(__hfma_relu(__float2half(-0.0f), one, __float2half(-0.0f)));
}

// What is rarer: each conversion of a number beyond the eleven bits of a half, pairs, masks.
__global__ void half_rarities(float* out) {
  int n = 0;
  out[n++] = __int2half_rd(2049);
  out[n++] = __int2half_ru(2049);
  out[n++] = __int2half_rd(-2049);
  out[n++] = __ull2half_ru(65505);
  out[n++] = __ull2half_rd(70000);
  out[n++] = __short2bfloat16_rd(257);
  out[n++] = __uint2bfloat16_ru(257);
  out[n++] = __half2char_rz(__float2half(-300.0f));
  out[n++] = __half2uchar_rz(__float2half(12.9f));
  const __half2 a = __floats2half2_rn(1.0f, 2.0f), b = __floats2half2_rn(3.0f, -4.0f);
  const __half2 product = __hcmadd(a, b, a);
  out[n++] = product.x;
  out[n++] = product.y;
  out[n++] = __hfma2_sat(a, b, a).x;
  out[n++] = __hfma2_relu(a, b, a).y;
  out[n++] = static_cast<float>(__hlt2_mask(a, b));
  out[n++] = static_cast<float>(__hge2_mask(a, b) >> 16);
  out[n++] = __hisnan2(__floats2half2_rn(1.0f, 0.0f / 0.0f)).y;
}

// Integers that a double does not hold: they are rounded once, not first to a double.
__global__ void brains_of_wide_integers(float* out) {
  const long long half_way = (1ll << 60) + (1ll << 52);
  int n = 0;
  out[n++] = __ll2bfloat16_rn(half_way);
  out[n++] = __ll2bfloat16_rn(half_way + 1);
  out[n++] = __nv_bfloat16(-half_way - 1);
  out[n++] = __ull2bfloat16_rn(static_cast<unsigned long long>(half_way) + 1);
  out[n++] = __ull2bfloat16_rz(~0ull);
  out[n++] = __ll2bfloat16_ru((1ll << 60) + 1);
  out[n++] = __ll2bfloat16_rd(-(1ll << 60) - 1);
  out[n++] = __ll2bfloat16_rn(-9223372036854775807ll - 1);
}

__global__ void integers(long long* out) {
  int n = 0;
  out[n++] = __clzll(1ll << 40);
  out[n++] = __ffsll(1ll << 40);
  out[n++] = __brev(0x00000001u);
  out[n++] = static_cast<long long>(__brevll(2ull) >> 62);
  out[n++] = __byte_perm(0x33221100u, 0x77665544u, 0x7531u);
  out[n++] = __byte_perm(0x80u, 0u, 0x0008u);
  out[n++] = __funnelshift_l(0x80000001u, 0x12345678u, 4);
  out[n++] = __funnelshift_r(0x80000001u, 0x12345678u, 36);
  out[n++] = __funnelshift_rc(0x80000001u, 0x12345678u, 36);
  out[n++] = __mulhi(-2, 1 << 30);
  out[n++] = static_cast<long long>(__umul64hi(~0ull, 3ull));
  out[n++] = __mul24(-3, 5);
  out[n++] = __hadd(-3, 6);
  out[n++] = __rhadd(-3, 6);
  out[n++] = __sad(-5, 7, 100u);
  out[n++] = __dp4a(0x01ff0203, 0x01010101, 10);
  out[n++] = __dp4a(0x01ff0203u, 0x01010101u, 10u);
  out[n++] = __fns(0b101101u, 0, 3);
}

__global__ void roundings(double* out) {
  const float third = 1.0f / 3.0f;
  int n = 0;
  out[n++] = __fadd_ru(1.0f, 1e-10f);
  out[n++] = __fadd_rd(1.0f, 1e-10f);
  out[n++] = __fmul_rz(third, third);
  out[n++] = __fmul_ru(third, third);
  out[n++] = __fdiv_rd(1.0f, 3.0f);
  out[n++] = __fdiv_ru(1.0f, 3.0f);
  out[n++] = __dsqrt_ru(2.0) - __dsqrt_rd(2.0);
  out[n++] = __double2float_ru(1.0 + 1e-12);
  out[n++] = __int2float_rz(16777219);
  out[n++] = __float2int_rn(2.5f);
  out[n++] = __float2int_ru(2.1f);
  out[n++] = __float2int_rd(-2.1f);
  out[n++] = __float2int_rz(3e10f);
  out[n++] = __float2uint_rz(-1.0f);
  out[n++] = __double2int_rn(nan(""));
  out[n++] = __hiloint2double(0x3ff80000, 0);
  out[n++] = __double2hiint(1.5);
  out[n++] = __float2int_rn(nanf(""));
  out[n++] = __float2ll_rz(nanf(""));
}

__global__ void mathematics(double* out) {
  int n = 0;
  out[n++] = sinpi(0.25);
  out[n++] = cospi(1.0 / 3);
  out[n++] = erfinv(0.5);
  out[n++] = erfcinv(1e-10);
  out[n++] = normcdf(1.0);
  out[n++] = normcdfinv(0.975);
  out[n++] = erfcx(30.0);
  out[n++] = rcbrt(8.0);
  out[n++] = norm3d(2.0, 3.0, 6.0);
  out[n++] = rhypot(3.0, 4.0);
  out[n++] = exp10(2.0);
  out[n++] = cyl_bessel_i0(1.0);
  out[n++] = rsqrt(4.0);
  out[n++] = __saturatef(1.5f);
  out[n++] = fdividef(1.0f, 4.0f);
  out[n++] = sinpif(1e6f);
  out[n++] = sinpi(-1e-20);
  out[n++] = cospi(0.5 + 0x1p-53);
  out[n++] = cospi(-1.25);
  out[n++] = erfcx(24.3);
  out[n++] = erfcx(-exp(1000.0));
  out[n++] = cyl_bessel_i1(-exp(1000.0));
}

__global__ void assertion(int limit, int* output) {
  assert(static_cast<int>(threadIdx.x) < limit);
  output[threadIdx.x] = managed_value;
}

__global__ void trap(int at) {
  __syncthreads();
  if (static_cast<int>(threadIdx.x) == at) __trap();
  __syncthreads();
}

__global__ void vectors(int* sizes) {
  const uint3 place = threadIdx;
  const dim3 block = blockDim;
  int n = 0;
  sizes[n++] = sizeof(char3) * 100 + alignof(char3);
  sizes[n++] = sizeof(uchar4) * 100 + alignof(uchar4);
  sizes[n++] = sizeof(short2) * 100 + alignof(short2);
  sizes[n++] = sizeof(longlong4) * 100 + alignof(longlong4);
  sizes[n++] = sizeof(double3) * 100 + alignof(double3);
  sizes[n++] = make_ushort4(1, 2, 3, 4).w + make_uchar2(5, 6).y + place.x + block.x;
}

__global__ void decide(cudaGraphConditionalHandle handle, unsigned value) {
  cudaGraphSetConditional(handle, value);
}

}  // extern "C"

LAMBENT_KERNEL(half_round_trip);
LAMBENT_KERNEL(half_values);
LAMBENT_KERNEL(half_arithmetic);
LAMBENT_KERNEL(half_comparisons);
LAMBENT_KERNEL(half_rarities);
LAMBENT_KERNEL(brains_of_wide_integers);
LAMBENT_KERNEL(integers);
LAMBENT_KERNEL(roundings);
LAMBENT_KERNEL(mathematics);
LAMBENT_KERNEL(assertion);
LAMBENT_KERNEL(trap);
LAMBENT_KERNEL(vectors);
LAMBENT_KERNEL(decide);
