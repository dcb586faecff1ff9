#include "gpu/shim/offload_budget.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "core/base/testing/testing.h"
#include "gpu/ledger/ledger.h"
#include "gpu/shim/accounting.h"
#include "gpu/shim/testing/table_testing.h"

namespace lambent::shim {
namespace {

constexpr uint64_t kHere = uint64_t{1} << 32, kOffloaded = uint64_t{2} << 32;
constexpr uint64_t kLimit = 8 * kBlockBytes;

// The accounting of this process has a ledger with a limit.
class OffloadBudgetTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;  // the accounting, which keeps the ledger, lives on
    const std::string path = *folder_ / "ledger";
    auto reader = ledger::create_ledger(path, Bytes(kLimit));
    ASSERT_TRUE(reader.ok());
    setenv("LAMBENT_SHIM_LEDGER", path.c_str(), 1);
    ASSERT_NE(Accounting::current(), nullptr);
    unsetenv("LAMBENT_SHIM_LEDGER");
  }
  static void TearDownTestSuite() { delete folder_; }

  void SetUp() override { ASSERT_NE(Accounting::current(), nullptr); }
  void TearDown() override { Accounting::current()->cancel(promised_, 0); }
  // An allocation that is counted, as the hooks do it.
  void allocate(uint64_t base, bool is_offloaded) {
    ASSERT_TRUE(Accounting::current()->try_reserve(kBlockBytes, 0));
    promised_ += kBlockBytes;
    add_block(table_, base, kBlockBytes, is_offloaded);
  }
  void free_at(uint64_t base) {
    Accounting::current()->cancel(kBlockBytes, 0);
    promised_ -= kBlockBytes;
    device_memory::Block gone;
    auto table = table_.hold();
    ASSERT_TRUE(table->allocations.remove(table->allocations.at(base), &gone));
  }
  void forget_what_was_named() {
    auto table = table_.hold();
    for (int stay = 0; stay < 4; ++stay) {
      table->working_set.touch(table->blocks().at(kHere));
      table->working_set.end_stay();
    }
  }

  static inline TemporaryFolder* folder_ = nullptr;
  GuardedMemory table_;
  OffloadBudget budget_{table_};
  uint64_t promised_ = 0;
};

TEST_F(OffloadBudgetTest, WhatIsOffloadedIsWantedOnlyWhileTheWorkingSetHoldsIt) {
  allocate(kHere, false);
  allocate(kOffloaded, true);
  EXPECT_EQ(budget_.offloaded_bytes(), kBlockBytes);
  EXPECT_EQ(budget_.wanted_bytes(), kBlockBytes);
  EXPECT_EQ(budget_.host_bytes(), kBlockBytes);
  forget_what_was_named();
  EXPECT_EQ(budget_.offloaded_bytes(), kBlockBytes);
  EXPECT_EQ(budget_.wanted_bytes(), 0U);
}

TEST_F(OffloadBudgetTest, AnAllocationCountsAsItIsChargedAndItsBlockAsTheHostHasIt) {
  add_block(table_, kOffloaded, 1000, true);
  EXPECT_EQ(budget_.offloaded_bytes(), 1024U);
  EXPECT_EQ(budget_.host_bytes(), kBlockBytes);
  budget_.note_counted_bytes();
  EXPECT_EQ(table_.hold()->blocks().at(kOffloaded)->counted_bytes, 1024U);
  budget_.note_counted_bytes();
  EXPECT_EQ(table_.hold()->blocks().at(kOffloaded)->counted_bytes, 1024U);
}

TEST_F(OffloadBudgetTest, AnAllocationThatIsLeavingDoesNotCount) {
  add_block(table_, kOffloaded, kBlockBytes, true);
  table_.hold()->allocations.at(kOffloaded)->is_leaving = true;
  EXPECT_EQ(budget_.offloaded_bytes(), 0U);
  EXPECT_EQ(budget_.host_bytes(), kBlockBytes);
}

TEST_F(OffloadBudgetTest, WhatIsSparedComesOntoTheDeviceOnlyAsFarAsItIsGranted) {
  allocate(kHere, false);
  allocate(kOffloaded, true);
  EXPECT_EQ(budget_.room_on_device(), kLimit - kBlockBytes);
  EXPECT_TRUE(budget_.can_fetch_wanted());
  budget_.spare(kLimit - kBlockBytes);
  EXPECT_EQ(budget_.room_on_device(), 0U);
  EXPECT_FALSE(budget_.can_fetch_wanted());
  budget_.grant(kBlockBytes - 1);
  EXPECT_EQ(budget_.room_on_device(), kBlockBytes - 1);
  EXPECT_FALSE(budget_.can_fetch_wanted());
  budget_.grant(1);
  EXPECT_TRUE(budget_.can_fetch_wanted());
  budget_.grant(2 * kLimit);  // more than was spared
  EXPECT_EQ(budget_.room_on_device(), kLimit - kBlockBytes);
}

TEST_F(OffloadBudgetTest, NothingCanBeFetchedWhereNothingIsWanted) {
  allocate(kHere, false);
  EXPECT_GT(budget_.room_on_device(), 0U);
  EXPECT_FALSE(budget_.can_fetch_wanted());
}

TEST_F(OffloadBudgetTest, TheBudgetIsExceededWhenWhatWasOffloadedIsFreedAndAllocatedAgain) {
  for (uint64_t i = 0; i < 7; ++i) allocate(kHere + i * kBlockBytes, false);
  allocate(kOffloaded, true);
  EXPECT_FALSE(budget_.is_exceeded());
  budget_.spare(kBlockBytes);
  EXPECT_FALSE(budget_.is_exceeded());
  free_at(kOffloaded);
  allocate(kOffloaded, false);
  EXPECT_TRUE(budget_.is_exceeded());
  budget_.grant(kBlockBytes);
  EXPECT_FALSE(budget_.is_exceeded());
}

}  // namespace
}  // namespace lambent::shim
