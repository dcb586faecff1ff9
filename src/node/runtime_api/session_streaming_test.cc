// Answers that come in pieces.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "core/domain/limits.h"
#include "node/runtime_api/limits.h"
#include "node/runtime_api/testing/session_test_support.h"

namespace lambent::runtime_api {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(SessionTest, AStreamedResponseGoesToItsSinkPieceByPiece) {
  sink = std::make_shared<FakeSink>();
  RawClient client = start_running();
  client.send(stream_head("Content-Type: text/event-stream\r\n"));
  turn();
  EXPECT_EQ(sink->type, "text/event-stream");
  client.send("5\r\nhello\r\n");
  turn_until([&] { return sink->taken.size() == 5; });
  EXPECT_EQ(sink->taken, "hello");
  clock.advance(std::chrono::hours(2));
  turn();
  client.send("1\r\n!\r\n");
  turn_until([&] { return sink->taken.size() == 6; });
  EXPECT_EQ(sink->taken, "hello!");
  EXPECT_TRUE(events.empty());
  EXPECT_TRUE(session->is_running());
  EXPECT_THAT(call(client, "0\r\n\r\n"), StartsWith("HTTP/1.1 202 "));
  EXPECT_THAT(events, ElementsAre(std::string("response ") + kIdText + "  text/event-stream"));
  EXPECT_EQ(sink->room, nullptr);
  client.send(next());
  turn();
  EXPECT_TRUE(session->is_idle());
}

TEST_F(SessionTest, AStreamedResponseIsCollectedForWhoWantsItWhole) {
  RawClient client = start_running();
  EXPECT_THAT(call(client, stream_head() + "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 202 "));
  EXPECT_THAT(events, ElementsAre(std::string("response ") + kIdText + " abc "));
}

TEST_F(SessionTest, AStreamWithoutABodyIsAnEmptyAnswer) {
  sink = std::make_shared<FakeSink>();
  RawClient client = start_running();
  EXPECT_THAT(
      call(client, answer(kIdText, "", "Lambda-Runtime-Function-Response-Mode: streaming\r\n")),
      StartsWith("HTTP/1.1 202 "));
  EXPECT_THAT(events, ElementsAre(std::string("response ") + kIdText + "  "));
}

TEST_F(SessionTest, TrailersTellThatAStreamFailed) {
  sink = std::make_shared<FakeSink>();
  RawClient client = start_running();
  // {"errorMessage":"no more","errorType":"Oops"}
  EXPECT_THAT(
      call(client, stream_head("Trailer: Lambda-Runtime-Function-Error-Type\r\n") +
                       "1\r\na\r\n0\r\nLambda-Runtime-Function-Error-Type: Runtime.Oops\r\n"
                       "Lambda-Runtime-Function-Error-Body: "
                       "eyJlcnJvck1lc3NhZ2UiOiJubyBtb3JlIiwiZXJyb3JUeXBlIjoiT29wcyJ9\r\n\r\n"),
      StartsWith("HTTP/1.1 202 "));
  EXPECT_EQ(sink->taken, "a");
  EXPECT_THAT(events,
              ElementsAre(std::string("error ") + kIdText +
                          " {\"errorMessage\":\"no more\",\"errorType\":\"Oops\"} Runtime.Oops"));
}

TEST_F(SessionTest, ASinkThatIsBehindHoldsTheRuntimeBack) {
  sink = std::make_shared<FakeSink>();
  sink->is_behind = true;
  RawClient client = start_running();
  client.send(stream_head() + "1\r\na\r\n");
  turn();
  const size_t before = sink->taken.size();
  EXPECT_GT(before, 0u);
  client.send("1\r\nb\r\n0\r\n\r\n");
  for (int i = 0; i < 100; i++) loop.run_once(milliseconds(1));
  EXPECT_EQ(sink->taken.size(), before);
  EXPECT_TRUE(session->is_running());
  sink->is_behind = false;
  sink->room();
  turn_until([&] { return !session->is_running(); });
  EXPECT_EQ(sink->taken, "ab");
  EXPECT_FALSE(session->is_running());
}

TEST_F(SessionTest, ARuntimeIsToldInTheMiddleThatItsClientIsGone) {
  sink = std::make_shared<FakeSink>();
  sink->is_behind = true;
  RawClient client = start_running();
  client.send(stream_head() + "1\r\na\r\n");
  turn();
  sink->is_gone = true;
  const auto room = sink->room;
  room();
  turn();
  client.receive();
  EXPECT_THAT(client.received, HasSubstr("HTTP/1.1 410 "));
  EXPECT_THAT(events, ElementsAre(std::string("response ") + kIdText + "  "));
  // It comes back, on another connection.
  RawClient again = connect();
  again.send(next());
  turn();
  EXPECT_TRUE(session->is_idle());
  clock.advance(kReturnTime + seconds(1));
  turn();
  EXPECT_EQ(events.back(), "ready");
}

TEST_F(SessionTest, ARuntimeThatGoesOnWithWhatIsNotWantedIsStuck) {
  sink = std::make_shared<FakeSink>();
  sink->is_gone = true;
  RawClient client = start_running();
  client.send(stream_head() + "1\r\na\r\n");
  turn();
  clock.advance(kReturnTime + seconds(1));
  turn();
  EXPECT_EQ(events.back(), "stuck");
}

TEST_F(SessionTest, AStreamThatBreaksEndsItsInvocation) {
  sink = std::make_shared<FakeSink>();
  RawClient client = start_running();
  client.send(stream_head() + "5\r\nhel");
  turn();
  client.fd.reset();
  turn();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0], EndsWith(" Runtime.TruncatedResponse"));
  EXPECT_FALSE(session->is_running());
}

