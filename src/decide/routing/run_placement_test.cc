#include "decide/routing/run_placement.h"

#include <gtest/gtest.h>

#include <memory>

#include "decide/routing/testing/test_view.h"

namespace lambent::routing {
namespace {

constexpr uint64_t kRun = 0x1234567812345678;
constexpr NodeIndex kOutside = UINT32_MAX;
// What the runs of these stories call: a small model, and one that takes two GPUs.
const Step kSmall{.function = 11, .memory = Bytes::gib(2), .gpus = 1};
const Step kPair{.function = 12, .memory = Bytes::gib(4), .gpus = 2};
const Step kHuge{.function = 13, .memory = Bytes::gib(80), .gpus = 1};
const Step kPlain{.function = 14};  // without a GPU

std::optional<Route> place(const TestView& view, const std::vector<Step>& steps,
                           std::string_view policy = kDefaultPolicy, uint64_t draw = 0) {
  const auto made = *make_policy(policy, {});
  return place_run(*made, {.function = kRun, .entry = kOutside, .draw = draw}, steps, view.ring,
                   view);
}

TEST(RunPlacementTest, ARunGoesToOneNodeThatHoldsAllOfItsSteps) {
  for (const std::string_view policy : policy_names()) {
    TestView view(40);
    view.at(7).gpus = 2;
    for (uint64_t draw = 0; draw < 50; ++draw) {
      const auto route = place(view, {kPlain, kSmall, kPair}, policy, hash_of(draw));
      ASSERT_TRUE(route) << policy;
      EXPECT_EQ(route->node, 7U) << policy;
    }
  }
}

TEST(RunPlacementTest, WhereNoNodeHoldsAllItGoesWhereTheMostFit) {
  TestView view(6);
  view.at(2).gpus = 2;                     // the small one and the pair
  view.at(4).gpu_memory = Bytes::gib(80);  // the small one and the huge one
  view.at(5).gpus = 0;
  const auto first = place(view, {kSmall, kPair, kHuge});
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->node == 2 || first->node == 4) << first->node;
  // The one that is left takes the run, and one of its steps fits nowhere.
  view.at(first->node).load.takes_work = false;
  const auto other = place(view, {kSmall, kPair, kHuge});
  ASSERT_TRUE(other);
  EXPECT_EQ(other->node, first->node == 2 ? 4U : 2U);
  EXPECT_NE(holds(view, other->node, kPair), holds(view, other->node, kHuge));
}

TEST(RunPlacementTest, ARunWithoutGpusGoesWhereItsHashSays) {
  const TestView view(6);
  EXPECT_EQ(place(view, {kPlain}), (Route{order_of(view.ring, kRun)[0], RouteReason::kPreferred}));
  EXPECT_EQ(place(view, {}), (Route{order_of(view.ring, kRun)[0], RouteReason::kPreferred}));
}

TEST(RunPlacementTest, ARunGoesWhereTheColdestOfItsStepsIsWarmest) {
  TestView view(5);
  const auto order = order_of(view.ring, kRun);
  view.at(order[0]).warm[kSmall.function] = Warmth::kResident;
  view.at(order[1]).warm[kSmall.function] = Warmth::kSwappedOut;
  view.at(order[1]).warm[kPlain.function] = Warmth::kResident;
  // Of what is warm nowhere no node says anything.
  const std::vector<Step> steps = {kSmall, kPlain, {.function = 99}};
  EXPECT_EQ(place(view, steps), (Route{order[1], RouteReason::kWarm}));
  view.at(order[0]).warm[kPlain.function] = Warmth::kResident;
  EXPECT_EQ(place(view, steps), (Route{order[0], RouteReason::kWarm}));
}

TEST(RunPlacementTest, WhatIsResidentWhereItCameInKeepsNoRunThatDoesNotFitThere) {
  TestView view(5);
  view.at(3).gpus = 2;
  view.at(0).warm[kSmall.function] = Warmth::kResident;
  const auto made = *make_policy(kDefaultPolicy, {});
  const RouteRequest request{.function = kRun, .entry = 0};
  EXPECT_EQ(place_run(*made, request, {kSmall, kPair}, view.ring, view)->node, 3U);
  EXPECT_EQ(place_run(*made, request, {kSmall}, view.ring, view)->node, 0U);
}

TEST(RunPlacementTest, ARunGoesWhereAllItsStepsHaveRoomAtOnce) {
  TestView view(5);
  const auto order = order_of(view.ring, kRun);
  // Room for either step, and not for both.
  view.at(order[0]).load.memory_free = Bytes::gib(5);
  const Step other{.function = 15, .memory = Bytes::gib(4), .gpus = 1};
  EXPECT_EQ(place(view, {kSmall, other}), (Route{order[1], RouteReason::kMemory}));
}

TEST(RunPlacementTest, ABusyNodeIsPassedOverForTheWholeRun) {
  TestView view(5);
  const auto order = order_of(view.ring, kRun);
  view.at(order[0]).load.load = 16;
  EXPECT_EQ(place(view, {kSmall, kPlain}), (Route{order[1], RouteReason::kOverflow}));
}

TEST(PlaceAmongTest, OnlyNodesThatMayAreChosenHoweverWarmOthersAre) {
  for (const std::string_view policy : policy_names()) {
    TestView view(5);
    for (const NodeIndex node : {0U, 1U, 3U}) view.at(node).warm[kRun] = Warmth::kResident;
    const auto made = *make_policy(policy, {});
    const std::vector<bool> may = {false, false, true, false, true};
    const auto chosen = [&](uint64_t draw) {
      return place_among(*made, {.function = kRun, .entry = 0, .draw = hash_of(draw)}, may,
                         view.ring, view);
    };
    for (uint64_t draw = 0; draw < 50; ++draw) {
      const auto route = chosen(draw);
      ASSERT_TRUE(route) << policy;
      EXPECT_TRUE(may[route->node]) << policy << " chose " << route->node;
    }
    view.at(2).load.takes_work = view.at(4).load.takes_work = false;
    EXPECT_FALSE(chosen(0)) << policy;
  }
}

TEST(RunPlacementTest, WithoutANodeThatTakesWorkThereIsNone) {
  TestView view(2);
  view.at(0).load.takes_work = view.at(1).load.takes_work = false;
  EXPECT_FALSE(place(view, {kSmall}));
}

}  // namespace
}  // namespace lambent::routing
