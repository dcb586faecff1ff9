#include "decide/routing/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/base/random.h"
#include "decide/routing/testing/test_view.h"

namespace lambent::routing {
namespace {

std::unique_ptr<Policy> policy(std::string_view name = kDefaultPolicy) {
  return *make_policy(name, {});
}

constexpr uint64_t kFunction = 0x1234567812345678;
// A node at which no request comes in, in the stories where that does not matter.
constexpr NodeIndex kOutside = UINT32_MAX;

TEST(RoutingPolicyTest, AFunctionGoesToItsNodeWhateverNodeIsAsked) {
  const TestView view(5);
  const NodeIndex first = order_of(view.ring, kFunction)[0];
  for (NodeIndex entry = 0; entry < 5; ++entry) {
    const auto route = policy()->choose({.function = kFunction, .entry = entry}, view.ring, view);
    EXPECT_EQ(route, (Route{first, RouteReason::kPreferred}));
  }
}

TEST(RoutingPolicyTest, ANodeWithTooMuchWorkIsPassedOver) {
  TestView view(5);
  const auto order = order_of(view.ring, kFunction);
  view.at(order[0]).load.load = 16;
  const auto route = policy()->choose({.function = kFunction, .entry = kOutside}, view.ring, view);
  EXPECT_EQ(route, (Route{order[1], RouteReason::kOverflow}));
}

TEST(RoutingPolicyTest, AWarmNodeBehindTheFirstIsTaken) {
  TestView view(5);
  const auto order = order_of(view.ring, kFunction);
  view.at(order[1]).warm[kFunction] = Warmth::kSwappedOut;
  view.at(order[2]).warm[kFunction] = Warmth::kResident;
  EXPECT_EQ(policy()->choose({.function = kFunction, .entry = kOutside}, view.ring, view),
            (Route{order[2], RouteReason::kWarm}));
  view.at(order[2]).load.load = 16;  // full: what is swapped out is the next best
  EXPECT_EQ(policy()->choose({.function = kFunction, .entry = kOutside}, view.ring, view),
            (Route{order[1], RouteReason::kWarm}));
}

TEST(RoutingPolicyTest, AColdFunctionPassesANodeWhoseGpusAreShared) {
  TestView view(5, 32);
  for (NodeIndex each = 0; each < 5; ++each) view.at(each).load.gpus = 4;
  const auto order = order_of(view.ring, kFunction);
  const RouteRequest request{.function = kFunction, .memory = Bytes(1), .entry = kOutside};
  for (const NodeIndex each : order) view.at(each).load.load = 5;
  EXPECT_EQ(policy()->choose(request, view.ring, view), (Route{order[0], RouteReason::kPreferred}));
  view.at(order[0]).load.load = 6;  // some GPUs have two
  EXPECT_EQ(policy()->choose(request, view.ring, view), (Route{order[1], RouteReason::kOverflow}));
  // To share a GPU costs less than to start.
  view.at(order[0]).warm[kFunction] = Warmth::kSwappedOut;
  EXPECT_EQ(policy()->choose(request, view.ring, view), (Route{order[0], RouteReason::kWarm}));
  // What takes no GPU shares none.
  view.at(order[0]).warm.clear();
  view.at(order[0]).load.load = 11;
  EXPECT_EQ(policy()->choose({.function = kFunction, .entry = kOutside}, view.ring, view),
            (Route{order[0], RouteReason::kPreferred}));
}

TEST(RoutingPolicyTest, AnIdleSandboxBehindAQueueIsNone) {
  TestView view(3, 2);
  const auto order = order_of(view.ring, kFunction);
  for (const Warmth warmth : {Warmth::kSwappedOut, Warmth::kResident}) {
    view.at(order[0]).warm[kFunction] = warmth;
    view.at(order[0]).load.load = 1;
    const RouteRequest request{.function = kFunction, .entry = order[0]};
    EXPECT_EQ(policy()->choose(request, view.ring, view), (Route{order[0], RouteReason::kWarm}));
    view.at(order[0]).load.load = 2;  // both slots
    EXPECT_EQ(policy()->choose(request, view.ring, view),
              (Route{order[1], RouteReason::kOverflow}));
  }
}

TEST(RoutingPolicyTest, FilesAreNotBroughtWhereOthersHaveThemAndAreNotFull) {
  TestView view(3, 2);
  const auto order = order_of(view.ring, kFunction);
  for (NodeIndex each = 0; each < 3; ++each) view.at(each).load.gpus = 1;
  view.at(order[0]).load.load = 2;
  view.at(order[1]).warm[kFunction] = Warmth::kAbsent;
  view.at(order[2]).load.load = 2;
  for (uint64_t draw = 0; draw < 20; ++draw) {
    const RouteRequest request{
        .function = kFunction, .memory = Bytes(1), .entry = kOutside, .draw = hash_of(draw)};
    EXPECT_NE(policy()->choose(request, view.ring, view)->node, order[1]);
  }
  // Where none has them, or is full, they are.
  view.at(order[0]).warm[kFunction] = view.at(order[2]).warm[kFunction] = Warmth::kAbsent;
  EXPECT_EQ(
      policy()
          ->choose({.function = kFunction, .memory = Bytes(1), .entry = kOutside}, view.ring, view)
          ->node,
      order[1]);
}

TEST(RoutingPolicyTest, WhereNoNodeIsFreeMemoryCountsToo) {
  TestView view(4, 2);
  const auto order = order_of(view.ring, kFunction);
  for (const Warmth warmth : {Warmth::kNone, Warmth::kFetched}) {
    for (NodeIndex each = 0; each < 4; ++each) {
      view.at(each).load = {.slots = 2, .load = 2, .memory_free = Bytes::gib(1), .gpus = 1};
      view.at(each).warm[kFunction] = warmth;
    }
    view.at(order[2]).load.memory_free = Bytes::gib(40);
    for (uint64_t draw = 0; draw < 20; ++draw) {
      const RouteRequest request{.function = kFunction,
                                 .memory = Bytes::gib(30),
                                 .entry = kOutside,
                                 .draw = hash_of(draw)};
      EXPECT_EQ(policy()->choose(request, view.ring, view),
                (Route{order[2], RouteReason::kMemory}));
    }
  }
}

TEST(RoutingPolicyTest, ALoadThatMayBeChanceMakesNoNodeFull) {
  // Sixteen on average at each of four nodes: one moment's count is below 24 then.
  const NodeLoad node{.slots = 16, .gpus = 4};
  const RouteRequest request{.memory = Bytes(1)};
  EXPECT_EQ(bound_of({}, node, request, 64, 63), 24U);
  // Of four, below eight.
  EXPECT_EQ(bound_of({}, node, request, 64, 15), 8U);
  // Of many, chance explains less than the factor allows.
  EXPECT_EQ(bound_of({}, {.slots = 400}, request, 1600, 1599), 500U);
  EXPECT_EQ(free_bound_of({}, node, request), 6U);
  EXPECT_EQ(free_bound_of({}, node, {}), 12U) << "without a GPU";
  EXPECT_EQ(free_bound_of({}, {.slots = 16}, request), 12U);
  EXPECT_EQ(free_bound_of({}, {.slots = 2, .gpus = 4}, request), 2U);
  EXPECT_EQ(free_bound_of({}, {.slots = 2, .gpus = 1}, request), 2U);
}

TEST(RoutingPolicyTest, WhatTakesNoGpuStaysWhereItCameToANodeThatIsNoBusierThanTheAverage) {
  TestView view(3, 2);
  for (NodeIndex each = 0; each < 3; ++each) {
    view.at(each).load.load = 7;
    view.at(each).load.gpus = 1;
    view.at(each).warm[kFunction] = Warmth::kFetched;
  }
  const auto chosen = [&](Bytes memory) {
    std::map<NodeIndex, int> counts;
    for (uint64_t draw = 0; draw < 30; ++draw) {
      const RouteRequest request{
          .function = kFunction, .memory = memory, .entry = 1, .draw = hash_of(draw)};
      ++counts[policy()->choose(request, view.ring, view)->node];
    }
    return counts;
  };
  EXPECT_EQ(chosen(Bytes()), (std::map<NodeIndex, int>{{1, 30}}));
  EXPECT_EQ(chosen(Bytes(1)).size(), 3U) << "beside a run on a GPU the way is nothing";
  view.at(1).load.load = 8;
  EXPECT_EQ(chosen(Bytes()).size(), 3U) << "it is busier, if not full";
}

TEST(RoutingPolicyTest, OfSeveralWarmNodesOneIsDrawn) {
  TestView view(9);
  const auto order = order_of(view.ring, kFunction);
  for (const size_t each : {1, 4, 8}) view.at(order[each]).warm[kFunction] = Warmth::kResident;
  view.at(order[0]).warm[kFunction] = Warmth::kSwappedOut;
  std::map<NodeIndex, int> counts;
  for (uint64_t draw = 0; draw < 300; ++draw) {
    const RouteRequest request{.function = kFunction, .entry = kOutside, .draw = hash_of(draw)};
    const auto route = policy()->choose(request, view.ring, view);
    EXPECT_EQ(route->reason, RouteReason::kWarm);
    ++counts[route->node];
  }
  EXPECT_EQ(counts.size(), 3U);
  for (const size_t each : {1, 4, 8}) EXPECT_GT(counts[order[each]], 60) << each;
}

TEST(RoutingPolicyTest, WhatWasSentSinceAReportIsKnown) {
  EXPECT_EQ(load_since(6, 2, 2), 6U) << "the report has them";
  EXPECT_EQ(load_since(6, 2, 5), 9U);
  EXPECT_EQ(load_since(6, 2, 0), 6U) << "others may have sent as many";
  EXPECT_EQ(load_since(1, 4, 4), 4U) << "on their way when it was written";
}

// Eight nodes, all of whose GPUs are shared, hear from each other once a second. Between two
// reports some hundred requests of one workflow come in, a fourth of them at a node that already
// has more than it should. All nodes know the same old loads.
TEST(RoutingStoryTest, NodesWithTheSameOldReportsDoNotAllChooseTheSame) {
  for (const Warmth warmth : {Warmth::kNone, Warmth::kFetched, Warmth::kResident}) {
    TestView view(8, 8);
    for (NodeIndex each = 0; each < 8; ++each) {
      view.at(each).load.gpus = 4;
      view.at(each).load.load = 14 + each % 4;
      view.at(each).warm[kFunction] = warmth;
    }
    view.at(5).load.load = 40;
    SeededRandom random(11);
    std::map<NodeIndex, int> counts;
    for (int each = 0; each < 140; ++each) {
      const NodeIndex entry = each % 4 == 0 ? 5 : static_cast<NodeIndex>(random.below(8));
      const RouteRequest request{
          .function = kFunction, .memory = Bytes(1), .entry = entry, .draw = random.next()};
      ++counts[policy()->choose(request, view.ring, view)->node];
    }
    EXPECT_EQ(counts.count(5), 0U) << "it has more than chance explains";
    EXPECT_EQ(counts.size(), 7U);
    for (const auto& [node, count] : counts) {
      EXPECT_GT(count, 8) << node;
      EXPECT_LT(count, 35) << node << ": twenty each, were all alike";
    }
  }
}

// A burst of long calls of one function, no sandbox of which is ever idle, comes to a small cluster
// that knows all loads: no node has much more than another.
TEST(RoutingStoryTest, ABurstOfColdCallsIsSharedOut) {
  struct Sizes {
    uint32_t nodes, slots, gpus;
  };
  for (const auto& [nodes, slots, gpus] :
       {Sizes{2, 2, 1}, Sizes{3, 2, 1}, Sizes{3, 2, 0}, Sizes{3, 16, 8}, Sizes{8, 8, 4}}) {
    TestView view(nodes, slots);
    for (NodeIndex each = 0; each < nodes; ++each) view.at(each).load.gpus = gpus;
    SeededRandom random(5);
    const uint32_t calls = nodes * slots * 4;
    for (uint32_t each = 0; each < calls; ++each) {
      const RouteRequest request{.function = kFunction,
                                 .memory = gpus > 0 ? Bytes(1) : Bytes(),
                                 .entry = static_cast<NodeIndex>(random.below(nodes)),
                                 .draw = random.next()};
      ++view.at(policy()->choose(request, view.ring, view)->node).load.load;
    }
    uint32_t least = UINT32_MAX, most = 0;
    for (NodeIndex each = 0; each < nodes; ++each) {
      least = std::min(least, view.at(each).load.load);
      most = std::max(most, view.at(each).load.load);
    }
    EXPECT_GE(2 * least, slots * 4) << nodes << " nodes of " << slots;
    EXPECT_LE(2 * most, 3 * slots * 4) << nodes << " nodes of " << slots;
  }
}

TEST(RoutingPolicyTest, WhatIsResidentAtTheEntryStaysThere) {
  TestView view(9);
  const auto order = order_of(view.ring, kFunction);
  view.at(order[0]).warm[kFunction] = Warmth::kResident;
  view.at(order[8]).warm[kFunction] = Warmth::kResident;
  EXPECT_EQ(policy()->choose({.function = kFunction, .entry = order[8]}, view.ring, view),
            (Route{order[8], RouteReason::kWarm}));
}

TEST(RoutingPolicyTest, AColdFunctionGoesWhereItsMemoryFits) {
  TestView view(5);
  const auto order = order_of(view.ring, kFunction);
  view.at(order[0]).load.memory_free = Bytes::gib(1);
  EXPECT_EQ(policy()->choose({.function = kFunction, .memory = Bytes::gib(2), .entry = kOutside},
                             view.ring, view),
            (Route{order[1], RouteReason::kMemory}));
  // Where it fits nowhere its own node makes room.
  EXPECT_EQ(policy()->choose({.function = kFunction, .memory = Bytes::gib(99), .entry = kOutside},
                             view.ring, view),
            (Route{order[0], RouteReason::kPreferred}));
}

TEST(RoutingPolicyTest, AColdFunctionGoesWhereItRanLatelyIfItsMemoryFits) {
  TestView view(5);
  const auto order = order_of(view.ring, kFunction);
  const RouteRequest request{.function = kFunction, .memory = Bytes::gib(2), .entry = kOutside};
  view.at(order[1]).warm[kFunction] = Warmth::kFetched;
  view.at(order[2]).warm[kFunction] = Warmth::kFetched;
  EXPECT_EQ(policy()->choose(request, view.ring, view), (Route{order[1], RouteReason::kFetched}));
  // To wait for memory takes longer than to fetch.
  view.at(order[1]).load.memory_free = Bytes::gib(1);
  EXPECT_EQ(policy()->choose(request, view.ring, view), (Route{order[2], RouteReason::kFetched}));
  view.at(order[2]).load.memory_free = Bytes::gib(1);
  EXPECT_EQ(policy()->choose(request, view.ring, view), (Route{order[0], RouteReason::kPreferred}));
  // An idle sandbox is better, wherever its memory is.
  view.at(order[2]).warm[kFunction] = Warmth::kSwappedOut;
  EXPECT_EQ(policy()->choose(request, view.ring, view), (Route{order[2], RouteReason::kWarm}));
}

TEST(RoutingPolicyTest, WhereAFunctionRanLatelyCanBePassedOver) {
  TestView view(5);
  const auto order = order_of(view.ring, kFunction);
  view.at(order[1]).warm[kFunction] = Warmth::kFetched;
  const auto without = *make_policy(kDefaultPolicy, {.regards_fetched = false});
  EXPECT_EQ(without->choose({.function = kFunction, .entry = kOutside}, view.ring, view),
            (Route{order[0], RouteReason::kPreferred}));
}

TEST(RoutingPolicyTest, AFunctionDoesNotStayAtTheEntryForItsFilesOnly) {
  TestView view(9);
  const auto order = order_of(view.ring, kFunction);
  view.at(order[8]).warm[kFunction] = Warmth::kFetched;
  EXPECT_EQ(policy()->choose({.function = kFunction, .entry = order[8]}, view.ring, view),
            (Route{order[0], RouteReason::kPreferred}));
}

TEST(RoutingPolicyTest, NoPolicyChoosesANodeThatTakesNoWork) {
  TestView view(4);
  const auto order = order_of(view.ring, kFunction);
  for (const std::string_view name : policy_names()) {
    for (const NodeIndex node : order) view.at(node).load.takes_work = false;
    view.at(order[2]).load.takes_work = true;
    for (uint64_t draw = 0; draw < 100; ++draw) {
      const auto route =
          policy(name)->choose({.function = kFunction, .draw = hash_of(draw)}, view.ring, view);
      ASSERT_TRUE(route.has_value()) << name;
      EXPECT_EQ(route->node, order[2]) << name;
    }
    view.at(order[2]).load.takes_work = false;
    EXPECT_FALSE(policy(name)->choose({.function = kFunction}, view.ring, view)) << name;
  }
}

TEST(RoutingPolicyTest, NoPolicyChoosesANodeWithFewerGpusThanTheFunctionTakes) {
  // More nodes than are looked at on the ring, and only the last of them has two GPUs.
  TestView view(40);
  const auto order = order_of(view.ring, kFunction);
  for (const std::string_view name : policy_names()) {
    view.at(order[39]).gpus = 2;
    view.at(order[39]).load.load = 15;
    // Not even where it is said to be warm.
    view.at(order[0]).warm[kFunction] = Warmth::kFetched;
    for (uint64_t draw = 0; draw < 100; ++draw) {
      const RouteRequest request{
          .function = kFunction, .gpus = 2, .entry = order[0], .draw = hash_of(draw)};
      const auto route = policy(name)->choose(request, view.ring, view);
      ASSERT_TRUE(route.has_value()) << name;
      EXPECT_EQ(route->node, order[39]) << name;
    }
    view.at(order[39]).gpus = 1;
    EXPECT_FALSE(policy(name)->choose({.function = kFunction, .gpus = 2}, view.ring, view)) << name;
  }
}

TEST(RoutingPolicyTest, NoPolicyChoosesOfNoNodes) {
  const TestView view(0);
  for (const std::string_view name : policy_names()) {
    EXPECT_FALSE(policy(name)->choose({.function = kFunction}, view.ring, view)) << name;
  }
}

TEST(RoutingPolicyTest, NodesWithoutItsFilesComeLastAndOneThatHasThemIsSoughtBehindTheFirst) {
  TestView view(8);
  const auto order = order_of(view.ring, kFunction);
  const RouteRequest request{.function = kFunction, .memory = Bytes::gib(1), .entry = kOutside};
  view.at(order[0]).warm[kFunction] = Warmth::kAbsent;
  EXPECT_EQ(policy()->choose(request, view.ring, view), (Route{order[1], RouteReason::kFetched}));
  // Waiting for memory is shorter than bringing files.
  for (const size_t each : {1, 2}) view.at(order[each]).load.memory_free = Bytes();
  EXPECT_EQ(policy()->choose(request, view.ring, view), (Route{order[1], RouteReason::kFetched}));
  for (size_t each = 0; each < 6; ++each) view.at(order[each]).warm[kFunction] = Warmth::kAbsent;
  EXPECT_EQ(policy()->choose(request, view.ring, view), (Route{order[6], RouteReason::kFetched}));
  // Where no node has them the order is as ever.
  for (const NodeIndex each : order) view.at(each).warm[kFunction] = Warmth::kAbsent;
  EXPECT_EQ(policy()->choose(request, view.ring, view), (Route{order[0], RouteReason::kPreferred}));
}

TEST(RoutingPolicyTest, LeastLoadedCountsSlots) {
  TestView view(3);
  view.at(0).load = {.slots = 4, .load = 2};
  view.at(1).load = {.slots = 16, .load = 4};
  view.at(2).load = {.slots = 16, .load = 5};
  for (uint64_t draw = 0; draw < 3; ++draw) {
    EXPECT_EQ(policy("least-loaded")->choose({.draw = draw}, view.ring, view),
              (Route{1, RouteReason::kLeastLoaded}));
  }
}

TEST(RoutingPolicyTest, AMistakeInTheOptionsIsNamed) {
  EXPECT_EQ(make_policy("best", {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(make_policy("best", {}).error().message.find("bounded-hash"), std::string::npos);
  EXPECT_FALSE(make_policy(kDefaultPolicy, {.bound = 1.0}).ok());
}

TEST(RoutingPropertyTest, ANodeThatComesTakesFunctionsOnlyToItself) {
  TestView before(20);
  TestView after(21);
  constexpr int kFunctions = 20'000;
  int moved = 0;
  for (int each = 0; each < kFunctions; ++each) {
    const uint64_t function = hash_of(uint64_t(each));
    const auto old_route =
        policy()->choose({.function = function, .entry = kOutside}, before.ring, before);
    const auto new_route =
        policy()->choose({.function = function, .entry = kOutside}, after.ring, after);
    if (old_route->node == new_route->node) continue;
    ++moved;
    EXPECT_EQ(new_route->node, 20U);
  }
  // A 21st, and what unevenness 64 points leave.
  EXPECT_GT(moved, kFunctions / 21 / 2);
  EXPECT_LT(moved, kFunctions / 21 * 2);
}

TEST(RoutingPropertyTest, ANodeThatGoesMovesOnlyItsOwnFunctions) {
  TestView view(20);
  HashRing smaller = view.ring;
  smaller.remove(7);
  for (int each = 0; each < 5'000; ++each) {
    const uint64_t function = hash_of(uint64_t(each));
    const auto order = order_of(view.ring, function);
    const auto fewer = order_of(smaller, function);
    if (order[0] == 7) {
      EXPECT_EQ(fewer[0], order[1]);
    } else {
      EXPECT_EQ(fewer[0], order[0]);
    }
  }
}

TEST(RoutingPropertyTest, NoNodeGetsMoreThanItsBound) {
  SeededRandom random(7);
  for (int world = 0; world < 50; ++world) {
    const auto nodes = static_cast<uint32_t>(2 + random.below(40));
    TestView view(nodes);
    for (NodeIndex node = 0; node < nodes; ++node) {
      view.at(node).load.slots = static_cast<uint32_t>(1 + random.below(32));
      view.at(node).load.gpus = static_cast<uint32_t>(random.below(9));
    }
    // One function has half of all work: without bounds its node would have it too.
    const uint64_t work = view.total_slots() * 2;
    for (uint64_t placed = 0; placed < work; ++placed) {
      const uint64_t function = random.below(2) == 0 ? kFunction : random.next();
      const auto route = policy()->choose(
          {.function = function, .entry = static_cast<NodeIndex>(random.below(nodes))}, view.ring,
          view);
      ASSERT_TRUE(route.has_value());
      NodeLoad& load = view.at(route->node).load;
      ASSERT_LT(load.load, bound_of({}, load, {}, view.total_slots(), view.total_load()))
          << "world " << world << ", node " << route->node;
      ++load.load;
    }
  }
}

TEST(RoutingPropertyTest, NodesWithMoreSlotsGetMore) {
  TestView view(2, 4);
  view.at(1).load.slots = 12;
  for (int each = 0; each < 160; ++each) {
    const auto route =
        policy()->choose({.function = hash_of(uint64_t(each)), .entry = kOutside}, view.ring, view);
    ++view.at(route->node).load.load;
  }
  EXPECT_GE(view.at(1).load.load, 160 - bound_of({}, {.slots = 4}, {}, 16, 160));
}

}  // namespace
}  // namespace lambent::routing
