#include "node/cluster/member_table.h"

#include <gtest/gtest.h>

namespace lambent::cluster {
namespace {

Instant at(double seconds) { return Instant(from_seconds(seconds)); }

ClusterMember member(const std::string& node, int port) {
  return {.node = node, .address = "http://127.0.0.1:" + std::to_string(port)};
}

ClusterTold told(std::optional<Duration> lease = {}) {
  return {
      .source = "ray", .members = {member("a", 1), member("b", 2), member("c", 3)}, .lease = lease};
}

NodeReport report(const std::string& node, uint32_t load = 0, bool takes_work = true) {
  return {.node = node, .takes_work = takes_work, .slots = 4, .load = load};
}

MemberState state_of(const MemberTable& table, const std::string& node) {
  for (const MemberStatus& each : table.members()) {
    if (each.member.node == node) return each.state;
  }
  ADD_FAILURE() << node << " is no member";
  return MemberState::kUnknown;
}

TEST(MemberTableTest, ANodeByItselfIsUpAndHasNoHome) {
  const MemberTable table("a");
  ASSERT_EQ(table.members().size(), 1U);
  EXPECT_EQ(state_of(table, "a"), MemberState::kUp);
  EXPECT_EQ(table.home(), "");
}

TEST(MemberTableTest, TheFirstIsTheHomeUnlessAnotherIsNamed) {
  MemberTable table("b");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  EXPECT_EQ(table.home(), "a");
  ClusterTold other = told();
  other.home = "c";
  ASSERT_TRUE(table.tell(other, at(0)).ok());
  EXPECT_EQ(table.home(), "c");
}

TEST(MemberTableTest, TheFirstBeginsWhatIsDueAndWhereThatMayMoveAnotherWhileItIsLost) {
  MemberTable table("b");
  EXPECT_EQ(table.beginner(true), "");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  EXPECT_EQ(table.beginner(true), "a");  // which has not answered yet
  table.reported("c", report("c"));
  table.unreachable("a");
  EXPECT_EQ(table.beginner(false), "a");
  EXPECT_EQ(table.beginner(true), "b");
  table.reported("a", report("a"));
  EXPECT_EQ(table.beginner(true), "a");
  // One that is lost is forgotten, and is the first still.
  ASSERT_TRUE(table.tell(told(seconds(5)), at(0)).ok());
  table.unreachable("a");
  table.expire(at(3600));
  EXPECT_EQ(table.find("a"), nullptr);
  EXPECT_EQ(table.beginner(true), "b");
  EXPECT_EQ(table.beginner(false), "a");
  // Also where there is no other.
  MemberTable alone("a");
  ASSERT_TRUE(alone.tell({.source = "ray", .members = {member("a", 1)}}, at(0)).ok());
  EXPECT_EQ(alone.beginner(false), "a");
}

TEST(MemberTableTest, WhatIsWrongWithTheNodeItselfIsShownAndIsAChange) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  const uint64_t version = table.version();
  table.set_own_problem("another one has its name");
  EXPECT_NE(table.version(), version);
  EXPECT_EQ(table.members().at(0).problem, "another one has its name");
}

TEST(MemberTableTest, AMemberIsUpOnceItAnswersAndLostAfterThreeSilences) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  EXPECT_EQ(state_of(table, "b"), MemberState::kUnknown);
  table.reported("b", report("b"));
  EXPECT_EQ(state_of(table, "b"), MemberState::kUp);
  table.missed("b", "no answer");
  table.missed("b", "no answer");
  EXPECT_EQ(state_of(table, "b"), MemberState::kUp);
  table.missed("b", "no answer");
  EXPECT_EQ(state_of(table, "b"), MemberState::kLost);
  table.reported("b", report("b", 0, false));
  EXPECT_EQ(state_of(table, "b"), MemberState::kDraining);
}

