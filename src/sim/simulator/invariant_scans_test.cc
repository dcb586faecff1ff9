#include "sim/simulator/invariant_scans.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "decide/scheduling/make_policy.h"

namespace lambent::simulator {
namespace {

using State = WorldAccounts::State;

constexpr SandboxId kSandbox{1};
constexpr Instant kNow(seconds(100));

class InvariantScansTest : public testing::Test {
 protected:
  InvariantScansTest()
      : options_(with_a_device()),
        dispatcher_(options_.limits, scheduling::make_policy("mqfq-sticky").value()),
        accounts_(options_.limits),
        scans_(dispatcher_, options_, accounts_,
               [this](Invariant invariant, const std::string&) { violated_.insert(invariant); }) {}
  static InvariantOptions with_a_device() {
    InvariantOptions options;
    options.limits.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16)}};
    return options;
  }
  // A sandbox that dispatch has not started.
  WorldAccounts::Process& add(State state) {
    WorldAccounts::Process process;
    process.device = 1;
    process.function = FunctionId{0};
    process.since = kNow;
    accounts_.add(kSandbox, process);
    accounts_.change(accounts_.processes.at(kSandbox), state);
    return accounts_.processes.at(kSandbox);
  }
  std::set<Invariant> violated() { return std::exchange(violated_, {}); }

  const InvariantOptions options_;
  const dispatch::Dispatcher dispatcher_;
  WorldAccounts accounts_;
  std::set<Invariant> violated_;
  InvariantScans scans_;
};

TEST_F(InvariantScansTest, AWorldInWhichNothingHappensViolatesNothing) {
  const InvariantMoment moment{.now = kNow, .timer_fired = true};
  scans_.check_ready(moment);
  scans_.check_progress(moment);
  scans_.check_deadlines(moment, true);
  scans_.check_accounts();
  EXPECT_TRUE(violated().empty());
}

TEST_F(InvariantScansTest, ASandboxThatOnlyWeHaveIsAnErrorInAccounting) {
  add(State::kIdle);
  scans_.check_accounts();
  EXPECT_EQ(violated(), std::set{Invariant::kAccounts});
  accounts_.remove(kSandbox);
  scans_.check_accounts();
  EXPECT_TRUE(violated().empty());
}

TEST_F(InvariantScansTest, ARestThatNoTimerEndsIsFoundAndOneThatATimerEndsIsNot) {
  add(State::kIdle);
  scans_.check_deadlines({.now = kNow}, false);
  EXPECT_EQ(violated(), std::set{Invariant::kTimers});
  scans_.check_deadlines({.now = kNow, .armed = kNow + options_.limits.keep_alive}, false);
  EXPECT_TRUE(violated().empty());
}

TEST_F(InvariantScansTest, AStartThatGoesOnAfterItsTimerIsEndless) {
  add(State::kStarting).start_limit = seconds(10);
  scans_.check_deadlines({.now = kNow + seconds(10), .armed = kNow}, true);
  EXPECT_EQ(violated(), std::set{Invariant::kEndlessWait});
}

TEST_F(InvariantScansTest, AReadySandboxThatWaitsForAFreeTokenIsFound) {
  add(State::kReady);
  scans_.check_ready({.now = kNow});
  EXPECT_EQ(violated(), std::set{Invariant::kEndlessWait});
}

}  // namespace
}  // namespace lambent::simulator
