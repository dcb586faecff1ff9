// Host kernels whose threads arrive and wait apart: cuda::barrier, cuda::pipeline, wide tiles.
#include <numeric>

#include "host_kernels.h"

namespace lambent {
namespace {

class HostPhases : public HostKernels {};
INSTANTIATE_TEST_SUITE_P(Each, HostPhases, testing::ValuesIn(compilers()), compiler_name);

TEST_P(HostPhases, ThreadsDoSomethingElseBetweenTheirArrivalAndTheirWait) {
  const HostModule module = open("phases");
  constexpr int kRounds = 5, kThreads = 100;
  std::vector<int> sums(kRounds * kThreads);
  run_kernel(module.kernel("arrive_then_wait"), {2, 1, 1}, {kThreads, 1, 1}, kRounds, sums.data());
  for (int i = 0; i < kRounds * kThreads; ++i) {
    const int round = i / kThreads;
    ASSERT_EQ(sums[i], kThreads * (kThreads - 1) / 2 + round * kThreads + 45) << i;
  }
}

TEST_P(HostPhases, ThoseThatDropOutAreNotWaitedFor) {
  const HostModule module = open("phases");
  std::vector<int> counts(64, -1);
  run_kernel(module.kernel("drop_out"), {1, 1, 1}, {64, 1, 1}, counts.data());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(counts[i], i % 2 == 0 ? 32 : -1) << i;
}

TEST_P(HostPhases, SomeThreadsFillStagesThatOthersRead) {
  const HostModule module = open("phases");
  constexpr int kWidth = 8;
  for (const int count : {1, 3, 4, 20}) {
    std::vector<int> rows(count * kWidth), sums(kWidth);
    std::iota(rows.begin(), rows.end(), 1);
    run_kernel(module.kernel("produce_and_consume"), {1, 1, 1}, {kWidth, 2, 1},
               static_cast<const int*>(rows.data()), count, sums.data());
    for (int i = 0; i < kWidth; ++i) {
      int expected = std::accumulate(rows.begin(), rows.end(), 0);
      for (int row = 0; row < count; ++row) expected += 9 * rows[row * kWidth + i];
      EXPECT_EQ(sums[i], expected) << count << " rows, thread " << i;
    }
  }
}

TEST_P(HostPhases, CopiesAreThereWhenTheyHaveBeenWaitedFor) {
  const HostModule module = open("phases");
  std::vector<int> from(64), to(64);
  std::iota(from.begin(), from.end(), 100);
  run_kernel(module.kernel("copies"), {1, 1, 1}, {64, 1, 1}, static_cast<const int*>(from.data()),
             to.data());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(to[i], 163 - i);
}

TEST_P(HostPhases, TilesOfSeveralWarpsReduceAndExchange) {
  const HostModule module = open("phases");
  constexpr int kThreads = 256;
  std::vector<int> output(kThreads * 12);
  run_kernel(module.kernel("wide_tiles"), {2, 1, 1}, {kThreads, 1, 1}, output.data());
  for (int i = 0; i < kThreads; ++i) {
    int at = i * 12;
    for (const int size : {64, 256}) {
      const int first = i / size * size;
      const int expected[6] = {size * first + size * (size - 1) / 2, first + 3,
                               first <= 70 && 70 < first + size,     first + size <= 128,
                               first / size * 100 + kThreads / size, i - first};
      for (const int value : expected) {
        EXPECT_EQ(output[at], value) << "thread " << i << ", tile of " << size << ", " << at % 12;
        ++at;
      }
    }
  }
}

}  // namespace
}  // namespace lambent
