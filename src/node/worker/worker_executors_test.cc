// Starts that wait for room of executors, as clients see them.
#include "node/worker/testing/worker_testing.h"

namespace lambent::worker {
namespace {

using testing::HasSubstr;

class WorkerWithContextsTest : public WorkerTest {
 protected:
  void SetUp() override {
    context_memory = Bytes::mib(300);
    forward_folder = folder.path();
    WorkerTest::SetUp();
  }
  FunctionSpec on_gpu(const std::string& name, Bytes memory) const {
    FunctionSpec spec = spec_of(name);
    spec.gpu.memory = memory;
    spec.timeout = seconds(30);
    return spec;
  }
  bool launched_an_executor() const {
    return std::ranges::any_of(launcher.plans, [](const sandbox::LaunchPlan& plan) {
      return std::ranges::any_of(
          plan.binds, [](const auto& bind) { return bind.sandbox_path == kExecutorSocket; });
    });
  }
};

TEST_F(WorkerWithContextsTest, AStartWhoseExecutorFindsNoRoomSaysSoBeforeItIsLate) {
  deploy(on_gpu("f", Bytes::mib(500)));
  hold_events();
  const auto runs = submit("f", "1");
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  FunctionSpec client = on_gpu("k", Bytes::mib(200));
  client.gpu.runtime = GpuRuntime::kShared;
  client.timeout = seconds(3);
  deploy(client);
  launcher.init = [](FakeRuntime&) {};  // it waits for its executor
  const auto refused = submit("k", "{}");
  for (int i = 0; i < 5 && refused->answers == 0; ++i) {
    settle();
    clock.advance(seconds(1));
  }
  settle();
  ASSERT_EQ(refused->answers, 1);
  const InvocationResult& result = refused->result();
  EXPECT_EQ(result.outcome, Outcome::kRejected);
  EXPECT_EQ(result.error_type, "Sandbox.NoRoom");
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(result.error->message, HasSubstr("needs 300 MiB"));
  EXPECT_FALSE(launched_an_executor());

  submit("k", "{}");
  settle();
  answer_held(0, "done");
  EXPECT_EQ(await(runs).payload, "done");
  EXPECT_TRUE(in_time([&] { return launched_an_executor(); })) << "it is tried again";
}

TEST_F(WorkerWithContextsTest, WhatNoDeviceCanHoldBesideTheCallsOfAKernelFunctionIsRefused) {
  calls_cublas = true;
  start_worker();
  const auto refusal_of = [&](Bytes memory) {
    FunctionSpec spec = on_gpu("k", memory);
    spec.kind = FunctionKind::kKernel;
    spec.handler = "graph.json";
    return await_change([&](auto done) {
      worker->create_function({std::move(spec), zip_base64}, std::move(done));
    });
  };
  const auto refused = refusal_of(Bytes::mib(697));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("has 696 MiB for a function"));
  const auto fits = refusal_of(Bytes::mib(696));
  ASSERT_FALSE(fits.ok()) << "the package has no graph";
  EXPECT_THAT(fits.error().message, HasSubstr("graph.json"));
}

}  // namespace
}  // namespace lambent::worker
