#include "node/cluster/resendable_exchange.h"

#include <gtest/gtest.h>

namespace lambent::cluster {
namespace {

// A client's side, as a server's connection is.
class StreamingClient final : public http::Responder::Exchange, public http::StreamedExchange {
 public:
  struct Seen {
    Sink sink;
    std::string bytes;
    std::function<void()> disconnected;
    bool held = false;
    bool finished = false;
    bool cut_off = false;
  };
  explicit StreamingClient(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}

  void send(http::Response response) override {
    seen_->bytes = response.body;
    seen_->finished = true;
  }
  void start_chunked(http::Response) override {}
  bool send_chunk(std::string_view data) override { return send_bytes(data); }
  void finish_chunked() override { finish(); }
  void on_disconnect(std::function<void()> callback) override {
    seen_->disconnected = std::move(callback);
  }
  http::StreamedExchange* stream() override { return this; }
  void abandon() override { seen_->cut_off = !seen_->finished; }

  void receive(Sink sink) override { seen_->sink = std::move(sink); }
  void hold(bool held) override { seen_->held = held; }
  void expect_whole(bool) override {}
  void start(http::Response, std::optional<uint64_t>) override {}
  void switch_protocols(http::Response) override {}
  bool send_bytes(std::string_view bytes) override {
    seen_->bytes += bytes;
    return true;
  }
  void on_room(std::function<void()>) override {}
  void finish() override { seen_->finished = true; }

 private:
  const std::shared_ptr<Seen> seen_;
};

// A node on the way to which the body is.
struct NodeReceiver {
  std::string body;
  bool ended = false;

  void begin(http::StreamedExchange& exchange) {
    exchange.hold(false);
    collect(exchange);
  }
  void collect(http::StreamedExchange& exchange) {
    exchange.receive({.on_bytes = [this](std::string_view bytes) { body += bytes; },
                      .on_end = [this] { ended = true; }});
  }
};

class ResendableExchangeTest : public testing::Test {
 protected:
  // As http_relay ends with it: its sink is no more.
  void refuse(NodeReceiver& receiver) {
    exchange->hold(true);
    exchange->rest();
    receiver.body = "gone";
  }
  void bytes(const std::string& text) { client->sink.on_bytes(text); }

