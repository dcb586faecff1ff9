#include "node/worker/testing/executor_testing.h"

namespace lambent::worker {
namespace {

using testing::IsEmpty;

TEST_F(ExecutorHostTest, WithoutAnExecutorAnInstanceFailsAndTheNextOneTriesAgain) {
  launcher.refuses = true;
  start(SandboxId(1), spec, folder.path(), DeviceId(1));
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_EQ(ends[0].error_type, "Sandbox.Failure");
  launcher.refuses = false;
  instance(SandboxId(2));
  EXPECT_EQ(launcher.launches, 2);
}

TEST_F(ExecutorHostTest, AnExecutorIsShownWhereItGetsItsTurnsOnTheLinkForAsLongAsItLives) {
  instance(SandboxId(1));
  const FakeExecutor& executor = launcher.latest();
  EXPECT_THAT(executor.plan.argv, testing::Contains("--link"));
  ASSERT_TRUE(links.contains(executor.id));
  const auto bind = std::find_if(executor.plan.binds.begin(), executor.plan.binds.end(),
                                 [](const auto& each) { return each.sandbox_path == kLinkSocket; });
  ASSERT_NE(bind, executor.plan.binds.end());
  const std::string path = bind->host_path;
  const OwnedFd caller = connect_to(path);
  EXPECT_GE(OwnedFd(accept(links.at(executor.id).get(), nullptr, nullptr)).get(), 0);
  const SandboxId id = executor.id;
  launcher.end(id, {.signal = 9});
  ASSERT_TRUE(turn_until(loop, [&] { return !links.contains(id); }));
  EXPECT_EQ(host->executor_ends().died, 1u);
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

class WithoutTurnsTest : public ExecutorHostTest {
 protected:
  WithoutTurnsTest() { setting.transfers_take_turns = false; }
};

TEST_F(WithoutTurnsTest, AnExecutorCopiesFirstComeFirstServed) {
  instance(SandboxId(1));
  EXPECT_THAT(launcher.latest().plan.argv,
              testing::IsSupersetOf({"--first-come", "--transfer-batch", "0"}));
}

TEST_F(ExecutorHostTest, AKeptExecutorIsThereBeforeItsFirstFunctionAndReplacedWhenItEnds) {
  host->keep(spec, DeviceId(1));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  host->keep(spec, DeviceId(1));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 1);
  launcher.end(launcher.latest().id, {.signal = 9});
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.launches == 2; }));
}

TEST_F(ExecutorHostTest, OneThatNobodyNeedsAnyMoreEndsWithItsLastInstance) {
  host->keep(spec, DeviceId(1));
  instance(SandboxId(1));
  host->drop(spec);
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0);
  host->stop(SandboxId(1), Error{ErrorCode::kCancelled, "retired"}, "Sandbox.Stopped");
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.running.empty(); }));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 1);
}

TEST_F(ExecutorHostTest, OneThatComesToNothingIsNotTriedForFunctionsThatAreGone) {
  launcher.refuses = true;
  host->keep(spec, DeviceId(1));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  host->drop(spec);
  clock.advance(seconds(2));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 1);
}

TEST_F(ExecutorHostTest, OneThatComesToNothingIsTriedAgainWithPauses) {
  launcher.refuses = true;
  host->keep(spec, DeviceId(1));
  for (int i = 0; i < 10; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 1);
  clock.advance(seconds(1));
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.launches == 2; }));
  clock.advance(seconds(1));
  for (int i = 0; i < 10; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 2) << "the next pause is longer";
}

TEST_F(ExecutorHostTest, EachDomainHasItsOwn) {
  instance(SandboxId(1));
  spec.gpu.domain = "vision";
  start(SandboxId(2), spec, folder.path(), DeviceId(1));
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.running.size() == 2; }));
  EXPECT_EQ(hears<protocol::AddInstance>()->instance, SandboxId(2));
  launcher.latest().say(protocol::InstanceReady{SandboxId(2), milliseconds(1)});
  ASSERT_TRUE(turn_until(loop, [&] { return readies.size() == 2; }));
  launcher.end(launcher.latest().id, {.signal = 9});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_EQ(ends[0].sandbox, SandboxId(2)) << "another domain's does not notice";
}

