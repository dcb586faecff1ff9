#include "gpu/device_memory/working_set.h"

#include <gtest/gtest.h>

namespace lambent::device_memory {
namespace {

TEST(WorkingSet, HoldsWhatWasTouchedInTheLastStays) {
  WorkingSet set;
  Block used;
  Block other;
  set.touch(&used);
  set.touch(&other);
  for (int stay = 0; stay < 5; ++stay) {
    set.touch(&used);
    EXPECT_TRUE(set.holds(used));
    EXPECT_EQ(set.holds(other), stay < static_cast<int>(WorkingSet::kRememberedStays)) << stay;
    set.end_stay();
  }
}

TEST(WorkingSet, KnowsWhatWasUsedFirst) {
  WorkingSet set;
  Block first;
  Block second;
  Block of_before;
  set.touch(&of_before);
  set.end_stay();
  set.touch(&first);
  set.touch(&second);
  set.touch(&first);
  EXPECT_TRUE(WorkingSet::comes_before(first, second));
  EXPECT_FALSE(WorkingSet::comes_before(second, first));
  EXPECT_TRUE(WorkingSet::comes_before(second, of_before));
  set.end_stay();
  set.touch(&second);
  set.touch(&first);
  EXPECT_TRUE(WorkingSet::comes_before(second, first)) << "as in the last stay";
}

TEST(WorkingSet, LearnsNothingFromAStayInWhichNothingWasDone) {
  WorkingSet set;
  Block block;
  set.touch(&block);
  for (int stay = 0; stay < 10; ++stay) set.end_stay();
  EXPECT_TRUE(set.holds(block));
}

TEST(WorkingSet, HoldsEverythingWhileItIsNotKnownWhatIsReached) {
  WorkingSet set;
  Block used;
  Block other;
  set.touch(&other);
  for (int stay = 0; stay < 3; ++stay) {
    set.touch(&used);
    set.end_stay();
  }
  EXPECT_FALSE(set.holds(other));
  set.touch_anything();
  EXPECT_TRUE(set.holds(other));
  for (int stay = 0; stay < 2; ++stay) {
    set.end_stay();
    set.touch(&used);
  }
  EXPECT_FALSE(set.holds(other)) << "and forgets it like any touch";
}

TEST(WorkingSet, HoldsWhatOtherMemoryRefersToForGood) {
  WorkingSet set;
  Block used;
  Block referenced;
  set.note_reference(&referenced);
  for (int stay = 0; stay < 10; ++stay) {
    set.touch(&used);
    set.end_stay();
  }
  EXPECT_TRUE(set.holds(referenced));
}

TEST(WorkingSet, TriesToFetchAgainInTheNextStay) {
  WorkingSet set;
  Block block;
  set.touch(&block);
  EXPECT_TRUE(set.may_fetch());
  set.refuse_fetches();
  EXPECT_FALSE(set.may_fetch());
  set.end_stay();
  EXPECT_TRUE(set.may_fetch());
}

TEST(WorkingSet, HoldsEverythingAfterManyFetchesInAStay) {
  WorkingSet set;
  Block used;
  Block other;
  for (int stay = 0; stay < 3; ++stay) {
    set.touch(&used);
    for (int fetch = 0; fetch < WorkingSet::kMostFetches; ++fetch) {
      set.want_fetch();
      set.count_fetch();
    }
    EXPECT_FALSE(set.holds(other)) << stay;
    set.end_stay();
  }
  for (int fetch = 0; fetch < WorkingSet::kMostFetches; ++fetch) set.count_fetch();
  set.want_fetch();
  EXPECT_TRUE(set.holds(other));
}

TEST(WorkingSet, HoldsNoMoreForFetchesThatWereWantedInVain) {
  WorkingSet set;
  Block other;
  for (int stay = 0; stay < 3; ++stay) {
    Block used;
    set.touch(&used);
    set.end_stay();
  }
  for (int wish = 0; wish <= 2 * WorkingSet::kMostFetches; ++wish) set.want_fetch();
  EXPECT_FALSE(set.holds(other));
}

}  // namespace
}  // namespace lambent::device_memory
