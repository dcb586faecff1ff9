#include "sim/simulator/workload_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "decide/scheduling/make_policy.h"

namespace lambent::simulator {
namespace {

workload::CatalogueEntry entry(double warm_s, double cold_s) {
  workload::CatalogueEntry made;
  made.name = "some";
  made.gpu_warm_s = warm_s;
  made.gpu_cold_s = cold_s;
  made.device_memory = Bytes::mib(500);
  return made;
}

class WorkloadRun : public testing::Test {
 protected:
  WorkloadRun() {
    options.dispatch.fleet.devices.push_back({.id = DeviceId{1}, .memory = Bytes::gib(16)});
    options.sandbox_time = milliseconds(100);
    trace.functions = {{.name = "a"}, {.name = "b"}};
  }
  WorkloadRunTotals run(std::vector<workload::Arrival> arrivals) {
    return run(workload::source_of(std::move(arrivals))).value();
  }
  Result<WorkloadRunTotals> run(std::unique_ptr<workload::ArrivalSource> arrivals) {
    trace.arrivals = std::move(arrivals);
    auto policy = scheduling::make_policy("mqfq-sticky");
    return run_workload(trace, {entry(1, 3), entry(0.5, 0.5)}, options, std::move(policy).value(),
                        sinks);
  }

  workload::Trace trace;
  WorkloadRunOptions options;
  WorkloadRunSinks sinks;
};

TEST_F(WorkloadRun, TheFirstInvocationIsColdAndTheNextIsWarm) {
  std::vector<workload::RunRecord> records;
  sinks.record = [&](const workload::RunRecord& record) { records.push_back(record); };
  const auto totals = run({{seconds(0), 0}, {seconds(10), 0}});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].sample.start, StartClass::kCold);
  EXPECT_NEAR(records[0].sample.latency_s, 0.1 + 2 + 1, 1e-6);
  EXPECT_EQ(records[1].sample.start, StartClass::kWarm);
  EXPECT_NEAR(records[1].sample.latency_s, 1, 1e-6);
  EXPECT_NEAR(records[1].at_s, 10, 1e-6);
  EXPECT_EQ(totals.invocations, 2u);
  EXPECT_NEAR(totals.elapsed_s, 11, 1e-6);
  EXPECT_NEAR(totals.summary.cold_ratio, 0.5, 1e-9);
}

TEST_F(WorkloadRun, AnInvocationRunsAsLongAsItsTraceSays) {
  std::vector<workload::RunRecord> records;
  sinks.record = [&](const workload::RunRecord& record) { records.push_back(record); };
  const auto totals = run({{seconds(0), 0, 4.0F}, {seconds(20), 0, 0.25F}, {seconds(40), 0}});
  ASSERT_EQ(records.size(), 3u);
  EXPECT_NEAR(records[0].sample.run_s, 4, 1e-6);
  EXPECT_NEAR(records[1].sample.latency_s, 0.25, 1e-6);
  EXPECT_NEAR(records[2].sample.latency_s, 1, 1e-6) << "of which it says nothing";
  ASSERT_TRUE(totals.summary.least_mean_s.has_value());
  EXPECT_NEAR(*totals.summary.least_mean_s, 5.25 / 3, 1e-6);
}

TEST_F(WorkloadRun, AFunctionMayTakeSeveralDevices) {
  options.dispatch.fleet.devices.push_back({.id = DeviceId{2}, .memory = Bytes::gib(16)});
  for (auto& device : options.dispatch.fleet.devices) device.tokens = 1;
  const auto run_pair = [&](std::string_view with) {
    trace.arrivals = workload::source_of({{seconds(0), 0}, {seconds(0), 1}, {seconds(5), 0}});
    std::vector<workload::CatalogueEntry> entries{entry(1, 3), entry(0.5, 0.5)};
    entries[0].gpu_count = 2;
    return run_workload(trace, entries, options, std::move(scheduling::make_policy(with)).value(),
                        sinks);
  };
  std::vector<workload::RunRecord> records;
  sinks.record = [&](const workload::RunRecord& record) { records.push_back(record); };
  ASSERT_TRUE(run_pair("density").ok());
  ASSERT_EQ(records.size(), 3u);
  EXPECT_NEAR(records[0].sample.latency_s, 3.1, 1e-6);
  EXPECT_NEAR(records[1].sample.latency_s, 3.1 + 0.6, 1e-6) << "both were taken";
  EXPECT_NEAR(records[2].sample.latency_s, 1, 1e-6);

  // What cannot be is told before anything runs.
  const auto refused = run_pair("exclusive");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("function 'a' takes 2 GPUs together"), std::string::npos)
      << refused.error().message;
  options.dispatch.fleet.devices.pop_back();
  const auto too_few = run_pair("density");
  ASSERT_FALSE(too_few.ok());
  EXPECT_EQ(too_few.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(too_few.error().message.find("there are 1 with"), std::string::npos)
      << too_few.error().message;
}

