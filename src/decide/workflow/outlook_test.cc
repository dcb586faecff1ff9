#include "decide/workflow/outlook.h"

#include "decide/workflow/testing/testing.h"

namespace lambent::workflow {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using State = Prospect::State;

// a, then b and c, then d when b says so.
const auto kDiamond = R"({"name": "a", "function": "a"},
    {"name": "b", "function": "b", "after": ["a"]},
    {"name": "c", "function": "c", "after": ["a"]},
    {"name": "d", "function": "d", "after": ["b", "c"], "when": "$b.more"})";

Prospect takes(int64_t execution_s, int64_t start_s, State state = State::kWaiting) {
  return {.takes = seconds(execution_s),
          .start = seconds(start_s),
          .needs_start = true,
          .state = state};
}

TEST(Outlook, EachStartIsReadyWhenItsCallComes) {
  const auto workflow = workflow_of(kDiamond);
  const std::vector<Prospect> prospects = {takes(10, 2, State::kBegun), takes(1, 4), takes(3, 20),
                                           takes(1, 5)};
  // a ends after 10 s; c can begin then and would be ready after 20 s only, so d comes after 23 s.
  EXPECT_THAT(foresee_calls(*workflow, prospects),
              ElementsAre(ForeseenCall{1, seconds(10), seconds(6), 1},
                          ForeseenCall{2, seconds(10), seconds(0), 1},
                          ForeseenCall{3, seconds(23), seconds(18), kConditionHolds}));
}

TEST(Outlook, WhatBeganLongAgoIsExpectedToEndAtAnyMoment) {
  const auto workflow = workflow_of(kDiamond);
  std::vector<Prospect> prospects = {takes(10, 2, State::kBegun), takes(1, 4), takes(1, 4),
                                     takes(1, 1)};
  prospects[0].since = seconds(9);
  EXPECT_EQ(foresee_calls(*workflow, prospects)[0], (ForeseenCall{1, seconds(1), seconds(0), 1}));
  prospects[0].since = seconds(60);
  EXPECT_EQ(foresee_calls(*workflow, prospects)[0], (ForeseenCall{1, seconds(0), seconds(0), 1}));
}

TEST(Outlook, WhatIsThereOrWasCalledNeedsNothing) {
  const auto workflow = workflow_of(kDiamond);
  std::vector<Prospect> prospects = {takes(10, 2, State::kEnded), takes(2, 4, State::kBegun),
                                     takes(5, 4), takes(1, 3)};
  prospects[2].needs_start = false;
  EXPECT_THAT(foresee_calls(*workflow, prospects),
              ElementsAre(ForeseenCall{3, seconds(5), seconds(2), kConditionHolds}));
  prospects[3].needs_start = false;
  EXPECT_THAT(foresee_calls(*workflow, prospects), IsEmpty());
}

TEST(Outlook, BehindACallThatMayTakeNoTimeStartsBeginAtOnce) {
  const auto workflow = workflow_of(kDiamond);
  std::vector<Prospect> prospects = {takes(10, 2, State::kBegun), takes(1, 4), takes(3, 4),
                                     takes(1, 5)};
  prospects[0].is_guess = true;
  // They are expected as before. d comes 7 s from now at the soonest: c starts for 4 s, runs for 3.
  EXPECT_THAT(foresee_calls(*workflow, prospects),
              ElementsAre(ForeseenCall{1, seconds(10), seconds(0), 1},
                          ForeseenCall{2, seconds(10), seconds(0), 1},
                          ForeseenCall{3, seconds(13), seconds(2), kConditionHolds}));
}

// Each is looked at once, however many ways lead there.
TEST(Outlook, AWorkflowOfManyWaysIsSoonLookedThrough) {
  std::string components = R"({"name": "c0", "function": "f"})";
  for (int i = 1; i < 200; ++i) {
    components += R"(, {"name": "c)" + std::to_string(i) + R"(", "function": "f", "after": ["c)" +
                  std::to_string(i - 1) + "\"" +
                  (i > 1 ? ", \"c" + std::to_string(i - 2) + "\"" : "") + "]}";
  }
  const auto workflow = workflow_of(components);
  const auto calls = foresee_calls(*workflow, std::vector<Prospect>(200, takes(1, 3)));
  ASSERT_EQ(calls.size(), 200u);
  EXPECT_EQ(calls[0].within, seconds(0));
  EXPECT_EQ(calls[199].within, seconds(3 + 199));
}

}  // namespace
}  // namespace lambent::workflow
