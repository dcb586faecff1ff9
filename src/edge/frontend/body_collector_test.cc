#include "edge/frontend/body_collector.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "edge/frontend/testing/stream_client.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

class BodyCollectorTest : public testing::Test {
 protected:
  // A body of so many pieces of 64 KiB, as it was collected.
  std::string collect(size_t pieces, http::Headers headers) {
    auto client = std::make_shared<StreamClient>();
    http::Request request;
    request.method = "POST";
    request.headers = std::move(headers);
    std::string body;
    collector_.collect(
        std::move(request), http::Responder(std::make_shared<StreamExchange>(client)),
        [](const Error&) { return http::Response{.status = 413}; },
        [&](http::Request whole, http::Responder responder) {
          body = std::move(whole.body);
          responder.send({.status = 200});
        },
        {.most = Bytes::mib(16), .tenant = kDefaultTenant});
    const auto sink = client->sink;
    for (size_t i = 0; i < pieces; ++i) {
      sink.on_bytes(std::string(64 << 10, static_cast<char>('a' + i % 26)));
    }
    sink.on_end();
    EXPECT_EQ(client->response->status, 200);
    return body;
  }
  static http::Headers of_length(size_t bytes) {
    http::Headers headers;
    headers.add("Content-Length", std::to_string(bytes));
    return headers;
  }
  static http::Headers in_chunks() {
    http::Headers headers;
    headers.add("Transfer-Encoding", "chunked");
    return headers;
  }
  static bool is_whole(const std::string& body, size_t pieces) {
    if (body.size() != pieces << 16) return false;
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i] != static_cast<char>('a' + (i >> 16) % 26)) return false;
    }
    return true;
  }

  BodyCollector collector_;
};

TEST_F(BodyCollectorTest, ALongBodyOfKnownLengthHasItsPlaceAtOnceAndIsNotCopiedAsItGrows) {
  constexpr size_t kPieces = 11 << 4 | 1;  // 11 MiB and a piece
  const std::string body = collect(kPieces, of_length(kPieces << 16));
  EXPECT_TRUE(is_whole(body, kPieces));
  EXPECT_EQ(body.capacity(), kPieces << 16) << "not the next power of two";
  EXPECT_TRUE(is_whole(collect(kPieces, in_chunks()), kPieces));
}

TEST_F(BodyCollectorTest, ABodyOfWhichLittleIsThereHasLittlePlace) {
  const std::string body = collect(33, of_length(16 << 20));
  EXPECT_TRUE(is_whole(body, 33));
  EXPECT_LE(body.capacity(), Bytes::mib(4).count);
}

TEST_F(BodyCollectorTest, ALengthThatIsNotTrueHarmsNothing) {
  EXPECT_TRUE(is_whole(collect(80, of_length(5)), 80));
}

}  // namespace
}  // namespace lambent::frontend
