// Invocations over the Lambda API: what they carry, how they end, what is refused.
#include "core/domain/limits.h"
#include "core/domain/stopping.h"
#include "core/http/forward_words.h"
#include "edge/frontend/testing/lambda_testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

TEST_F(LambdaTest, TooManyRequestsSayWhyAndWhenToComeBack) {
  create("f");
  service_.behaviour = [](const InvocationRequest&) {
    return Error{ErrorCode::kResourceExhausted, "full"};
  };
  const auto response = invoke("{}");
  EXPECT_EQ(json::parse(response.body)["Reason"], "ConcurrentInvocationLimitExceeded");
  EXPECT_EQ(response.headers.get("Retry-After"), "1");
}

TEST_F(LambdaTest, ARefusedInvocationSaysWhenThereMayBeRoom) {
  create("f");
  service_.behaviour = [](const InvocationRequest& request) {
    InvocationResult result;
    result.id = request.id;
    result.outcome = Outcome::kRejected;
    result.error = Error{ErrorCode::kResourceExhausted, "full"};
    result.retry_after = milliseconds(4001);
    return result;
  };
  const http::Response refused = invoke("{}");
  EXPECT_EQ(refused.headers.get("Retry-After"), "5");
  EXPECT_EQ(refused.headers.get("retry-after-ms"), "4001");
}

TEST_F(LambdaTest, ARefusalByAWorkerThatStopsTellsNodesWhetherAnythingHasBegun) {
  create("f");
  for (const bool within_run : {false, true}) {
    for (const bool is_outcome : {false, true}) {
      service_.behaviour = [&](const InvocationRequest& request) -> Result<InvocationResult> {
        if (!is_outcome) return stopping_error(within_run);
        InvocationResult result{.id = request.id, .outcome = Outcome::kRejected};
        result.error = stopping_error(within_run);
        return result;
      };
      const http::Response refused = invoke("{}");
      EXPECT_EQ(refused.status, 503);
      EXPECT_EQ(refused.headers.contains(http::kNotBegun), !within_run);
    }
  }
}

TEST_F(LambdaTest, WhatClientsSayOfEveryPayloadIsNoType) {
  invoke("{}", {{"Content-Type", "application/x-www-form-urlencoded"}});
  invoke("{}", {{"Content-Type", "application/octet-stream"}, {"amz-sdk-invocation-id", "1"}});
  invoke("{}", {{"Content-Type", "application/octet-stream"}});
  EXPECT_EQ(service_.submitted.at(0).content_type, "");
  EXPECT_EQ(service_.submitted.at(1).content_type, "");
  EXPECT_EQ(service_.submitted.at(2).content_type, "application/octet-stream");
  invoke("{}", {{"Content-Type", "Application/X-WWW-Form-urlencoded ; charset=UTF-8"}});
  invoke("{}", {{"Content-Type", "application/octet-stream;v=1"}, {"amz-sdk-invocation-id", "1"}});
  invoke("{}", {{"Content-Type", "application/x-www-form-urlencoded-not"}});
  invoke("{}", {{"Content-Type", ";charset=UTF-8"}});
  EXPECT_EQ(service_.submitted.at(3).content_type, "");
  EXPECT_EQ(service_.submitted.at(4).content_type, "");
  EXPECT_EQ(service_.submitted.at(5).content_type, "application/x-www-form-urlencoded-not");
  EXPECT_EQ(service_.submitted.at(6).content_type, ";charset=UTF-8");
}

