#include "decide/dispatch/placements.h"

#include <gtest/gtest.h>

#include "decide/dispatch/testing/parts.h"

namespace lambent::dispatch {
namespace {

using scheduling::Sandbox;
using scheduling::SandboxState;

constexpr FunctionId kF{1};

class PlacementsTest : public testing::Test {
 protected:
  PlacementsTest() { parts_.add_function(kF, Bytes::gib(10), seconds(5)); }
  PendingInvocation& invocation(uint64_t number) {
    return parts_.queues[*parts_.queues.find({0, number})];
  }
  const Sandbox& sandbox_of(uint64_t number) {
    return parts_.pools.gpu.fleet().sandbox(invocation(number).sandbox);
  }

  Parts parts_;
};

TEST_F(PlacementsTest, StartASandboxAndRunTheInvocationInItOnceItIsReady) {
  parts_.submit(1, kF);
  ASSERT_TRUE(parts_.dispatch(kF));
  EXPECT_EQ(invocation(1).state, InvocationState::kStarting);
  ASSERT_EQ(parts_.got<StartSandbox>().size(), 1u);
  parts_.at(3);
  parts_.placements.sandbox_ready({.sandbox = sandbox_of(1).id, .init_time = seconds(1)});
  EXPECT_EQ(invocation(1).state, InvocationState::kRunning);
  EXPECT_EQ(invocation(1).init_time, seconds(1));
  EXPECT_EQ(invocation(1).sandbox_time, seconds(2));
  EXPECT_EQ(parts_.flow(kF).cold_start.mean(), seconds(3));
  EXPECT_EQ(parts_.queues.earliest_deadline(kNever), Instant(seconds(8)));
  EXPECT_EQ(parts_.log.counters().cold_starts, 1u);
}

class HostStartsTest : public testing::Test {
 protected:
  explicit HostStartsTest(bool bounds = true) : parts_(options(bounds)) {
    parts_.add_function(kF, Bytes(0));
  }
  static DispatchOptions options(bool bounds) {
    DispatchOptions options = one_gpu();
    options.fleet.bounds_host_starts = bounds;
    return options;
  }
  // `told`: how long it says that it took; it is not told by those that start now.
  void start_in(int takes, Duration told = {}) {
    parts_.at(now_);
    parts_.submit(++number_, kF);
    ASSERT_TRUE(parts_.dispatch(kF));
    const SandboxId sandbox = parts_.got<StartSandbox>().at(0).sandbox;
    parts_.at(now_ += takes);
    parts_.placements.sandbox_ready({.sandbox = sandbox, .init_time = told});
    parts_.outcomes.finished({{0, number_}, seconds(1), true});
    parts_.outcomes.sandbox_exited({.sandbox = sandbox});
  }
  const scheduling::RunningMean& start() { return parts_.flow(kF).cold_start; }

