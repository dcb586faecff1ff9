#include "node/worker/lane_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lambent::worker {
namespace {

using pipeline::Dag;
using pipeline::Lane;
using pipeline::Partition;
using pipeline::Placement;
using pipeline::Source;
using pipeline::Stage;

constexpr Source::Kind kInput = Source::Kind::kInput;
constexpr Source::Kind kComponent = Source::Kind::kComponent;

// The image goes to two components, both of which the last one needs; it needs the hint as well.
Dag diamond() {
  Dag dag;
  dag.inputs = {"image", "hint"};
  dag.components = {{"first", {{kInput, 0}}},
                    {"left", {{kComponent, 0}}},
                    {"right", {{kComponent, 0}}},
                    {"last", {{kComponent, 1}, {kComponent, 2}, {kInput, 1}}}};
  dag.outputs = {3};
  return dag;
}

TEST(LanePlan, OfOneLaneHasNoChannels) {
  const LanePlans plans = plan_lanes(diamond(), {{{Stage{{Lane{{0, 1, 2, 3}}}}}}});
  ASSERT_EQ(plans.lanes.size(), 1u);
  EXPECT_TRUE(plans.channels.empty());
  EXPECT_TRUE(plans.lanes[0].gathers);
  EXPECT_TRUE(plans.lanes[0].needs_events);
}

TEST(LanePlan, SendsAValueOnceToEachLaneThatNeedsIt) {
  const Partition branches{{Stage{{Lane{{0}}}}, Stage{{Lane{{1}}, Lane{{2}}}}, Stage{{Lane{{3}}}}}};
  const LanePlans plans = plan_lanes(diamond(), {branches});
  EXPECT_EQ(plans.channels, (std::vector<LaneChannel>{{0, 0, 1}, {0, 0, 2}, {1, 1, 3}, {2, 2, 3}}));
  EXPECT_EQ(plans.lanes[0].sends, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(plans.lanes[3].receives, (std::vector<size_t>{2, 3}));
  EXPECT_TRUE(plans.lanes[0].needs_events);
  EXPECT_FALSE(plans.lanes[1].needs_events) << "it works on what the first made alone";
  EXPECT_TRUE(plans.lanes[3].gathers);

  const Partition halves{{Stage{{Lane{{0}}}}, Stage{{Lane{{1, 2, 3}}}}}};
  EXPECT_EQ(plan_lanes(diamond(), {halves}).channels, (std::vector<LaneChannel>{{0, 0, 1}}))
      << "two components of one lane need the same value";
}

TEST(LanePlan, GathersOutputsThatOthersMake) {
  Dag dag = diamond();
  dag.outputs = {3, 1};
  const Partition branches{{Stage{{Lane{{0, 1}}}}, Stage{{Lane{{2, 3}}}}}};
  const LanePlans plans = plan_lanes(dag, {branches});
  EXPECT_EQ(plans.channels, (std::vector<LaneChannel>{{0, 0, 1}, {1, 0, 1}}));
  EXPECT_FALSE(plans.lanes[0].gathers);
  const auto stage = nlohmann::json::parse(stage_json(plans, 1, dag, "app.App"));
  EXPECT_EQ(stage, nlohmann::json::parse(R"({"handler": "app.App", "lane": 1,
      "components": ["right", "last"], "outputs": ["last", "left"], "sends": [], "in_hand": 2,
      "receives": [{"channel": "/opt/lambent/channels/0", "value": "first"},
                   {"channel": "/opt/lambent/channels/1", "value": "left"}]})"));
  const auto first = nlohmann::json::parse(stage_json(plans, 0, dag, "app.App"));
  EXPECT_EQ(first["outputs"], nlohmann::json::array());
  EXPECT_EQ(first["sends"][1]["to"], 1);
}

// Two branches share a slice beside the third: the lane that ends with the last output is not the
// last lane.
TEST(LanePlan, GathersWhereHandOversSayItDoes) {
  Dag dag;
  dag.inputs = {"image"};
  dag.components = {{"a", {{kInput, 0}}}, {"b", {{kInput, 0}}}, {"c", {{kInput, 0}}}};
  dag.outputs = {0, 1, 2};
  const Partition beside{{Stage{{Lane{{0, 2}}, Lane{{1}}}}}};
  const LanePlans plans = plan_lanes(dag, {beside});
  ASSERT_EQ(plans.lanes.size(), 2u);
  std::vector<pipeline::HandOver> planned;
  for (const LaneChannel& each : plans.channels)
    planned.push_back({each.value, each.from, each.to});
  EXPECT_EQ(planned, pipeline::hand_overs(dag, beside));
  for (size_t lane = 0; lane < 2; ++lane) {
    EXPECT_EQ(plans.lanes[lane].gathers, lane == pipeline::gathering_lane(beside));
  }
}

TEST(LanePlan, GivesEachReplicaAChannelFromEachAndToEach) {
  Placement placement{{{Stage{{Lane{{0}}}}, Stage{{Lane{{1}}, Lane{{2}}}}, Stage{{Lane{{3}}}}}}};
  placement.replicas = {2, 3, 1, 1};
  const LanePlans plans = plan_lanes(diamond(), placement);
  ASSERT_EQ(plans.lanes.size(), 7u) << "one process for each replica";
  EXPECT_EQ(plans.lanes[1].process, (pipeline::Process{0, 0, 1, 2}));
  EXPECT_EQ(plans.channels.size(), 2u * 3 + 2 * 1 + 3 * 1 + 1 * 1);
  EXPECT_TRUE(plans.lanes[1].needs_events) << "each of them has jobs of its own";
  EXPECT_TRUE(plans.lanes[6].gathers);
  // Whatever the job, the channel that its sender takes is the one where its receiver looks.
  for (uint64_t turn = 0; turn < 6; ++turn) {
    const auto of_turn = [&](const std::vector<size_t>& channels, size_t value, size_t to_lane) {
      std::vector<size_t> these;
      for (const size_t channel : channels) {
        const LaneChannel& each = plans.channels[channel];
        const bool there = plans.lanes[each.to].process.lane == to_lane;
        if (each.value == value && there) these.push_back(channel);
      }
      return these.at(turn % these.size());
    };
    const LanePlan& first = plans.lanes[turn % 2];
    const LanePlan& left = plans.lanes[2 + turn % 3];
    EXPECT_EQ(of_turn(first.sends, 0, 1), of_turn(left.receives, 0, 1));
    EXPECT_EQ(of_turn(first.sends, 0, 2), of_turn(plans.lanes[5].receives, 0, 2));
    EXPECT_EQ(of_turn(left.sends, 1, 3), of_turn(plans.lanes[6].receives, 1, 3));
  }
  const auto stage = nlohmann::json::parse(stage_json(plans, 1, diamond(), "app.App"));
  EXPECT_EQ(stage["lane"], 0);
  ASSERT_EQ(stage["sends"].size(), 4u);
  EXPECT_EQ(stage["sends"][0]["to"], stage["sends"][1]["to"]) << "replicas are one lane";
  EXPECT_NE(stage["sends"][0]["to"], stage["sends"][3]["to"]);
}

TEST(LanePlan, ASenderHoldsNoMoreForManyReplicasThanOneValueForEach) {
  const auto held = [](std::vector<size_t> replicas) {
    Placement placement{{{Stage{{Lane{{0}}}}, Stage{{Lane{{1, 2, 3}}}}}}};
    placement.replicas = std::move(replicas);
    const LanePlans plans = plan_lanes(diamond(), placement);
    uint32_t slots = 0;
    for (const size_t channel : plans.lanes[0].sends) {
      EXPECT_GE(slots_of(plans, channel), 1u);
      slots += slots_of(plans, channel);
    }
    return slots;
  };
  EXPECT_EQ(held({1, 1}), 3u);
  EXPECT_EQ(held({2, 1}), 3u) << "each of them has its own memory";
  EXPECT_EQ(held({1, 2}), 4u);
  EXPECT_EQ(held({1, 3}), 3u);
  EXPECT_EQ(held({1, 5}), 5u);
}

}  // namespace
}  // namespace lambent::worker
