#include "core/metrics/worker_metrics.h"
#include "core/metrics/limits.h"

#include <gtest/gtest.h>

namespace lambent::metrics {
namespace {

const FunctionName kResize{TenantId(7), "resize"};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

InvocationResult result_of(Outcome outcome, StartClass start, Duration queue) {
  InvocationResult result;
  result.outcome = outcome;
  result.start = start;
  result.phases.queue = queue;
  return result;
}

TEST(Metrics, CountInvocationsByTenantFunctionOutcomeAndStart) {
  WorkerMetrics metrics("1.2.3");
  metrics.completed(kResize, result_of(Outcome::kSucceeded, StartClass::kCold, seconds(2)));
  metrics.completed(kResize, result_of(Outcome::kSucceeded, StartClass::kWarm, Duration{}));
  metrics.completed(kResize, result_of(Outcome::kSucceeded, StartClass::kWarm, Duration{}));
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text,
                  "lambent_invocations_total{function=\"resize\",outcome=\"succeeded\","
                  "start=\"warm\",tenant=\"7\"} 2"))
      << text;
  EXPECT_TRUE(has(text, "lambent_queue_seconds_sum{function=\"resize\",tenant=\"7\"} 2")) << text;
}

TEST(Metrics, ARemovedFunctionLeavesNoSeries) {
  WorkerMetrics metrics("1.2.3");
  metrics.completed(kResize, result_of(Outcome::kRejected, StartClass::kCold, Duration{}));
  metrics.set_flow(kResize, {.pending = 3, .running = 1, .virtual_time = seconds(5)});
  EXPECT_TRUE(has(metrics.text(), "resize"));
  metrics.forget(kResize);
  EXPECT_FALSE(has(metrics.text(), "resize"));
  metrics.forget(kResize);
}

TEST(Metrics, ARemovedFunctionLeavesNoSeriesOfWhatWasRefused) {
  WorkerMetrics metrics("1.2.3");
  InvocationResult refused = result_of(Outcome::kRejected, StartClass::kCold, Duration{});
  refused.retry_after = seconds(1);
  refused.error_type = "Overload.QueueWait";
  metrics.completed(kResize, refused);
  EXPECT_TRUE(has(metrics.text(), "reason=\"QueueWait\""));
  metrics.forget(kResize);
  EXPECT_FALSE(has(metrics.text(), "resize"));
}

TEST(Metrics, CallsThatWereMadeAsOneAreCountedByFunction) {
  WorkerMetrics metrics("1.2.3");
  metrics.batched(kResize, 3);
  metrics.batched(kResize, 2);
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, "lambent_batches_total{function=\"resize\",tenant=\"7\"} 2")) << text;
  EXPECT_TRUE(has(text, "lambent_batched_calls_total{function=\"resize\",tenant=\"7\"} 5")) << text;
  metrics.forget(kResize);
  EXPECT_FALSE(has(metrics.text(), "resize"));
}

