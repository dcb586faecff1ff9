#include "node/worker/stage_process_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lambent::worker {
namespace {

using pipeline::Dag;
using pipeline::Partition;
using pipeline::Placement;
using pipeline::Source;
using pipeline::Stage;
using pipeline::StageProcess;

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

TEST(StageProcessPlan, OfOneStageProcessHasNoChannels) {
  const StageProcessPlans plans =
      plan_stage_processes(diamond(), {{{Stage{{StageProcess{{0, 1, 2, 3}}}}}}});
  ASSERT_EQ(plans.stage_processes.size(), 1u);
  EXPECT_TRUE(plans.channels.empty());
  EXPECT_TRUE(plans.stage_processes[0].gathers);
  EXPECT_TRUE(plans.stage_processes[0].needs_events);
}

TEST(StageProcessPlan, SendsAValueOnceToEachStageProcessThatNeedsIt) {
  const Partition branches{{Stage{{StageProcess{{0}}}},
                            Stage{{StageProcess{{1}}, StageProcess{{2}}}},
                            Stage{{StageProcess{{3}}}}}};
  const StageProcessPlans plans = plan_stage_processes(diamond(), {branches});
  EXPECT_EQ(plans.channels,
            (std::vector<StageProcessChannel>{{0, 0, 1}, {0, 0, 2}, {1, 1, 3}, {2, 2, 3}}));
  EXPECT_EQ(plans.stage_processes[0].sends, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(plans.stage_processes[3].receives, (std::vector<size_t>{2, 3}));
  EXPECT_TRUE(plans.stage_processes[0].needs_events);
  EXPECT_FALSE(plans.stage_processes[1].needs_events) << "it works only on what the first made";
  EXPECT_TRUE(plans.stage_processes[3].gathers);

  const Partition halves{{Stage{{StageProcess{{0}}}}, Stage{{StageProcess{{1, 2, 3}}}}}};
  EXPECT_EQ(plan_stage_processes(diamond(), {halves}).channels,
            (std::vector<StageProcessChannel>{{0, 0, 1}}))
      << "two components of one stage process need the same value";
}

TEST(StageProcessPlan, GathersOutputsThatOthersMake) {
  Dag dag = diamond();
  dag.outputs = {3, 1};
  const Partition branches{{Stage{{StageProcess{{0, 1}}}}, Stage{{StageProcess{{2, 3}}}}}};
  const StageProcessPlans plans = plan_stage_processes(dag, {branches});
  EXPECT_EQ(plans.channels, (std::vector<StageProcessChannel>{{0, 0, 1}, {1, 0, 1}}));
  EXPECT_FALSE(plans.stage_processes[0].gathers);
  auto stage = nlohmann::json::parse(stage_json(plans, 1, dag, "app.App"));
  // Two names of the version before.
  EXPECT_EQ(stage["lane"], 1);
  EXPECT_EQ(stage["in_hand"], 2);
  stage.erase("lane");
  stage.erase("in_hand");
  EXPECT_EQ(stage, nlohmann::json::parse(R"({"handler": "app.App", "stage_process": 1,
      "components": ["right", "last"], "outputs": ["last", "left"], "sends": [], "in_flight": 2,
      "receives": [{"channel": "/opt/lambent/channels/0", "value": "first"},
                   {"channel": "/opt/lambent/channels/1", "value": "left"}]})"));
  const auto first = nlohmann::json::parse(stage_json(plans, 0, dag, "app.App"));
  EXPECT_EQ(first["outputs"], nlohmann::json::array());
  EXPECT_EQ(first["sends"][1]["to"], 1);
}

// Two branches share a slice beside the third: the stage process that ends with the last output is
// not the last stage process.
TEST(StageProcessPlan, GathersWhereHandOversSayItDoes) {
  Dag dag;
  dag.inputs = {"image"};
  dag.components = {{"a", {{kInput, 0}}}, {"b", {{kInput, 0}}}, {"c", {{kInput, 0}}}};
  dag.outputs = {0, 1, 2};
  const Partition beside{{Stage{{StageProcess{{0, 2}}, StageProcess{{1}}}}}};
  const StageProcessPlans plans = plan_stage_processes(dag, {beside});
  ASSERT_EQ(plans.stage_processes.size(), 2u);
  std::vector<pipeline::HandOver> planned;
  for (const StageProcessChannel& each : plans.channels)
    planned.push_back({each.value, each.from, each.to});
  EXPECT_EQ(planned, pipeline::hand_overs(dag, beside));
  for (size_t stage_process = 0; stage_process < 2; ++stage_process) {
    EXPECT_EQ(plans.stage_processes[stage_process].gathers,
              stage_process == pipeline::gathering_stage_process(beside));
  }
}

TEST(StageProcessPlan, GivesEachReplicaAChannelFromEachAndToEach) {
  Placement placement{{{Stage{{StageProcess{{0}}}}, Stage{{StageProcess{{1}}, StageProcess{{2}}}},
                        Stage{{StageProcess{{3}}}}}}};
  placement.replicas = {2, 3, 1, 1};
  const StageProcessPlans plans = plan_stage_processes(diamond(), placement);
  ASSERT_EQ(plans.stage_processes.size(), 7u) << "one process for each replica";
  EXPECT_EQ(plans.stage_processes[1].process, (pipeline::Process{0, 0, 1, 2}));
  EXPECT_EQ(plans.channels.size(), 2u * 3 + 2 * 1 + 3 * 1 + 1 * 1);
  EXPECT_TRUE(plans.stage_processes[1].needs_events) << "each of them has jobs of its own";
  EXPECT_TRUE(plans.stage_processes[6].gathers);
  // Whatever the job, the channel that its sender takes is the one where its receiver looks.
  for (uint64_t turn = 0; turn < 6; ++turn) {
    const auto of_turn = [&](const std::vector<size_t>& channels, size_t value,
                             size_t to_stage_process) {
      std::vector<size_t> these;
      for (const size_t channel : channels) {
        const StageProcessChannel& each = plans.channels[channel];
        const bool there = plans.stage_processes[each.to].process.stage_process == to_stage_process;
        if (each.value == value && there) these.push_back(channel);
      }
      return these.at(turn % these.size());
    };
    const StageProcessPlan& first = plans.stage_processes[turn % 2];
    const StageProcessPlan& left = plans.stage_processes[2 + turn % 3];
    EXPECT_EQ(of_turn(first.sends, 0, 1), of_turn(left.receives, 0, 1));
    EXPECT_EQ(of_turn(first.sends, 0, 2), of_turn(plans.stage_processes[5].receives, 0, 2));
    EXPECT_EQ(of_turn(left.sends, 1, 3), of_turn(plans.stage_processes[6].receives, 1, 3));
  }
  const auto stage = nlohmann::json::parse(stage_json(plans, 1, diamond(), "app.App"));
  EXPECT_EQ(stage["stage_process"], 0);
  ASSERT_EQ(stage["sends"].size(), 4u);
  EXPECT_EQ(stage["sends"][0]["to"], stage["sends"][1]["to"]) << "replicas are one stage process";
  EXPECT_NE(stage["sends"][0]["to"], stage["sends"][3]["to"]);
}

TEST(StageProcessPlan, ASenderHoldsNoMoreForManyReplicasThanOneValueForEach) {
  const auto held = [](std::vector<size_t> replicas) {
    Placement placement{{{Stage{{StageProcess{{0}}}}, Stage{{StageProcess{{1, 2, 3}}}}}}};
    placement.replicas = std::move(replicas);
    const StageProcessPlans plans = plan_stage_processes(diamond(), placement);
    uint32_t slots = 0;
    for (const size_t channel : plans.stage_processes[0].sends) {
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
