#include "edge/frontend/access_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "edge/frontend/testing/stream_client.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

class AccessLogTest : public testing::Test {
 protected:
  http::Server::Handler logged(http::Server::Handler inner) {
    return with_access_log(std::move(inner), clock_,
                           [this](const AccessRecord& record) { records_.push_back(record); });
  }
  FakeClock clock_;
  std::vector<AccessRecord> records_;
};

TEST_F(AccessLogTest, ARequestIsToldOnceWithWhatItGot) {
  auto seen = std::make_shared<Exchanged>();
  logged([this](http::Request, http::Responder responder) {
    clock_.advance(milliseconds(7));
    http::Response response{.status = 201, .body = "four"};
    response.headers.add("x-amzn-RequestId", "4f2c");
    responder.send(std::move(response));
  })(request_of("POST", "/v1/x?y=1", "", {{"User-Agent", "curl/8"}}), responder_to(seen));
  ASSERT_EQ(records_.size(), 1u);
  EXPECT_EQ(records_[0].method, "POST");
  EXPECT_EQ(records_[0].target, "/v1/x?y=1");
  EXPECT_EQ(records_[0].status, 201);
  EXPECT_EQ(records_[0].bytes, 4u);
  EXPECT_EQ(records_[0].took, milliseconds(7));
  EXPECT_EQ(records_[0].invocation, "4f2c");
  EXPECT_EQ(seen->response->body, "four");
}

TEST_F(AccessLogTest, AnAnswerInPiecesIsToldWhenItEnds) {
  auto seen = std::make_shared<Exchanged>();
  std::optional<http::Responder> kept;
  logged([&](http::Request, http::Responder responder) { kept.emplace(std::move(responder)); })(
      request_of("GET", "/log", "", {}), responder_to(seen));
  kept->start_chunked({.status = 200});
  kept->send_chunk("abc");
  EXPECT_TRUE(records_.empty());
  kept->send_chunk("de");
  kept->finish_chunked();
  ASSERT_EQ(records_.size(), 1u);
  EXPECT_EQ(records_[0].bytes, 5u);
}

TEST_F(AccessLogTest, ABodyThatIsKeptIsBoundedInTimeBehindIt) {
  auto client = std::make_shared<StreamClient>();
  std::optional<http::Responder> kept;
  logged([&](http::Request, http::Responder responder) { kept.emplace(std::move(responder)); })(
      request_of("POST", "/v1/x", "", {}),
      http::Responder(std::make_shared<StreamExchange>(client)));
  kept->stream()->expect_whole(true);
  EXPECT_TRUE(client->is_expected_whole);
  kept->send({.status = 200});
}

TEST_F(AccessLogTest, OneWhoseResponderGoesWithoutAnAnswerIsToldToo) {
  auto seen = std::make_shared<Exchanged>();
  logged([](http::Request, http::Responder) {})(request_of("GET", "/", "", {}), responder_to(seen));
  ASSERT_EQ(records_.size(), 1u);
  EXPECT_EQ(records_[0].status, 499);
}

TEST(AccessLine, NothingThatAClientSendsEndsTheLine) {
  const AccessRecord record{.at = seconds(1'000'000'000),
                            .origin = "127.0.0.1:1234",
                            .method = "GET",
                            .target = "/a\"\n\x01\\",
                            .user_agent = "x\" 200 \"y\n",
                            .status = 404,
                            .bytes = 12};
  EXPECT_EQ(
      line_of(record, AccessLogFormat::kCombined),
      "127.0.0.1 - - [09/Sep/2001:01:46:40 +0000] \"GET /a\\x22\\x0A\\x01\\x5C HTTP/1.1\" 404 "
      "12 \"-\" \"x\\x22 200 \\x22y\\x0A\"\n");
  const std::string json = line_of(record, AccessLogFormat::kJson);
  EXPECT_EQ(json.find('\n'), json.size() - 1);
  const auto line = nlohmann::json::parse(json);
  EXPECT_EQ(line["target"], record.target);
  EXPECT_EQ(line["at"], "2001-09-09T01:46:40.000000Z");
}

}  // namespace
}  // namespace lambent::frontend