TEST_F(WorkloadRun, ASandboxMayTakeSeveralInvocationsAtOnce) {
  options.dispatch.fleet.devices[0].tokens = 1;
  std::vector<workload::RunRecord> records;
  sinks.record = [&](const workload::RunRecord& record) { records.push_back(record); };
  const auto ends_of = [&](unsigned concurrency) {
    records.clear();
    // A start, and four calls once it is warm, on a device that gives one function a turn.
    trace.arrivals = workload::source_of(
        {{seconds(0), 0}, {seconds(10), 0}, {seconds(10), 0}, {seconds(10), 0}, {seconds(10), 0}});
    std::vector<workload::CatalogueEntry> entries{entry(1, 3), entry(0.5, 0.5)};
    entries[0].concurrency = concurrency;
    EXPECT_TRUE(run_workload(trace, entries, options,
                             std::move(scheduling::make_policy("mqfq-sticky")).value(), sinks)
                    .ok());
    std::vector<double> took;
    for (const workload::RunRecord& record : records) took.push_back(record.sample.latency_s);
    std::sort(took.begin() + 1, took.end());
    return took;
  };
  using testing::DoubleNear;
  using testing::ElementsAre;
  const auto near = [](double s) { return DoubleNear(s, 1e-6); };
  EXPECT_THAT(ends_of(1), ElementsAre(near(3.1), near(1), near(2), near(3), near(4)));
  // Each that runs beside another costs it a fifth, as calls of other sandboxes do.
  EXPECT_THAT(ends_of(2), ElementsAre(near(3.1), near(1.2), near(1.2), near(2.4), near(2.4)));
  EXPECT_THAT(ends_of(4), ElementsAre(near(3.1), near(1.6), near(1.6), near(1.6), near(1.6)));
}

TEST_F(WorkloadRun, EveryArrivalHasOneOutcomeInItsFunctionsRow) {
  std::vector<workload::Arrival> arrivals;
  for (int i = 0; i < 300; i++) arrivals.push_back({milliseconds(700 * i), i % 3 == 0 ? 1u : 0u});
  const auto totals = run(arrivals);
  EXPECT_EQ(totals.invocations, 300u);
  ASSERT_EQ(totals.summary.functions.size(), 2u);
  EXPECT_EQ(totals.summary.functions[0].count, 200u);
  EXPECT_EQ(totals.summary.functions[1].count, 100u);
  EXPECT_GT(totals.utilisation, 0.5);
  EXPECT_LE(totals.utilisation, 1.0);
}

TEST_F(WorkloadRun, ReadingsSayHowBusyTheDevicesWere) {
  options.reading_period = seconds(1);
  std::vector<workload::RunReading> readings;
  sinks.reading = [&](const workload::RunReading& reading) { readings.push_back(reading); };
  std::vector<workload::Arrival> arrivals;
  for (int i = 0; i < 20; i++) arrivals.push_back({seconds(2 * i), 0});
  run(arrivals);
  ASSERT_GE(readings.size(), 10u);
  EXPECT_NEAR(*readings.back().utilisation, 0.5, 0.1);
}

