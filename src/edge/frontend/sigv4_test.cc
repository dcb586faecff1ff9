// The requests and signatures are those of botocore 1.43 with this key and date.
#include "edge/frontend/sigv4.h"

#include <gtest/gtest.h>

#include "core/crypto/crypto.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
constexpr Duration kSignedAt = seconds(1795838706);  // 2026-11-28 04:05:06 UTC
constexpr std::string_view kCredential =
    "AWS4-HMAC-SHA256 Credential=LAMBAAAABBBBCCCCDDDD/20261128/us-east-1/lambda/aws4_request, ";

http::Request invocation() {
  http::Request request;
  request.method = "POST";
  request.target = "/2015-03-31/functions/f/invocations";
  request.headers.add("Host", "127.0.0.1:8980");
  request.headers.add("X-Amz-Invocation-Type", "Event");
  request.headers.add("amz-sdk-invocation-id", "b2f1");
  request.headers.add("X-Note", "  a   b ");
  request.headers.add("X-Amz-Date", "20261128T040506Z");
  request.headers.add(
      "Authorization",
      std::string(kCredential) +
          "SignedHeaders=amz-sdk-invocation-id;host;x-amz-date;x-amz-invocation-type;x-note, "
          "Signature=3942d92c1027e5e1f60498a5dda713d835476e81ab72689f79f3b14fd84b212d");
  request.body = "{\"x\":1}";
  return request;
}

http::Request tag_list() {
  http::Request request;
  request.method = "GET";
  request.target =
      "/2017-03-31/tags/arn%3Aaws%3Alambda%3Aus-east-1%3A0%3Afunction%3Af"
      "?tagKeys=b%20c&tagKeys=a&Marker=";
  request.headers.add("Host", "127.0.0.1:8980");
  request.headers.add("X-Amz-Date", "20261128T040506Z");
  request.headers.add(
      "Authorization",
      std::string(kCredential) +
          "SignedHeaders=host;x-amz-date, "
          "Signature=186affd594f2521994048d1f2d80f7a47cc8cfc2b667eac2aa0bc86200c9a80f");
  return request;
}

Result<void> verify(const http::Request& request, Duration now = kSignedAt,
                    std::string_view secret = kSecret) {
  const auto signature = parse_sigv4(request.headers.get("authorization"));
  if (!signature.ok()) return signature.error();
  return verify_sigv4(request, **signature, secret, crypto::to_hex(crypto::sha256(request.body)),
                      now);
}

void expect_refused(const Result<void>& verified, const std::string& words) {
  ASSERT_FALSE(verified.ok()) << words;
  EXPECT_EQ(verified.error().code, ErrorCode::kUnauthenticated);
  EXPECT_NE(verified.error().message.find(words), std::string::npos) << verified.error().message;
}

TEST(SigV4Test, WhatBotocoreSignsIsGood) {
  EXPECT_TRUE(verify(invocation()).ok());
  EXPECT_TRUE(verify(tag_list()).ok());
}

TEST(SigV4Test, EverythingThatDecidesIsCovered) {
  http::Request changed = invocation();
  changed.body = "{\"x\":2}";
  expect_refused(verify(changed), "does not match");
  changed = invocation();
  changed.method = "PUT";
  expect_refused(verify(changed), "does not match");
  changed = invocation();
  changed.target = "/2015-03-31/functions/g/invocations";
  expect_refused(verify(changed), "does not match");
  changed = invocation();
  changed.target += "?Qualifier=1";
  expect_refused(verify(changed), "does not match");
  changed = invocation();
  changed.headers.set("Host", "localhost:8980");
  expect_refused(verify(changed), "does not match");
  changed = invocation();
  changed.headers.set("X-Amz-Invocation-Type", "RequestResponse");
  expect_refused(verify(changed), "does not match");
  changed = invocation();
  changed.headers.add("X-Amz-Log-Type", "Tail");
  expect_refused(verify(changed), "x-amz-log-type");
  changed = invocation();
  changed.headers.add("X-Lambent-Tenant", "other");
  expect_refused(verify(changed), "x-lambent-tenant");
  expect_refused(verify(invocation(), kSignedAt, "another"), "does not match");
}

TEST(SigV4Test, ItIsGoodForFiveMinutesInBothDirections) {
  EXPECT_TRUE(verify(invocation(), kSignedAt + kSigV4Skew).ok());
  EXPECT_TRUE(verify(invocation(), kSignedAt - kSigV4Skew).ok());
  expect_refused(verify(invocation(), kSignedAt + kSigV4Skew + nanoseconds(1)), "5 minutes");
  expect_refused(verify(invocation(), kSignedAt - kSigV4Skew - nanoseconds(1)), "5 minutes");
}

TEST(SigV4Test, ADateOfAnotherDayThanTheScopeOrNoneIsRefused) {
  http::Request changed = invocation();
  changed.headers.set("X-Amz-Date", "20261127T235959Z");
  expect_refused(verify(changed, kSignedAt), "another day");
  for (const char* date : {"", "yesterday", "20261128T040506", "20261128 040506Z"}) {
    changed.headers.set("X-Amz-Date", date);
    expect_refused(verify(changed), "X-Amz-Date");
  }
}

TEST(SigV4Test, AnotherServiceIsRefused) {
  http::Request changed = invocation();
  std::string header(changed.headers.get("authorization"));
  header.replace(header.find("lambda"), 6, "s3");
  changed.headers.set("Authorization", header);
  expect_refused(verify(changed), "'s3'");
}

TEST(SigV4Test, ADigestOfTheBodyThatIsWrongIsRefused) {
  http::Request changed = invocation();
  changed.headers.add("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD");
  ASSERT_FALSE(verify(changed).ok());
}

TEST(SigV4Test, OtherSchemesAreNone) {
  for (const char* header : {"", "Bearer x", "Basic eDp5", "AWS4-HMAC-SHA256X a", "AWS4-ECDSA"}) {
    const auto parsed = parse_sigv4(header);
    ASSERT_TRUE(parsed.ok()) << header;
    EXPECT_FALSE(parsed->has_value()) << header;
  }
}

TEST(SigV4Test, AMalformedHeaderNamesWhatIsMissing) {
  const std::string scope = "Credential=A/20261128/r/lambda/aws4_request";
  const std::string signature = "Signature=" + std::string(64, '0');
  const std::pair<std::string, std::string> cases[] = {
      {"AWS4-HMAC-SHA256", "Credential"},
      {"AWS4-HMAC-SHA256 ,,,", "Credential"},
      {"AWS4-HMAC-SHA256 Credential=A/20261128/r/lambda", "Credential"},
      {"AWS4-HMAC-SHA256 Credential=A/B/20261128/r/lambda/aws4_request", "Credential"},
      {"AWS4-HMAC-SHA256 " + scope + ", " + signature, "SignedHeaders"},
      {"AWS4-HMAC-SHA256 " + scope + ", SignedHeaders=host, Signature=00", "Signature"},
      {"AWS4-HMAC-SHA256 " + scope + ", SignedHeaders=host", "Signature"}};
  for (const auto& [header, words] : cases) {
    const auto parsed = parse_sigv4(header);
    ASSERT_FALSE(parsed.ok()) << header;
    EXPECT_NE(parsed.error().message.find(words), std::string::npos) << header;
  }
}

}  // namespace
}  // namespace lambent::frontend
