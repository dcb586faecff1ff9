// The kernels of this folder and the constructs that they may use, run on the host.
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <numeric>
#include <thread>

#include "host_kernels.h"

namespace lambent {
namespace {

INSTANTIATE_TEST_SUITE_P(Each, HostKernels, testing::ValuesIn(compilers()), compiler_name);

std::vector<float> ramp(size_t count, int modulus) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % modulus) - modulus / 3;
  return values;
}

TEST_P(HostKernels, AddVectorsWhoseLengthIsNoMultipleOfTheBlock) {
  const HostModule module = open("vector_add");
  const unsigned count = 1000;
  const auto a = ramp(count, 17), b = ramp(count, 23);
  std::vector<float> c(count + 1, -1.0f);
  run_kernel(module.kernel("vector_add"), {4, 1, 1}, {256, 1, 1}, a.data(), b.data(), c.data(),
             count);
  for (unsigned i = 0; i < count; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i;
  EXPECT_EQ(c[count], -1.0f);
}

TEST_P(HostKernels, MultiplyMatricesWhoseSizeIsNoMultipleOfTheTile) {
  const HostModule module = open("matmul_tiled");
  for (const unsigned tile : {8u, 16u}) {
    const int size = 37;
    const auto a = ramp(size * size, 7), b = ramp(size * size, 5);
    std::vector<float> c(size * size, -1.0f);
    const unsigned blocks = (size + tile - 1) / tile;
    run_kernel(module.kernel("matmul_tiled_" + std::to_string(tile)), {blocks, blocks, 1},
               {tile, tile, 1}, a.data(), b.data(), c.data(), size);
    for (int row = 0; row < size; ++row) {
      for (int column = 0; column < size; ++column) {
        float expected = 0;
        for (int k = 0; k < size; ++k) expected += a[row * size + k] * b[k * size + column];
        ASSERT_NEAR(c[row * size + column], expected, 1e-3) << row << ", " << column;
      }
    }
  }
}

TEST_P(HostKernels, JacobiReachesTheLinearSolution) {
  const HostModule module = open("jacobi");
  const int width = 19, height = 11;
  std::vector<float> from(width * height, 0.0f), to(width * height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      if (x == 0 || y == 0 || x == width - 1 || y == height - 1) from[y * width + x] = x;
    }
  }
  unsigned largest = 0;
  for (int step = 0; step < 2000; ++step) {
    run_kernel(module.kernel("jacobi_step"), {2, 2, 1}, {16, 8, 1},
               static_cast<const float*>(from.data()), to.data(), width, height);
    largest = 0;
    run_kernel(module.kernel("jacobi_change"), {4, 1, 1}, {64, 1, 1},
               static_cast<const float*>(from.data()), static_cast<const float*>(to.data()),
               width * height, &largest);
    std::swap(from, to);
  }
  EXPECT_LT(std::bit_cast<float>(largest), 1e-5f);
  for (int x = 0; x < width; ++x) EXPECT_NEAR(from[5 * width + x], x, 1e-2) << x;
}

// The transform of the definition, in double precision.
std::vector<std::complex<double>> transform(const std::complex<float>* signal, int points) {
  std::vector<std::complex<double>> spectrum(points);
  for (int k = 0; k < points; ++k) {
    for (int n = 0; n < points; ++n) {
      spectrum[k] += std::complex<double>(signal[n]) * std::polar(1.0, -2 * M_PI * k * n / points);
    }
  }
  return spectrum;
}

TEST_P(HostKernels, FftMatchesTheDefinition) {
  const HostModule module = open("fft");
  for (const int points : {2, 8, 128}) {
    const int signals = 3;
    const auto real = ramp(2 * signals * points, 13);
    std::vector<std::complex<float>> input(signals * points), output(signals * points);
    memcpy(static_cast<void*>(input.data()), real.data(), real.size() * sizeof(float));
    run_kernel(module.kernel("fft_forward"), {signals, 1, 1}, {points / 2u, 1, 1},
               static_cast<const void*>(input.data()), static_cast<void*>(output.data()), points);
    for (int s = 0; s < signals; ++s) {
      const auto expected = transform(&input[s * points], points);
      for (int k = 0; k < points; ++k) {
        ASSERT_NEAR(std::abs(expected[k] - std::complex<double>(output[s * points + k])), 0, 1e-3)
            << points << " points, signal " << s << ", " << k;
      }
    }
  }
}