TEST_F(SessionTest, AStreamOfMalformedChunksEndsItsInvocation) {
  sink = std::make_shared<FakeSink>();
  RawClient client = start_running();
  EXPECT_THAT(call(client, stream_head() + "x\r\n"), StartsWith("HTTP/1.1 400 "));
  turn();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0], EndsWith(" Runtime.TruncatedResponse"));
}

TEST_F(SessionTest, AStreamHasALimit) {
  sink = std::make_shared<FakeSink>();
  RawClient client = start_running();
  client.send(stream_head());
  turn();
  const std::string piece(256 * 1024, 'x');
  const std::string chunk = "40000\r\n" + piece + "\r\n";
  const auto pieces = static_cast<uint64_t>(limits::kStreamedResponse.count) / piece.size();
  for (uint64_t i = 0; i < pieces; ++i) {
    std::string_view left = chunk;
    while (!left.empty()) {
      const ssize_t sent =
          ::send(client.fd.get(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) left.remove_prefix(static_cast<size_t>(sent));
      turn(1);
    }
    sink->taken.clear();
  }
  turn();
  EXPECT_TRUE(events.empty());
  EXPECT_THAT(call(client, "1\r\ny\r\n"), StartsWith("HTTP/1.1 413 "));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0], EndsWith(" Function.ResponseSizeTooLarge"));
}

TEST_F(SessionTest, WhatIsCollectedHasTheLimitOfResponses) {
  RawClient client = start_running();
  const auto most = static_cast<size_t>(limits::kResponsePayload.count);
  char size[32];
  (void)snprintf(size, sizeof size, "%zx\r\n", most + 1);
  EXPECT_THAT(call(client, stream_head() + size + std::string(most + 1, 'x') + "\r\n"),
              StartsWith("HTTP/1.1 413 "));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0], EndsWith(" Function.ResponseSizeTooLarge"));
}

TEST_F(SessionTest, AnErrorMayComeInsteadOfTheRestOfAStream) {
  sink = std::make_shared<FakeSink>();
  RawClient client = start_running();
  client.send(stream_head() + "1\r\na\r\n");
  turn();
  RawClient other = connect();
  EXPECT_THAT(call(other, error(kIdText, "{}")), StartsWith("HTTP/1.1 202 "));
  client.send("1\r\nb\r\n0\r\n\r\n");
  turn();
  EXPECT_EQ(sink->taken, "a");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0], StartsWith("error "));
}

TEST_F(SessionTest, AnInvocationHasOneAnswer) {
  sink = std::make_shared<FakeSink>();
  RawClient client = start_running();
  client.send(stream_head() + "1\r\na\r\n");
  turn();
  RawClient other = connect();
  EXPECT_THAT(call(other, answer(kIdText, "x")), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(call(other, stream_head()), StartsWith("HTTP/1.1 403 "));
  EXPECT_TRUE(session->is_running());
}

TEST_F(SessionTest, ASessionMayEndInTheMiddleOfAStream) {
  sink = std::make_shared<FakeSink>();
  RawClient client = start_running();
  client.send(stream_head() + "1\r\na\r\n");
  turn();
  ASSERT_NE(sink->room, nullptr);
  session.reset();
  EXPECT_EQ(sink->room, nullptr);
  client.send("1\r\nb\r\n");
  turn();
  client.receive();
  EXPECT_TRUE(client.ended);
}

TEST_F(SessionTest, AnUnknownResponseModeIsRefusedAndMayBeCorrected) {
  RawClient client = start_running();
  EXPECT_THAT(call(client, answer(kIdText, "x", "Lambda-Runtime-Function-Response-Mode: odd\r\n")),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(call(client, answer(kIdText, "x")), StartsWith("HTTP/1.1 202 "));
}

TEST_F(SessionTest, ABufferedResponseIsWhatEveryResponseIs) {
  RawClient client = start_running();
  EXPECT_THAT(
      call(client, answer(kIdText, "x", "Lambda-Runtime-Function-Response-Mode: buffered\r\n")),
      StartsWith("HTTP/1.1 202 "));
}

TEST_F(SessionTest, AStreamGoesOnWhateverAnotherConnectionBeginsToAnswer) {
  sink = std::make_shared<FakeSink>();
  RawClient client = start_running();
  client.send(stream_head() + "1\r\nx\r\n");
  turn();
  for (const char* length : {"99999999999", "10"}) {
    RawClient other = connect();
    other.send(std::string("POST /2018-06-01/runtime/invocation/") + kIdText +
               "/response HTTP/1.1\r\nHost: h\r\nContent-Length: " + length + "\r\n\r\nabc");
    turn();
    other.fd.reset();
    turn();
  }
  EXPECT_TRUE(events.empty()) << events.front();
  EXPECT_THAT(call(client, "0\r\n\r\n"), StartsWith("HTTP/1.1 202"));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0], StartsWith(std::string("response ") + kIdText));
}

}  // namespace
}  // namespace lambent::runtime_api