// Memory that goes from buffer to buffer inside an executor is not zeroed.
TEST_F(ExecutorHostTest, TenantsShareNoExecutorWhateverTheirDomainsAreCalled) {
  instance(SandboxId(1));
  FunctionSpec other = spec;
  other.name.tenant = TenantId(spec.name.tenant.value + 1);
  EXPECT_NE(executor_key(spec, DeviceId(1)), executor_key(other, DeviceId(1)));
  start(SandboxId(2), other, folder.path(), DeviceId(1));
  EXPECT_TRUE(turn_until(loop, [&] { return launcher.running.size() == 2; }));
}

TEST_F(ExecutorHostTest, OneThatIsKeptEndsWhenNothingUsedItForLongAndComesBackWhenNeeded) {
  host->keep(spec, DeviceId(1));
  instance(SandboxId(1));
  clock.advance(std::chrono::minutes(11));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0) << "an idle instance is a use";
  host->stop(SandboxId(1), Error{ErrorCode::kCancelled, "retired"}, "Sandbox.Stopped");
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  clock.advance(std::chrono::minutes(9));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0);
  clock.advance(std::chrono::minutes(2));
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.running.empty(); }));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 1);
  instance(SandboxId(2));
  EXPECT_EQ(launcher.launches, 2);
  EXPECT_EQ(host->executor_ends().unused, 1u);
}

class TakenTest : public ExecutorHostTest {
 protected:
  TakenTest() { setting.context_memory = Bytes::mib(400); }
  // Until that much was told to be taken of the first device.
  bool taken_becomes(Bytes bytes) {
    return turn_until(loop, [&] { return taken[DeviceId(1)] == bytes; });
  }
};

TEST_F(TakenTest, AContextCountsFromItsLaunchUntilItsProcessIsGone) {
  launcher.says_hello = false;
  host->keep(spec, DeviceId(1));
  EXPECT_TRUE(taken_becomes(Bytes::mib(400))) << "it may be made at any moment";
  spec.gpu.domain = "vision";
  host->keep(spec, DeviceId(1));
  host->keep(spec, DeviceId(2));
  EXPECT_TRUE(taken_becomes(Bytes::mib(800)));
  EXPECT_EQ(taken[DeviceId(2)], Bytes::mib(400));
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.running.size() == 3; }));
  host->drop(spec);
  EXPECT_EQ(taken[DeviceId(1)], Bytes::mib(800)) << "it was told to go, and has not gone yet";
  EXPECT_TRUE(taken_becomes(Bytes::mib(400)));
  EXPECT_EQ(taken[DeviceId(2)], Bytes(0));
}

TEST_F(TakenTest, OneThatCannotBeStartedTakesNothing) {
  launcher.refuses = true;
  start(SandboxId(1), spec, folder.path(), DeviceId(1));
  EXPECT_EQ(taken[DeviceId(1)], Bytes::mib(400));
  EXPECT_TRUE(taken_becomes(Bytes(0)));
}

TEST_F(TakenTest, WhoMakesWayComesBackWhenItIsNeeded) {
  host->keep(spec, DeviceId(1));
  instance(SandboxId(1));
  host->evict_unused(DeviceId(1));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0) << "an idle instance is a use";
  host->stop(SandboxId(1), Error{ErrorCode::kCancelled, "retired"}, "Sandbox.Stopped");
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  host->evict_unused(DeviceId(1));
  EXPECT_TRUE(taken_becomes(Bytes(0)));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 1) << "it is not started again by itself";
  instance(SandboxId(2));
  EXPECT_EQ(taken[DeviceId(1)], Bytes::mib(400));
}

class RoomTest : public TakenTest {
 protected:
  RoomTest() { asks_for_room = true; }
  void pass(Duration time) {
    clock.advance(time);
    for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  }
};