  std::shared_ptr<StreamingClient::Seen> client = std::make_shared<StreamingClient::Seen>();
  std::shared_ptr<size_t> kept = std::make_shared<size_t>(0);
  std::shared_ptr<http::Responder> responder =
      std::make_shared<http::Responder>(std::make_shared<StreamingClient>(client));
  std::shared_ptr<ResendableExchange> exchange =
      std::make_shared<ResendableExchange>(responder, kept);
  NodeReceiver first, second;
};

TEST_F(ResendableExchangeTest, TheSecondNodeGetsTheBodyFromItsBeginAndTheRestAsItComes) {
  first.begin(*exchange);
  bytes("abc");
  EXPECT_EQ(first.body, "abc");
  EXPECT_EQ(*kept, 3U);
  refuse(first);
  EXPECT_TRUE(client->held);
  EXPECT_TRUE(exchange->may_be_resent());
  second.begin(*exchange);
  EXPECT_EQ(second.body, "abc");
  EXPECT_FALSE(client->held);
  bytes("de");
  client->sink.on_end();
  EXPECT_EQ(second.body, "abcde");
  EXPECT_TRUE(second.ended);
  EXPECT_FALSE(first.ended);
  EXPECT_EQ(first.body, "gone");
}

TEST_F(ResendableExchangeTest, WhatComesBetweenTwoNodesIsTheSeconds) {
  first.begin(*exchange);
  bytes("abc");
  refuse(first);
  bytes("de");
  client->sink.on_end();
  EXPECT_EQ(first.body, "gone");
  second.begin(*exchange);
  EXPECT_EQ(second.body, "abcde");
  EXPECT_TRUE(second.ended);
}

TEST_F(ResendableExchangeTest, WhatComesBehindARefusalIsNotLostHoweverMuchItIs) {
  first.begin(*exchange);
  bytes("abc");
  ASSERT_TRUE(exchange->refused());
  EXPECT_TRUE(client->held);
  exchange->hold(false);  // the node is there still, until its answer has ended
  EXPECT_TRUE(client->held);
  const std::string rest(kMostKeptOfBody.count, 'x');
  bytes(rest);
  EXPECT_EQ(first.body, "abc");
  refuse(first);
  second.begin(*exchange);
  EXPECT_EQ(second.body, "abc" + rest);
}

TEST_F(ResendableExchangeTest, ABodyThatIsWholeIsGivenAgainWithItsEnd) {
  first.begin(*exchange);
  bytes("abc");
  client->sink.on_end();
  EXPECT_TRUE(first.ended);
  refuse(first);
  second.begin(*exchange);
  EXPECT_EQ(second.body, "abc");
  EXPECT_TRUE(second.ended);
}

TEST_F(ResendableExchangeTest, OfALongBodyNothingIsKept) {
  first.begin(*exchange);
  bytes("abc");
  bytes(std::string(kMostKeptOfBody.count, 'x'));
  EXPECT_FALSE(exchange->may_be_resent());
  EXPECT_FALSE(exchange->refused());
  EXPECT_EQ(*kept, 0U);
  EXPECT_EQ(first.body.size(), 3 + kMostKeptOfBody.count);
  bytes("more");
  EXPECT_EQ(first.body.size(), 7 + kMostKeptOfBody.count);
  EXPECT_EQ(*kept, 0U);
}

TEST_F(ResendableExchangeTest, NorWhereAllTogetherKeepTooMuch) {
  *kept = kMostKeptBodies.count - 2;
  first.begin(*exchange);
  bytes("abc");
  EXPECT_FALSE(exchange->may_be_resent());
  EXPECT_EQ(first.body, "abc");
  EXPECT_EQ(*kept, kMostKeptBodies.count - 2);
}

TEST_F(ResendableExchangeTest, OnceAnAnswerBeginsNothingIsKept) {
  first.begin(*exchange);
  bytes("abc");
  exchange->start(http::Response(), std::nullopt);
  EXPECT_FALSE(exchange->may_be_resent());
  EXPECT_EQ(*kept, 0U);
  bytes("de");
  EXPECT_EQ(first.body, "abcde");
  EXPECT_EQ(*kept, 0U);
  exchange->send_bytes("answer");
  exchange->finish();
  EXPECT_EQ(client->bytes, "answer");
  EXPECT_TRUE(client->finished);
}

TEST_F(ResendableExchangeTest, ANodeThatIsBehindHoldsTheClientAndLosesNothing) {
  first.begin(*exchange);
  exchange->hold(true);
  EXPECT_TRUE(client->held);
  bytes("abc");  // was on its way
  EXPECT_EQ(first.body, "");
  exchange->hold(false);
  EXPECT_EQ(first.body, "abc");
  EXPECT_FALSE(client->held);
}

TEST_F(ResendableExchangeTest, NodesThatGoDoNotCutTheClientOffAndWhoAnswersAtLastDoes) {
  auto of_node = std::make_unique<http::Responder>(exchange);
  { const http::Responder of_another(exchange); }
  EXPECT_FALSE(client->cut_off);
  first.begin(*exchange);
  bytes("abc");
  refuse(first);
  {
    http::Responder here = exchange->hand_on();
    of_node.reset();  // a node's request ends a turn later
    EXPECT_FALSE(client->cut_off);
    // A frontend collects a body without a word before.
    second.collect(*here.stream());
    EXPECT_EQ(second.body, "abc");
    EXPECT_FALSE(client->held);
    client->sink.on_end();
    EXPECT_TRUE(second.ended);
  }
  EXPECT_TRUE(client->cut_off);
}

TEST_F(ResendableExchangeTest, TheEndOfABodyIsGivenToWhoCollectsItAfterARefusal) {
  first.begin(*exchange);
  bytes("abc");
  client->sink.on_end();
  ASSERT_TRUE(exchange->refused());
  refuse(first);
  http::Responder here = exchange->hand_on();
  second.collect(*here.stream());
  EXPECT_EQ(second.body, "abc");
  EXPECT_TRUE(second.ended);
}

TEST_F(ResendableExchangeTest, AClientThatGoesIsToldToWhoAnswersNow) {
  std::string told;
  exchange->on_disconnect([&told] { told += "first "; });
  const auto posted = client->disconnected;  // is on its way already
  exchange->on_disconnect([&told] { told += "second "; });
  EXPECT_FALSE(exchange->client_is_gone());
  posted();
  EXPECT_EQ(told, "second ");
  EXPECT_TRUE(exchange->client_is_gone());
}

TEST_F(ResendableExchangeTest, WhatIsKeptIsCountedNoMoreAtTheEnd) {
  first.begin(*exchange);
  bytes("abc");
  exchange.reset();
  EXPECT_EQ(*kept, 0U);
}

}  // namespace
}  // namespace lambent::cluster
