#include "decide/dispatch/wait_record.h"

#include <gtest/gtest.h>

#include <string>

namespace lambent::dispatch {
namespace {

using scheduling::WaitReason;

Instant at(int second) { return Instant(seconds(second)); }

TEST(WaitRecord, OfOneThatNeverWaitedHasNoReason) {
  WaitRecord wait;
  EXPECT_EQ(wait.longest(at(5)), WaitReason::kNone);
  wait.end(at(6));
  EXPECT_EQ(wait.longest(at(7)), WaitReason::kNone);
}

TEST(WaitRecord, NamesTheLongestStretchAndNotTheLast) {
  WaitRecord wait;
  wait.begin(WaitReason::kOwnQueue, at(0));
  wait.begin(WaitReason::kNoToken, at(10));
  wait.begin(WaitReason::kBehindOthers, at(11));
  wait.end(at(13));
  EXPECT_EQ(wait.reason(), WaitReason::kBehindOthers);
  EXPECT_EQ(wait.longest(at(100)), WaitReason::kOwnQueue);
}

TEST(WaitRecord, CountsTheStretchThatIsNotOver) {
  WaitRecord wait;
  wait.begin(WaitReason::kOwnQueue, at(0));
  wait.begin(WaitReason::kNoMemory, at(2));
  EXPECT_EQ(wait.longest(at(4)), WaitReason::kOwnQueue);
  EXPECT_EQ(wait.longest(at(5)), WaitReason::kNoMemory);
}

TEST(WaitRecord, NamesTheLastReasonWhereThatIsWhatItTells) {
  for (const bool tells_longest : {false, true}) {
    WaitRecord wait(tells_longest);
    wait.begin(WaitReason::kOwnQueue, at(0));
    wait.begin(WaitReason::kNoMemory, at(10));
    wait.end(at(11));
    // Its start is over, and there is no token: only a longer wait for that is told.
    wait.begin_in_place(WaitReason::kNoToken, at(15));
    wait.end(at(28));
    EXPECT_EQ(wait.told(at(30)), tells_longest ? WaitReason::kNoToken : WaitReason::kNoMemory);
  }
}

TEST(WaitRecord, SaidAgainAReasonGoesOn) {
  WaitRecord wait;
  wait.begin(WaitReason::kNoToken, at(0));
  wait.begin(WaitReason::kNoToken, at(2));
  wait.begin(WaitReason::kNoMemory, at(4));
  EXPECT_EQ(wait.longest(at(7)), WaitReason::kNoToken);
}

TEST(WaitRecord, NamesAReasonOfNoTimeWhereThereIsNoOther) {
  WaitRecord wait;
  wait.begin(WaitReason::kNoToken, at(1));
  wait.end(at(1));
  EXPECT_EQ(wait.longest(at(1)), WaitReason::kNoToken);
}

TEST(WaitRecord, IsLookedAtAfterHalfOfItsWait) {
  WaitRecord wait;
  EXPECT_TRUE(wait.is_time(at(0)));
  wait.looked(at(0), at(0));
  EXPECT_FALSE(wait.is_time(at(0) + milliseconds(99)));
  EXPECT_TRUE(wait.is_time(at(0) + milliseconds(100)));
  wait.looked(at(0), at(10));
  EXPECT_FALSE(wait.is_time(at(15) - milliseconds(1)));
  EXPECT_TRUE(wait.is_time(at(15)));
}

TEST(WaitRecord, ComesBackFromItsBytes) {
  WaitRecord wait;
  wait.begin(WaitReason::kOwnQueue, at(0));
  wait.begin(WaitReason::kNoToken, at(10));
  wait.looked(at(0), at(10));
  std::string bytes;
  StateArchive to(&bytes);
  wait.archive(to, true);
  WaitRecord restored;
  StateArchive from(bytes);
  restored.archive(from, true);
  ASSERT_TRUE(from.complete());
  EXPECT_EQ(restored.reason(), WaitReason::kNoToken);
  EXPECT_EQ(restored.longest(at(19)), WaitReason::kOwnQueue);
  EXPECT_EQ(restored.longest(at(21)), WaitReason::kNoToken);
  EXPECT_FALSE(restored.is_time(at(14)));
  EXPECT_TRUE(restored.is_time(at(15)));
}

}  // namespace
}  // namespace lambent::dispatch
