// Lambda's configuration of asynchronous invocations, as its clients send and read it.
#include "edge/frontend/event_invoke_config.h"

#include <gmock/gmock.h>

#include "edge/frontend/testing/lambda_testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

const std::string kTarget = "/2019-09-25/functions/f/event-invoke-config";

class EventInvokeConfig : public LambdaTest {
 protected:
  EventInvokeConfig() {
    for (const char* name : {"f", "audit", "alarm"}) {
      call_json("POST", kFunctions, create_body(name));
    }
  }

  http::Response put(const json& config) { return call_json("PUT", kTarget, config); }
  http::Response update(const json& config) { return call_json("POST", kTarget, config); }
  json body_of(const http::Response& response) { return json::parse(response.body); }
  void expect_refused(const json& config, const std::string& why) {
    expect_fault(put(config), 400, "InvalidParameterValueException", why);
  }
};

TEST_F(EventInvokeConfig, IsTheFunctionsSettingAndIsReadBack) {
  const auto response =
      put({{"MaximumRetryAttempts", 1},
           {"MaximumEventAgeInSeconds", 3600},
           {"DestinationConfig",
            {{"OnSuccess", {{"Destination", "audit"}}},
             {"OnFailure",
              {{"Destination", "arn:aws:lambda:us-east-1:000000000000:function:alarm"}}}}}});
  ASSERT_EQ(response.status, 200) << response.body;
  const AsyncSettings kept = spec("f").asynchronous;
  EXPECT_EQ(kept.retries, 1);
  EXPECT_EQ(kept.max_age_s, 3600);
  EXPECT_EQ(kept.on_success, "audit");
  EXPECT_EQ(kept.on_failure, "alarm");
  json config = body_of(call("GET", kTarget));
  EXPECT_TRUE(config["LastModified"].is_number());
  EXPECT_THAT(config["FunctionArn"].get<std::string>(), testing::EndsWith(":function:f:$LATEST"));
  EXPECT_EQ(config["MaximumRetryAttempts"], 1);
  EXPECT_EQ(config["MaximumEventAgeInSeconds"], 3600);
  EXPECT_THAT(config["DestinationConfig"]["OnSuccess"]["Destination"].get<std::string>(),
              testing::EndsWith(":function:audit"));
  EXPECT_EQ(config, body_of(call("GET", kTarget + "?Qualifier=$LATEST")));
  const json all = body_of(call("GET", kTarget + "/list"))["FunctionEventInvokeConfigs"];
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0], config);
}

TEST_F(EventInvokeConfig, AnUpdateKeepsWhatItDoesNotName) {
  put({{"MaximumRetryAttempts", 2},
       {"DestinationConfig", {{"OnFailure", {{"Destination", "alarm"}}}}}});
  ASSERT_EQ(update({{"MaximumEventAgeInSeconds", 60}}).status, 200);
  EXPECT_EQ(spec("f").asynchronous.retries, 2);
  EXPECT_EQ(spec("f").asynchronous.on_failure, "alarm");
  const json cleared = body_of(update({{"DestinationConfig", json::object()}}));
  EXPECT_EQ(cleared["DestinationConfig"]["OnFailure"], json::object());
  EXPECT_EQ(spec("f").asynchronous.on_failure, "");
  EXPECT_EQ(spec("f").asynchronous.max_age_s, 60);
}

TEST_F(EventInvokeConfig, APutReplacesAllOfIt) {
  put({{"MaximumRetryAttempts", 2}, {"MaximumEventAgeInSeconds", 60}});
  ASSERT_EQ(put({{"MaximumRetryAttempts", 0}}).status, 200);
  EXPECT_EQ(spec("f").asynchronous.retries, 0);
  EXPECT_EQ(spec("f").asynchronous.max_age_s, 0);
  EXPECT_FALSE(body_of(call("GET", kTarget)).contains("MaximumEventAgeInSeconds"));
}

TEST_F(EventInvokeConfig, WhatIsNotThereIsNotFound) {
  expect_fault(call("GET", kTarget), 404, "ResourceNotFoundException", "EventInvokeConfig");
  expect_fault(update({{"MaximumRetryAttempts", 1}}), 404, "ResourceNotFoundException",
               "EventInvokeConfig");
  expect_fault(call("DELETE", kTarget), 404, "ResourceNotFoundException", "EventInvokeConfig");
  EXPECT_EQ(body_of(call("GET", kTarget + "/list"))["FunctionEventInvokeConfigs"], json::array());
  put({{"MaximumRetryAttempts", 1}});
  EXPECT_EQ(call("DELETE", kTarget).status, 204);
  EXPECT_EQ(spec("f").asynchronous, AsyncSettings{});
  const std::string absent = "/2019-09-25/functions/absent/event-invoke-config";
  expect_fault(call("GET", absent), 404, "ResourceNotFoundException", "absent");
  EXPECT_EQ(call("PATCH", kTarget).status, 405);
  EXPECT_EQ(call("GET", kTarget + "/other").status, 404);
}

TEST_F(EventInvokeConfig, RefusesWhatLambdaRefuses) {
  for (const json& wrong : {json(3), json(-1), json(1.5), json("2")}) {
    expect_refused({{"MaximumRetryAttempts", wrong}}, "MaximumRetryAttempts must be 0 to 2");
  }
  for (const json& wrong : {json(59), json(21'601)}) {
    expect_refused({{"MaximumEventAgeInSeconds", wrong}},
                   "MaximumEventAgeInSeconds must be 60 to 21600");
  }
  expect_refused(json::object(), "at least one");
  expect_refused({{"DestinationConfig", 5}}, "DestinationConfig");
  expect_refused({{"DestinationConfig", {{"OnFailure", "alarm"}}}}, "OnFailure");
  const auto to = [](const char* destination) {
    return json{{"DestinationConfig", {{"OnFailure", {{"Destination", destination}}}}}};
  };
  expect_refused(to("arn:aws:sqs:us-east-1:000000000000:queue"), "not supported");
  expect_refused(to("nowhere"), "nowhere");
  expect_refused(to("f"), "itself");
  expect_fault(call("GET", kTarget + "?Qualifier=1"), 400, "InvalidParameterValueException",
               "Qualifier");
}

TEST_F(EventInvokeConfig, ADeadLetterConfigSaysWhatToUseInstead) {
  json body = create_body("g");
  body["DeadLetterConfig"] = {{"TargetArn", "arn:aws:sqs:us-east-1:000000000000:queue"}};
  expect_fault(call_json("POST", kFunctions, body), 400, "InvalidParameterValueException",
               "DestinationConfig.OnFailure");
}

}  // namespace
}  // namespace lambent::frontend
