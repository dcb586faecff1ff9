// Cooperative groups of host kernels.
#include <algorithm>
#include <barrier>
#include <numeric>
#include <thread>

#include "host_kernels.h"

namespace lambent {
namespace {

class HostGroups : public HostKernels {};
INSTANTIATE_TEST_SUITE_P(Each, HostGroups, testing::ValuesIn(compilers()), compiler_name);

TEST_P(HostGroups, OneFunctionSumsOverABlockAndOverItsTiles) {
  const HostModule module = open("groups");
  std::vector<int> input(256), sums(17);
  std::iota(input.begin(), input.end(), 0);
  run_kernel(module.kernel("block_and_tiles"), {1, 1, 1}, {256, 1, 1},
             static_cast<const int*>(input.data()), sums.data());
  EXPECT_EQ(sums[0], 255 * 128);
  for (int tile = 0; tile < 16; ++tile) EXPECT_EQ(sums[1 + tile], 256 * tile + 120) << tile;
}

TEST_P(HostGroups, TilesExchangeByRank) {
  const HostModule module = open("groups");
  std::vector<int> output(64 * 30);
  run_kernel(module.kernel("tiles"), {1, 1, 1}, {64, 1, 1}, output.data());
  for (int i = 0; i < 64; ++i) {
    int at = i * 30;
    for (const int size : {4, 16, 32}) {
      const int rank = i % size;
      const int expected[10] = {(size - 1) * 10,
                                rank + 1 < size ? rank + 1 : rank,
                                rank > 0 ? rank - 1 : 0,
                                rank ^ 1,
                                static_cast<int>(0xaaaaaaaau & ((1ull << size) - 1)),
                                size * (size - 1) / 2,
                                size - 1,
                                rank * (rank + 1) / 2,
                                rank * (rank - 1) / 2,
                                4};
      for (const int value : expected) {
        EXPECT_EQ(output[at], value) << "thread " << i << ", tile of " << size << ", " << at % 10;
        ++at;
      }
    }
  }
}

TEST_P(HostGroups, CoalescedLanesCountAmongThemselves) {
  const HostModule module = open("groups");
  std::vector<int> output(64 * 9, -1);
  run_kernel(module.kernel("coalesced"), {1, 1, 1}, {64, 1, 1}, output.data());
  for (int warp = 0; warp < 2; ++warp) {
    std::vector<int> members;
    for (int i = warp * 32; i < warp * 32 + 32; ++i) {
      if (i % 3 == 1) members.push_back(i);
    }
    const int size = static_cast<int>(members.size());
    for (int rank = 0; rank < size; ++rank) {
      const int* out = &output[members[rank] * 9];
      EXPECT_EQ(out[0], size);
      EXPECT_EQ(out[1], rank);
      EXPECT_EQ(out[2], members[2]);
      EXPECT_EQ(out[3], std::accumulate(members.begin(), members.end(), 0));
      EXPECT_EQ(out[4], rank < 4 ? 400 + rank : (size - 4) * 100 + rank - 4);
      // Tiles are of ranks, not of lanes.
      const int first = rank / 4 * 4, of_tile = std::min(4, size - first);
      EXPECT_EQ(out[5], of_tile * 100 + rank % 4);
      EXPECT_EQ(out[6], (size + 3) / 4 * 100 + rank / 4);
      EXPECT_EQ(out[7], members[first]);
      EXPECT_EQ(out[8], of_tile);
    }
  }
  EXPECT_EQ(output[0], -1);
}

TEST_P(HostGroups, TheLastTileOfABlockHasWhatIsLeft) {
  const HostModule module = open("groups");
  std::vector<unsigned> sizes(40);
  run_kernel(module.kernel("last_tile"), {1, 1, 1}, {40, 1, 1}, sizes.data());
  EXPECT_EQ(sizes[31], 16u);
  EXPECT_EQ(sizes[32], 8u);
}

// Runs grid_sum with a thread of the host for each block.
void expect_that_blocks_meet(const HostModule& module, unsigned blocks, unsigned block_threads) {
  std::barrier<> barrier(blocks);
  emulated_launch launch = {{blocks, 1, 1}, {block_threads, 1, 1}, 0};
  launch.grid_barrier = &barrier;
  launch.wait_for_grid = [](void* b) { static_cast<std::barrier<>*>(b)->arrive_and_wait(); };
  int total = 0;
  std::vector<int> seen(blocks * 3);
  int *total_pointer = &total, *seen_pointer = seen.data();
  void* parameters[] = {&total_pointer, &seen_pointer};
  std::vector<std::thread> threads;
  for (unsigned block = 0; block < blocks; ++block) {
    threads.emplace_back([&, block] {
      module.kernel("grid_sum").run_block(&launch, {block, 0, 0}, parameters);
    });
  }
  for (auto& thread : threads) thread.join();
  const int all = static_cast<int>(blocks * block_threads);
  for (int i = 0; i < static_cast<int>(seen.size()); ++i) EXPECT_EQ(seen[i], (i % 3 + 1) * all);
}

TEST_P(HostGroups, TheBlocksOfACooperativeLaunchMeet) {
  expect_that_blocks_meet(open("groups"), 4, 40);
}

// More than Linux has regions of memory for, if each had a guard of its own.
TEST_P(HostGroups, MoreThreadsMayWaitThanThereAreGuards) {
  expect_that_blocks_meet(open("groups"), 36, 1024);
}

}  // namespace
}  // namespace lambent
