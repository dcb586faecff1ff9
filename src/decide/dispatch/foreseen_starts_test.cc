#include "decide/dispatch/foreseen_starts.h"

#include <gtest/gtest.h>

#include <vector>

namespace lambent::dispatch {
namespace {

class ForeseenStartsTest : public testing::Test {
 protected:
  ForeseenStartsTest() { flows_.resize(3); }
  void act(const Action& action) {
    const std::vector<Action> actions = {action};
    starts_.note(TimerFired{}, actions, flows_);
  }
  void exit(uint64_t sandbox) {
    starts_.note(SandboxExited{SandboxId{sandbox}, {}, ""}, {}, flows_);
  }
  void start(uint64_t sandbox, bool ahead, uint32_t function = 1) {
    act(StartSandbox{.sandbox = SandboxId{sandbox},
                     .function = FunctionId{function},
                     .device = DeviceId{1},
                     .ahead = ahead});
  }
  void run(uint64_t sandbox) { act(StartInvocation{{0, 1}, SandboxId{sandbox}, DeviceId{1}}); }

  scheduling::Flows flows_;
  ForeseenStarts starts_;
};

TEST_F(ForeseenStartsTest, AreUsedOnceByTheFirstCall) {
  start(1, true);
  start(2, false);
  run(1);
  run(1);
  run(2);
  exit(1);
  exit(2);
  EXPECT_EQ(starts_.counts(), (ForeseenStarts::Counts{.started = 1, .used = 1}));
}

TEST_F(ForeseenStartsTest, AreWastedIfTheyEndWithoutACall) {
  start(1, true);
  EXPECT_EQ(starts_.counts().wasted, 0u);
  exit(1);
  exit(1);
  EXPECT_EQ(starts_.counts(), (ForeseenStarts::Counts{.started = 1, .wasted = 1}));
}

TEST_F(ForeseenStartsTest, DoNotCountThoseOfFunctionsThatAreKeptReady) {
  flows_[2].min_instances = 1;
  start(1, true, 2);
  exit(1);
  EXPECT_EQ(starts_.counts(), ForeseenStarts::Counts{});
}

}  // namespace
}  // namespace lambent::dispatch
