// Every atomic of every width under contention, the old detour for double among them.
#include <cuda_fp16.h>
#include <limits.h>
#include <stdio.h>
#include "cuda_runtime.h"
#include "device_launch_parameters.h"
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600
#else
__device__ double atomicAdd(double* address, double val) {
  unsigned long long int* a = (unsigned long long int*)address;
  unsigned long long int old = *a, assumed;
  do {
    assumed = old;
    old = atomicCAS(a, assumed, __double_as_longlong(val + __longlong_as_double(assumed)));
  } while (assumed != old);
  return __longlong_as_double(old);
}
#endif
__device__ static float atomicMaxFloat(float* addr, float value) {
  int* a = (int*)addr;
  int old = *a, assumed;
  do {
    assumed = old;
    if (__int_as_float(assumed) >= value) break;
    old = atomicCAS(a, assumed, __float_as_int(value));
  } while (assumed != old);
  return __int_as_float(old);
}
struct All {
  int add, sub, mn, mx, ex;
  unsigned inc, dec;
  int an, orr, xr;
  unsigned long long cas, add64, max64;
  float f;
  double d;
  float fmax;
  __half2 h2;
  __half h;
  unsigned short s16;
  long long sadd;
  unsigned ordered, swapped;
  unsigned long long by_pointer, slot, handed;
};
__global__ void testKernel(All* g) {
  const unsigned tid = blockDim.x * blockIdx.x + threadIdx.x;
  atomicAdd(&g->add, 10);
  atomicSub(&g->sub, 10);
  atomicExch(&g->ex, tid);
  atomicMax(&g->mx, tid);
  atomicMin(&g->mn, (int)tid);
  atomicInc(&g->inc, 17);
  atomicDec(&g->dec, 137);
  atomicAnd(&g->an, 2 * tid + 7);
  atomicOr(&g->orr, 1 << (tid % 31));
  atomicXor(&g->xr, tid);
  unsigned long long old = g->cas, assumed;
  do {
    assumed = old;
    old = atomicCAS(&g->cas, assumed, assumed * 1 + 3);
  } while (assumed != old);
  atomicAdd(&g->add64, 1ull << 33);
  atomicMax(&g->max64, (unsigned long long)tid << 32);
  atomicAdd(&g->f, 0.5f);
  atomicAdd(&g->d, 0.25);
  atomicMaxFloat(&g->fmax, tid * 1.5f);
  atomicAdd(&g->h, __float2half(tid < 16 ? 1.f : 0.f));
  atomicAdd(&g->h2, __floats2half2_rn(tid < 4, tid < 8));
  atomicCAS(&g->s16, (unsigned short)tid, (unsigned short)(tid + 1));
  atomicAdd((unsigned long long*)&g->sadd, (unsigned long long)(-1LL));
  atomicAdd_block(&g->add, 0);
  atomicAdd_system(&g->add, 0);
#if !defined(__CUDACC__) || __CUDACC_VER_MAJOR__ >= 13
  __nv_atomic_add(&g->ordered, 2u, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
  unsigned seen = __nv_atomic_load_n(&g->swapped, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_SYSTEM);
  while (!__nv_atomic_compare_exchange_n(&g->swapped, &seen, seen + 3, false, __NV_ATOMIC_ACQ_REL,
                                         __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE)) {
  }
  unsigned long long before = 0, after, mine = tid + 1, theirs;
  do {
    after = before + 5;
  } while (!__nv_atomic_compare_exchange(&g->by_pointer, &before, &after, true, __NV_ATOMIC_ACQ_REL,
                                         __NV_ATOMIC_RELAXED));
  __nv_atomic_exchange(&g->slot, &mine, &theirs, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_DEVICE);
  atomicAdd(&g->handed, theirs);
#endif
}
int main(void) {
  All h = {};
  h.mn = INT_MAX;
  h.an = -1;
  h.cas = 5;
  All* d;
  cudaMalloc((void**)&d, sizeof(All));
  cudaMemcpy(d, &h, sizeof h, cudaMemcpyHostToDevice);
  testKernel<<<64, 64>>>(d);
  if (cudaDeviceSynchronize() != cudaSuccess) {
    printf("sync: %s\n", cudaGetErrorString(cudaGetLastError()));
    return 1;
  }
  cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost);
  int n = 4096, bad = 0;
#define T(c)                   \
  do {                         \
    if (!(c)) {                \
      printf("bad: %s\n", #c); \
      bad++;                   \
    }                          \
  } while (0)
  T(h.add == 10 * n);
  T(h.sub == -10 * n);
  T(h.mx == n - 1);
  T(h.mn == 0);
  T(h.inc == n % 18);
  T(h.an == 1);
  T(h.orr == 0x7fffffff);
  T(h.xr == 0);
  T(h.cas == 5 + 3ull * n);
  T(h.add64 == (1ull << 33) * n);
  T(h.max64 == (unsigned long long)(n - 1) << 32);
  T(h.f == n * .5f);
  T(h.d == n * .25);
  T(h.fmax == (n - 1) * 1.5f);
  T(__half2float(h.h) == 16.f);
  T(__low2float(h.h2) == 4.f);
  T(__high2float(h.h2) == 8.f);
  T(h.sadd == -n);
#if __CUDACC_VER_MAJOR__ >= 13
  T(h.ordered == 2u * n);
  T(h.swapped == 3u * n);
  T(h.by_pointer == 5ull * n);
  T(h.slot + h.handed == n * (n + 1ull) / 2);
#endif
  puts(bad ? "FAIL" : "ok");
  return bad;
}
