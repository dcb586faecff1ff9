#include "edge/inference/compression.h"

#include <gtest/gtest.h>

#include <optional>

namespace lambent::inference {
namespace {

TEST(Compression, ComesBackAsItWas) {
  const std::string body = std::string(300'000, 'a') + "end";
  for (const char* coding : {"gzip", "deflate"}) {
    http::Response response;
    response.body = body;
    compress(response, coding);
    EXPECT_LT(response.body.size(), body.size() / 10);
    EXPECT_EQ(response.headers.get("Content-Encoding"), coding);
    EXPECT_EQ(decompress(response.body, coding, Bytes::mib(1)).value(), body);
    EXPECT_EQ(decompress(response.body, coding, Bytes::kib(200)).error().code,
              ErrorCode::kOutOfRange);
    EXPECT_FALSE(decompress(response.body.substr(0, 100), coding, Bytes::mib(1)).ok());
    EXPECT_FALSE(decompress(response.body + "x", coding, Bytes::mib(1)).ok());
    EXPECT_FALSE(decompress("no such thing", coding, Bytes::mib(1)).ok());
  }
  EXPECT_FALSE(decompress("", "br", Bytes::mib(1)).ok());
  EXPECT_FALSE(decompress("", "gzip", Bytes::mib(1)).ok());
}

TEST(Compression, BodiesThatAreHeldTogetherHaveABound) {
  http::Response packed;
  packed.body = std::string(600'000, 'a');
  compress(packed, "gzip");
  const DecompressedBodies bodies(Bytes(1'000'000));
  const auto unpack = [&](DecompressedBodies::Part& part) {
    return decompress(packed.body, "gzip", bodies.most(), bodies, part);
  };
  auto first = std::make_optional<DecompressedBodies::Part>();
  ASSERT_TRUE(unpack(*first).ok());
  DecompressedBodies::Part second;
  const auto refused = unpack(second);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("try again later"), std::string::npos);
  // What the refused one had taken goes with it, and the first one's with its request.
  second = {};
  DecompressedBodies::Part moved = std::move(*first);
  first.reset();
  DecompressedBodies::Part third;
  EXPECT_FALSE(unpack(third).ok());
  third = {};
  moved = {};
  EXPECT_TRUE(unpack(third).ok());
}

TEST(Compression, IsForThoseWhoAskForOneCoding) {
  for (const char* accepted : {"", "identity", "gzip, deflate", "br", "*"}) {
    http::Response response;
    response.body = "abc";
    compress(response, accepted);
    EXPECT_EQ(response.body, "abc") << accepted;
  }
}

}  // namespace
}  // namespace lambent::inference