TEST_F(RoomTest, AnExecutorIsLaunchedWhenItsContextHasRoom) {
  room = Bytes::mib(300);
  start(SandboxId(1), spec, folder.path(), DeviceId(1));
  EXPECT_EQ(taken[DeviceId(1)], Bytes::mib(400)) << "so that room is made";
  pass(seconds(1));
  EXPECT_EQ(launcher.launches, 0);
  room = Bytes::mib(400);
  pass(seconds(1));
  EXPECT_EQ(launcher.launches, 1);
  EXPECT_TRUE(hears<protocol::AddInstance>().has_value());
}

TEST_F(RoomTest, OneThatFindsNoRoomSaysSoAndIsGone) {
  start(SandboxId(1), spec, folder.path(), DeviceId(1));
  pass(milliseconds(1));
  pass(seconds(9));
  EXPECT_THAT(ends, IsEmpty()) << "its function may run for 30 seconds, so may it be started";
  pass(seconds(2));
  pass(milliseconds(20));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].error.code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(ends[0].error_type, "Sandbox.NoRoom");
  EXPECT_THAT(ends[0].error.message, testing::HasSubstr("no room on the device"));
  EXPECT_THAT(ends[0].error.message, testing::HasSubstr("needs 400 MiB"));
  EXPECT_EQ(launcher.launches, 0);
  EXPECT_EQ(taken[DeviceId(1)], Bytes(0));
}

TEST_F(RoomTest, OneThatWaitsForRoomCanBeDropped) {
  host->keep(spec, DeviceId(1));
  pass(milliseconds(20));
  host->drop(spec);
  pass(milliseconds(20));
  pass(milliseconds(20));
  EXPECT_EQ(taken[DeviceId(1)], Bytes(0));
  room = Bytes::gib(1);
  pass(seconds(1));
  EXPECT_EQ(launcher.launches, 0);
}

TEST_F(RoomTest, WhoWaitsLaunchesAlsoWhereAnotherHasNoRoomYet) {
  start(SandboxId(1), spec, folder.path(), DeviceId(1));
  spec.gpu.domain = "vision";
  start(SandboxId(2), spec, folder.path(), DeviceId(1));
  pass(seconds(1));
  EXPECT_EQ(taken[DeviceId(1)], Bytes::mib(800)) << "so that room is made for both";
  room = Bytes::mib(500);
  pass(milliseconds(20));
  pass(milliseconds(20));
  EXPECT_EQ(launcher.launches, 1);
  room = Bytes::mib(800);
  pass(milliseconds(20));
  EXPECT_EQ(launcher.launches, 2);
}

TEST_F(RoomTest, OneThatIsOnlyKeptTakesNothingUntilItHasRoom) {
  room = Bytes::mib(300);
  host->keep(spec, DeviceId(1));
  pass(milliseconds(20));
  EXPECT_EQ(taken[DeviceId(1)], Bytes(0));
  room = Bytes::mib(400);
  spec.gpu.domain = "vision";
  host->keep(spec, DeviceId(1));
  pass(milliseconds(20));
  EXPECT_EQ(launcher.launches, 1) << "either fits by itself";
  EXPECT_EQ(taken[DeviceId(1)], Bytes::mib(400));
}

TEST_F(RoomTest, OneThatIsOnlyKeptGivesUpForOneThatIsNeeded) {
  host->keep(spec, DeviceId(1));
  spec.gpu.domain = "vision";
  start(SandboxId(1), spec, folder.path(), DeviceId(1));
  pass(milliseconds(20));
  room = Bytes::gib(1);
  pass(milliseconds(20));
  pass(milliseconds(20));
  EXPECT_EQ(launcher.launches, 1);
  EXPECT_EQ(hears<protocol::AddInstance>()->instance, SandboxId(1));
}

