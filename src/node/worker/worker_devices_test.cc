// How devices are: what is lost, sick, silent, drained or busy gets no new work, and says why.
#include "node/worker/testing/worker_testing.h"

namespace lambent::worker {
namespace {

using testing::HasSubstr;

TEST_F(WorkerTest, ALostDeviceLosesItsSandboxesAndServesAgainOnceItIsBack) {
  FunctionSpec spec = spec_of("g");
  spec.gpu.memory = Bytes::mib(300);
  deploy(spec);
  invoke("g", "{}");
  EXPECT_EQ(launcher.running.size(), 1u);

  worker->devices().device_reading({.index = 0, .health = protocol::DeviceHealth::kLost});
  EXPECT_TRUE(until([&] { return launcher.running.empty(); }));
  const auto waiting = submit("g", "{}");
  settle();
  EXPECT_EQ(waiting->answers, 0);
  worker->status().update_gauges();
  EXPECT_NE(counts.text().find("lambent_gpu_healthy{gpu=\"0\"} 0"), std::string::npos)
      << counts.text();

  worker->devices().device_reading({.index = 0});
  const InvocationResult result = await(waiting);
  EXPECT_EQ(result.start, StartClass::kCold);
  EXPECT_EQ(result.wait_reason, "no_device");
  EXPECT_TRUE(log.names.contains("gpu_sick"));
  EXPECT_TRUE(log.names.contains("gpu_well"));
}

TEST_F(WorkerTest, ASilentMonitorMeansNoNewWorkAndAMissingReadingALostDevice) {
  FunctionSpec spec = spec_of("g");
  spec.gpu.memory = Bytes::mib(300);
  deploy(spec);
  invoke("g", "{}");
  worker->devices().devices_silent();
  EXPECT_THAT(worker->status().devices_json(), HasSubstr("\"state\":\"silent\""));
  const auto waiting = submit("g", "{}");
  settle();
  EXPECT_EQ(waiting->answers, 0);
  EXPECT_EQ(launcher.running.size(), 1u) << "its sandbox stays";
  worker->devices().devices_read({{.index = 0}});
  EXPECT_EQ(await(waiting).outcome, Outcome::kSucceeded);

  worker->devices().devices_read({});
  EXPECT_THAT(worker->status().devices_json(), HasSubstr("\"state\":\"lost\""));
  EXPECT_TRUE(until([&] { return launcher.running.empty(); }));
  worker->devices().devices_silent();
  EXPECT_THAT(worker->status().devices_json(), HasSubstr("\"state\":\"lost\""));
  worker->devices().devices_read({{.index = 0}});
  EXPECT_THAT(worker->status().devices_json(), HasSubstr("\"state\":\"healthy\""));
}

TEST_F(WorkerTest, ASickDeviceLetsWhatRunsEndAndStopsWhatIsIdle) {
  FunctionSpec spec = spec_of("g");
  spec.gpu.memory = Bytes::mib(300);
  deploy(spec);
  spec.name.name = "idle";
  deploy(spec);
  invoke("idle", "{}");
  const auto answers = launcher.script;
  hold_events();
  const auto running = submit("g", "{}");
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  ASSERT_EQ(launcher.running.size(), 2u);

  worker->devices().devices_faulted({{0, 31, protocol::FaultGravity::kApplication, "page fault"}});
  settle();
  EXPECT_EQ(launcher.running.size(), 2u) << "what a function did wrong drains nothing";
  worker->devices().devices_faulted(
      {{0, 48, protocol::FaultGravity::kDevice, "double-bit ECC error"}});
  EXPECT_TRUE(until([&] { return launcher.running.size() == 1; })) << "the idle one goes";
  const auto waiting = submit("idle", "{}");
  answer_held(0, "done");
  EXPECT_EQ(await(running).payload, "done");
  EXPECT_TRUE(until([&] { return launcher.running.empty(); })) << "and the other after its run";
  settle();
  EXPECT_EQ(waiting->answers, 0);

  const std::string devices = worker->status().devices_json();
  EXPECT_THAT(devices, HasSubstr("\"state\":\"drained\""));
  EXPECT_THAT(devices, HasSubstr("\"reason\":\"Xid 48: double-bit ECC error\""));
  worker->status().update_gauges();
  EXPECT_THAT(counts.text(), HasSubstr("lambent_gpu_healthy{gpu=\"0\"} 0"));
  EXPECT_THAT(counts.text(), HasSubstr("lambent_gpu_xid_errors_total{gpu=\"0\",xid=\"31\"} 1"));
  EXPECT_TRUE(log.names.contains("gpu_application_error"));
  EXPECT_TRUE(log.names.contains("gpu_sick"));

  launcher.script = answers;
  EXPECT_TRUE(undrain("0").ok());
  EXPECT_EQ(await(waiting).start, StartClass::kCold);
  EXPECT_THAT(worker->status().devices_json(), HasSubstr("\"state\":\"healthy\""));
}

TEST_F(WorkerTest, TheOperatorDrainsDevicesByNameAndAWrongNameSaysWhichThereAre) {
  EXPECT_TRUE(drain("GPU-12345678", "new fan").ok());
  EXPECT_THAT(worker->status().devices_json(), HasSubstr("by the operator: new fan"));
  EXPECT_TRUE(undrain("0").ok());
  const auto unknown = drain("7", "");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(unknown.error().message, HasSubstr("there are 0"));
  worker->devices().device_reading({.index = 0, .health = protocol::DeviceHealth::kLost});
  EXPECT_EQ(undrain("0").error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(WorkerTest, WhatIsHeldAgainstADeviceAndWhatWasAcceptedOutliveTheWorker) {
  const auto status = [&] { return worker->status().devices_json(); };
  EXPECT_TRUE(drain("0", "new fan").ok());
  start_worker();
  EXPECT_THAT(status(), HasSubstr("by the operator: new fan"));
  worker->devices().device_reading({.uncorrected_errors = 2});
  EXPECT_TRUE(undrain("0").ok());
  start_worker();
  EXPECT_THAT(status(), HasSubstr("\"state\":\"healthy\""));
  worker->devices().device_reading({.uncorrected_errors = 2});
  EXPECT_THAT(status(), HasSubstr("\"state\":\"healthy\"")) << "so many were accepted";
  worker->devices().devices_faulted({{0, 119, protocol::FaultGravity::kDevice, "no answer"}});
  start_worker();
  EXPECT_THAT(status(), HasSubstr("Xid 119: no answer"));
  worker->devices().device_reading({.uncorrected_errors = 2});
  EXPECT_THAT(status(), HasSubstr("\"state\":\"drained\"")) << "it was not reset";
  worker->devices().device_reading({.uncorrected_errors = 0});
  EXPECT_THAT(status(), HasSubstr("\"state\":\"healthy\"")) << "now it was";
}

TEST_F(WorkerTest, ADeviceTakesMoreWhileItsUtilisationIsLowAndNoMoreWhenItIsHigh) {
  by_utilisation = scheduling::UtilisationOptions{.threshold = 0.9, .most = 3};
  start_worker();
  for (const char* name : {"a", "b", "c", "d"}) {
    FunctionSpec spec = spec_of(name);
    spec.gpu.memory = Bytes::mib(100);
    deploy(spec);
  }
  hold_events();
  const auto reads = [&](uint8_t busy) {
    worker->devices().device_reading({.busy_percent = busy});
  };
  reads(95);
  std::vector<std::shared_ptr<Submission>> all;
  for (const char* name : {"a", "b", "c", "d"}) all.push_back(submit(name, "{}"));
  settle();
  EXPECT_TRUE(until([&] { return held.size() == 1; }));
  settle();
  EXPECT_EQ(held.size(), 1u) << "one may always run";
  EXPECT_THAT(worker->status().devices_json(), HasSubstr("\"tokens\":1"));
  EXPECT_THAT(worker->status().devices_json(), HasSubstr("\"tokens_by\":\"utilization\""));

  reads(60);
  EXPECT_TRUE(until([&] { return held.size() == 2; }));
  settle();
  EXPECT_EQ(held.size(), 2u) << "60 % and a third for the one that was begun are over 90 %";
  reads(10);
  EXPECT_TRUE(until([&] { return held.size() == 3; }));
  reads(0);
  settle();
  EXPECT_EQ(held.size(), 3u) << "never more than the most";
  worker->status().update_gauges();
  EXPECT_THAT(counts.text(), HasSubstr("lambent_gpu_tokens{gpu=\"0\",kind=\"all\"} 3"));

  answer_held(0, "1");
  EXPECT_TRUE(until([&] { return held.size() == 4; }));
  for (size_t i = 1; i < 4; ++i) answer_held(i, "1");
  for (const auto& each : all) await(each);
}

}  // namespace
}  // namespace lambent::worker
