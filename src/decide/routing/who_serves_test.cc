#include "decide/routing/who_serves.h"

#include <gtest/gtest.h>

#include <set>

namespace lambent::routing {
namespace {

using enum Serving;
using Which = std::vector<bool>;

constexpr NodeIndex kSelf = 0;

TEST(WhoServesTest, RequestsGoToThoseThatCanElseToThoseThatMay) {
  EXPECT_EQ(serving_nodes({kCannot, kCan, kNotYet, kUnknown, kLater, kCan}),
            (Which{false, true, false, false, false, true}));
  EXPECT_EQ(serving_nodes({kCannot, kNotYet, kUnknown, kLater}), (Which{false, true, true, false}));
  EXPECT_EQ(serving_nodes({kCannot, kCannot}), (Which{false, false}));
}

TEST(WhoServesTest, ANodeThatLostWhatItTakesCountsWhereNoOtherMay) {
  EXPECT_EQ(serving_nodes({kLater, kCan}), (Which{false, true}));
  EXPECT_EQ(serving_nodes({kLater, kCannot}), (Which{true, false}));
}

TEST(WhoServesTest, WhatALostNodeHadIsRunByWhoAsksIfThatCanElseByAnyThatCanAndAnswers) {
  EXPECT_EQ(taker_of({{kCan, true}, {kCan, true}}, kSelf, 1), kSelf);
  std::set<NodeIndex> taken;
  for (uint64_t draw = 0; draw < 8; ++draw) {
    taken.insert(taker_of({{kCannot, true}, {kCan, true}, {kCan, false}, {kCan, true}}, kSelf, draw)
                     .value_or(kSelf));
  }
  EXPECT_EQ(taken, (std::set<NodeIndex>{1, 3}));
}

TEST(WhoServesTest, ItWaitsWhileOneThatCouldMayComeBack) {
  EXPECT_FALSE(taker_of({{kCannot, true}, {kCan, false}}, kSelf, 0));
  EXPECT_FALSE(taker_of({{kCannot, true}, {kUnknown, false}}, kSelf, 0)) << "nothing was heard yet";
  EXPECT_FALSE(taker_of({{kCannot, true}, {kLater, true}}, kSelf, 0)) << "its slice may be back";
  EXPECT_FALSE(taker_of({{kCannot, true}, {kNotYet, true}}, kSelf, 0)) << "its copy is on its way";
  EXPECT_FALSE(taker_of({{kLater, true}, {kCannot, true}}, kSelf, 0)) << "this one's too";
  EXPECT_EQ(taker_of({{kLater, true}, {kCan, true}}, kSelf, 0), 1U);
}

TEST(WhoServesTest, WhatNoNodeCouldRunIsRefusedByWhoAsks) {
  EXPECT_EQ(taker_of({{kCannot, true}}, kSelf, 0), kSelf);
  EXPECT_EQ(taker_of({{kCannot, true}, {kCannot, false}}, kSelf, 0), kSelf);
  EXPECT_EQ(taker_of({{kCannot, true}, {kUnknown, true}}, kSelf, 0), 1U) << "an older program may";
}

}  // namespace
}  // namespace lambent::routing
