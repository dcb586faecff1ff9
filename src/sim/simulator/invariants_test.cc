// The invariants must be able to fail: for each there is a dispatcher, or what is shown of one,
// that breaks it, and the checker names that invariant. Undistorted, the same worlds pass.
#include "sim/simulator/invariants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <set>

#include "decide/scheduling/make_policy.h"
#include "sim/simulator/faulty_world.h"

namespace lambent::simulator {

void PrintTo(Invariant invariant, std::ostream* out) { *out << name_of(invariant); }

namespace {

using dispatch::Action;
using dispatch::Event;
using Actions = std::vector<Action>;

// Which invariant is the first to be violated in one of the worlds, by the distortion, that
// violates any.
std::set<Invariant> found(const std::function<void(FaultyWorldOptions&)>& distort) {
  std::set<Invariant> invariants;
  for (uint64_t seed = 1; seed <= 240; ++seed) {
    FaultyWorldOptions options{.seed = seed};
    distort(options);
    const FaultyWorldResult result = run_faulty_world(options);
    if (result.violation) invariants.insert(result.violation->invariant);
  }
  return invariants;
}

// Shows the checker something else in place of the fifth action of a kind.
template <typename Kind>
std::set<Invariant> found_if(const std::function<void(Actions&, size_t place, Kind)>& change) {
  return found([&](FaultyWorldOptions& options) {
    options.distort = [&change, seen = 0](const Event&, Actions& shown) mutable {
      for (size_t i = 0; i < shown.size(); ++i) {
        const auto* action = std::get_if<Kind>(&shown[i]);
        if (action == nullptr || ++seen != 5) continue;
        change(shown, i, Kind(*action));
        return;
      }
    };
  });
}

std::set<Invariant> found_if_told(const std::function<void(InvariantOptions&)>& tell) {
  return found([&](FaultyWorldOptions& options) { options.tell = tell; });
}

// A policy that does not do what it should.
class Faithless : public scheduling::Policy {
 public:
  Faithless() : policy_(scheduling::make_policy("mqfq-sticky").value()) {}
  std::string_view name() const override { return policy_->name(); }
  void flow_changed(const scheduling::View& view, FunctionId function, Instant now) override {
    policy_->flow_changed(view, function, now);
  }
  void enqueued(const scheduling::View& view, FunctionId function, Instant now) override {
    policy_->enqueued(view, function, now);
  }
  void dispatched(const scheduling::View& view, FunctionId function, Instant now) override {
    policy_->dispatched(view, function, now);
  }
  void finished(const scheduling::View& view, FunctionId function, Instant now) override {
    policy_->finished(view, function, now);
  }
  void health_changed(const scheduling::View& view, Instant now) override {
    policy_->health_changed(view, now);
  }
  scheduling::Decision decide(const scheduling::View& view, Instant now) override {
    return policy_->decide(view, now);
  }
  void look_ahead(const scheduling::View& view, size_t most,
                  std::vector<FunctionId>& out) override {
    policy_->look_ahead(view, most, out);
  }
  scheduling::WaitReason why_waiting(const scheduling::View& view,
                                     FunctionId function) const override {
    return policy_->why_waiting(view, function);
  }
  scheduling::FlowStatus status(const scheduling::View& view, FunctionId function,
                                Instant now) const override {
    return policy_->status(view, function, now);
  }
  Duration global_virtual_time() const override { return policy_->global_virtual_time(); }
  uint64_t conserving_dispatches() const override { return policy_->conserving_dispatches(); }
  void archive(StateArchive& archive) override { policy_->archive(archive); }