TEST_P(HostKernels, DynamicSharedMemoryHasOneBufferUnderManyNames) {
  const HostModule module = open("dynamic");
  std::vector<int> input(2 * 100), sums(2);
  std::iota(input.begin(), input.end(), 0);
  run_kernel(module.kernel("dynamic_sum"), {2, 1, 1}, {100, 1, 1},
             static_cast<const int*>(input.data()), sums.data());
  EXPECT_EQ(sums[0], 4950);
  EXPECT_EQ(sums[1], 14950);

  std::vector<double> values(1024), reversed(1024);
  std::iota(values.begin(), values.end(), 0);
  run_kernel(module.kernel("dynamic_reverse"), {1, 1, 1}, {1024, 1, 1},
             static_cast<const double*>(values.data()), reversed.data());
  for (int i = 0; i < 1024; ++i) ASSERT_EQ(reversed[i], 1023 - i);
}

TEST_P(HostKernels, BlockSumGoesThroughSharedMemory) {
  const HostModule module = open("barriers");
  std::vector<int> input(3 * 256), sums(3);
  std::iota(input.begin(), input.end(), 1);
  run_kernel(module.kernel("block_sum"), {3, 1, 1}, {256, 1, 1},
             static_cast<const int*>(input.data()), sums.data());
  for (int block = 0; block < 3; ++block) {
    EXPECT_EQ(sums[block], 256 * (256 * block) + 256 * 257 / 2);
  }
}

TEST_P(HostKernels, ThreadsThatReturnEarlyAreNotWaitedFor) {
  const HostModule module = open("barriers");
  std::vector<int> output(1024, -1);
  run_kernel(module.kernel("early_exit"), {1, 1, 1}, {1024, 1, 1}, 700, output.data());
  for (int i = 0; i < 1024; ++i) ASSERT_EQ(output[i], i < 700 ? 708 : -1) << i;

  std::fill(output.begin(), output.end(), -1);
  run_kernel(module.kernel("late_entry"), {1, 1, 1}, {96, 1, 1}, 40, output.data());
  for (int i = 0; i < 96; ++i) ASSERT_EQ(output[i], i < 40 ? -1 : 56) << i;
}

TEST_P(HostKernels, BarriersCountVotes) {
  const HostModule module = open("barriers");
  std::vector<int> output(64);
  const std::pair<int, int> cases[] = {{0, 0}, {10, 1001}, {64, 6411}};
  for (const auto& [threshold, expected] : cases) {
    run_kernel(module.kernel("votes"), {1, 1, 1}, {64, 1, 1}, threshold, output.data());
    for (const int seen : output) ASSERT_EQ(seen, expected);
  }
}

TEST_P(HostKernels, OneWarpMaySynchroniseAlone) {
  const HostModule module = open("barriers");
  std::vector<int> output(128);
  run_kernel(module.kernel("one_warp"), {1, 1, 1}, {128, 1, 1}, output.data());
  for (int i = 0; i < 128; ++i) ASSERT_EQ(output[i], ((i % 32 + 1) % 32) * 2) << i;
}

TEST_P(HostKernels, IndicesSurviveBarriersInThreeDimensions) {
  const HostModule module = open("barriers");
  std::vector<unsigned> output(2 * 3 * 2 * 5 * 3 * 4);
  run_kernel(module.kernel("three_dimensions"), {2, 3, 2}, {5, 3, 4}, output.data());
  size_t i = 0;
  for (unsigned block = 0; block < 12; ++block) {
    for (unsigned z = 0; z < 4; ++z) {
      for (unsigned y = 0; y < 3; ++y) {
        for (unsigned x = 0; x < 5; ++x) ASSERT_EQ(output[i++], (z << 16) | (y << 8) | x);
      }
    }
  }
}

