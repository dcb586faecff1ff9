// Instructions of inline PTX that programs write out, against what C++ says of them; and assembly
// of the host beside them.
static unsigned long long ticks() {
#if defined(__x86_64__)
  unsigned low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return static_cast<unsigned long long>(high) << 32 | low;
#else
  return 1;
#endif
}

__device__ __forceinline__ unsigned lane_of() {
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// A sum of 96 bits, by carries from one statement to the next.
__device__ void add_long(unsigned* sum, const unsigned* a, const unsigned* b) {
  asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(sum[0]) : "r"(a[0]), "r"(b[0]));
  asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(sum[1]) : "r"(a[1]), "r"(b[1]));
  asm volatile("addc.u32 %0, %1, %2;" : "=r"(sum[2]) : "r"(a[2]), "r"(b[2]));
}

__global__ void lanes(unsigned* out) {
  unsigned below, from, count, width;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  asm("mov.u32 %0, %%tid.x;\n\t"
      "mov.u32 %1, %%ctaid.x;\n\t"
      "mov.u32 %2, %%ntid.x;"
      : "=r"(from), "=r"(count), "=r"(width));
  out[count * width + from] = lane_of() + (below << 5);
}

__global__ void integers(const unsigned* a, const unsigned* b, unsigned* out) {
  const int i = threadIdx.x;
  unsigned x = a[i], y = b[i], r;
  unsigned* mine = out + 12 * i;
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(x), "r"(y), "r"(0x0f0f0f0fu));
  mine[0] = r;
  asm("bfe.u32 %0, %1, 5, 9;" : "=r"(mine[1]) : "r"(x));
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(mine[2]) : "r"(x), "r"(20), "r"(12));
  asm("bfi.b32 %0, %1, %2, 8, 4;" : "=r"(mine[3]) : "r"(x), "r"(y));
  asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(mine[4]) : "r"(x), "r"(y));
  asm("mul.hi.u32 %0, %1, %2;" : "=r"(mine[5]) : "r"(x), "r"(y));
  asm("shl.b32 %0, %1, %2;" : "=r"(mine[6]) : "r"(x), "r"(i));
  asm("{ .reg .pred small; .reg .u32 t;\n"
      "  setp.lt.u32 small, %1, %2;   // a comment\n"
      "  mov.u32 t, 7;\n"
      "  @small mov.u32 t, 9;\n"
      "  mov.u32 %0, t; }"
      : "=r"(mine[7])
      : "r"(x), "r"(y));
  unsigned long long wide = 5;
  asm("mad.wide.u32 %0, %1, %2, %0;" : "+l"(wide) : "r"(x), "r"(y));
  mine[8] = wide >> 32;
  asm("bfind.u32 %0, %1;" : "=r"(mine[9]) : "r"(x));
  asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(mine[10]) : "r"(x), "r"(y), "r"(3));
  const unsigned left[] = {x, y, 1}, right[] = {y, ~0u, 2};
  unsigned sum[3];
  add_long(sum, left, right);
  mine[11] = sum[2];
}

__global__ void memory(const uint4* in, uint4* out, float* roots) {
  const uint4* from = in + threadIdx.x;
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  asm volatile("membar.gl;" ::: "memory");
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(out + threadIdx.x), "r"(v.w), "r"(v.x)
               : "memory");
  asm volatile("st.volatile.global.u32 [%0+8], %1;" ::"l"(out + threadIdx.x), "r"(v.y));
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(static_cast<float>(v.z)));
  asm volatile("" ::: "memory");
  roots[threadIdx.x] = root;
}

// What C++ and PTX do not agree on. `in`: NaN, -1, 1e20, -0, +0, 2.
__global__ void edges(const float* in, const double* wide, unsigned* out) {
  const float none = in[0], minus = in[1], large = in[2], below = in[3], zero = in[4], two = in[5];
  float r;
  asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(out[0]) : "f"(minus));
  asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(out[1]) : "f"(large));
  asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(out[2]) : "f"(none));
  asm("cvt.rzi.s32.f64 %0, %1;" : "=r"(out[3]) : "d"(wide[0]));
  asm("cvt.rzi.u8.f32 %0, %1;" : "=r"(out[4]) : "f"(large));
  asm("cvt.rzi.f32.f32 %0, %1;" : "=f"(r) : "f"(two + 0.75f));
  out[5] = __float_as_uint(r);
  asm("bfe.s32 %0, %1, 28, 8;" : "=r"(out[6]) : "r"(__float_as_uint(below)));
  asm("min.f32 %0, %1, %2;" : "=f"(r) : "f"(none), "f"(two));
  out[7] = __float_as_uint(r);
  asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(two), "f"(none));
  out[8] = __float_as_uint(r);
  asm("min.f32 %0, %1, %2;" : "=f"(r) : "f"(zero), "f"(below));
  out[9] = __float_as_uint(r);
  asm("max.f32 %0, %1, %2;" : "=f"(r) : "f"(below), "f"(zero));
  out[10] = __float_as_uint(r);
  asm("neg.f32 %0, %1;" : "=f"(r) : "f"(zero));
  out[11] = __float_as_uint(r);
  asm("abs.f32 %0, %1;" : "=f"(r) : "f"(below));
  out[12] = __float_as_uint(r);
  asm("{ .reg .pred a, b, c;\n"
      "  setp.ne.f32 a, %3, %4;  setp.neu.f32 b, %3, %4;  setp.ltu.f32 c, %4, %4;\n"
      "  selp.u32 %0, 1, 2, a;  selp.u32 %1, 1, 2, b;  not.pred c, c;  selp.u32 %2, 1, 2, c; }"
      : "=r"(out[13]), "=r"(out[14]), "=r"(out[15])
      : "f"(none), "f"(two));
  double d;
  asm("{ .reg .f64 %%t; mov.f64 %%t, 0d3FF8000000000000;\n"
      "  { .reg .u32 %%t; mov.u32 %%t, 0x1FU; mov.u32 %1, %%t; }\n"
      "  mov.f64 %0, %%t; }"
      : "=d"(d), "=r"(out[16]));
  out[17] = static_cast<unsigned>(d * 2);
}