TEST_F(LambdaTest, AnInvocationCarriesWhatTheClientSentAndAnswersWithItsOutcome) {
  create("f");
  service_.behaviour = [](const InvocationRequest& request) {
    InvocationResult result;
    result.id = request.id;
    result.payload = "42";
    result.start = StartClass::kGpuCold;
    result.device = DeviceId(2);
    result.phases = {milliseconds(1), milliseconds(2), milliseconds(3), milliseconds(5),
                     milliseconds(4)};
    result.device_memory_peak = Bytes(5);
    result.log_tail = "a log";
    result.version = "$LATEST";
    result.in_time = true;
    return result;
  };
  const auto response =
      invoke(std::string("\0\xff", 2), {{"X-Amz-Client-Context", base64_encode("{\"a\":1}")},
                                        {"X-Amz-Log-Type", "Tail"},
                                        {"X-Amzn-Trace-Id", "Root=1-a-b"},
                                        {"Content-Type", "application/x-tensor"},
                                        {"amz-sdk-invocation-id", "key-1"}});
  const InvocationRequest& request = service_.submitted.at(0);
  EXPECT_EQ(request.payload, std::string("\0\xff", 2));
  EXPECT_EQ(request.client_context, "{\"a\":1}");
  EXPECT_EQ(request.content_type, "application/x-tensor");
  EXPECT_EQ(request.trace_id, "Root=1-a-b");
  EXPECT_EQ(request.idempotency_key, "key-1");
  EXPECT_EQ(request.kind, InvocationKind::kSynchronous);
  EXPECT_EQ(request.function.tenant, kDefaultTenant);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "42");
  const auto& headers = response.headers;
  EXPECT_EQ(headers.get("x-amzn-RequestId"), to_string(request.id));
  EXPECT_EQ(headers.get("X-Amz-Executed-Version"), "$LATEST");
  EXPECT_EQ(headers.get("X-Amz-Log-Result"), base64_encode("a log"));
  EXPECT_FALSE(headers.contains("X-Amz-Function-Error"));
  EXPECT_EQ(headers.get("x-lambent-outcome"), "succeeded");
  EXPECT_EQ(headers.get("x-lambent-start"), "gpu_cold");
  EXPECT_EQ(headers.get("x-lambent-device"), "1");
  EXPECT_EQ(headers.get("x-lambent-queue-us"), "1000");
  EXPECT_EQ(headers.get("x-lambent-sandbox-us"), "2000");
  EXPECT_EQ(headers.get("x-lambent-init-us"), "3000");
  EXPECT_EQ(headers.get("x-lambent-memory-us"), "5000");
  EXPECT_EQ(headers.get("x-lambent-run-us"), "4000");
  EXPECT_EQ(headers.get("x-lambent-device-memory-peak-bytes"), "5");
  EXPECT_EQ(headers.get("x-lambent-slo"), "in_time");
}

TEST_F(LambdaTest, AllGpusOfARunAreNamed) {
  create("f");
  service_.behaviour = [](const InvocationRequest& request) {
    InvocationResult result;
    result.id = request.id;
    result.device = DeviceId(1);
    result.beside = {DeviceId(3)};
    return result;
  };
  EXPECT_EQ(invoke("{}").headers.get("x-lambent-device"), "0,2");
}

TEST_F(LambdaTest, AFailedFunctionIsA200WithFunctionError) {
  create("f");
  service_.behaviour = [](const InvocationRequest& request) {
    InvocationResult result;
    result.id = request.id;
    result.outcome = Outcome::kFunctionError;
    result.payload = R"({"errorMessage":"no","errorType":"ValueError"})";
    result.error_type = "Value\r\nError";
    return result;
  };
  const auto response = invoke("{}");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.get("X-Amz-Function-Error"), "Unhandled");
  EXPECT_EQ(response.headers.get("x-lambent-error-type"), "Value??Error");
  EXPECT_FALSE(response.headers.contains("x-lambent-device")) << "it had a place nowhere";
  EXPECT_EQ(json::parse(response.body)["errorType"], "ValueError");
}

TEST_F(LambdaTest, TheLogIsCutToItsLast4KiBAndLeftOutUnlessAskedFor) {
  create("f");
  service_.behaviour = [](const InvocationRequest& request) {
    InvocationResult result;
    result.id = request.id;
    result.log_tail = std::string(5000, 'a') + "end";
    return result;
  };
  EXPECT_FALSE(invoke("{}").headers.contains("X-Amz-Log-Result"));
  const auto response = invoke("{}", {{"X-Amz-Log-Type", "Tail"}});
  const auto log = base64_decode(response.headers.get("X-Amz-Log-Result"));
  EXPECT_EQ(log->size(), 4096u);
  EXPECT_TRUE(log->ends_with("end"));
}

TEST_F(LambdaTest, AnEventIsAcceptedAndADryRunOnlyChecked) {
  create("f");
  const auto event = invoke("{}", {{"X-Amz-Invocation-Type", "Event"}});
  EXPECT_EQ(event.status, 202);
  EXPECT_EQ(event.body, "");
  EXPECT_EQ(service_.submitted.at(0).kind, InvocationKind::kAsynchronous);
  EXPECT_EQ(event.headers.get("x-amzn-RequestId"), to_string(service_.submitted.at(0).id));
  EXPECT_EQ(invoke("{}", {{"X-Amz-Invocation-Type", "DryRun"}}).status, 204);
  EXPECT_EQ(service_.submitted.size(), 1u);
  expect_fault(invoke("{}", {{"X-Amz-Invocation-Type", "DryRun"}}, "g"), 404,
               "ResourceNotFoundException", "arn:aws:lambda");
}

TEST_F(LambdaTest, ARepeatedEventIsAnsweredWithTheIdOfTheFirst) {
  create("f");
  const InvocationId first{1, 2};
  service_.behaviour = [&](const InvocationRequest&) {
    InvocationResult result;
    result.id = first;
    return result;
  };
  const auto event = invoke("{}", {{"X-Amz-Invocation-Type", "Event"}});
  EXPECT_EQ(event.status, 202);
  EXPECT_EQ(event.headers.get("x-amzn-RequestId"), to_string(first));
}

