// Functions come, change and go: what a deployment is refused for, and what becomes of sandboxes.
#include "node/worker/testing/worker_testing.h"

namespace lambent::worker {
namespace {

using testing::HasSubstr;

TEST_F(WorkerTest, CodeThatIsNoBase64IsRefusedAndMayBeSentAgain) {
  zip_base64[1] = '*';
  auto refused = await_change([&](auto done) {
    worker->create_function({spec_of("f"), zip_base64}, std::move(done));
  });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("base64"));
  EXPECT_FALSE(worker->find_function({kDefaultTenant, "f"}).ok());
  zip_base64[1] = 'E';
  deploy("f");
  EXPECT_EQ(invoke("f", "1").payload, "1");
}

TEST_F(WorkerTest, AnUpdateRetiresTheIdleSandbox) {
  FunctionSpec spec = deploy("f");
  invoke("f", "{}");
  spec.description = "changed";
  const auto updated = await_change([&](auto done) {
    worker->update_function({spec, ""}, std::move(done));
  });
  ASSERT_TRUE(updated.ok());
  EXPECT_EQ(updated->revision, 2U);
  EXPECT_TRUE(until([&] { return launcher.running.empty(); }));
  const auto result = invoke("f", "{}");
  EXPECT_EQ(result.start, StartClass::kCold);
  EXPECT_EQ(result.revision, 2U);
  // The spec that the first update was made from is no longer the current one.
  const auto stale = await_change([&](auto done) {
    worker->update_function({spec, ""}, std::move(done));
  });
  ASSERT_FALSE(stale.ok());
  EXPECT_EQ(stale.error().code, ErrorCode::kAborted);
}

TEST_F(WorkerTest, RemovingAFunctionRejectsWhatIsQueuedAndLetsTheRunningOneFinish) {
  deploy("f");
  hold_events();
  const auto running = submit("f", "1");
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  const auto second = submit("f", "2");
  const auto third = submit("f", "3");
  ASSERT_TRUE(await_change([&](auto done) {
                worker->remove_function({kDefaultTenant, "f"}, std::move(done));
              }).ok());
  for (const auto& queued : {second, third}) {
    const auto result = await(queued);
    EXPECT_EQ(result.outcome, Outcome::kRejected);
    EXPECT_EQ(result.error->code, ErrorCode::kNotFound);
  }
  EXPECT_EQ(running->answers, 0);
  answer_held(0, "done");
  EXPECT_EQ(await(running).payload, "done");
  EXPECT_TRUE(until([&] { return launcher.running.empty(); }));
  EXPECT_FALSE(worker->find_function({kDefaultTenant, "f"}).ok());
}

TEST_F(WorkerTest, AFunctionWithAGpuHasALedgerAsLongAsItsSandboxLives) {
  FunctionSpec spec = spec_of("g");
  spec.gpu.memory = Bytes::mib(300);
  deploy(spec);
  EXPECT_EQ(invoke("g", "{}").device, DeviceId(1));
  const std::string ledger = folder.path() + "/run/ledger-1";
  EXPECT_TRUE(std::filesystem::exists(ledger));
  launcher.end(SandboxId(1), {.exit_code = 0});
  EXPECT_TRUE(until([&] { return !std::filesystem::exists(ledger); }));

  spec = spec_of("too-large");
  spec.gpu.memory = Bytes::mib(1001);
  const auto refused = await_change([&](auto done) {
    worker->create_function({spec, zip_base64}, std::move(done));
  });
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(WorkerTest, AGpuThatServesOneTenantIsGivenToAnotherOnceNothingOfTheFirstIsLeft) {
  gpu_serves_one_tenant = true;
  start_worker();
  FunctionSpec mine = spec_of("g");
  mine.gpu.memory = Bytes::mib(300);
  FunctionSpec theirs = mine;
  ASSERT_TRUE(await_done([&](auto done) {
                Tenant tenant;
                tenant.name = "other";
                store->put_tenant(tenant, [&theirs, done](Result<Tenant> kept) {
                  theirs.name.tenant = kept->id;
                  done({});
                });
              }).ok());
  const auto create = [&](const FunctionSpec& spec) {
    return await_change([&](auto done) {
      worker->create_function({spec, zip_base64}, std::move(done));
    });
  };
  const auto remove = [&](const FunctionSpec& spec) {
    return await_change([&](auto done) { worker->remove_function(spec.name, std::move(done)); });
  };
  mine = deploy(mine);
  const auto refused = create(theirs);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("serves one tenant only"));
  FunctionSpec without_gpu = theirs;
  without_gpu.gpu = {};
  ASSERT_TRUE(create(without_gpu).ok());
  without_gpu = *worker->find_function(without_gpu.name);
  without_gpu.gpu.memory = Bytes::mib(300);
  EXPECT_EQ(await_change([&](auto done) {
              worker->update_function({without_gpu, ""}, std::move(done));
            })
                .error()
                .code,
            ErrorCode::kFailedPrecondition);
  ASSERT_TRUE(remove(without_gpu).ok());

  hold_events();
  const auto running = submit("g", "1");
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  ASSERT_TRUE(remove(mine).ok());
  const auto early = create(theirs);
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().code, ErrorCode::kUnavailable) << "its process is still there";
  answer_held(0, "done");
  EXPECT_EQ(await(running).payload, "done");
  ASSERT_TRUE(until([&] { return launcher.running.empty(); }));
  EXPECT_TRUE(create(theirs).ok());
  EXPECT_EQ(create(mine).error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(WorkerTest, TheHostServesAFunctionThatNoGpuIsLargeEnoughFor) {
  FunctionSpec spec = spec_of("large");
  spec.gpu.memory = Bytes::gib(2);
  const auto refused = await_change([&](auto done) {
    worker->create_function({spec, zip_base64}, std::move(done));
  });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  spec.cpu_variant = CpuVariant{};
  deploy(spec);
  EXPECT_EQ(invoke("large", "{}").device, DeviceId{}) << "the host's processors";
}

TEST_F(WorkerTest, AFunctionThatTakesTurnsOnAGpuMayRunNoLongerThanTheWorkerLetsIt) {
  longest_gpu_run = seconds(60);
  start_worker();
  FunctionSpec spec = spec_of("long");
  spec.timeout = seconds(61);
  deploy(spec);  // without a GPU it may
  spec.name.name = "gpu";
  spec.gpu.memory = Bytes::mib(100);
  const auto refused = await_change([&](auto done) {
    worker->create_function({spec, zip_base64}, std::move(done));
  });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("61 s"));
  EXPECT_THAT(refused.error().message, HasSubstr("60 s"));
  spec.timeout = seconds(60);
  deploy(spec);

  longest_gpu_run = seconds(20);
  start_worker();
  EXPECT_EQ(worker->find_function(spec.name)->timeout, seconds(20)) << "it was deployed before";
  EXPECT_EQ(worker->find_function({kDefaultTenant, "long"})->timeout, seconds(61));
  EXPECT_TRUE(log.names.contains("function_timeout_capped"));
}

// A package whose pipeline may run there.
std::string pipeline_zip(const std::string& folder, const std::string& isolation) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/bootstrap") << "#!/bin/sh\n";
  std::ofstream(folder + "/pipeline.json") << R"({"pipeline": 1, "handler": "app.App",
      "inputs": ["image"], "outputs": ["blur"], "isolation": ")" +
                                                  isolation +
                                                  R"(", "components": [{"name": "blur",
      "inputs": ["$image"]}]})";
  return base64_encode(archive::make_zip(folder).value());
}

TEST_F(WorkerTest, APipelineThatSharesADeviceIsHeldToTheLongestRunAsWell) {
  FunctionSpec spec = spec_of("app");
  spec.kind = FunctionKind::kPipeline;
  spec.runtime = Runtime::kPython;
  spec.handler = "pipeline.json";
  spec.gpu.memory = Bytes::mib(100);
  spec.timeout = seconds(60);
  for (const char* isolation : {"shared", "auto"}) {
    zip_base64 = pipeline_zip(folder.path() + "/" + isolation, isolation);
    spec.name.name = isolation;
    deploy(spec);
  }
  longest_gpu_run = seconds(20);
  start_worker();
  EXPECT_EQ(worker->find_function({kDefaultTenant, "shared"})->timeout, seconds(20));
  EXPECT_EQ(worker->find_function({kDefaultTenant, "auto"})->timeout, seconds(20))
      << "there are no slices";
  EXPECT_TRUE(log.names.contains("function_timeout_capped"));
}

}  // namespace
}  // namespace lambent::worker