class FailingSource final : public workload::ArrivalSource {
 public:
  std::optional<workload::Arrival> next() override {
    if (given_++ < 2) return workload::Arrival{seconds(given_), 0};
    return std::nullopt;
  }
  std::optional<Error> failure() const override {
    return Error{ErrorCode::kAborted, "another program wrote to it"};
  }

 private:
  int given_ = 0;
};

TEST_F(WorkloadRun, HasNoLowerMeanThanAnyOrderCouldHave) {
  std::vector<workload::Arrival> arrivals;
  for (int i = 0; i < 300; i++) arrivals.push_back({milliseconds(600 * i), i % 3 == 0 ? 1u : 0u});
  options.dispatch.longest_wait = seconds(1'000'000);
  for (const double slowdown : {0.0, 0.2, 1.2}) {
    options.device.slowdown = slowdown;
    const auto totals = run(arrivals);
    ASSERT_TRUE(totals.summary.least_mean_s);
    EXPECT_GE(*totals.summary.least_mean_s, (200 * 1 + 100 * 0.5) / 300);
    EXPECT_GE(totals.summary.mean_s, *totals.summary.least_mean_s);
  }
}

TEST_F(WorkloadRun, HasNoLeastMeanWhereSomeAreRefused) {
  options.dispatch.queued_per_function = 1;
  const auto totals = run({{seconds(0), 0}, {seconds(0), 0}, {seconds(0), 0}, {seconds(0), 0}});
  EXPECT_FALSE(totals.summary.least_mean_s);
}

TEST_F(WorkloadRun, OfArrivalsThatFailIsNoResult) {
  const auto totals = run(std::make_unique<FailingSource>());
  ASSERT_FALSE(totals.ok());
  EXPECT_EQ(totals.error().code, ErrorCode::kAborted);
}

TEST_F(WorkloadRun, WhatTheWorldRefusesIsARejectedRecord) {
  options.dispatch.queued_per_function = 1;
  std::vector<workload::RunRecord> records;
  sinks.record = [&](const workload::RunRecord& record) { records.push_back(record); };
  run({{seconds(0), 0}, {seconds(0), 0}, {seconds(0), 0}, {seconds(0), 0}});
  ASSERT_EQ(records.size(), 4u);
  int rejected = 0;
  for (const auto& record : records) {
    if (record.outcome != workload::RunOutcome::kRejected) continue;
    rejected++;
    EXPECT_EQ(record.error, "RESOURCE_EXHAUSTED");
    EXPECT_FALSE(record.sample.succeeded);
  }
  EXPECT_GE(rejected, 1);
}

// Runs in phases. Two functions of 1 s each: 0.4 s on the host, 0.6 s in kernels, in one round.
class PhasesRun : public testing::Test {
 protected:
  PhasesRun() {
    options.dispatch.fleet.devices.push_back({.id = DeviceId{1}, .memory = Bytes::gib(16)});
    options.sandbox_time = Duration(0);
    options.device.slowdown = 1;
    options.phases.emplace();
    trace.functions = {{.name = "a"}, {.name = "b"}};
    one = entry(1, 1);
    one.phases = workload::Phases{
        .host_s = 0.4, .kernel_s = 0.6, .device = "V100", .link_bytes_per_second = 10e9};
  }
  WorkloadRunTotals run(std::vector<workload::Arrival> arrivals) {
    trace.arrivals = workload::source_of(std::move(arrivals));
    sinks.record = [&](const workload::RunRecord& record) {
      latencies_s.push_back(record.sample.latency_s);
    };
    return run_workload(trace, {one, one}, options,
                        std::move(scheduling::make_policy("fcfs")).value(), sinks)
        .value();
  }

  workload::Trace trace;
  workload::CatalogueEntry one;
  WorkloadRunOptions options;
  WorkloadRunSinks sinks;
  std::vector<double> latencies_s;
};

TEST_F(PhasesRun, OneByItselfTakesItsTimeAndTheDeviceIsBusyForItsKernels) {
  const auto totals = run({{seconds(0), 0}});
  EXPECT_NEAR(latencies_s.at(0), 1, 1e-6);
  EXPECT_NEAR(totals.utilisation, 0.6, 1e-6);
  EXPECT_NEAR(*totals.summary.least_mean_s, 1, 1e-6);
}

