#include "bin/sweep_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::bin {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string refusal(const std::vector<std::string>& arguments, const std::vector<std::string>& vary,
                    const std::vector<std::string>& policies = {}) {
  const auto plan = make_sweep_plan(arguments, vary, policies, 1, 2);
  if (plan.ok()) return "";
  EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
  return plan.error().message;
}

TEST(SweepPlan, HasACellForEveryValuePolicyAndSeed) {
  const auto plan = make_sweep_plan({"--gpus=2"}, {"D=1,2,3"}, {"fcfs", "density"}, 5, 2);
  ASSERT_TRUE(plan.ok()) << to_string(plan.error());
  const auto cells = plan->grid.cells();
  EXPECT_EQ(cells.size(), 3u * 2 * 2);
  for (const sweep::Cell& cell : cells) {
    const auto arguments = arguments_of(*plan, cell);
    EXPECT_THAT(arguments, Contains("--gpus=2"));
    EXPECT_THAT(arguments, Contains("--seed=" + std::to_string(cell.seed)));
    const auto options = options_of(arguments);
    ASSERT_TRUE(options.ok()) << to_string(options.error());
    EXPECT_EQ(options->gpus, 2u);
    EXPECT_EQ(std::to_string(options->concurrency), cell.values[0]);
    EXPECT_EQ(options->policies, std::vector<std::string>{cell.values[1]});
  }
}

TEST(SweepPlan, IsRefusedBeforeAnythingRuns) {
  EXPECT_THAT(refusal({}, {"seed=1,2"}), HasSubstr("--seeds N"));
  EXPECT_THAT(refusal({"--concurrency=2"}, {"D=1,2"}), HasSubstr("both fixed and varied"));
  EXPECT_THAT(refusal({"--out=x"}, {"D=1,2"}), HasSubstr("a sweep has its own"));
  EXPECT_NE(refusal({}, {"D=0,1"}), "");
  EXPECT_NE(refusal({}, {"no_such_parameter=1,2"}), "");
  EXPECT_NE(refusal({}, {"D=1,2"}, {"no-such-policy"}), "");
  EXPECT_NE(refusal({"--no-such-flag"}, {"D=1,2"}), "");
  EXPECT_NE(refusal({}, {"D"}), "");
}

}  // namespace
}  // namespace lambent::bin