 protected:
  std::unique_ptr<scheduling::Policy> policy_;
};

template <typename Policy>
std::set<Invariant> found_with() {
  return found([](FaultyWorldOptions& options) {
    options.policy = [] { return std::make_unique<Policy>(); };
    options.tell = [](InvariantOptions& invariants) {
      invariants.over_run = seconds(20);
      // Whatever policy the scene would have had.
      invariants.may_idle = false;
      invariants.waiting_holds_global = false;
    };
  });
}

bool is_among(const std::set<Invariant>& some, const std::set<Invariant>& all) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

const auto only = [](Invariant invariant) { return std::set<Invariant>{invariant}; };

TEST(Invariants, HoldInTheSameWorldsUndistorted) {
  EXPECT_EQ(found([](FaultyWorldOptions&) {}), std::set<Invariant>{});
}

TEST(Invariants, SeeMemoryBeyondWhatTheDeviceHas) {
  EXPECT_EQ(found_if_told([](InvariantOptions& told) {
              for (auto& device : told.limits.fleet.devices) device.memory = Bytes::mib(1500);
            }),
            only(Invariant::kMemory));
}

TEST(Invariants, SeeMoreAtWorkThanThereAreTokens) {
  EXPECT_EQ(found_if_told([](InvariantOptions& told) {
              for (auto& device : told.limits.fleet.devices) {
                device.tokens = 0;
                device.by_utilisation.reset();
              }
            }),
            only(Invariant::kTokens));
}

TEST(Invariants, SeeMoreSandboxesThanThePoolAllows) {
  EXPECT_EQ(found_if_told([](InvariantOptions& told) { told.limits.fleet.most_sandboxes = 1; }),
            only(Invariant::kPool));
}

TEST(Invariants, SeeQueuesBeyondTheirLimit) {
  EXPECT_EQ(found_if_told([](InvariantOptions& told) { told.limits.queued_per_function = 1; }),
            only(Invariant::kQueues));
  EXPECT_EQ(found_if_told([](InvariantOptions& told) { told.limits.queued_invocations = 2; }),
            only(Invariant::kQueues));
}

TEST(Invariants, SeeASandboxStartedTwiceOrForAnotherFunctionOrRevisionOrDevice) {
  using dispatch::StartSandbox;
  EXPECT_EQ(found_if<StartSandbox>([](Actions& shown, size_t place, StartSandbox start) {
              shown.insert(shown.begin() + static_cast<ptrdiff_t>(place), start);
            }),
            only(Invariant::kStartSandbox));
  EXPECT_EQ(found_if<StartSandbox>([](Actions& shown, size_t place, StartSandbox start) {
              start.function = FunctionId{99};
              shown[place] = start;
            }),
            only(Invariant::kStartSandbox));
  EXPECT_EQ(found_if<StartSandbox>([](Actions& shown, size_t place, StartSandbox start) {
              ++start.revision;
              shown[place] = start;
            }),
            only(Invariant::kStartSandbox));
  EXPECT_EQ(found_if<StartSandbox>([](Actions& shown, size_t place, StartSandbox start) {
              start.device = DeviceId{77};
              shown[place] = start;
            }),
            only(Invariant::kStartSandbox));
}

TEST(Invariants, SeeAnInvocationGivenToASandboxThatIsNotThereOrHasOneOrGivenTwice) {
  using dispatch::StartInvocation;
  EXPECT_EQ(found_if<StartInvocation>([](Actions& shown, size_t place, StartInvocation start) {
              start.sandbox = SandboxId{123'456};
              shown[place] = start;
            }),
            only(Invariant::kStartInvocation));
  EXPECT_EQ(found_if<StartInvocation>([](Actions& shown, size_t place, StartInvocation start) {
              shown.insert(shown.begin() + static_cast<ptrdiff_t>(place), start);
            }),
            only(Invariant::kStartInvocation));
  EXPECT_EQ(found_if<StartInvocation>([](Actions& shown, size_t place, StartInvocation start) {
              start.invocation.low += 100'000;
              shown[place] = start;
            }),
            only(Invariant::kStartInvocation));
  EXPECT_EQ(found_if<StartInvocation>([](Actions& shown, size_t place, StartInvocation start) {
              start.start =
                  start.start == StartClass::kCold ? StartClass::kWarm : StartClass::kCold;
              shown[place] = start;
            }),
            only(Invariant::kStartInvocation));
}

TEST(Invariants, SeeASandboxStoppedTwiceOrUnderItsInvocation) {
  using dispatch::StopSandbox;
  EXPECT_EQ(found_if<StopSandbox>([](Actions& shown, size_t place, StopSandbox stop) {
              shown.insert(shown.begin() + static_cast<ptrdiff_t>(place), stop);
            }),
            only(Invariant::kStopSandbox));
  EXPECT_EQ(found([](FaultyWorldOptions& options) {
              options.distort = [](const Event&, Actions& shown) {
                for (const Action& action : Actions(shown)) {
                  const auto* start = std::get_if<dispatch::StartInvocation>(&action);
                  if (start != nullptr) shown.push_back(StopSandbox{start->sandbox});
                }
              };
            }),
            only(Invariant::kStopSandbox));
}

TEST(Invariants, SeeGrantsOfMemoryThatNobodyWanted) {
  using dispatch::GrantMemory;
  EXPECT_EQ(found_if<GrantMemory>(
                [](Actions& shown, size_t, GrantMemory grant) { shown.push_back(grant); }),
            only(Invariant::kMoves));
  EXPECT_EQ(found_if<GrantMemory>([](Actions& shown, size_t place, GrantMemory grant) {
              grant.bytes += Bytes::gib(7);
              shown[place] = grant;
            }),
            only(Invariant::kMoves));
}

TEST(Invariants, SeeMovesOfMemoryThatAreNotToBe) {
  using dispatch::MoveMemoryIn;
  using dispatch::MoveMemoryOut;
  using dispatch::StopSandbox;
  // Twice the same, and to one that is gone.
  EXPECT_EQ(found_if<MoveMemoryIn>(
                [](Actions& shown, size_t, MoveMemoryIn move) { shown.push_back(move); }),
            only(Invariant::kMoves));
  EXPECT_EQ(found_if<MoveMemoryOut>(
                [](Actions& shown, size_t, MoveMemoryOut move) { shown.push_back(move); }),
            only(Invariant::kMoves));
  EXPECT_EQ(found_if<StopSandbox>([](Actions& shown, size_t, StopSandbox) {
              shown.push_back(MoveMemoryIn{SandboxId{1'000'000}});
            }),
            only(Invariant::kMoves));
  // Of one that has just been given work.
  EXPECT_EQ(found_if<dispatch::StartInvocation>(
                [](Actions& shown, size_t, const dispatch::StartInvocation& start) {
                  shown.push_back(MoveMemoryOut{start.sandbox});
                }),
            only(Invariant::kMoves));
  EXPECT_EQ(found_if_told([](InvariantOptions& told) {
              for (auto& device : told.limits.fleet.devices) device.memory_moves = false;
            }),
            only(Invariant::kMoves));
}

TEST(Invariants, SeeMoreMemoryOnTheHostThanItIsToHold) {
  EXPECT_EQ(found_if_told([](InvariantOptions& told) {
              told.limits.fleet.host_memory =
                  std::min(told.limits.fleet.host_memory, Bytes::mib(900));
            }),
            only(Invariant::kHostMemory));
}

TEST(Invariants, SeeAMoveThatGoesOnForTooLong) {
  const auto seen = found_if_told(
      [](InvariantOptions& told) { told.limits.move_timeout = told.limits.move_timeout / 4; });
  EXPECT_TRUE(seen.contains(Invariant::kTimers));
  EXPECT_TRUE(is_among(seen, {Invariant::kTimers, Invariant::kEndlessWait}));
}

TEST(Invariants, SeeAnOutcomeThatIsMissingOrGivenTwice) {
  using dispatch::CompleteInvocation;
  const auto seen =
      found_if<CompleteInvocation>([](Actions& shown, size_t place, CompleteInvocation) {
        shown.erase(shown.begin() + static_cast<ptrdiff_t>(place));
      });
  EXPECT_TRUE(seen.contains(Invariant::kOneOutcome));
  // Under the invocation that has no outcome its sandbox may be stopped, moved or given more, and
  // on the host, or in its queue if that is where it ended, it is still counted.
  EXPECT_TRUE(
      is_among(seen, {Invariant::kStartInvocation, Invariant::kMoves, Invariant::kStopSandbox,
                      Invariant::kOneOutcome, Invariant::kAccounts, Invariant::kQueues}))
      << testing::PrintToString(seen);
  EXPECT_EQ(found_if<CompleteInvocation>(
                [](Actions& shown, size_t, CompleteInvocation done) { shown.push_back(done); }),
            only(Invariant::kOneOutcome));
}

TEST(Invariants, SeeAnOutcomeThatIsNotTrue) {
  using dispatch::CompleteInvocation;
  EXPECT_EQ(found_if<CompleteInvocation>([](Actions& shown, size_t place, CompleteInvocation done) {
              done.outcome = done.outcome == Outcome::kSucceeded ? Outcome::kFunctionError
                                                                 : Outcome::kSucceeded;
              shown[place] = done;
            }),
            only(Invariant::kTrueOutcome));
  EXPECT_EQ(found_if<CompleteInvocation>([](Actions& shown, size_t place, CompleteInvocation done) {
              done.phases.queue += seconds(1);
              shown[place] = done;
            }),
            only(Invariant::kTrueOutcome));
}

TEST(Invariants, SeeGlobalVirtualTimeGoBackOrStandStill) {
  class GoesBack : public Faithless {
   public:
    Duration global_virtual_time() const override { return -policy_->global_virtual_time(); }
  };
  class StandsStill : public Faithless {
   public:
    Duration global_virtual_time() const override { return Duration(0); }
  };
  EXPECT_EQ(found_with<GoesBack>(), only(Invariant::kVirtualTime));
  // Who is served seems to be ahead of it, the longer the more.
  const std::set<Invariant> found = found_with<StandsStill>();
  EXPECT_TRUE(found.contains(Invariant::kVirtualTime));
  EXPECT_TRUE(is_among(found, {Invariant::kVirtualTime, Invariant::kOverRun}));
}

TEST(Invariants, SeeFlowsServedFurtherAheadThanAllowed) {
  class DoesNotCount : public Faithless {
   public:
    uint64_t conserving_dispatches() const override { return 0; }
  };
  EXPECT_EQ(found_with<DoesNotCount>(), only(Invariant::kOverRun));
}

TEST(Invariants, SeeADeviceIdleBesideWorkThatFits) {
  class Lazy : public Faithless {
   public:
    scheduling::Decision decide(const scheduling::View& view, Instant now) override {
      if (++asked_ > 20) return scheduling::Decision::nothing(scheduling::WaitReason::kNone);
      return Faithless::decide(view, now);
    }

   private:
    int asked_ = 0;
  };
  EXPECT_EQ(found_with<Lazy>(), only(Invariant::kWorkConservation));
}

// The same by the checker's own accounts, where the fleet is wrong about what fits.
TEST(Invariants, SeeWorkWaitForEverBesideAnEmptyDevice) {
  EXPECT_EQ(found([](FaultyWorldOptions& options) {
              // The checker is told of one more device, which dispatch does not use.
              options.tell = [](InvariantOptions& told) {
                told.limits.fleet.devices.push_back(
                    {.id = DeviceId{9}, .memory = Bytes::gib(64), .contexts = 99});
                told.limits.fleet.most_sandboxes = 99;
                told.limits.stop_timeout = Duration(0);
              };
            }),
            only(Invariant::kEndlessWait));
}

TEST(Invariants, SeeWhatGoesOnBeyondItsEnd) {
  const auto invariants =
      found_if_told([](InvariantOptions& told) { told.limits.longest_wait = milliseconds(500); });
  EXPECT_TRUE(invariants.contains(Invariant::kTimers));
  EXPECT_EQ(found_if_told([](InvariantOptions& told) {
              told.limits.longest_wait = milliseconds(500);
              told.scan_period = ~0U;  // after timers only
            }).count(Invariant::kEndlessWait),
            1u);
}

TEST(Invariants, SeeATimerThatIsMissingOrHasPassed) {
  using dispatch::WakeAt;
  EXPECT_TRUE(found([](FaultyWorldOptions& options) {
                options.distort = [](const Event&, Actions& shown) {
                  std::erase_if(shown, [](const Action& action) {
                    return std::holds_alternative<WakeAt>(action);
                  });
                };
              }).contains(Invariant::kTimers));
  EXPECT_EQ(found_if<WakeAt>([](Actions& shown, size_t place, WakeAt wake) {
              wake.instant = Instant(Duration(-1));
              shown[place] = wake;
            }),
            only(Invariant::kTimers));
}

TEST(Invariants, SeeAccountingThatDoesNotAgree) {
  EXPECT_TRUE(
      found_if<dispatch::StartSandbox>([](Actions& shown, size_t place, dispatch::StartSandbox) {
        shown.erase(shown.begin() + static_cast<ptrdiff_t>(place));
      }).contains(Invariant::kAccounts));
}

TEST(Invariants, SeeATwinThatDecidesOtherwise) {
  class GivesUpOnceRestored : public Faithless {
   public:
    scheduling::Decision decide(const scheduling::View& view, Instant now) override {
      if (restored_) return scheduling::Decision::nothing(scheduling::WaitReason::kNone);
      return Faithless::decide(view, now);
    }
    void archive(StateArchive& archive) override {
      restored_ = restored_ || archive.reading();
      Faithless::archive(archive);
    }

   private:
    bool restored_ = false;
  };
  EXPECT_TRUE(found([](FaultyWorldOptions& options) {
                options.twin_period = 13;
                options.policy = [] { return std::make_unique<GivesUpOnceRestored>(); };
                options.tell = [](InvariantOptions& told) { told.over_run.reset(); };
              }).contains(Invariant::kSnapshot));
}

// A dispatcher with one function and one device, whose events the checker sees, or not.
class InvariantsOfOne : public testing::Test {
 protected:
  Actions give(const Event& event) {
    Actions actions;
    dispatcher_.handle(event, now_, actions);
    invariants_.check(event, now_, actions);
    return actions;
  }
  void expect(Invariant invariant) {
    ASSERT_TRUE(invariants_.violation());
    EXPECT_EQ(invariants_.violation()->invariant, invariant);
  }
  void run_one() {
    give(dispatch::FunctionRegistered{{.id = FunctionId{1}, .device_memory = Bytes::gib(1)}});
    give(dispatch::InvocationSubmitted{{0, 1}, FunctionId{1}});
    give(dispatch::SandboxReady{SandboxId{1}});
    give(dispatch::InvocationFinished{{0, 1}});
    ASSERT_FALSE(invariants_.violation());
  }

  static dispatch::DispatchOptions limits() {
    dispatch::DispatchOptions limits;
    limits.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16)}};
    return limits;
  }

