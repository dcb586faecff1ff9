#include "bin/cell_work.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace lambent::bin {
namespace {

std::vector<sweep::Cell> cells(uint64_t count) {
  std::vector<sweep::Cell> made;
  for (uint64_t seed = 0; seed < count; ++seed) made.push_back({{"x"}, seed});
  return made;
}

TEST(CellWork, SimulatesEachCellOnceWhateverTheJobs) {
  for (const size_t jobs : {1, 8}) {
    std::atomic<size_t> simulated = 0;
    std::vector<uint64_t> kept;  // without a lock: one is kept at a time
    CellWork work(
        cells(500),
        [&](const sweep::Cell& cell) -> Result<sweep::CellResult> {
          ++simulated;
          // The first of each thread end at the same time.
          while (simulated < jobs) std::this_thread::yield();
          return sweep::CellResult{cell, {}};
        },
        [&](sweep::CellResult result) -> Result<void> {
          kept.push_back(result.cell.seed);
          return {};
        });
    ASSERT_TRUE(work.run(jobs).ok());
    EXPECT_EQ(simulated, 500u);
    EXPECT_EQ(kept.size(), 500u);
    EXPECT_EQ(std::set<uint64_t>(kept.begin(), kept.end()).size(), 500u);
  }
}

TEST(CellWork, EndsWithTheFirstErrorAndKeepsNothingAfterIt) {
  for (const size_t jobs : {1, 8}) {
    size_t kept = 0;
    bool failed = false;
    CellWork work(
        cells(500),
        [](const sweep::Cell& cell) -> Result<sweep::CellResult> {
          return sweep::CellResult{cell, {}};
        },
        [&](sweep::CellResult) -> Result<void> {
          EXPECT_FALSE(failed) << "one was kept after the error";
          if (++kept < 100) return {};
          failed = true;
          return Error{ErrorCode::kDataLoss, "the disk is full"};
        });
    const auto done = work.run(jobs);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().message, "the disk is full");
    EXPECT_EQ(kept, 100u);
  }
}

TEST(CellWork, ASimulationThatFailsEndsIt) {
  std::atomic<size_t> simulated = 0;
  CellWork work(
      cells(500),
      [&](const sweep::Cell& cell) -> Result<sweep::CellResult> {
        ++simulated;
        if (cell.seed == 3) return Error{ErrorCode::kInvalidArgument, "no such policy"};
        return sweep::CellResult{cell, {}};
      },
      [](sweep::CellResult) -> Result<void> { return {}; });
  const auto done = work.run(1);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message, "no such policy");
  EXPECT_EQ(simulated, 4u);
}

}  // namespace
}  // namespace lambent::bin
