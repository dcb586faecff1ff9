#include "gpu/executor/link_turns.h"

#include "core/base/testing/testing.h"
#include "gpu/executor/testing/link_testing.h"

namespace lambent::executor {
namespace {

using protocol::LinkDirection;
using protocol::MemoryMessageKind;

const Bytes kSome = Bytes::mib(2);

class LinkTurnsTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  LinkUnderTest device_{folder_ / "link"};
  FakeClock clock_;
  LinkTurns turns_{device_.path(), LinkDirection::kToHost, clock_};
};

TEST_F(LinkTurnsTest, AreFreeWhereNobodyGivesThem) {
  LinkTurns none("", LinkDirection::kToDevice, clock_);
  EXPECT_EQ(none.take(kSome, Bytes(0)), LinkTurns::kFree);
  LinkTurns gone(folder_ / "nobody", LinkDirection::kToDevice, clock_);
  EXPECT_EQ(gone.take(kSome, Bytes(0)), LinkTurns::kFree);
  gone.arrived(LinkTurns::kFree, kSome);
  gone.rest();
}

TEST_F(LinkTurnsTest, GoBackWhenAllThatWentInThemHasArrived) {
  EXPECT_EQ(turns_.take(kSome, kSome * 2), std::nullopt);
  const auto wish = device_.expect_wish(kSome * 3);
  EXPECT_EQ(wish.direction, static_cast<uint32_t>(LinkDirection::kToHost));
  EXPECT_EQ(turns_.take(kSome, kSome * 2), std::nullopt) << "and asks no second time";
  device_.grant(wish);
  turns_.await(seconds(10));
  const auto turn = turns_.take(kSome, kSome * 2);
  ASSERT_TRUE(turn.has_value());
  EXPECT_NE(*turn, LinkTurns::kFree);
  EXPECT_EQ(turns_.take(kSome, kSome), turn);
  turns_.arrived(*turn, kSome);
  turns_.rest();
  EXPECT_FALSE(device_.hear(Duration(0)).has_value()) << "half of it is on its way";
  turns_.arrived(*turn, kSome);
  device_.expect_done(kSome * 3);
}

TEST_F(LinkTurnsTest, AreAskedForAheadAndNoMoreThanAQuantumAtOnce) {
  EXPECT_EQ(turns_.take(kSome, Bytes::mib(100)), std::nullopt);
  device_.grant(device_.expect_wish(kLinkQuantum));
  turns_.await(seconds(10));
  const auto first = turns_.take(kSome, Bytes::mib(100));
  ASSERT_TRUE(first.has_value());
  device_.grant(device_.expect_wish(kLinkQuantum));
  for (uint64_t taken = kSome.count; taken < kLinkQuantum.count; taken += kSome.count) {
    EXPECT_EQ(turns_.take(kSome, Bytes::mib(60)), first);
  }
  const auto second = turns_.take(kSome, Bytes(0));
  ASSERT_TRUE(second.has_value());
  EXPECT_NE(second, first);
  turns_.arrived(*first, kLinkQuantum);
  device_.expect_done(kLinkQuantum);
}

TEST_F(LinkTurnsTest, AreFreeAfterALongWaitAndALateOneGoesBack) {
  EXPECT_EQ(turns_.take(kSome, Bytes(0)), std::nullopt);
  const auto wish = device_.expect_wish(kSome);
  clock_.advance(kLongestTurnWait);
  turns_.await(seconds(10));
  EXPECT_EQ(turns_.take(kSome, Bytes(0)), LinkTurns::kFree);
  turns_.rest();
  device_.grant(wish);
  EXPECT_EQ(turns_.take(kSome, Bytes(0)), std::nullopt);
  device_.expect_done(kSome);
  device_.expect_wish(kSome);
}

TEST_F(LinkTurnsTest, AreFreeWhenTheOtherEndIsGoneAndAskedForAgainAfterARest) {
  EXPECT_EQ(turns_.take(kSome, Bytes(0)), std::nullopt);
  device_.expect_wish(kSome);
  device_.hang_up();
  turns_.await(seconds(10));
  EXPECT_EQ(turns_.take(kSome, Bytes(0)), LinkTurns::kFree);
  turns_.rest();
  EXPECT_EQ(turns_.take(kSome, Bytes(0)), std::nullopt);
  device_.expect_wish(kSome);
}

}  // namespace
}  // namespace lambent::executor
