#include "edge/frontend/other_services.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using testing::HasSubstr;

std::optional<http::Response> answer(const std::string& service, const std::string& target,
                                     const std::string& action = "") {
  http::Request request = request_of("POST", target, "", {});
  request.headers.add("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/" +
                                           service + "/aws4_request, SignedHeaders=host, " +
                                           "Signature=" + std::string(64, 'a'));
  if (!action.empty()) request.headers.add("X-Amz-Target", action);
  return refusal_of_other_service(request);
}

TEST(OtherServices, AreRefusedInTheFormThatTheirClientsRead) {
  const auto token = answer("sts", "/");
  ASSERT_TRUE(token);
  EXPECT_EQ(token->status, 501);
  EXPECT_THAT(token->body, HasSubstr("<ErrorResponse><Error><Code>NotImplementedException</Code>"));
  EXPECT_THAT(token->body, HasSubstr("AWS_ENDPOINT_URL_LAMBDA"));
  const auto object = answer("s3", "/bucket/key?list-type=2");
  ASSERT_TRUE(object);
  EXPECT_THAT(object->body, HasSubstr("?>\n<Error><Code>"));
  const auto log = answer("logs", "/", "Logs_20140328.FilterLogEvents");
  ASSERT_TRUE(log);
  EXPECT_EQ(log->headers.get("x-amzn-ErrorType"), "NotImplementedException");
  EXPECT_THAT(log->body, HasSubstr("lambent logs NAME"));
  EXPECT_TRUE(answer("apigateway", "/restapis"));
}

TEST(OtherServices, AreNotThoseOfOurOwnPathsAndOfLambda) {
  EXPECT_FALSE(answer("lambda", "/"));
  EXPECT_FALSE(answer("execute-api", "/v1/functions"));
  EXPECT_FALSE(answer("aps", "/metrics"));
  EXPECT_FALSE(answer("<b>", "/"));
  EXPECT_FALSE(answer("", "/"));
  http::Request unsigned_one = request_of("POST", "/", "", {});
  EXPECT_FALSE(refusal_of_other_service(unsigned_one));
  unsigned_one.headers.add("Authorization", "AWS4-HMAC-SHA256 Credential=any");
  EXPECT_FALSE(refusal_of_other_service(unsigned_one));
}

}  // namespace
}  // namespace lambent::frontend
