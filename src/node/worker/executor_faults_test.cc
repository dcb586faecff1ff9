// What becomes of instances when their executor crashes, breaks, hangs or is killed: who did it is
// told, all others start again.
#include "node/worker/testing/executor_testing.h"

namespace lambent::worker {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class ExecutorFaultsTest : public ExecutorHostTest {
 protected:
  // Instances 1 and 2, each with an invocation.
  void two_run() {
    for (const uint64_t id : {1, 2}) instance(SandboxId(id));
    for (const uint64_t id : {1, 2}) give(SandboxId(id));
  }
  // The same invocations in instances 3 and 4 of another executor.
  void the_two_run_again() {
    for (const uint64_t id : {3, 4}) instance(SandboxId(id));
    for (const uint64_t id : {1, 2}) {
      InvocationRequest request;
      request.id = {9, id};
      host->deliver(SandboxId(id + 2), request, seconds(3));
    }
  }
};

TEST_F(ExecutorFaultsTest, ACrashFailsWhatRanAloneAndNothingElse) {
  instance(SandboxId(1));
  instance(SandboxId(2));
  give(SandboxId(1));
  launcher.end(launcher.latest().id, {.signal = 11});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_EQ(ends[0].sandbox, SandboxId(1));
  EXPECT_FALSE(ends[0].undelivered);
  EXPECT_THAT(ends[0].payload, HasSubstr("signal 11"));
  EXPECT_EQ(ends[0].error_type, "Kernel.Fault");
  EXPECT_EQ(ends[1].error_type, "Sandbox.Failure") << "an idle one is started again when needed";
}

TEST_F(ExecutorFaultsTest, WhatRanInAnExecutorThatSomebodyKilledStartsAgain) {
  instance(SandboxId(1));
  give(SandboxId(1));
  launcher.end(launcher.latest().id, {.signal = 9});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_TRUE(ends[0].undelivered);
}

TEST_F(ExecutorFaultsTest, OfSeveralThatRanInACrashAllStartAgain) {
  two_run();
  launcher.end(launcher.latest().id, {.signal = 11});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_TRUE(ends[0].undelivered && ends[1].undelivered);

  // Again, each runs by itself; and so it shows who it was.
  the_two_run_again();
  auto run = hears<protocol::Run>();
  ASSERT_TRUE(run && run->instance == SandboxId(3));
  loop.run_once(Duration(0));
  EXPECT_FALSE(launcher.latest().hear().has_value()) << "the other waits";
  launcher.latest().say(finished({9, 1}));
  run = hears<protocol::Run>();
  ASSERT_TRUE(run && run->instance == SandboxId(4));
  launcher.end(launcher.latest().id, {.signal = 11});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 4; }));
  EXPECT_THAT(answers, SizeIs(1));
  EXPECT_EQ(ends[3].sandbox, SandboxId(4));
  EXPECT_EQ(ends[3].error_type, "Kernel.Fault");
  EXPECT_FALSE(ends[3].undelivered);
}

TEST_F(ExecutorFaultsTest, ASuspectRunsOnceTheOneBeforeItWasStoppedAndHasEnded) {
  two_run();
  launcher.end(launcher.latest().id, {.signal = 11});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  the_two_run_again();
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  host->stop(SandboxId(3), Error{ErrorCode::kDeadlineExceeded, "too long"}, "Sandbox.Timeout");
  ASSERT_TRUE(hears<protocol::RemoveInstance>().has_value());
  launcher.latest().say(finished({9, 1}));
  const auto run = hears<protocol::Run>();
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->instance, SandboxId(4));
}

TEST_F(ExecutorFaultsTest, WhoAskedForAnObjectThatHadFailedIsNotTakenToHaveBrokenAnything) {
  two_run();
  auto unlucky = finished({9, 1});
  unlucky.error = Error{ErrorCode::kInternal, "inputs[0]: function 'f' failed: a kernel faulted"};
  unlucky.subject = protocol::ErrorSubject::kFailedInput;
  launcher.latest().say(unlucky);
  ASSERT_TRUE(turn_until(loop, [&] { return answers.size() == 1; }));
  EXPECT_EQ(answers[0].error_type, "Object.Failed");
  // So the one that runs by itself when it crashes is the one.
  launcher.end(launcher.latest().id, {.signal = 11});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_EQ(ends[1].sandbox, SandboxId(2));
  EXPECT_FALSE(ends[1].undelivered);
  EXPECT_EQ(ends[1].error_type, "Kernel.Fault");
}

TEST_F(ExecutorFaultsTest, OneThatIsBeingStoppedMayHaveBrokenItToo) {
  two_run();
  host->stop(SandboxId(1), Error{ErrorCode::kDeadlineExceeded, "too long"}, "Sandbox.Timeout");
  launcher.latest().say(protocol::Broken{{ErrorCode::kInternal, "an illegal address"}});
  launcher.end(launcher.latest().id, {.exit_code = 1});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_EQ(ends[0].error_type, "Sandbox.Timeout");
  EXPECT_TRUE(ends[1].undelivered);
}

