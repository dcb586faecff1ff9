#include "node/cluster/whole_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::cluster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

http::EventFrame frame_of(const std::string& type, const std::string& payload) {
  return {.headers = {{":event-type", type}}, .payload = payload};
}

// A client's side, as a server's connection is.
class FakeClient final : public http::Responder::Exchange, public http::StreamedExchange {
 public:
  struct Seen {
    std::string bytes;
    bool has_room = true;
    bool finished = false;
    bool cut_off = false;
    bool ends_at_half_close = false;
    std::function<void()> room;
  };
  explicit FakeClient(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}

  void send(http::Response response) override { seen_->bytes = response.body; }
  void start_chunked(http::Response) override {}
  bool send_chunk(std::string_view data) override { return send_bytes(data); }
  void finish_chunked() override { finish(); }
  void on_disconnect(std::function<void()>) override {}
  void end_at_half_close() override { seen_->ends_at_half_close = true; }
  http::StreamedExchange* answer_stream() override { return this; }
  void abandon() override { seen_->cut_off = !seen_->finished; }

  void receive(Sink) override {}
  void hold(bool) override {}
  void expect_whole(bool) override {}
  void start(http::Response, std::optional<uint64_t>) override {}
  void switch_protocols(http::Response) override {}
  bool send_bytes(std::string_view bytes) override {
    seen_->bytes += bytes;
    return seen_->has_room;
  }
  void on_room(std::function<void()> callback) override { seen_->room = std::move(callback); }
  void finish() override { seen_->finished = true; }

 private:
  const std::shared_ptr<Seen> seen_;
};

class WholeExchangeTest : public testing::Test {
 protected:
  void begin(std::string type = std::string(http::kEventStreamType)) {
    http::Response head;
    head.status = 200;
    head.headers.add("Content-Type", std::move(type));
    exchange_->start(std::move(head), std::nullopt);
    (void)exchange_->send_bytes({});
  }
  void pass(const http::EventFrame& frame) {
    (void)exchange_->send_bytes(http::encode_frame(frame));
  }
  std::vector<std::string> payloads() {
    std::vector<std::string> payloads;
    http::EventStreamDecoder decoder;
    decoder.feed(seen_->bytes);
    for (;;) {
      const auto frame = decoder.next();
      if (!frame.ok() || !*frame) break;
      payloads.push_back((*frame)->payload);
    }
    EXPECT_FALSE(decoder.has_rest());
    return payloads;
  }

  std::shared_ptr<FakeClient::Seen> seen_ = std::make_shared<FakeClient::Seen>();
  std::shared_ptr<http::Responder> client_ =
      std::make_shared<http::Responder>(std::make_shared<FakeClient>(seen_));
  std::shared_ptr<WholeExchange> exchange_ =
      std::make_shared<WholeExchange>(std::make_shared<std::string>("{}"), client_,
                                      WholeExchange::Options{.last_event = [](const Error& error) {
                                        return frame_of("End", error.message);
                                      }});
};

TEST_F(WholeExchangeTest, EventsPassAsTheyCome) {
  begin();
  pass(frame_of("Piece", "one"));
  EXPECT_THAT(payloads(), ElementsAre("one"));
  pass(frame_of("End", "done"));
  exchange_->finish();
  EXPECT_THAT(payloads(), ElementsAre("one", "done"));
  EXPECT_TRUE(seen_->finished);
  EXPECT_TRUE(seen_->ends_at_half_close);
}

TEST_F(WholeExchangeTest, ALostNodesStreamEndsWithAnEventAndNoPartOfOne) {
  begin();
  pass(frame_of("Piece", "one"));
  const std::string cut = http::encode_frame(frame_of("Piece", "two"));
  (void)exchange_->send_bytes(cut.substr(0, cut.size() - 1));
  exchange_->cut_off({ErrorCode::kUnavailable, "lost"});
  EXPECT_THAT(payloads(), ElementsAre("one", "lost"));
  EXPECT_TRUE(seen_->finished);
}

TEST_F(WholeExchangeTest, AStreamThatHadItsLastEventGetsNoSecondOne) {
  begin();
  pass(frame_of("End", "done"));
  exchange_->cut_off({ErrorCode::kUnavailable, "lost"});
  EXPECT_THAT(payloads(), ElementsAre("done"));
  EXPECT_TRUE(seen_->finished);
}

TEST_F(WholeExchangeTest, AStreamThatEndsWithoutItsLastEventGetsIt) {
  begin();
  pass(frame_of("Piece", "one"));
  exchange_->finish();
  EXPECT_EQ(payloads().size(), 2u);
  EXPECT_TRUE(seen_->finished);
}

TEST_F(WholeExchangeTest, WhatIsNoEventStreamIsCutOff) {
  begin();
  (void)exchange_->send_bytes(std::string(64, 'x'));
  EXPECT_THAT(seen_->bytes, IsEmpty());
  exchange_->finish();
  EXPECT_TRUE(seen_->cut_off);
  EXPECT_FALSE(seen_->finished);
}

TEST_F(WholeExchangeTest, AnAnswerThatIsTooLongIsCutOffAndKeptNoMore) {
  for (const std::optional<uint64_t> size :
       {std::optional<uint64_t>(), std::optional<uint64_t>(9)}) {
    const auto seen = std::make_shared<FakeClient::Seen>();
    const auto client = std::make_shared<http::Responder>(std::make_shared<FakeClient>(seen));
    const auto exchange = std::make_shared<WholeExchange>(std::make_shared<std::string>(), client,
                                                          WholeExchange::Options{.most_bytes = 8});
    http::Response head;
    head.status = 200;
    exchange->start(std::move(head), size);
    (void)exchange->send_bytes("12345678");
    EXPECT_FALSE(seen->cut_off);
    (void)exchange->send_bytes("9");
    EXPECT_TRUE(seen->cut_off);
    exchange->finish();
    EXPECT_FALSE(seen->finished);
  }
}

TEST_F(WholeExchangeTest, OtherAnswersPassAsTheyAreAndAreCutOff) {
  begin("text/plain");
  (void)exchange_->send_bytes("half");
  EXPECT_EQ(seen_->bytes, "half");
  EXPECT_FALSE(seen_->ends_at_half_close);
  exchange_->cut_off({ErrorCode::kUnavailable, "lost"});
  EXPECT_TRUE(seen_->cut_off);
}

TEST_F(WholeExchangeTest, AClientThatIsBehindHoldsTheNodeBack) {
  begin();
  int rooms = 0;
  exchange_->on_room([&] { ++rooms; });
  seen_->has_room = false;
  EXPECT_FALSE(exchange_->send_bytes(http::encode_frame(frame_of("Piece", "one"))));
  seen_->room();
  EXPECT_EQ(rooms, 1);
  // Also once it is gone, when the client's side may still have the callback.
  const auto room = seen_->room;
  exchange_.reset();
  room();
}

}  // namespace
}  // namespace lambent::cluster