TEST(Metrics, OnlyTheFunctionsThatWereInvokedLastHaveSeries) {
  WorkerMetrics metrics("1.2.3");
  const auto name = [](size_t i) {
    return FunctionName{TenantId(1), "f" + std::to_string(100'000 + i)};
  };
  const InvocationResult result = result_of(Outcome::kSucceeded, StartClass::kWarm, Duration{});
  for (size_t i = 0; i < limits::kFunctionsWithMetrics; ++i) metrics.completed(name(i), result);
  const size_t full = metrics.text().size();
  metrics.completed(name(0), result);
  for (size_t i = 0; i < 10; ++i) {
    metrics.set_flow(name(1), {.pending = 0, .running = 0, .virtual_time = {}});
    metrics.completed(name(limits::kFunctionsWithMetrics + i), result);
  }
  EXPECT_EQ(metrics.functions().size(), limits::kFunctionsWithMetrics);
  const std::string text = metrics.text();
  EXPECT_LT(text.size(), full + 1000);
  EXPECT_TRUE(has(text, "f100000")) << "it was invoked again";
  EXPECT_FALSE(has(text, "f100001")) << "to be asked for is no invocation";
  EXPECT_TRUE(has(text, "f100011"));
  EXPECT_TRUE(has(text, "lambent_metrics_functions_dropped_total 10"));
}

TEST(Metrics, ATenantsTextIsThatOfItsFunctions) {
  WorkerMetrics metrics("1.2.3");
  const InvocationResult result = result_of(Outcome::kSucceeded, StartClass::kWarm, Duration{});
  metrics.completed(kResize, result);
  metrics.completed({TenantId(70), "other"}, result);
  const std::string text = metrics.text_of(TenantId(7));
  EXPECT_TRUE(has(text, "resize"));
  EXPECT_FALSE(has(text, "other"));
  EXPECT_FALSE(has(text, "lambent_build_info"));
  EXPECT_EQ(metrics.text_of(TenantId(8)), "");
}

TEST(Metrics, RunTimeOnGpusIsCountedByTenantAndOutlivesFunctions) {
  WorkerMetrics metrics("1.2.3");
  InvocationResult result = result_of(Outcome::kSucceeded, StartClass::kWarm, seconds(10));
  result.phases.run = milliseconds(1500);
  metrics.completed(kResize, result);  // no place: as a workflow has none
  result.device = DeviceId(0);         // the processors
  metrics.completed(kResize, result);
  EXPECT_FALSE(has(metrics.text(), "lambent_tenant_gpu_run_seconds_total{"));
  result.device = DeviceId(1);
  metrics.completed(kResize, result);
  result.beside = {DeviceId(2)};  // on each of two
  metrics.completed({TenantId(7), "other"}, result);
  metrics.completed({TenantId(8), "resize"}, result);
  metrics.forget(kResize);
  const std::string text = metrics.text_of(TenantId(7));
  EXPECT_TRUE(has(text, "lambent_tenant_gpu_run_seconds_total{tenant=\"7\"} 4.5\n")) << text;
  EXPECT_FALSE(has(text, "\"8\"")) << text;
}

TEST(Metrics, SchedulesHaveTheirSeriesAsLongAsTheyAreThere) {
  WorkerMetrics metrics("1.2.3");
  const WorkerMetrics::ScheduleGauges disabled{.function = kResize, .schedule = "nightly"};
  WorkerMetrics::ScheduleGauges hourly{.function = kResize,
                                       .schedule = "hourly",
                                       .begun = 2,
                                       .missed = 1,
                                       .last = seconds(3600),
                                       .next = seconds(7200)};
  metrics.set_schedules({disabled, hourly});
  hourly.begun = 3;
  hourly.next.reset();
  metrics.set_schedules({disabled, hourly});
  const std::string text = metrics.text();
  const std::string labels = "{function=\"resize\",schedule=\"hourly\",tenant=\"7\"}";
  EXPECT_TRUE(has(text,
                  "lambent_schedule_firings_total{function=\"resize\",outcome=\"begun\","
                  "schedule=\"hourly\",tenant=\"7\"} 3"))
      << text;
  EXPECT_TRUE(has(text,
                  "lambent_schedule_firings_total{function=\"resize\",outcome=\"missed\","
                  "schedule=\"hourly\",tenant=\"7\"} 1"));
  EXPECT_TRUE(has(text, "lambent_schedule_last_timestamp_seconds" + labels + " 3600"));
  EXPECT_FALSE(has(text, "lambent_schedule_next_timestamp_seconds{"));
  metrics.set_schedules({disabled});
  EXPECT_FALSE(has(metrics.text(), "hourly"));
  EXPECT_TRUE(has(metrics.text(), "nightly"));
  metrics.set_schedules({});
  EXPECT_FALSE(has(metrics.text(), "resize"));
}

TEST(Metrics, AFunctionThatWasNeverInvokedHasNoSeries) {
  WorkerMetrics metrics("1.2.3");
  metrics.set_flow(kResize, {});
  EXPECT_FALSE(has(metrics.text(), "resize"));
  metrics.set_flow(kResize, {.pending = 1});
  metrics.set_flow(kResize, {});
  EXPECT_TRUE(has(metrics.text(), "lambent_flow_pending{function=\"resize\",tenant=\"7\"} 0"));
}

TEST(Metrics, TellWhenTheCertificateEndsAndHowHandshakesEnded) {
  WorkerMetrics metrics("1.2.3");
  EXPECT_FALSE(has(metrics.text(), "lambent_tls_certificate_expiry_timestamp_seconds 1"));
  for (const uint64_t count : {1, 4}) {
    metrics.set_tls({.expires_at = seconds(1'800'000'000),
                     .full_handshakes = count,
                     .resumed_handshakes = count + 1,
                     .failed_handshakes = count + 2,
                     .reloads = 1,
                     .failed_reloads = 2});
  }
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, "lambent_tls_certificate_expiry_timestamp_seconds 1800000000")) << text;
  EXPECT_TRUE(has(text, "lambent_tls_handshakes_total{outcome=\"full\"} 4")) << text;
  EXPECT_TRUE(has(text, "lambent_tls_handshakes_total{outcome=\"resumed\"} 5")) << text;
  EXPECT_TRUE(has(text, "lambent_tls_handshakes_total{outcome=\"failed\"} 6")) << text;
  EXPECT_TRUE(has(text, "lambent_tls_reloads_total{outcome=\"loaded\"} 1")) << text;
  EXPECT_TRUE(has(text, "lambent_tls_reloads_total{outcome=\"failed\"} 2")) << text;
}

TEST(Metrics, TellHowManyExecutorsThereAreAndHowOthersEnded) {
  WorkerMetrics metrics("1.2.3");
  metrics.set_device(DeviceId(1), {.executors = 2});
  for (const uint64_t count : {1, 3, 3}) metrics.set_executor_ends("fault", count);
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, "lambent_executors{gpu=\"0\"} 2")) << text;
  EXPECT_TRUE(has(text, "lambent_executor_ends_total{how=\"fault\"} 3")) << text;
}

