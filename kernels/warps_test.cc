// Warp operations of host kernels, against what a GPU answers.
#include <bit>

#include "host_kernels.h"

namespace lambent {
namespace {

class HostWarps : public HostKernels {};
INSTANTIATE_TEST_SUITE_P(Each, HostWarps, testing::ValuesIn(compilers()), compiler_name);

TEST_P(HostWarps, ShufflesStayWithinTheirSegments) {
  const HostModule module = open("warps");
  for (const int width : {32, 16, 8}) {
    std::vector<int> output(64 * 6, -1);
    run_kernel(module.kernel("shuffles"), {1, 1, 1}, {64, 1, 1}, width, output.data());
    for (int i = 0; i < 64; ++i) {
      const int segment = i / width * width, place = i % width;
      const int crossed = i ^ 16;
      const int expected[6] = {segment + 3,
                               segment + (i + 1) % width,
                               place >= 2 ? i - 2 : i,
                               place + 2 < width ? i + 2 : i,
                               i ^ 1,
                               crossed / width <= i / width ? crossed : i};
      for (int k = 0; k < 6; ++k) {
        EXPECT_EQ(output[i * 6 + k], expected[k]) << "width " << width << ", " << i << ", " << k;
      }
    }
  }
}

TEST_P(HostWarps, ShufflesCarryEightBytes) {
  const HostModule module = open("warps");
  double doubles[32];
  unsigned long long longs[32];
  float floats[32];
  run_kernel(module.kernel("wide_shuffles"), {1, 1, 1}, {32, 1, 1}, static_cast<double*>(doubles),
             static_cast<unsigned long long*>(longs), static_cast<float*>(floats));
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(doubles[i], (i < 31 ? i + 1 : i) + 0.5);
    EXPECT_EQ(longs[i], (1ull << 40) + (31 - i));
    EXPECT_EQ(floats[i], (i > 0 ? i - 1 : i) * 0.25f);
  }
}

TEST_P(HostWarps, WarpsSumByShuffles) {
  const HostModule module = open("warps");
  std::vector<int> input(4 * 256), sums(4 * 8);
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<int>(i);
  run_kernel(module.kernel("warp_sum"), {4, 1, 1}, {256, 1, 1},
             static_cast<const int*>(input.data()), sums.data());
  for (int warp = 0; warp < 32; ++warp) EXPECT_EQ(sums[warp], 32 * 32 * warp + 31 * 16) << warp;
}

TEST_P(HostWarps, HalvesOfAWarpMeetWithMasksOfTheirOwn) {
  const HostModule module = open("warps");
  std::vector<int> output(64);
  run_kernel(module.kernel("diverge"), {1, 1, 1}, {64, 1, 1}, output.data());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(output[i], (i % 32 < 16 ? 120 : 31 + 8) + 120000) << i;
}

TEST_P(HostWarps, LanesThatHaveReturnedOrNeverWereAreNotWaitedFor) {
  const HostModule module = open("warps");
  for (const unsigned threads : {64u, 50u, 5u}) {
    std::vector<unsigned> output(64, 12345);
    run_kernel(module.kernel("leave"), {1, 1, 1}, {threads, 1, 1}, 20, output.data());
    for (unsigned i = 0; i < 64; ++i) {
      const unsigned lanes = std::min(threads - i / 32 * 32, 20u);
      const unsigned expected = 0x49249249u & ((1u << lanes) - 1);
      EXPECT_EQ(output[i], i < threads && i % 32 < 20 ? expected : 12345) << i;
    }
  }
}

TEST_P(HostWarps, MatchesFindEqualValues) {
  const HostModule module = open("warps");
  unsigned any[32], all[64];
  int same[64];
  run_kernel(module.kernel("matches"), {1, 1, 1}, {32, 1, 1}, static_cast<unsigned*>(any),
             static_cast<unsigned*>(all), static_cast<int*>(same));
  for (int i = 0; i < 32; ++i) {
    unsigned expected = 0;
    for (int j = i % 5; j < 32; j += 5) expected |= 1u << j;
    EXPECT_EQ(any[i], expected);
    EXPECT_EQ(all[2 * i], ~0u);
    EXPECT_EQ(same[2 * i], 1);
    EXPECT_EQ(all[2 * i + 1], 0u);
    EXPECT_EQ(same[2 * i + 1], 0);
  }
}

TEST_P(HostWarps, ReductionsKnowTheSign) {
  const HostModule module = open("warps");
  int input[32], output[32 * 8];
  int expected[8] = {0, INT32_MAX, INT32_MIN, 0, 0, -1, 0, 0};
  unsigned least = ~0u, most = 0;
  for (int i = 0; i < 32; ++i) {
    const int value = input[i] = (i - 12) * 1000003;
    expected[0] = static_cast<int>(static_cast<unsigned>(expected[0]) + value);
    expected[1] = std::min(expected[1], value);
    expected[2] = std::max(expected[2], value);
    least = std::min(least, static_cast<unsigned>(value));
    most = std::max(most, static_cast<unsigned>(value));
    expected[5] &= value;
    expected[6] |= value;
    expected[7] ^= value;
  }
  expected[3] = static_cast<int>(least);
  expected[4] = static_cast<int>(most);
  run_kernel(module.kernel("reductions"), {1, 1, 1}, {32, 1, 1}, static_cast<const int*>(input),
             static_cast<int*>(output));
  for (int i = 0; i < 32; ++i) {
    for (int k = 0; k < 8; ++k) EXPECT_EQ(output[i * 8 + k], expected[k]) << i << ", " << k;
  }
}

TEST_P(HostWarps, ActiveLanesAreThoseThatStandTogether) {
  const HostModule module = open("warps");
  std::vector<unsigned> output(64 * 3, 0);
  run_kernel(module.kernel("active"), {1, 1, 1}, {64, 1, 1}, output.data());
  const unsigned in_loop[4] = {0, 0xffffff00u, 0xffff0000u, 0xff000000u};
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(output[i * 3], ~0u) << i;
    EXPECT_EQ(output[i * 3 + 1], i % 4 == 0 ? 0x11111111u : 0xeeeeeeeeu) << i;
    // A compiler may unroll the loop, and lanes at different calls are not together.
    const unsigned seen = output[i * 3 + 2];
    EXPECT_EQ(seen & ~in_loop[i % 32 / 8], 0u) << i;
    if (i % 32 >= 8) {
      EXPECT_NE(seen & 1u << i % 32, 0u) << i;
    }
  }
}

