#include "edge/frontend/metrics_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::frontend {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kText =
    "# HELP lambent_invocations_total Invocations by \"outcome\".\n"
    "# TYPE lambent_invocations_total counter\n"
    "lambent_invocations_total{function=\"m\",outcome=\"succeeded\",start=\"warm\",tenant=\"1\"} "
    "7\n"
    "lambent_invocations_total{function=\"m\",outcome=\"succeeded\",start=\"cold\",tenant=\"1\"} "
    "1\n"
    "lambent_invocations_total{function=\"m\",outcome=\"rejected\",start=\"warm\",tenant=\"1\"} 2\n"
    "lambent_invocations_total{function=\"f\",outcome=\"succeeded\",start=\"warm\",tenant=\"1\"} "
    "9\n"
    "# HELP lambent_invocation_duration_seconds From submission to outcome.\n"
    "# TYPE lambent_invocation_duration_seconds histogram\n"
    "lambent_invocation_duration_seconds_bucket{function=\"m\",le=\"+Inf\",tenant=\"1\"} 8\n"
    "lambent_invocation_duration_seconds_sum{function=\"m\",tenant=\"1\"} 2.5\n"
    "lambent_invocation_duration_seconds_count{function=\"m\",tenant=\"1\"} 8\n"
    "# HELP lambent_queue_seconds From submission until dispatched.\n"
    "# TYPE lambent_queue_seconds histogram\n"
    "lambent_queue_seconds_sum{function=\"m\",tenant=\"1\"} 0.5\n"
    "# HELP lambent_up Whether it is.\n"
    "# TYPE lambent_up gauge\n"
    "lambent_up 1\n";

std::string triton() {
  return triton_metrics(kText, [](const FunctionName& name) {
    return name == FunctionName{TenantId{1}, "m"};
  });
}

TEST(OpenMetrics, IsSentToThoseWhoWantItNoLessThanPlainText) {
  EXPECT_TRUE(wants_openmetrics("application/openmetrics-text; version=1.0.0; charset=utf-8"));
  EXPECT_TRUE(
      wants_openmetrics("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2,*/*"));
  EXPECT_FALSE(wants_openmetrics("text/plain;q=0.5, application/openmetrics-text;q=0.4"));
  EXPECT_FALSE(wants_openmetrics("application/openmetrics-text;q=0"));
  EXPECT_FALSE(wants_openmetrics("*/*"));
  EXPECT_FALSE(wants_openmetrics(""));
}

TEST(OpenMetrics, HasFamiliesOfCountersWithoutTheirSuffixAndAnEnd) {
  const std::string text = openmetrics_of(kText);
  EXPECT_THAT(text, HasSubstr("# TYPE lambent_invocations counter\n"
                              "# HELP lambent_invocations Invocations by \\\"outcome\\\".\n"
                              "lambent_invocations_total{function=\"m\""));
  EXPECT_THAT(text, HasSubstr("# TYPE lambent_queue_seconds histogram\n"));
  EXPECT_TRUE(text.ends_with("lambent_up 1\n# EOF\n")) << text;
  EXPECT_THAT(openmetrics_of(triton()), HasSubstr("# TYPE nv_inference_count unknown\n"));
  EXPECT_EQ(openmetrics_of(""), "# EOF\n");
}

TEST(Triton, ItsNamesTellOfModelsAlone) {
  const std::string text = triton();
  const auto has = [&](const std::string& name, const std::string& value) {
    EXPECT_THAT(text, HasSubstr("# TYPE " + name + " counter\n" + name +
                                "{model=\"m\",tenant=\"1\",version=\"1\"} " + value + "\n"));
  };
  has("nv_inference_request_success", "8");
  has("nv_inference_request_failure", "2");
  has("nv_inference_exec_count", "8");
  has("nv_inference_request_duration_us", "2500000");
  has("nv_inference_queue_duration_us", "500000");
  has("nv_inference_compute_infer_duration_us", "2000000");
  EXPECT_THAT(text, Not(HasSubstr("model=\"f\"")));
}

TEST(Triton, AVersionOfAModelIsNamedAsOne) {
  const std::string text = triton_metrics(
      "lambent_invocations_total{function=\"m:3\",outcome=\"succeeded\",tenant=\"1\"} 5\n",
      [](const FunctionName&) { return true; });
  EXPECT_THAT(text, HasSubstr("nv_inference_request_success{model=\"m\",tenant=\"1\","
                              "version=\"3\"} 5\n"));
}

TEST(Triton, NoModelsAreNoMetrics) {
  EXPECT_EQ(triton_metrics(kText, [](const FunctionName&) { return false; }), "");
  EXPECT_EQ(triton_metrics("x{a=\"\nx{a\nx{a=b} 1\nx{\n{}\n\"", [](const auto&) { return true; }),
            "");
}

}  // namespace
}  // namespace lambent::frontend