TEST(Metrics, StartsAheadAreToldByWhatBecameOfThem) {
  WorkerMetrics metrics("1.2.3");
  for (const uint64_t count : {1, 2, 2}) metrics.set_starts_ahead("wasted", count);
  EXPECT_TRUE(has(metrics.text(), "lambent_starts_ahead_total{what=\"wasted\"} 2"));
}

TEST(Metrics, RefusalsAreCountedAndLeftOutOfLatencies) {
  WorkerMetrics metrics("1.2.3");
  InvocationResult refused = result_of(Outcome::kRejected, StartClass::kWarm, Duration{});
  refused.retry_after = seconds(1);
  refused.error_type = "Overload.QueueWait";
  metrics.completed(kResize, refused);
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, "outcome=\"rejected\",start=\"warm\",tenant=\"7\"} 1")) << text;
  EXPECT_TRUE(
      has(text, "lambent_invocation_duration_seconds_count{function=\"resize\",tenant=\"7\"} 0"))
      << text;
  EXPECT_TRUE(
      has(text, "lambent_refusals_total{function=\"resize\",reason=\"QueueWait\",tenant=\"7\"} 1"))
      << text;
}

TEST(Metrics, GaugesTakeTheNewestValue) {
  WorkerMetrics metrics("1.2.3");
  metrics.set_device(DeviceId(1), {.memory_total = Bytes(100), .utilisation = 0.25});
  metrics.set_device(DeviceId(1), {.memory_total = Bytes(100), .utilisation = 0.75});
  metrics.set_sandboxes({{"idle", 2}});
  metrics.set_sandboxes({{"idle", 1}});
  const std::string text = metrics.text();
  EXPECT_TRUE(has(text, "lambent_gpu_utilization_ratio{gpu=\"0\"} 0.75")) << text;
  EXPECT_TRUE(has(text, "lambent_pool_containers{state=\"idle\"} 1")) << text;
  EXPECT_TRUE(has(text, "lambent_build_info{version=\"1.2.3\"")) << text;
}

}  // namespace
}  // namespace lambent::metrics
