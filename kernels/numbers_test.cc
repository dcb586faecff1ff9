// Small floats, integer intrinsics, roundings, mathematics and failures of host kernels.
#include <bit>
#include <cfloat>
#include <cmath>
#include <csetjmp>

#include "host_kernels.h"

namespace lambent {
namespace {

class HostNumbers : public HostKernels {};
INSTANTIATE_TEST_SUITE_P(Each, HostNumbers, testing::ValuesIn(compilers()), compiler_name);

struct Values {
  std::vector<float> halves = std::vector<float>(65536), brains = std::vector<float>(65536);
};

Values all_values(const HostModule& module) {
  Values values;
  run_kernel(module.kernel("half_values"), {64, 1, 1}, {1024, 1, 1}, values.halves.data(),
             values.brains.data());
  return values;
}

TEST_P(HostNumbers, EverySmallFloatHasItsValue) {
  const HostModule module = open("numbers");
  const Values values = all_values(module);
  EXPECT_EQ(values.halves[0x3c00], 1.0f);
  EXPECT_EQ(values.halves[0x0001], std::ldexp(1.0f, -24));
  EXPECT_EQ(values.halves[0x7bff], 65504.0f);
  EXPECT_EQ(values.halves[0xfc00], -INFINITY);
  EXPECT_TRUE(std::isnan(values.halves[0x7e00]));
  EXPECT_EQ(values.brains[0x3f80], 1.0f);
  EXPECT_EQ(values.brains[0xff80], -INFINITY);
  for (unsigned i = 1; i < 0x7c00; ++i) ASSERT_LT(values.halves[i - 1], values.halves[i]) << i;
  for (unsigned i = 1; i < 0x7f80; ++i) ASSERT_LT(values.brains[i - 1], values.brains[i]) << i;
}

// Every value, the middle to the next one, and what lies just beside the middle.
TEST_P(HostNumbers, SmallFloatsRoundToTheNearestAndTiesToEven) {
  const HostModule module = open("numbers");
  const Values values = all_values(module);
  for (const bool brain : {false, true}) {
    const unsigned end = brain ? 0x7f7f : 0x7bff;
    std::vector<float> input;
    std::vector<unsigned short> expected;
    for (unsigned i = 0; i < end; ++i) {
      const float here = (brain ? values.brains : values.halves)[i];
      const float next = (brain ? values.brains : values.halves)[i + 1];
      const float middle = static_cast<float>((double{here} + next) / 2);
      for (const float sign : {1.0f, -1.0f}) {
        const unsigned bit = sign < 0 ? 0x8000 : 0;
        input.insert(input.end(), {sign * here, sign * middle});
        expected.insert(expected.end(), {static_cast<unsigned short>(i | bit),
                                         static_cast<unsigned short>((i + i % 2) | bit)});
        if (middle < FLT_MIN) continue;
        input.insert(input.end(), {sign * std::nextafter(middle, 0.0f),
                                   sign * std::nextafter(middle, INFINITY)});
        expected.insert(expected.end(), {static_cast<unsigned short>(i | bit),
                                         static_cast<unsigned short>((i + 1) | bit)});
      }
    }
    input.insert(input.end(), {brain ? FLT_MAX : 65520.0f, INFINITY});
    expected.insert(expected.end(), 2, brain ? 0x7f80 : 0x7c00);
    // What is no number is always the same one.
    input.insert(input.end(), {NAN, -NAN, std::bit_cast<float>(0x7f800001u)});
    expected.insert(expected.end(), 3, 0x7fff);
    const size_t count = input.size();
    input.resize((count + 1023) / 1024 * 1024);
    std::vector<unsigned short> halves(input.size()), brains(input.size());
    run_kernel(module.kernel("half_round_trip"), {static_cast<unsigned>(input.size() / 1024), 1, 1},
               {1024, 1, 1}, static_cast<const float*>(input.data()), halves.data(), brains.data());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ((brain ? brains : halves)[i], expected[i]) << input[i] << (brain ? " brain" : "");
    }
  }
}

TEST_P(HostNumbers, SmallFloatsCompute) {
  const HostModule module = open("numbers");
  float out[12];
  unsigned short accumulator = 0x3c00;  // 1
  run_kernel(module.kernel("half_arithmetic"), {2, 1, 1}, {4, 1, 1}, static_cast<float*>(out),
             &accumulator);
  const float expected[12] = {
      1.75f, 0.375f, 6.0f, 3.25f, 2.0f, 1.5f, 1.0f, 1.0f + 1 / 1024.0f, 1.0f + 1 / 1024.0f,
      2.0f,  3.5f,   2.0f};
  for (int i = 0; i < 12; ++i) EXPECT_EQ(out[i], expected[i]) << i;
  EXPECT_EQ(accumulator, 0x4a80);  // 13
}

TEST_P(HostNumbers, ComparisonsOfHalvesKnowWhatIsNoNumber) {
  const HostModule module = open("numbers");
  const float in[] = {NAN, 1.0f};
  unsigned out[3];
  run_kernel(module.kernel("half_comparisons"), {1, 1, 1}, {1, 1, 1}, static_cast<const float*>(in),
             static_cast<unsigned*>(out));
  // !=, __hneu, __hequ, __hltu of it and one; the pairs' second halves are equal.
  EXPECT_EQ(out[0], 1u << 1 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 9 | 1u << 10);
  EXPECT_EQ(out[1], 1u);
  EXPECT_EQ(out[2], 0u);
}

TEST_P(HostNumbers, RareFunctionsOfHalvesAreThere) {
  const HostModule module = open("numbers");
  float out[16];
  run_kernel(module.kernel("half_rarities"), {1, 1, 1}, {1, 1, 1}, static_cast<float*>(out));
  const float expected[16] = {2048, 2050, -2050, INFINITY, 65504, 256,   258,   -128,
                              12,   12,   4,     1,        0,     65535, 65535, 1};
  for (int i = 0; i < 16; ++i) EXPECT_EQ(out[i], expected[i]) << i;
}

TEST_P(HostNumbers, AWideIntegerIsRoundedToABrainFloatOnce) {
  const HostModule module = open("numbers");
  float out[8];
  run_kernel(module.kernel("brains_of_wide_integers"), {1, 1, 1}, {1, 1, 1},
             static_cast<float*>(out));
  const float even = 0x1p60f, next = 0x1p60f + 0x1p53f;
  const float expected[8] = {even, next, -next, next, 0xffp56f, next, -next, -0x1p63f};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], expected[i]) << i;
}