TEST(MemberTableTest, OneThatBecomesAnotherProgramMayBeSilentUntilItsTimeOrItsLoss) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  table.reported("b", report("b", 0, false));
  EXPECT_FALSE(table.may_be_silent("b", at(0)));
  table.let_be_silent("b", at(90));
  EXPECT_TRUE(table.may_be_silent("b", at(89)));
  EXPECT_FALSE(table.may_be_silent("b", at(90)));
  table.unreachable("b");
  EXPECT_FALSE(table.may_be_silent("b", at(1)));
  table.let_be_silent("x", at(90));
  EXPECT_FALSE(table.may_be_silent("x", at(1)));
}

TEST(MemberTableTest, OneThatRefusedWorkGetsNoneUntilItSaysThatItTakesSome) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  table.reported("b", report("b"));
  table.stops("b");
  EXPECT_EQ(state_of(table, "b"), MemberState::kDraining);
  table.reported("b", report("b"));
  EXPECT_EQ(state_of(table, "b"), MemberState::kUp);
  table.unreachable("b");
  table.stops("b");
  EXPECT_EQ(state_of(table, "b"), MemberState::kLost);
}

TEST(MemberTableTest, OnlyMembersThatAreUpTakeWork) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  table.set_own_report(report("a", 1));
  table.reported("b", report("b", 2));
  table.reported("c", report("c", 3, false));
  EXPECT_EQ(table.total_slots(), 8U);
  EXPECT_EQ(table.total_load(), 3U);
  table.unreachable("b");
  EXPECT_EQ(table.total_slots(), 4U);
  EXPECT_FALSE(table.node(1).takes_work);
}

TEST(MemberTableTest, WhatNodesSayOfAPipeline) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  NodeReport none = report("a");
  none.version = "1";
  none.pipelines.emplace();
  NodeReport with_slices = report("b");
  with_slices.version = "1";
  with_slices.pipelines.emplace();
  with_slices.slices = {{"1g.10gb", 14, Bytes::gib(10)}};
  NodeReport older = report("c");
  older.version = "0";
  table.set_own_report(none);
  using enum routing::Serving;
  using Says = std::vector<routing::Serving>;
  EXPECT_EQ(table.serving(7), (Says{kCannot, kUnknown, kUnknown})) << "they said nothing yet";
  table.reported("b", with_slices);
  table.reported("c", older);
  EXPECT_EQ(table.serving(7), (Says{kCannot, kNotYet, kUnknown}));
  with_slices.pipelines = std::vector<uint64_t>{5, 7};
  with_slices.pipelines_later = {8};
  table.reported("b", with_slices);
  EXPECT_EQ(table.serving(7), (Says{kCannot, kCan, kUnknown}));
  EXPECT_EQ(table.serving(8), (Says{kCannot, kLater, kUnknown})) << "it has lost a slice";
  EXPECT_EQ(table.serving(6), (Says{kCannot, kNotYet, kUnknown}));
  table.unreachable("b");
  EXPECT_EQ(table.serving(7), (Says{kCannot, kCan, kUnknown})) << "as it said last";
  EXPECT_FALSE(table.answers(1));
}

TEST(MemberTableTest, WhatNodesHaveForAFunctionOrAreToldToHave) {
  MemberTable table("a");
  ClusterTold nodes = told();
  nodes.members[2].gpus = {{"T4", Bytes::gib(16)}};
  ASSERT_TRUE(table.tell(nodes, at(0)).ok());
  NodeReport own = report("a");
  own.version = "1";
  table.set_own_report(own);
  using enum routing::Serving;
  using Says = std::vector<routing::Serving>;
  EXPECT_EQ(table.holding(1, Bytes::gib(8)), (Says{kCannot, kUnknown, kCan}));
  EXPECT_EQ(table.holding(2, Bytes::gib(8)), (Says{kCannot, kUnknown, kCannot}));
  EXPECT_EQ(table.holding(0, Bytes()), (Says{kCan, kCan, kCan})) << "it takes no GPU";
  NodeReport large = report("b");
  large.version = "1";
  large.for_functions = std::vector{Bytes::gib(8), Bytes::gib(9)};
  table.reported("b", large);
  EXPECT_EQ(table.holding(2, Bytes::gib(8)), (Says{kCannot, kCan, kCannot}));
}