  Instant now_{};
  dispatch::Dispatcher dispatcher_{limits(), scheduling::make_policy("fcfs").value()};
  Invariants invariants_{dispatcher_, {.limits = limits()}};
};

TEST_F(InvariantsOfOne, SeeASandboxUsedWhoseDeviceWasLost) {
  run_one();
  // Dispatch is not told.
  invariants_.check(dispatch::DeviceReading{.device = DeviceId{1}, .lost = true}, now_, {});
  invariants_.check(dispatch::DeviceReading{.device = DeviceId{1}}, now_, {});
  EXPECT_FALSE(invariants_.violation());
  give(dispatch::InvocationSubmitted{{0, 2}, FunctionId{1}});
  expect(Invariant::kStartInvocation);
}

TEST_F(InvariantsOfOne, SeeASandboxThatRestsWhereItHasNoRoomBesideWhatIsTaken) {
  run_one();
  // Dispatch is not told.
  invariants_.check(dispatch::DeviceTaken{DeviceId{1}, Bytes::gib(15)}, now_, {});
  EXPECT_FALSE(invariants_.violation());
  invariants_.check(dispatch::DeviceTaken{DeviceId{1}, Bytes::mib(15'500)}, now_, {});
  expect(Invariant::kMemory);
}

TEST_F(InvariantsOfOne, SeeASandboxStartedWhereItHasNoRoomBesideWhatIsTaken) {
  invariants_.check(dispatch::DeviceTaken{DeviceId{1}, Bytes::mib(15'500)}, now_, {});
  EXPECT_FALSE(invariants_.violation());
  give(dispatch::FunctionRegistered{{.id = FunctionId{1}, .device_memory = Bytes::gib(1)}});
  give(dispatch::InvocationSubmitted{{0, 1}, FunctionId{1}});
  expect(Invariant::kMemory);
}

TEST_F(InvariantsOfOne, SeeWorkGivenToASickDevice) {
  run_one();
  invariants_.check(dispatch::DeviceReading{.device = DeviceId{1}, .healthy = false}, now_, {});
  give(dispatch::InvocationSubmitted{{0, 2}, FunctionId{1}});
  expect(Invariant::kStartInvocation);
}

TEST_F(InvariantsOfOne, SeeWhatIsLeftAtTheEnd) {
  run_one();
  invariants_.check_at_rest();
  expect(Invariant::kNothingLeft);
}

// A device with one token and a start slot: the sandbox of the second function is ready while the
// first one runs, and waits for the token.
class InvariantsOfAReadySandbox : public testing::Test {
 protected:
  InvariantsOfAReadySandbox() {
    for (const uint32_t function : {1U, 2U}) {
      give(dispatch::FunctionRegistered{
          {.id = FunctionId{function}, .device_memory = Bytes::gib(1), .timeout = seconds(1)}});
      give(dispatch::InvocationSubmitted{{0, function}, FunctionId{function}});
      give(dispatch::SandboxReady{SandboxId{function}});
    }
  }
  // What dispatch does is not shown unless it is said.
  void give(const Event& event, bool shown = true) {
    Actions actions;
    dispatcher_.handle(event, now_, actions);
    if (!shown) actions.clear();
    invariants_.check(event, now_, actions);
  }
  bool has_ended_in(const char* what) const {
    return invariants_.violation() && invariants_.violation()->what.ends_with(what);
  }

  static dispatch::DispatchOptions limits() {
    dispatch::DispatchOptions limits;
    limits.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16), .tokens = 1}};
    limits.fleet.starts_outside_tokens = 1;
    return limits;
  }

  Instant now_{};
  dispatch::Dispatcher dispatcher_{limits(), scheduling::make_policy("fcfs").value()};
  Invariants invariants_{dispatcher_, {.limits = limits()}};
};

TEST_F(InvariantsOfAReadySandbox, LetItWaitForTheTokenAndSeeItRun) {
  ASSERT_EQ(dispatcher_.fleet().devices()[0].tokens_held, 1u);
  ASSERT_EQ(dispatcher_.fleet().devices()[0].start_slots_held, 1u);
  EXPECT_FALSE(invariants_.violation());
  give(dispatch::InvocationFinished{{0, 1}});
  EXPECT_FALSE(invariants_.violation());
}

TEST_F(InvariantsOfAReadySandbox, SeeItWaitBesideATokenThatIsFree) {
  // The first one goes, and as far as the checker knows none is given its token.
  give(dispatch::SandboxExited{.sandbox = SandboxId{1}, .error_type = "", .undelivered = true},
       false);
  EXPECT_TRUE(has_ended_in("which has one"));
}

TEST_F(InvariantsOfAReadySandbox, SeeItWaitWhereNoTokenComesBack) {
  // The first one runs too long, is told to stop and does not go.
  now_ += seconds(1);
  give(dispatch::TimerFired{});
  EXPECT_FALSE(invariants_.violation());
  now_ += limits().stop_timeout;
  give(dispatch::TimerFired{}, false);
  EXPECT_TRUE(has_ended_in("which gets none back"));
}

}  // namespace
}  // namespace lambent::simulator
