#include "edge/inference/compression.h"

#include <gtest/gtest.h>

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