  Parts parts_;
  int now_ = 0;
  uint64_t number_ = 0;
};

TEST_F(HostStartsTest, CountOneThatWasSlowAsTwiceWhatWasExpected) {
  start_in(2);
  EXPECT_EQ(start().mean(), seconds(2)) << "nothing was expected";
  start_in(40);
  EXPECT_EQ(start().mean(), seconds(3));
  EXPECT_EQ(start().samples(), 2u);
}

TEST_F(HostStartsTest, KnowAFunctionThatHasBecomeSlowAfterSomeStarts) {
  parts_.flow(kF).cold_start = scheduling::RunningMean(seconds(1), 1'000);
  start_in(100);
  EXPECT_LT(start().mean(), milliseconds(1'300)) << "one says little";
  for (int i = 0; i < 29; ++i) start_in(100);
  EXPECT_GT(start().mean(), seconds(70));
}

TEST_F(HostStartsTest, LearnNothingOfASandboxThatWasThere) {
  start_in(2);
  start_in(0, seconds(2));
  EXPECT_EQ(start().mean(), seconds(2));
  EXPECT_EQ(start().samples(), 1u);
}

class OlderHostStartsTest : public HostStartsTest {
 protected:
  OlderHostStartsTest() : HostStartsTest(false) {}
};

TEST_F(OlderHostStartsTest, CountAsTheyDidInJournalsOfBefore) {
  start_in(2);
  start_in(40);
  EXPECT_EQ(start().mean(), seconds(21));
  start_in(0, seconds(2));
  EXPECT_EQ(start().mean(), seconds(14));
}

TEST_F(PlacementsTest, RunTheNextInvocationInTheSandboxOfTheFirst) {
  const SandboxId sandbox = parts_.run_one(1, kF);
  parts_.submit(2, kF);
  ASSERT_TRUE(parts_.dispatch(kF));
  EXPECT_EQ(sandbox_of(2).id, sandbox);
  EXPECT_EQ(parts_.log.counters().warm_starts, 1u);
}

TEST_F(PlacementsTest, TellTheWatcherBeforeTheInvocationLeavesItsQueue) {
  size_t queued = 0;
  parts_.placements.watch([&](InvocationId id, FunctionId function, DeviceId device) {
    EXPECT_EQ(id, (InvocationId{0, 1}));
    EXPECT_EQ(function, kF);
    EXPECT_EQ(device, DeviceId{1});
    queued = parts_.queues.queued();
  });
  parts_.submit(1, kF);
  ASSERT_TRUE(parts_.dispatch(kF));
  EXPECT_EQ(queued, 1u);
}

TEST_F(PlacementsTest, ReturnAnInvocationToItsQueueAsIfItHadHadNoPlace) {
  parts_.submit(1, kF);
  ASSERT_TRUE(parts_.dispatch(kF));
  parts_.at(4);
  parts_.placements.return_to_queue(parts_.pools.gpu, invocation(1).sandbox);
  EXPECT_EQ(invocation(1).state, InvocationState::kQueued);
  EXPECT_EQ(invocation(1).sandbox, scheduling::kNoSandbox);
  EXPECT_EQ(parts_.flow(kF).in_flight, 0u);
  EXPECT_EQ(parts_.flow(kF).pending, 1u);
  EXPECT_EQ(parts_.log.counters().returned, 1u);
}

TEST_F(PlacementsTest, RejectAReturnedInvocationThatMayWaitNoLonger) {
  parts_.submit(1, kF);
  ASSERT_TRUE(parts_.dispatch(kF));
  parts_.admission.start_drain();
  parts_.placements.return_to_queue(parts_.pools.gpu, invocation(1).sandbox);
  EXPECT_FALSE(parts_.queues.find({0, 1}));
  EXPECT_EQ(parts_.got<CompleteInvocation>().size(), 1u);
}

TEST_F(PlacementsTest, RestartARunInItsPlaceUnderANewId) {
  parts_.submit(1, kF);
  ASSERT_TRUE(parts_.dispatch(kF));
  const SandboxId first = sandbox_of(1).id;
  parts_.placements.sandbox_ready({first});
  parts_.placements.restart(parts_.pools.gpu, invocation(1).sandbox);
  EXPECT_NE(sandbox_of(1).id, first);
  EXPECT_EQ(sandbox_of(1).state, SandboxState::kStarting);
  EXPECT_EQ(invocation(1).state, InvocationState::kStarting);
  EXPECT_EQ(parts_.log.counters().cold_starts, 0u) << "the first run was none";
}

TEST_F(PlacementsTest, PutTheInvocationBackIfTheFunctionHasChangedMeanwhile) {
  parts_.submit(1, kF);
  ASSERT_TRUE(parts_.dispatch(kF));
  const SandboxId first = sandbox_of(1).id;
  ++parts_.flow(kF).revision;
  parts_.placements.start_again(parts_.pools.gpu, invocation(1).sandbox);
  EXPECT_EQ(invocation(1).state, InvocationState::kQueued);
  EXPECT_FALSE(parts_.pools.gpu.fleet().find(first));
}

TEST_F(PlacementsTest, DropThePlannedSandboxesThatWhatIsTakenLeavesNoRoomFor) {
  DispatchOptions options = one_gpu(scheduling::MemoryRule::kEverySandbox);
  Parts parts(options);
  parts.add_function(kF, Bytes::gib(10));
  parts.add_function(FunctionId{2}, Bytes::gib(10));
  parts.run_one(1, kF);
  const InvocationSlot slot = parts.submit(2, FunctionId{2});
  ASSERT_TRUE(parts.dispatch(FunctionId{2}));
  ASSERT_EQ(parts.queues[slot].state, InvocationState::kStarting);
  parts.placements.drop_planned_beyond(0);
  EXPECT_EQ(parts.queues[slot].state, InvocationState::kStarting);
  parts.pools.gpu.fleet().set_taken(0, Bytes::gib(7));
  parts.placements.drop_planned_beyond(0);
  EXPECT_EQ(parts.queues[slot].state, InvocationState::kQueued);
}

TEST_F(PlacementsTest, IgnoreAReportOfASandboxThatIsNotStarting) {
  const SandboxId sandbox = parts_.run_one(1, kF);
  parts_.placements.sandbox_ready({sandbox});
  parts_.placements.sandbox_ready({SandboxId{99}});
  EXPECT_EQ(parts_.log.counters().ignored_events, 2u);
}

}  // namespace
}  // namespace lambent::dispatch
