// Kernels of PTX on the host (testing/ptx.ptx): what memory, conversions and integers give.
#include <cmath>
#include <limits>

#include "host_kernels.h"

namespace lambent {
namespace {

class HostPtx : public HostKernels {};
INSTANTIATE_TEST_SUITE_P(Each, HostPtx, testing::ValuesIn(compilers()), compiler_name);

constexpr emulated_dim3 kOne = {1, 1, 1};

TEST_P(HostPtx, AThreadHasAnArrayOfItsOwn) {
  const HostModule module = open("ptx");
  alignas(16) unsigned in[4] = {3, 5, 7, 11};
  unsigned out[2] = {};
  run_kernel(module.kernel("local_array"), kOne, kOne, &out[0], &in[0]);
  EXPECT_EQ(out[0], 5u);
  EXPECT_EQ(out[1], 11u);
}

TEST_P(HostPtx, AProductAndASumAreOneOnlyWhereThePtxSaysSo) {
  const HostModule module = open("ptx");
  const float x = 1.0f + std::ldexp(1.0f, -12);
  float in[2] = {x, -(x * x)}, out[2] = {};
  run_kernel(module.kernel("products"), kOne, kOne, &out[0], &in[0]);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], std::fma(x, x, in[1]));
  EXPECT_NE(out[1], 0.0f);
}

struct Small {
  unsigned short nearest, shorter, more_brain, of_double, floor, ceiling, within, unused;
  float within_float;
  int whole;
  unsigned short size, less, greater, end;
};

TEST_P(HostPtx, SmallFloatsAreRoundedAsTheInstructionSays) {
  const HostModule module = open("ptx");
  // Beside the middle of 1.5 and the next half, from which a double differs less than a float can.
  const float in = 1.5f + std::ldexp(1.0f, -11) + std::ldexp(1.0f, -20);
  const double wide = 1.5 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  Small out = {};
  run_kernel(module.kernel("small_floats"), kOne, kOne, &out, &in, wide);
  EXPECT_EQ(out.nearest, 0x3e01);
  EXPECT_EQ(out.shorter, 0x3e00);
  EXPECT_EQ(out.more_brain, 0x3fc1);
  EXPECT_EQ(out.of_double, 0x3e01);
  EXPECT_EQ(out.floor, 0x3c00);
  EXPECT_EQ(out.ceiling, 0x4000);
  EXPECT_EQ(out.within, 0x3c00);
  EXPECT_EQ(out.within_float, 1.0f);
  EXPECT_EQ(out.whole, 1);
  // Of -0 and +0.
  EXPECT_EQ(out.size, 0x0000);
  EXPECT_EQ(out.less, 0x8000);
  EXPECT_EQ(out.greater, 0x0000);
}

struct Integers {
  int of_float, of_double, signed_first, signed_second;
  unsigned unsigned_both, unused;
  long long negative;
};

TEST_P(HostPtx, IntegersAreThoseOfTheirTypes) {
  const HostModule module = open("ptx");
  Integers out = {};
  run_kernel(module.kernel("integers"), kOne, kOne, &out);
  EXPECT_EQ(out.of_float, 0);
  EXPECT_EQ(out.of_double, std::numeric_limits<int>::min());
  // Of the bytes 255, 2, 255 and 3, where 255 may be -1.
  EXPECT_EQ(out.signed_first, -255 + 4 - 255 + 9);
  EXPECT_EQ(out.signed_second, -255 + 4 - 255 + 9);
  EXPECT_EQ(out.unsigned_both, 2u * 255 * 255 + 4 + 9 + 1);
  EXPECT_EQ(out.negative, -2147483648ll);
}

struct Pairs {
  unsigned half, brain, greater, less;
  float number, no_number;
  unsigned short equal, above;
  unsigned apart, sum, elected;
};

TEST_P(HostPtx, PairsAreCalculatedByTheirHalves) {
  const HostModule module = open("ptx");
  Pairs out = {};
  run_kernel(module.kernel("pairs"), kOne, kOne, &out);
  EXPECT_EQ(out.half, 0x3e00c000u);  // 1.5 in the higher half, -2 in the lower
  EXPECT_EQ(out.brain, 0xc0003fc0u);
  EXPECT_EQ(out.greater, 0x3e003e00u);
  EXPECT_EQ(out.less, 0xc000c000u);
  EXPECT_EQ(out.number, 1.5f);
  EXPECT_TRUE(std::isnan(out.no_number));
  EXPECT_EQ(out.equal, 0x3c00);
  EXPECT_EQ(out.above, 0);
  EXPECT_EQ(out.apart, 0x01fe0202u);
  EXPECT_EQ(out.sum, 100u + 1 + 2 + 2 + 2);
  EXPECT_EQ(out.elected, 0u);
}

TEST_P(HostPtx, CopiesBesideTheThreadAreMade) {
  const HostModule module = open("ptx");
  unsigned in[5] = {1, 2, 3, 4, 5};
  alignas(16) unsigned out[6] = {9, 9, 9, 9, 9, 9};
  run_kernel(module.kernel("copies"), kOne, kOne, &out[0], &in[0]);
  const unsigned expected[6] = {2, 3, 4, 5, 1, 0};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], expected[i]) << i;
}

}  // namespace
}  // namespace lambent
