// The record that a destination gets is Lambda's, and never longer than an event may be.
#include "decide/asynchronous/record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lambent::asynchronous {
namespace {

using nlohmann::json;

Ended ended(Outcome outcome, std::string payload) {
  Ended ended;
  ended.function_arn = "arn:aws:lambda:us-east-1:000000000000:function:f:$LATEST";
  ended.at = seconds(1'574'000'000) + milliseconds(7);
  ended.result.id = {1, 2};
  ended.result.outcome = outcome;
  ended.result.payload = std::move(payload);
  ended.result.version = "$LATEST";
  ended.result.runs = 3;
  return ended;
}

TEST(DestinationRecord, HasLambdasFields) {
  Ended failed = ended(Outcome::kFunctionError, R"({"errorMessage":"no","errorType":"E"})");
  failed.condition = Condition::kRetriesExhausted;
  const std::string text = destination_record(failed, R"({"big":12345678901234567890.5})", 10'000);
  EXPECT_NE(text.find("12345678901234567890.5"), std::string::npos) << "numbers stay as they were";
  const json record = json::parse(text);
  EXPECT_EQ(record["version"], "1.0");
  EXPECT_EQ(record["timestamp"], "2019-11-17T14:13:20.007Z");
  EXPECT_EQ(record["requestContext"]["requestId"], to_string(failed.result.id));
  EXPECT_EQ(record["requestContext"]["functionArn"], failed.function_arn);
  EXPECT_EQ(record["requestContext"]["condition"], "RetriesExhausted");
  EXPECT_EQ(record["requestContext"]["approximateInvokeCount"], 3);
  EXPECT_EQ(
      record["responseContext"],
      json({{"statusCode", 200}, {"executedVersion", "$LATEST"}, {"functionError", "Unhandled"}}));
  EXPECT_EQ(record["responsePayload"]["errorType"], "E");
  EXPECT_FALSE(record.contains("truncated"));
}

TEST(DestinationRecord, OfASuccessNamesNoError) {
  const json record = json::parse(destination_record(ended(Outcome::kSucceeded, "7"), "1", 10'000));
  EXPECT_EQ(record["requestContext"]["condition"], "Success");
  EXPECT_FALSE(record["responseContext"].contains("functionError"));
  EXPECT_EQ(record["responsePayload"], 7);
}

TEST(DestinationRecord, OfWhatNeverRanSaysWhy) {
  Ended never = ended(Outcome::kRejected, "");
  never.condition = Condition::kEventAgeExceeded;
  never.result.error = Error{ErrorCode::kDeadlineExceeded, "too old"};
  const json record = json::parse(destination_record(never, "1", 10'000));
  EXPECT_FALSE(record.contains("responseContext"));
  EXPECT_EQ(record["responsePayload"],
            json({{"errorMessage", "too old"}, {"errorType", "DEADLINE_EXCEEDED"}}));
}

TEST(DestinationRecord, TakesPayloadsThatAreNoJsonAsText) {
  const json record =
      json::parse(destination_record(ended(Outcome::kSucceeded, "\xff\"x"), "a b", 10'000));
  EXPECT_EQ(record["requestPayload"], "a b");
  EXPECT_TRUE(record["responsePayload"].is_string());
  EXPECT_TRUE(
      json::parse(destination_record(ended(Outcome::kSucceeded, ""), "", 10'000))["requestPayload"]
          .is_null());
}

TEST(DestinationRecord, LeavesOutWhatIsTooLongTheResponseFirst) {
  const std::string long_text = "\"" + std::string(5'000, 'x') + "\"";
  const json without_response =
      json::parse(destination_record(ended(Outcome::kSucceeded, long_text), "1", 1'000));
  EXPECT_TRUE(without_response["responsePayload"].is_null());
  EXPECT_EQ(without_response["requestPayload"], 1);
  EXPECT_EQ(without_response["truncated"], json({"responsePayload"}));
  const std::string shortest =
      destination_record(ended(Outcome::kSucceeded, "1"), long_text, 1'000);
  EXPECT_LE(shortest.size(), 1'000U);
  EXPECT_TRUE(json::parse(shortest)["requestPayload"].is_null());
}

}  // namespace
}  // namespace lambent::asynchronous
