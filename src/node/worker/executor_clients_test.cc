#include "node/worker/testing/executor_testing.h"

namespace lambent::worker {
namespace {

using testing::HasSubstr;

// Ends of a socket and of a pipe stand for a listener and a ledger: what they are is no matter
// here.
class ExecutorClientsTest : public ExecutorHostTest {
 protected:
  void SetUp() override {
    ExecutorHostTest::SetUp();
    spec.kind = FunctionKind::kHandler;
    spec.gpu.runtime = GpuRuntime::kShared;
    spec.gpu.share = 40;
  }
  void add(SandboxId id) {
    host->runtimes().add_client(id, spec, DeviceId(1), memfd_with("listener", false),
                                memfd_with("ledger", false),
                                [this, id](const Error& error, const std::string& error_type) {
                                  lost.emplace_back(id, error);
                                  lost_types.push_back(error_type);
                                });
  }

  std::vector<std::pair<SandboxId, Error>> lost;
  std::vector<std::string> lost_types;
};

TEST_F(ExecutorClientsTest, AreToldToAnExecutorOfTheirDomainWithTheirSocketAndLedger) {
  add(SandboxId(7));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  std::vector<OwnedFd> fds;
  const auto added = hears<protocol::AddClient>(&fds);
  ASSERT_TRUE(added.has_value());
  EXPECT_EQ(*added, (protocol::AddClient{SandboxId(7), Bytes::mib(64), 40}));
  EXPECT_EQ(fds.size(), 2u);
  host->runtimes().remove_client(SandboxId(7));
  EXPECT_EQ(hears<protocol::RemoveClient>()->client, SandboxId(7));
}

class ClientsWithoutRoomTest : public ExecutorClientsTest {
 protected:
  ClientsWithoutRoomTest() {
    asks_for_room = true;
    setting.context_memory = Bytes::mib(400);
  }
};

TEST_F(ClientsWithoutRoomTest, AreToldWhyTheyHaveNoExecutor) {
  add(SandboxId(7));
  ASSERT_TRUE(turn_until(loop, [&] {
    clock.advance(milliseconds(500));
    return lost.size() == 1;
  }));
  EXPECT_EQ(lost[0].second.code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(lost_types[0], "Sandbox.NoRoom");
}

TEST_F(ExecutorClientsTest, HaveAChangedShareWithoutANewStart) {
  add(SandboxId(7));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  ASSERT_TRUE(hears<protocol::AddClient>().has_value());
  host->change_share(spec);  // it has it
  FunctionSpec other = spec;
  other.id = FunctionId(99);
  other.gpu.share = 10;
  host->change_share(other);
  spec.gpu.share = 70;
  host->change_share(spec);
  EXPECT_EQ(*hears<protocol::SetShare>(), (protocol::SetShare{SandboxId(7), 70}));
  EXPECT_TRUE(lost.empty());
}

TEST_F(ExecutorClientsTest, ShareAnExecutorWithKernelFunctions) {
  add(SandboxId(7));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  ASSERT_TRUE(hears<protocol::AddClient>().has_value());
  spec.kind = FunctionKind::kKernel;
  instance(SandboxId(8));
  EXPECT_EQ(launcher.launches, 1);
}

TEST_F(ExecutorClientsTest, LearnThatTheirExecutorEndedAndTheNextOnesGetAnother) {
  add(SandboxId(7));
  add(SandboxId(8));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  ASSERT_TRUE(hears<protocol::AddClient>().has_value());
  launcher.latest().say(protocol::Broken{{ErrorCode::kInternal, "an illegal address"}});
  launcher.end(launcher.latest().id, {.exit_code = 1});
  ASSERT_TRUE(turn_until(loop, [&] { return lost.size() == 2; }));
  EXPECT_THAT(to_string(lost[0].second), HasSubstr("an illegal address"));
  host->runtimes().remove_client(SandboxId(7));
  add(SandboxId(9));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  EXPECT_EQ(hears<protocol::AddClient>()->client, SandboxId(9));
}

TEST_F(ExecutorClientsTest, ABrokenContextIsHeardOfAtOnceAndWhoComesThenWaitsForTheNext) {
  add(SandboxId(7));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  ASSERT_TRUE(hears<protocol::AddClient>().has_value());
  launcher.latest().say(protocol::Broken{{ErrorCode::kInternal, "an illegal address"}});
  ASSERT_TRUE(turn_until(loop, [&] { return lost.size() == 1; }));
  add(SandboxId(8));
  launcher.end(launcher.latest().id, {.exit_code = 1});
  ASSERT_TRUE(
      turn_until(loop, [&] { return launcher.launches == 2 && !launcher.running.empty(); }));
  EXPECT_EQ(hears<protocol::AddClient>()->client, SandboxId(8));
  EXPECT_EQ(lost.size(), 1u);
}

TEST_F(ExecutorClientsTest, WithoutAnExecutorTheyAreLost) {
  launcher.refuses = true;
  add(SandboxId(7));
  ASSERT_TRUE(turn_until(loop, [&] { return lost.size() == 1; }));
}

TEST_F(ExecutorClientsTest, KeepTheirExecutor) {
  host->keep(spec, DeviceId(1));
  add(SandboxId(7));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  ASSERT_TRUE(hears<protocol::AddClient>().has_value());
  clock.advance(std::chrono::minutes(30));
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  EXPECT_EQ(launcher.kills, 0);
  host->runtimes().remove_client(SandboxId(7));
  clock.advance(std::chrono::minutes(11));
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.running.empty(); }));
}

TEST_F(ExecutorClientsTest, AKernelFunctionsRequestIsNotBlamedForAFaultAmongThem) {
  add(SandboxId(7));
  ASSERT_TRUE(turn_until(loop, [&] { return !launcher.running.empty(); }));
  ASSERT_TRUE(hears<protocol::AddClient>().has_value());
  spec.kind = FunctionKind::kKernel;
  instance(SandboxId(8));
  give(SandboxId(8));
  ASSERT_TRUE(hears<protocol::Run>().has_value());
  launcher.latest().say(protocol::Broken{{ErrorCode::kInternal, "an illegal address"}});
  ASSERT_TRUE(turn_until(loop, [&] { return lost.size() == 1; }));
  launcher.end(launcher.latest().id, {.exit_code = 1});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_TRUE(ends[0].undelivered);
}

TEST_F(ExecutorClientsTest, WhatIsGivenToABrokenExecutorComesBack) {
  spec.kind = FunctionKind::kKernel;
  instance(SandboxId(8));
  launcher.latest().say(protocol::Broken{{ErrorCode::kInternal, "an illegal address"}});
  for (int i = 0; i < 5; ++i) loop.run_once(Duration(0));
  give(SandboxId(8));
  EXPECT_FALSE(launcher.latest().hear().has_value());
  launcher.end(launcher.latest().id, {.exit_code = 1});
  ASSERT_TRUE(turn_until(loop, [&] { return ends.size() == 1; }));
  EXPECT_TRUE(ends[0].undelivered);
}

}  // namespace
}  // namespace lambent::worker