TEST(MemberTableTest, WhatTheNodeItselfHasToDoCountsBeforeItsNextReport) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  table.set_own_report(report("a", 1));
  table.set_own_load(4);
  EXPECT_EQ(table.node(table.own_index()).load, 4U);
  EXPECT_EQ(table.total_load(), 4U);
  table.set_own_report(report("a", 2));
  EXPECT_EQ(table.node(table.own_index()).load, 2U);
}

TEST(MemberTableTest, AGpuThatWasLostHoldsNothingUntilItIsBack) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  NodeReport own = report("a");
  own.version = "1";
  table.set_own_report(own);
  NodeReport pair = report("b");
  pair.version = "1";
  pair.for_functions = std::vector{Bytes::gib(8), Bytes::gib(8)};
  pair.lost_for_functions = {Bytes::gib(8)};
  table.reported("b", pair);
  NodeReport one = report("c");
  one.version = "1";
  one.for_functions = std::vector{Bytes::gib(8)};
  table.reported("c", one);
  using enum routing::Serving;
  using Says = std::vector<routing::Serving>;
  EXPECT_EQ(table.holding(1, Bytes::gib(8)), (Says{kCannot, kCan, kCan}));
  EXPECT_EQ(table.holding(2, Bytes::gib(8)), (Says{kCannot, kLater, kCannot}));
  EXPECT_TRUE(table.could_hold(1, 1, Bytes::gib(8)));
  EXPECT_FALSE(table.could_hold(1, 2, Bytes::gib(8)));
  EXPECT_EQ(table.gpus_of(1)->size(), 2U) << "it is no node that never could";
  EXPECT_EQ(table.node(1).gpus, 1U) << "two runs share the one that is left";
}

TEST(MemberTableTest, WhatWasSentSinceAReportCountsOnTopOfIt) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  table.reported("b", report("b", 2));
  table.find("b")->outstanding = 5;
  EXPECT_EQ(table.node(1).load, 7u) << "nothing had been sent when it was asked";
  NodeReport busy = report("b");
  busy.load = 6;
  table.find("b")->outstanding = 2;
  table.asked("b");
  table.find("b")->outstanding = 3;  // which came perhaps too late for its report
  table.reported("b", busy);
  EXPECT_EQ(table.node(1).load, 7u);
  table.find("b")->outstanding = 5;
  EXPECT_EQ(table.node(1).load, 9u);
  table.asked("b");
  table.reported("b", busy);
  EXPECT_EQ(table.node(1).load, 6u);
}

TEST(MemberTableTest, GpusOnWhichFunctionsTakeTurnsCanRunOneEach) {
  MemberTable table("a");
  NodeReport own = report("a");
  table.set_own_report(own);
  EXPECT_EQ(table.node(table.own_index()).gpus, 0u);
  own.gpus.resize(4);
  table.set_own_report(own);
  EXPECT_EQ(table.node(table.own_index()).gpus, 4u) << "a program that names no others";
  own.for_functions = std::vector<Bytes>(3);  // a pipeline has the fourth
  table.set_own_report(own);
  EXPECT_EQ(table.node(table.own_index()).gpus, 3u);
}

TEST(MemberTableTest, AnotherNodeAtItsAddressIsNotIt) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  for (unsigned each = 0; each < kMissedReports; ++each) table.reported("b", report("x"));
  EXPECT_EQ(state_of(table, "b"), MemberState::kLost);
}