#ifdef __CUDACC__
#include <cmath>

#include "program.h"

static void edges_are_those_of_ptx() {
  const float in[] = {NAN, -1.0f, 1e20f, -0.0f, 0.0f, 2.0f};
  unsigned* device = upload(std::vector<unsigned>(18));
  edges<<<1, 1>>>(upload(std::vector<float>(in, in + 6)), upload(std::vector<double>{NAN}), device);
  LAUNCHED();
  const auto out = download(device, 18);
  const unsigned two = 0x40000000u, minus_zero = 0x80000000u;
  const unsigned expected[18] = {0,           0x7fffffffu, 0,   0x80000000u, 255, two,
                                 0xfffffff8u, two,         two, minus_zero,  0,   minus_zero,
                                 0,           2,           1,   1,           31,  3};
  for (int i = 0; i < 18; i++) EXPECT(out[i] == expected[i]);
}

static unsigned distances(unsigned a, unsigned b) {
  unsigned sum = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const int left = a >> shift & 255, right = b >> shift & 255;
    sum += left < right ? right - left : left - right;
  }
  return sum;
}

int main() {
  EXPECT(ticks() > 0);
  edges_are_those_of_ptx();
  unsigned* out = upload(std::vector<unsigned>(128));
  lanes<<<2, 64>>>(out);
  LAUNCHED();
  const auto got = download(out, 128);
  for (unsigned i = 0; i < 128; i++) {
    const unsigned lane = i % 32;
    EXPECT(got[i] == lane + (((1u << lane) - 1) << 5));
  }
  constexpr int kCount = 40;
  std::vector<unsigned> a, b;
  unsigned seed = 5;
  for (int i = 0; i < kCount; i++) {
    a.push_back(next_random(&seed) << 12 ^ next_random(&seed));
    b.push_back(next_random(&seed) << 10 ^ next_random(&seed));
  }
  a[0] = 1;
  unsigned* results = upload(std::vector<unsigned>(12 * kCount));
  integers<<<1, kCount>>>(upload(a), upload(b), results);
  LAUNCHED();
  const auto all = download(results, 12 * kCount);
  for (int i = 0; i < kCount; i++) {
    const unsigned x = a[i], y = b[i], *mine = &all[12 * i];
    EXPECT(mine[0] == (x ^ y ^ 0x0f0f0f0fu));
    EXPECT(mine[1] == (x >> 5 & 511));
    EXPECT(mine[2] == static_cast<unsigned>(static_cast<int>(x) >> 20));
    EXPECT(mine[3] == ((y & ~0xf00u) | (x & 15) << 8));
    EXPECT(mine[4] == ((x & 0xffff) | y << 16));
    EXPECT(mine[5] == static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32));
    EXPECT(mine[6] == (i < 32 ? x << i : 0));
    EXPECT(mine[7] == (x < y ? 9u : 7u));
    EXPECT(mine[8] == static_cast<unsigned>((static_cast<unsigned long long>(x) * y + 5) >> 32));
    EXPECT((x >> mine[9]) == 1);
    EXPECT(mine[10] == 3 + distances(x, y));
    const unsigned long long low = static_cast<unsigned long long>(x) + y;
    const unsigned long long middle = (low >> 32) + y + 0xffffffffull;
    EXPECT(mine[11] == 3 + static_cast<unsigned>(middle >> 32));
  }
  std::vector<uint4> in;
  for (unsigned i = 0; i < 32; i++) in.push_back(make_uint4(i, i + 100, i * i, i + 300));
  uint4* copies = upload(std::vector<uint4>(32));
  float* roots = upload(std::vector<float>(32));
  memory<<<1, 32>>>(upload(in), copies, roots);
  LAUNCHED();
  const auto found = download(copies, 32);
  const auto root = download(roots, 32);
  for (unsigned i = 0; i < 32; i++) {
    EXPECT(found[i].x == i + 300 && found[i].y == i && found[i].z == i + 100);
    EXPECT(close_to(root[i], i));
  }
  std::printf("inline PTX: right\n");
  return 0;
}
#endif
