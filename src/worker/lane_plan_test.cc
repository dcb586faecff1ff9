#include "worker/lane_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lambent::worker {
namespace {

using pipeline::Dag;
using pipeline::Lane;
using pipeline::Partition;
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
  const LanePlans plans = plan_lanes(diamond(), {{Stage{{Lane{{0, 1, 2, 3}}}}}});
  ASSERT_EQ(plans.lanes.size(), 1u);
  EXPECT_TRUE(plans.channels.empty());
  EXPECT_TRUE(plans.lanes[0].gathers);
  EXPECT_TRUE(plans.lanes[0].needs_events);
}

TEST(LanePlan, SendsAValueOnceToEachLaneThatNeedsIt) {
  const Partition branches{{Stage{{Lane{{0}}}}, Stage{{Lane{{1}}, Lane{{2}}}}, Stage{{Lane{{3}}}}}};
  const LanePlans plans = plan_lanes(diamond(), branches);
  EXPECT_EQ(plans.channels, (std::vector<LaneChannel>{{0, 0, 1}, {0, 0, 2}, {1, 1, 3}, {2, 2, 3}}));
  EXPECT_EQ(plans.lanes[0].sends, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(plans.lanes[3].receives, (std::vector<size_t>{2, 3}));
  EXPECT_TRUE(plans.lanes[0].needs_events);
  EXPECT_FALSE(plans.lanes[1].needs_events) << "it works on what the first made alone";
  EXPECT_TRUE(plans.lanes[3].gathers);

  const Partition halves{{Stage{{Lane{{0}}}}, Stage{{Lane{{1, 2, 3}}}}}};
  EXPECT_EQ(plan_lanes(diamond(), halves).channels, (std::vector<LaneChannel>{{0, 0, 1}}))
      << "two components of one lane need the same value";
}

TEST(LanePlan, GathersOutputsThatOthersMake) {
  Dag dag = diamond();
  dag.outputs = {3, 1};
  const Partition branches{{Stage{{Lane{{0, 1}}}}, Stage{{Lane{{2, 3}}}}}};
  const LanePlans plans = plan_lanes(dag, branches);
  EXPECT_EQ(plans.channels, (std::vector<LaneChannel>{{0, 0, 1}, {1, 0, 1}}));
  EXPECT_FALSE(plans.lanes[0].gathers);
  const auto stage = nlohmann::json::parse(stage_json(plans, 1, dag, "app.App"));
  EXPECT_EQ(stage, nlohmann::json::parse(R"({"handler": "app.App", "lane": 1,
      "components": ["right", "last"], "outputs": ["last", "left"], "sends": [],
      "receives": [{"channel": "/opt/lambent/channels/0", "value": "first"},
                   {"channel": "/opt/lambent/channels/1", "value": "left"}]})"));
  const auto first = nlohmann::json::parse(stage_json(plans, 0, dag, "app.App"));
  EXPECT_EQ(first["outputs"], nlohmann::json::array());
  EXPECT_EQ(first["sends"][1]["to"], 1);
}

}  // namespace
}  // namespace lambent::worker