TEST_P(HostKernels, AtomicsOfEveryKindHoldAcrossThreads) {
  const HostModule module = open("language");
  int integers[6] = {};
  unsigned words[5] = {~0u, 0, 0, 0, 0};
  unsigned long long longs[2] = {};
  float floats[1] = {};
  double doubles[1] = {};
  auto& total = *static_cast<unsigned long long*>(module.symbol("total"));
  total = 0;
  const auto& kernel = module.kernel("all_atomics");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      run_kernel(kernel, {8, 1, 1}, {64, 1, 1}, static_cast<int*>(integers),
                 static_cast<unsigned*>(words), static_cast<unsigned long long*>(longs),
                 static_cast<float*>(floats), static_cast<double*>(doubles));
    });
  }
  for (auto& thread : threads) thread.join();
  const int count = 4 * 8 * 64;
  EXPECT_EQ(integers[0], count);
  EXPECT_EQ(integers[1], -count);
  EXPECT_EQ(integers[2], -63);
  EXPECT_EQ(integers[3], 63);
  EXPECT_EQ(integers[4], 5);
  EXPECT_EQ(integers[5], 1);
  EXPECT_EQ(words[0], 0u);
  EXPECT_EQ(words[1], ~0u);
  EXPECT_EQ(words[2], 0u);
  EXPECT_EQ(words[3], count % 10u);
  EXPECT_EQ(words[4], 63u);
  EXPECT_EQ(longs[0], static_cast<unsigned long long>(count));
  EXPECT_EQ(longs[1], 1ull << 39);
  EXPECT_EQ(floats[0], count * 0.5f);
  EXPECT_EQ(doubles[0], count * 0.25);
  EXPECT_EQ(total, static_cast<unsigned long long>(count));
}

TEST_P(HostKernels, TemplatesStructuresAndConstantsWork) {
  const HostModule module = open("language");
  struct {
    int begin, end;
    double scale;
  } range = {2, 5, 0.5};
  const float input[6] = {1, 2, 3, 4, 5, 6};
  float output[6] = {};
  const auto& kernel = module.kernel("scale_float_3");
  run_kernel(kernel, {1, 1, 1}, {6, 1, 1}, static_cast<const float*>(input),
             static_cast<float*>(output), range);
  const float expected[6] = {0, 0, 4.5f, 6.0f, 7.5f, 0};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(output[i], expected[i]) << i;

  const float weights[4] = {2, 3, 4, 5};
  memcpy(module.symbol("weights"), weights, sizeof(weights));
  alignas(16) const float vector[4] = {1, 2, 8, 4};
  float weighted = 0;
  run_kernel(module.kernel("weighted"), {1, 1, 1}, {1, 1, 1}, static_cast<const float*>(vector),
             &weighted);
  EXPECT_FLOAT_EQ(weighted, 1 * 2 + 2 * 3 + 8.0f / 4 + 5 / 2.0f);
}

TEST_P(HostKernels, RegistrationTellsTheParametersAndTheDuration) {
  const HostModule module = open("language");
  const auto& scale = module.kernel("scale_double_2");
  EXPECT_EQ(scale.abi_version, EMULATED_KERNEL_ABI_VERSION);
  ASSERT_EQ(scale.parameter_count, 3u);
  EXPECT_EQ(scale.parameter_sizes[2], 16u);
  EXPECT_EQ(scale.parameter_alignments[2], 8u);
  EXPECT_EQ(scale.duration_ns, nullptr);

  const auto& nothing = module.kernel("nothing");
  EXPECT_EQ(nothing.parameter_count, 0u);
  const emulated_launch launch = {{7, 1, 1}, {1, 5, 1}, 0};
  EXPECT_EQ(nothing.duration_ns(&launch, nullptr), 7005u);

  EXPECT_EQ(open("barriers").kernel("block_sum").static_shared_bytes, 1024u);
  EXPECT_EQ(open("matmul_tiled").kernel("matmul_tiled_8").static_shared_bytes, 2 * 8 * 8 * 4u);
  EXPECT_EQ(open("matmul_tiled").kernel("matmul_tiled_16").static_shared_bytes, 2 * 16 * 16 * 4u);

  const HostModule occupy = open("occupy");
  unsigned long long nanoseconds = 123456789;
  void* parameters[] = {&nanoseconds};
  EXPECT_EQ(occupy.kernel("occupy").duration_ns(&launch, parameters), 123456789u);
}

}  // namespace
}  // namespace lambent