TEST_P(HostNumbers, IntegerIntrinsicsDoWhatTheGuideSays) {
  const HostModule module = open("numbers");
  long long out[18];
  run_kernel(module.kernel("integers"), {1, 1, 1}, {1, 1, 1}, static_cast<long long*>(out));
  const long long expected[18] = {23,
                                  41,
                                  0x80000000ll,
                                  1,
                                  0x77553311ll,
                                  0x80808080ll,
                                  0x23456788ll,
                                  0x88000000ll,
                                  0x12345678ll,
                                  -1,
                                  2,
                                  -15,
                                  1,
                                  2,
                                  112,
                                  15,
                                  271,
                                  3};
  for (int i = 0; i < 18; ++i) EXPECT_EQ(out[i], expected[i]) << i;
}

TEST_P(HostNumbers, RoundingsGoWhereTheyShould) {
  const HostModule module = open("numbers");
  double out[19];
  run_kernel(module.kernel("roundings"), {1, 1, 1}, {1, 1, 1}, static_cast<double*>(out));
  EXPECT_EQ(out[0], std::nextafter(1.0f, 2.0f));
  EXPECT_EQ(out[1], 1.0);
  const double square = double{1.0f / 3.0f} * double{1.0f / 3.0f};
  EXPECT_LT(out[2], square);
  EXPECT_EQ(std::nextafter(static_cast<float>(out[2]), 1.0f), out[3]);
  EXPECT_LT(out[4] * 3, 1.0);
  EXPECT_GT(out[5] * 3, 1.0);
  EXPECT_EQ(out[6], std::ldexp(1.0, -52));
  EXPECT_EQ(out[7], std::nextafter(1.0f, 2.0f));
  EXPECT_EQ(out[8], 16777218.0);
  EXPECT_EQ(out[9], 2.0);
  EXPECT_EQ(out[10], 3.0);
  EXPECT_EQ(out[11], -3.0);
  EXPECT_EQ(out[12], 2147483647.0);
  EXPECT_EQ(out[13], 0.0);
  EXPECT_EQ(out[14], -2147483648.0);
  EXPECT_EQ(out[15], 1.5);
  EXPECT_EQ(out[16], 0x3ff80000);
  EXPECT_EQ(out[17], 0.0);
  EXPECT_EQ(out[18], std::ldexp(-1.0, 63));
}