TEST_F(RoomTest, OneThatNothingUsesMakesWayForOneThatWaits) {
  room = Bytes::mib(500);
  host->keep(spec, DeviceId(1));
  ASSERT_TRUE(turn_until(loop, [&] {
    clock.advance(milliseconds(10));
    return launcher.running.size() == 1;
  }));
  const SandboxId unused = launcher.latest().id;
  spec.gpu.domain = "vision";
  start(SandboxId(1), spec, folder.path(), DeviceId(1));
  room = Bytes::mib(300);
  pass(milliseconds(20));
  EXPECT_TRUE(launcher.running.contains(unused)) << "it would be for nothing";
  room = Bytes::mib(500);
  ASSERT_TRUE(turn_until(loop, [&] {
    clock.advance(milliseconds(10));
    return launcher.launches == 2 && !launcher.running.empty();
  }));
  EXPECT_FALSE(launcher.running.contains(unused));
  EXPECT_EQ(hears<protocol::AddInstance>()->instance, SandboxId(1));
  EXPECT_EQ(taken[DeviceId(1)], Bytes::mib(400));
}

TEST_F(TakenTest, WhatIsAdmittedWhereAnExecutorEndedHasNothingToDoWithItsEnd) {
  instance(SandboxId(1));
  bool is_admitted = false;
  when_taken_changes = [&] {
    if (taken[DeviceId(1)] > Bytes(0) || std::exchange(is_admitted, true)) return;
    start(SandboxId(2), spec, folder.path(), DeviceId(1));
  };
  launcher.end(launcher.latest().id, {.signal = 9});
  ASSERT_TRUE(
      turn_until(loop, [&] { return launcher.launches == 2 && !launcher.running.empty(); }));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].sandbox, SandboxId(1));
  EXPECT_EQ(hears<protocol::AddInstance>()->instance, SandboxId(2));
}

class TakenByCublasTest : public TakenTest {
 protected:
  TakenByCublasTest() { setting.cublas = {"/usr/lib/libcublas.so.12"}; }
};

TEST_F(TakenByCublasTest, EveryInstanceHasMemoryForItsCalls) {
  instance(SandboxId(1));
  EXPECT_EQ(taken[DeviceId(1)], Bytes::mib(404));
  start(SandboxId(2), spec, folder.path(), DeviceId(1));
  EXPECT_EQ(taken[DeviceId(1)], Bytes::mib(408));
  host->stop(SandboxId(1), Error{ErrorCode::kCancelled, "retired"}, "Sandbox.Stopped");
  EXPECT_TRUE(taken_becomes(Bytes::mib(404)));
}

TEST_F(ExecutorHostTest, WhatComesWhileItsExecutorLeavesGetsTheNextOne) {
  host->keep(spec, DeviceId(1));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  host->drop(spec);
  start(SandboxId(1), spec, folder.path(), DeviceId(1));
  ASSERT_TRUE(
      turn_until(loop, [&] { return launcher.launches == 2 && !launcher.running.empty(); }));
  EXPECT_TRUE(hears<protocol::AddInstance>().has_value());
  EXPECT_THAT(ends, IsEmpty());
}

TEST_F(ExecutorHostTest, ADeviceHasThreeWhileItCanBeHelped) {
  const auto in_domain = [this](const char* domain) {
    spec.gpu.domain = domain;
    return spec;
  };
  for (const char* domain : {"a", "b", "c", "d"}) host->keep(in_domain(domain), DeviceId(1));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.launches, 3) << "no fourth ahead of its first use";
  start(SandboxId(1), in_domain("a"), folder.path(), DeviceId(1));
  start(SandboxId(2), in_domain("d"), folder.path(), DeviceId(1));
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.launches == 4; }));
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.running.size() == 3; }));
  EXPECT_EQ(launcher.kills, 1) << "one that nothing used";
  start(SandboxId(3), in_domain("b"), folder.path(), DeviceId(1));
  start(SandboxId(4), in_domain("c"), folder.path(), DeviceId(1));
  for (int i = 0; i < 10; ++i) loop.run_once(Duration(0));
  EXPECT_THAT(ends, IsEmpty()) << "all that are used are let be";
  EXPECT_EQ(launcher.running.size(), 4u);
}

}  // namespace
}  // namespace lambent::worker