TEST_P(HostWarps, AggregatedAtomicsGiveEveryThreadATicket) {
  const HostModule module = open("warps");
  int counter = 0;
  std::vector<int> tickets(100, -1);
  run_kernel(module.kernel("aggregated"), {1, 1, 1}, {100, 1, 1}, &counter, tickets.data());
  EXPECT_EQ(counter, 34);
  unsigned long long seen = 0;
  for (int i = 0; i < 100; i += 3) seen |= 1ull << tickets[i];
  EXPECT_EQ(seen, (1ull << 34) - 1);
}

TEST_P(HostWarps, AThreadMaySpinUntilAnotherHasComeBy) {
  const HostModule module = open("warps");
  int output = 0;
  run_kernel(module.kernel("handover"), {1, 1, 1}, {70, 1, 1}, &output);
  EXPECT_EQ(output, 7);
}

TEST_P(HostWarps, AThreadMaySpinOnAnotherThatHasNotBegun) {
  const HostModule module = open("warps");
  int flag = 0, output = 0;
  run_kernel(module.kernel("handover_at_once"), {1, 1, 1}, {70, 1, 1}, &flag, &output);
  EXPECT_EQ(output, 7);
}

TEST_P(HostWarps, ABarrierMayStandInAFunctionThatCallsItself) {
  const HostModule module = open("recursion");
  std::vector<int> output(64);
  run_kernel(module.kernel("recursive"), {1, 1, 1}, {64, 1, 1}, 3, output.data());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(output[i], ((i + 1) % 64 + 6) + 3 * (i + 6)) << i;
}

TEST_P(HostWarps, HeadersMayStandBehindOurs) {
  const HostModule module = open("headers");
  int output[4];
  run_kernel(module.kernel("uses_headers"), {1, 1, 1}, {4, 1, 1}, static_cast<int*>(output));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(output[i], 1 + i % 3 + 'a') << i;
}

}  // namespace
}  // namespace lambent