TEST_F(PhasesRun, KernelsTakeTurnsAndTheHostDoesNot) {
  // Both are on the host for 0.4 s; then each kernel takes twice as long beside the other.
  run({{seconds(0), 0}, {seconds(0), 1}});
  EXPECT_NEAR(latencies_s.at(0), 1.6, 1e-6);
  EXPECT_NEAR(latencies_s.at(1), 1.6, 1e-6);
}

TEST_F(PhasesRun, ThatAreOffsetByAKernelAreNotInEachOthersWay) {
  one.phases->host_s = 0.6;
  one.phases->kernel_s = 0.4;
  run({{seconds(0), 0}, {milliseconds(400), 1}});
  EXPECT_NEAR(latencies_s.at(0), 1, 1e-6);
  EXPECT_NEAR(latencies_s.at(1), 1, 1e-6);
}

TEST_F(PhasesRun, SideBySideOnlyWhatDoesNotFitSlowsDown) {
  options.device.slowdown = 0;
  options.device.sharing = Sharing::kSideBySide;
  one.phases->occupancy = 0.5;
  run({{seconds(0), 0}, {seconds(0), 1}});
  EXPECT_NEAR(latencies_s.at(0), 1, 1e-6);
  EXPECT_NEAR(latencies_s.at(1), 1, 1e-6);
}

TEST_F(PhasesRun, CopiesShareTheLink) {
  options.device.link_bytes_per_second = 10e9;
  one.phases->copy_in = Bytes(4'000'000'000);
  one.phases->host_s = 0;
  run({{seconds(0), 0}, {seconds(0), 1}});
  // 0.4 s of copies at half the speed, then kernels in turns.
  EXPECT_NEAR(latencies_s.at(0), 0.8 + 1.2, 1e-6);
}

TEST_F(PhasesRun, RoundsAreGoneThroughOneByOne) {
  one.phases->rounds = 4;
  const auto totals = run({{seconds(0), 0}});
  EXPECT_NEAR(latencies_s.at(0), 1, 1e-6);
  EXPECT_NEAR(totals.utilisation, 0.6, 1e-6);
  // Two that begin together meet in the kernels of each round.
  latencies_s.clear();
  run({{seconds(0), 0}, {seconds(0), 1}});
  EXPECT_NEAR(latencies_s.at(0), 1.6, 1e-6);
}

TEST_F(PhasesRun, NoMeanIsBelowTheBound) {
  std::vector<workload::Arrival> arrivals;
  for (int i = 0; i < 200; ++i) arrivals.push_back({milliseconds(650 * i), i % 2 == 0 ? 0u : 1u});
  for (const Sharing sharing : {Sharing::kTurns, Sharing::kSideBySide}) {
    options.device.sharing = sharing;
    options.device.slowdown = sharing == Sharing::kTurns ? 1 : 0;
    const auto totals = run(arrivals);
    EXPECT_LE(*totals.summary.least_mean_s, totals.summary.mean_s);
    EXPECT_GT(*totals.summary.least_mean_s, 0.9);
  }
}

TEST_F(PhasesRun, WithoutPhasesInTheCatalogueAreRefused) {
  one.phases.reset();
  trace.arrivals = workload::source_of({{seconds(0), 0}});
  const auto ran = run_workload(trace, {one, one}, options,
                                std::move(scheduling::make_policy("fcfs")).value(), sinks);
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().code, ErrorCode::kInvalidArgument);
}

TEST(Oracle, KnowsTheNextCallOfEachFunction) {
  const auto oracle = oracle_of({{seconds(1), 0}, {seconds(2), 1}, {seconds(5), 0}}, 2);
  EXPECT_EQ(oracle(FunctionId{1}, Instant(seconds(0))), Instant(seconds(1)));
  EXPECT_EQ(oracle(FunctionId{1}, Instant(seconds(1))), Instant(seconds(5)));
  EXPECT_EQ(oracle(FunctionId{2}, Instant(seconds(2))), kNever);
}

}  // namespace
}  // namespace lambent::simulator