TEST_P(HostNumbers, MathematicsBeyondTheLibraryIsRight) {
  const HostModule module = open("numbers");
  double out[22];
  run_kernel(module.kernel("mathematics"), {1, 1, 1}, {1, 1, 1}, static_cast<double*>(out));
  const double expected[20] = {0.70710678118654757,
                               0.5,
                               0.47693627620446987,
                               4.5728249673894852,
                               0.84134474606854293,
                               1.959963984540054,
                               0.018795888861416751,
                               0.5,
                               7.0,
                               0.2,
                               100.0,
                               1.2660658777520084,
                               0.5,
                               1.0,
                               0.25,
                               0.0,
                               -3.1415926535897932e-20,
                               -3.4878684980086319e-16,
                               -0.70710678118654757,
                               0.023198068394777261};
  for (int i = 0; i < 20; ++i) EXPECT_NEAR(out[i], expected[i], 1e-14 * fabs(expected[i])) << i;
  EXPECT_EQ(out[20], INFINITY);
  EXPECT_EQ(out[21], -INFINITY);
}

TEST_P(HostNumbers, VectorTypesHaveTheLayoutOfAGpu) {
  const HostModule module = open("numbers");
  int sizes[6];
  run_kernel(module.kernel("vectors"), {1, 1, 1}, {1, 1, 1}, static_cast<int*>(sizes));
  const int expected[6] = {301, 404, 404, 3216, 2408, 4 + 6 + 0 + 1};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(sizes[i], expected[i]) << i;
}

TEST_P(HostNumbers, AConditionalHandleIsTheAddressOfItsValue) {
  const HostModule module = open("numbers");
  unsigned value = 0;
  run_kernel(module.kernel("decide"), {1, 1, 1}, {1, 1, 1}, reinterpret_cast<uint64_t>(&value), 5u);
  EXPECT_EQ(value, 5u);
}

// A driver that leaves a failed launch by a jump.
jmp_buf g_failed;
int run_until_failure(const emulated_kernel& kernel, unsigned threads, void** parameters) {
  emulated_launch launch = {{1, 1, 1}, {threads, 1, 1}, 0};
  launch.fail = [](const emulated_launch*, int result) { longjmp(g_failed, result); };
  if (const int result = setjmp(g_failed)) return result;
  kernel.run_block(&launch, {0, 0, 0}, parameters);
  return 0;
}

TEST_P(HostNumbers, AFailedAssertionEndsTheLaunchAndNothingElse) {
  const HostModule module = open("numbers");
  int limit = 10, output[16] = {};
  int* pointer = output;
  void* parameters[] = {&limit, &pointer};
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_until_failure(module.kernel("assertion"), 16, parameters), 710);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("thread: [10,0,0] Assertion `"),
            std::string::npos);
  EXPECT_EQ(output[9], 41);
  EXPECT_EQ(run_until_failure(module.kernel("assertion"), 8, parameters), 0);
}

TEST_P(HostNumbers, ATrapAmongWaitingThreadsEndsTheLaunchAndNothingElse) {
  const HostModule module = open("numbers");
  for (int at : {0, 40, 63, 64}) {
    void* parameters[] = {&at};
    EXPECT_EQ(run_until_failure(module.kernel("trap"), 64, parameters), at < 64 ? 719 : 0);
  }
}

}  // namespace
}  // namespace lambent