TEST(MemberTableTest, AMemberWhoseLeaseRanOutStaysWhileItAnswers) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(seconds(5)), at(0)).ok());
  table.reported("b", report("b"));
  table.expire(at(4));
  EXPECT_EQ(table.others(), (std::vector<std::string>{"b", "c"}));
  table.expire(at(6));
  EXPECT_EQ(table.others(), std::vector<std::string>{"b"});
  table.unreachable("b");
  table.expire(at(7));
  EXPECT_TRUE(table.others().empty());
}

TEST(MemberTableTest, WhoTellsAgainTakesBackWhatItDoesNotName) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  ClusterTold fewer = told();
  fewer.members.pop_back();
  ASSERT_TRUE(table.tell(fewer, at(1)).ok());
  EXPECT_EQ(table.others(), std::vector<std::string>{"b"});
  ClusterTold more{.source = "file", .members = {member("a", 1), member("d", 4)}};
  ASSERT_TRUE(table.tell(more, at(2)).ok());
  EXPECT_EQ(table.others(), (std::vector<std::string>{"b", "d"}));
}

TEST(MemberTableTest, AtAnotherAddressAMemberHasToAnswerFirst) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  table.reported("b", report("b"));
  ClusterTold moved = told();
  moved.members[1] = member("b", 9);
  ASSERT_TRUE(table.tell(moved, at(1)).ok());
  EXPECT_EQ(state_of(table, "b"), MemberState::kUnknown);
}

TEST(MemberTableTest, TheVersionChangesWithMembersAndStatesOnly) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(seconds(5)), at(0)).ok());
  table.reported("b", report("b"));
  const uint64_t version = table.version();
  ASSERT_TRUE(table.tell(told(seconds(5)), at(1)).ok());
  table.reported("b", report("b", 7));
  EXPECT_EQ(table.version(), version);
  table.unreachable("b");
  EXPECT_NE(table.version(), version);
}

TEST(MemberTableTest, MistakesAreNamedAndChangeNothing) {
  MemberTable table("a");
  ASSERT_TRUE(table.tell(told(), at(0)).ok());
  const uint64_t version = table.version();
  const auto refuses = [&](const ClusterTold& wrong, ErrorCode code) {
    const auto taken = table.tell(wrong, at(1));
    return !taken.ok() && taken.error().code == code && table.version() == version;
  };
  const auto with = [](ClusterMember one) {
    ClusterTold wrong = told();
    wrong.members.push_back(std::move(one));
    return wrong;
  };
  EXPECT_TRUE(refuses(with(member("", 9)), ErrorCode::kInvalidArgument));
  EXPECT_TRUE(refuses(with(member("a b", 9)), ErrorCode::kInvalidArgument));
  EXPECT_TRUE(refuses(with(member(std::string(65, 'x'), 9)), ErrorCode::kInvalidArgument));
  EXPECT_TRUE(refuses(with(member("b", 9)), ErrorCode::kInvalidArgument));  // twice
  EXPECT_TRUE(refuses(with(member("d", 3)), ErrorCode::kInvalidArgument));  // the address of c
  EXPECT_TRUE(refuses(with({.node = "d", .address = "unix:/x"}), ErrorCode::kInvalidArgument));
  EXPECT_TRUE(refuses(with({.node = "d", .address = "ftp://x"}), ErrorCode::kInvalidArgument));
  ClusterTold homeless = told();
  homeless.home = "z";
  EXPECT_TRUE(refuses(homeless, ErrorCode::kInvalidArgument));
  EXPECT_TRUE(
      refuses({.source = "file", .members = {member("b", 9)}}, ErrorCode::kFailedPrecondition));
  ClusterTold many{.source = "ray"};
  for (size_t each = 0; each <= kMostMembers; ++each) {
    many.members.push_back(member("n" + std::to_string(each), static_cast<int>(each) + 10));
  }
  EXPECT_TRUE(refuses(many, ErrorCode::kInvalidArgument));
}

}  // namespace
}  // namespace lambent::cluster