TEST_F(ExecutorFaultsTest, OneThatHangsUpIsAsOneThatCrashes) {
  two_run();
  launcher.latest().socket.reset();
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_THAT(ends, IsEmpty()) << "the launcher may say how it ended";
  clock.advance(seconds(1));
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_TRUE(ends[0].undelivered && ends[1].undelivered);
  the_two_run_again();
  EXPECT_TRUE(hears<protocol::Run>().has_value());
  loop.run_once(Duration(0));
  EXPECT_FALSE(launcher.latest().hear().has_value()) << "each runs by itself now";
}

TEST_F(ExecutorFaultsTest, WhenItCannotSayWhoBrokeItAllStartAgain) {
  two_run();
  launcher.latest().say(protocol::Broken{{ErrorCode::kInternal, "an illegal address"}});
  launcher.end(launcher.latest().id, {.exit_code = 1});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_TRUE(ends[0].undelivered && ends[1].undelivered);
  EXPECT_EQ(host->executor_ends().fault, 1u);
}

TEST_F(ExecutorFaultsTest, WhoBrokeTheContextIsToldAndTheOthersStartAgain) {
  instance(SandboxId(1));
  instance(SandboxId(2));
  auto blamed = finished(give(SandboxId(1)));
  give(SandboxId(2));
  blamed.error = Error{ErrorCode::kInternal, "kernel scatter: an illegal address"};
  launcher.latest().say(blamed);
  launcher.latest().say(protocol::Broken{*blamed.error});
  launcher.end(launcher.latest().id, {.exit_code = 1});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_THAT(answers[0].payload, HasSubstr("an illegal address"));
  EXPECT_FALSE(ends[0].undelivered) << "it was idle by then";
  EXPECT_TRUE(ends[1].undelivered);
}

TEST_F(ExecutorFaultsTest, AHungKernelCostsItsExecutorAndTheOthersStartAgain) {
  two_run();
  host->stop(SandboxId(1), Error{ErrorCode::kDeadlineExceeded, "too long"}, "Sandbox.Timeout");
  loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0);
  clock.advance(seconds(1));
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_EQ(launcher.kills, 1);
  EXPECT_EQ(ends[0].error_type, "Sandbox.Timeout");
  EXPECT_FALSE(ends[0].undelivered);
  EXPECT_TRUE(ends[1].undelivered);
  EXPECT_EQ(host->executor_ends().hang, 1u);
}

TEST_F(ExecutorFaultsTest, StoppingWhatWasNeverSentLeavesTheExecutorAlone) {
  host->keep(spec, DeviceId(1));
  instance(SandboxId(1));
  host->move_memory_out(SandboxId(1), protocol::MemoryMoveDepth::kMemory);
  give(SandboxId(1));
  host->stop(SandboxId(1), Error{ErrorCode::kDeadlineExceeded, "its memory did not come"},
             "Sandbox.Failure");
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  clock.advance(seconds(1));
  loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0);
}

TEST_F(ExecutorFaultsTest, ACrashWhileAnInstanceIsMadeIsNotBlamedOnWhatRuns) {
  instance(SandboxId(1));
  give(SandboxId(1));
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  start(SandboxId(2), spec, folder.path(), DeviceId(1));
  ASSERT_TRUE(hears<protocol::AddInstance>().has_value());
  launcher.end(launcher.latest().id, {.signal = 11});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_TRUE(ends[0].undelivered);
  EXPECT_EQ(ends[1].error_type, "Sandbox.Failure");
}

TEST_F(ExecutorFaultsTest, WhoBreaksTheContextIsNotWhoWasBeingLetIn) {
  instance(SandboxId(1));
  auto blamed = finished(give(SandboxId(1)));
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  start(SandboxId(2), spec, folder.path(), DeviceId(1));
  ASSERT_TRUE(hears<protocol::AddInstance>().has_value());
  blamed.error = Error{ErrorCode::kInternal, "kernel scatter: an illegal address"};
  launcher.latest().say(blamed);
  launcher.latest().say(protocol::Broken{*blamed.error});
  launcher.end(launcher.latest().id, {.exit_code = 1});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 2; }));
  EXPECT_EQ(ends[1].sandbox, SandboxId(2));
  EXPECT_EQ(ends[1].error_type, "Sandbox.Failure");
  EXPECT_TRUE(ends[1].undelivered);
}

TEST_F(ExecutorFaultsTest, WhatEndsInTimeWhenItIsStoppedLeavesTheExecutorAlone) {
  host->keep(spec, DeviceId(1));
  instance(SandboxId(1));
  const InvocationId id = give(SandboxId(1));
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  host->stop(SandboxId(1), Error{ErrorCode::kDeadlineExceeded, "too long"}, "Sandbox.Timeout");
  EXPECT_TRUE(hears<protocol::RemoveInstance>().has_value()) << "a loop is told to end";
  launcher.latest().say(finished(id));
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_THAT(answers, IsEmpty());
  clock.advance(seconds(1));
  loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0);
}

}  // namespace
}  // namespace lambent::worker