TEST_F(LambdaTest, PayloadsAreBounded) {
  create("f");
  EXPECT_EQ(invoke(std::string(limits::kSyncPayload.count, 'x')).status, 200);
  expect_fault(invoke(std::string(limits::kSyncPayload.count + 1, 'x')), 413,
               "RequestTooLargeException", "6291456");
  const HeaderList event = {{"X-Amz-Invocation-Type", "Event"}};
  EXPECT_EQ(invoke(std::string(limits::kAsyncPayload.count, 'x'), event).status, 202);
  expect_fault(invoke(std::string(limits::kAsyncPayload.count + 1, 'x'), event), 413,
               "RequestTooLargeException", "1048576");
}

TEST_F(LambdaTest, AnEmptyEventIsAnEmptyObjectUnlessItIsNotJson) {
  create("f");
  EXPECT_EQ(invoke("").body, "{}");
  EXPECT_EQ(invoke("", {{"Content-Type", "application/json"}}).body, "{}");
  EXPECT_EQ(invoke("", {{"Content-Type", "Application/JSON; charset=UTF-8"}}).body, "{}");
  EXPECT_EQ(invoke("", {{"Content-Type", "text/plain"}}).body, "");
}

TEST_F(LambdaTest, BadHeadersOfAnInvocationAreRefused) {
  create("f");
  const HeaderList bad = {
      {"X-Amz-Invocation-Type", "event"},
      {"X-Amz-Log-Type", "All"},
      {"X-Amz-Tenant-Id", "blue"},
      {"X-Amz-Durable-Execution-Name", "once"},
      {"X-Amz-Client-Context", "%%%"},
      {"X-Amz-Client-Context", base64_encode("no json")},
      {"X-Amz-Client-Context", base64_encode("[]")},
      {"X-Amz-Client-Context", std::string(3584, 'A')},
      {"X-Amz-Client-Context", base64_encode(R"({"custom":{"lambent-needs":[]}})")},
      {"X-Amz-Client-Context", base64_encode(R"({"custom":{"lambent-needs":"f.0"}})")},
      {"X-Lambent-Needs", "nonsense"},
      {"X-Lambent-Ttl", "0.5"}};
  for (const auto& header : bad) {
    expect_fault(invoke("{}", {header}), 400, "InvalidParameterValueException", header.first);
  }
  expect_fault(invoke("{}", {{"X-Amz-Invocation-Type", "Event"}, {"X-Lambent-Ttl", "60"}}), 400,
               "InvalidParameterValueException", "X-Lambent-Ttl");
  EXPECT_TRUE(service_.submitted.empty());
  EXPECT_EQ(invoke("{}", {{"amz-sdk-invocation-id", std::string(129, 'k')}}).status, 200);
  EXPECT_EQ(service_.submitted.at(0).idempotency_key, "");
}

TEST_F(LambdaTest, WhatAnInvocationNeedsComesInAHeaderOrInTheClientContext) {
  create("f");
  const std::string one = "00000000-0000-0001-0000-000000000002.0";
  const std::string two = "00000000-0000-0001-0000-000000000002.1";
  invoke("{}", {{"X-Lambent-Needs", one + ", " + two}});
  EXPECT_EQ(service_.submitted.at(0).needs.size(), 2u);
  const std::string context = R"({"client":{},"custom":{"lambent-needs":")" + two + "\"}}";
  invoke("{}", {{"X-Amz-Client-Context", base64_encode(context)}});
  EXPECT_EQ(service_.submitted.at(1).needs, std::vector<ObjectId>{*object_id_from_string(two)});
  invoke("{}", {{"X-Amz-Client-Context", base64_encode(R"({"custom":{"other":1}})")}});
  EXPECT_TRUE(service_.submitted.at(2).needs.empty());
}

TEST_F(LambdaTest, WhatAnInvocationMakesLivesAsLongAsItSays) {
  create("f");
  invoke("{}", {{"X-Lambent-Ttl", "90"}});
  EXPECT_EQ(service_.submitted.at(0).time_to_live, seconds(90));
  invoke("{}", {});
  EXPECT_EQ(service_.submitted.at(1).time_to_live, std::nullopt);
}

TEST_F(LambdaTest, AClientThatLeavesIsForgotten) {
  create("f");
  service_.hold = true;
  const auto seen = start(request_of("POST", kFunctions + "/f/invocations", "{}"));
  EXPECT_FALSE(seen->response.has_value());
  seen->disconnect();
  ASSERT_EQ(service_.forgotten.size(), 1u);
  EXPECT_EQ(service_.forgotten[0], service_.submitted.at(0).id);
  service_.held.at(0)();
  EXPECT_TRUE(seen->response.has_value());
}

}  // namespace
}  // namespace lambent::frontend
