#include "gpu/shim/named_memory.h"

#include <gtest/gtest.h>

#include "gpu/shim/testing/table_testing.h"

namespace lambent::shim {
namespace {

constexpr uint64_t kHere = uint64_t{1} << 32, kOffloaded = uint64_t{2} << 32;
constexpr uint64_t kNowhere = uint64_t{3} << 32;

class NamedMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    add_block(table_, kHere);
    add_block(table_, kOffloaded, kBlockBytes, true);
  }
  void end_stays(int count) {
    for (int i = 0; i < count; ++i) {
      named_.touch(kNowhere);
      named_.touch(kHere);  // a stay in which nothing was done does not count
      table_.hold()->working_set.end_stay();
    }
  }
  bool holds(uint64_t base) {
    auto table = table_.hold();
    return table->working_set.holds(*table->blocks().at(base));
  }

  GuardedMemory table_;
  NamedMemory named_{table_};
};

TEST_F(NamedMemoryTest, OnlyMemoryThatIsOffloadedHasToBeFetched) {
  EXPECT_FALSE(named_.touch(kHere + 5));
  EXPECT_TRUE(named_.touch(kOffloaded + 5));
  EXPECT_FALSE(named_.touch(kNowhere));
}

TEST_F(NamedMemoryTest, WhereFetchesAreRefusedOnlyAccessesStillSeeThatMemoryIsOffloaded) {
  named_.refuse_fetches();
  EXPECT_FALSE(named_.touch(kOffloaded));
  EXPECT_TRUE(named_.note_access(kOffloaded));
  EXPECT_FALSE(named_.note_access(kHere));
  EXPECT_FALSE(named_.note_access(kNowhere));
  end_stays(1);
  EXPECT_TRUE(named_.touch(kOffloaded));
}

TEST_F(NamedMemoryTest, WhatCallsNameIsInTheWorkingSetAndTheRestIsForgotten) {
  end_stays(3);
  EXPECT_TRUE(holds(kHere));
  EXPECT_FALSE(holds(kOffloaded));
  named_.note_access(kOffloaded);
  EXPECT_TRUE(holds(kOffloaded));
}

TEST_F(NamedMemoryTest, MemoryWhoseAddressWasWrittenStaysInTheWorkingSet) {
  named_.note_reference(kOffloaded + 100);
  named_.note_reference(kNowhere);
  end_stays(5);
  EXPECT_TRUE(holds(kOffloaded));
}

TEST_F(NamedMemoryTest, ACallThatMayReachAnythingHoldsAllMemory) {
  end_stays(3);
  EXPECT_FALSE(holds(kOffloaded));
  named_.touch_anything();
  EXPECT_TRUE(holds(kOffloaded));
}

TEST_F(NamedMemoryTest, ThereCanBeAnOffloadOnlyAfterTheRememberedStays) {
  end_stays(1);
  EXPECT_FALSE(named_.can_have_offload());
  const uint64_t before = named_.changes();
  end_stays(1);
  EXPECT_TRUE(named_.can_have_offload());
  EXPECT_NE(named_.changes(), before);
}

TEST_F(NamedMemoryTest, AfterManyFetchesInOneStayAllIsWanted) {
  end_stays(3);
  for (int i = 0; i < device_memory::WorkingSet::kMostFetches; ++i) {
    named_.want_fetch();
    EXPECT_FALSE(holds(kOffloaded)) << i;
    named_.count_fetch();
  }
  named_.want_fetch();
  EXPECT_TRUE(holds(kOffloaded));
}

TEST_F(NamedMemoryTest, RetriesThatWereGivenUpBeginAgainWithTheNextStay) {
  EXPECT_TRUE(named_.may_retry());
  named_.give_up_retrying();
  EXPECT_FALSE(named_.may_retry());
  end_stays(1);
  EXPECT_TRUE(named_.may_retry());
}

}  // namespace
}  // namespace lambent::shim
