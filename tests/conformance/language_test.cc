// What kernels compute on a driver: the lanes of a warp, groups, shared memory, small numbers. The
// same source runs on the emulated device and on a GPU.
#include <numeric>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

class Language : public WithKernels {
 protected:
  // Runs `kernel` on one block with its only parameters: `input`, and room for as many results.
  template <typename Output, typename Input>
  std::vector<Output> run(const char* kernel, const std::vector<Input>& input,
                          unsigned shared_bytes = 0) {
    const size_t count = input.size();
    std::vector<Output> output(count);
    CUdeviceptr from = allocate(count * sizeof(Input)), to = allocate(count * sizeof(Output));
    void* parameters[] = {&from, &to};
    EXPECT_EQ(cu.memcpy_h_to_d(from, input.data(), count * sizeof(Input)), CUDA_SUCCESS);
    EXPECT_EQ(cu.launch_kernel(function(kernel), 1, 1, 1, static_cast<unsigned>(count), 1, 1,
                               shared_bytes, nullptr, parameters, nullptr),
              CUDA_SUCCESS);
    EXPECT_EQ(cu.memcpy_d_to_h(output.data(), to, count * sizeof(Output)), CUDA_SUCCESS);
    return output;
  }
  std::vector<int> ramp(int count) {
    std::vector<int> values(count);
    std::iota(values.begin(), values.end(), 1);
    return values;
  }
};

TEST_F(Language, LanesSumTheirWarpByShuffles) {
  BODIES_ONLY();
  const auto sums = run<int>("language_warp_sum", ramp(96));
  for (int i = 0; i < 96; ++i) EXPECT_EQ(sums[i], 32 * (i / 32 * 32) + 528) << i;
}

TEST_F(Language, HalvesOfAWarpMeetByMasksOfTheirOwn) {
  BODIES_ONLY();
  const auto seen = run<int>("language_divergence", ramp(64));
  for (int i = 0; i < 64; ++i) {
    const int half = i / 16 * 16;
    EXPECT_EQ(seen[i], i % 32 < 16 ? 16 * half + 136 : half + 16) << i;
  }
}

TEST_F(Language, LanesOfAPartialWarpVote) {
  BODIES_ONLY();
  const auto votes = run<unsigned>("language_votes", ramp(44));
  for (int i = 0; i < 44; ++i) {
    EXPECT_EQ(votes[i], i < 32 ? 0xaaaaaaaau : 0xaaau) << i;
  }
}

TEST_F(Language, TilesOfABlockReduceAndScan) {
  BODIES_ONLY();
  const auto sums = run<int>("language_tiles", ramp(64));
  for (int i = 0; i < 64; ++i) {
    const int first = i / 8 * 8 + 1, rank = i % 8;
    const int all = 8 * first + 28, running = (rank + 1) * first + rank * (rank + 1) / 2;
    EXPECT_EQ(sums[i], all * 10000 + running) << i;
  }
}

TEST_F(Language, ABlockReversesItsSharedMemory) {
  BODIES_ONLY();
  const auto reversed = run<int>("language_reverse", ramp(200), 200 * sizeof(int));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(reversed[i], 200 - i) << i;
}

TEST_F(Language, HalfPrecisionRoundsOnce) {
  BODIES_ONLY();
  const auto halves = run<unsigned short>(
      "language_halves", std::vector<float>{1.0f, 1.0f + 1.0f / 2048, 1.0f + 3.0f / 2048, 65519.0f,
                                            65520.0f, 1e-7f, -0.1f, 0.3f});
  const unsigned short expected[] = {0x3c00, 0x3c00, 0x3c02, 0x7bff,
                                     0x7c00, 0x0002, 0xae66, 0x34cd};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(halves[i], expected[i]) << i;
}

}  // namespace
}  // namespace lambent::conformance
