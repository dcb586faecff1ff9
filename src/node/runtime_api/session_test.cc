#include "node/runtime_api/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/http/testing/testing.h"
#include "node/runtime_api/error_type.h"

namespace lambent::runtime_api {
namespace {

using http::RawClient;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr InvocationId kId{0x0123456789abcdef, 0x8123456789abcdef};
constexpr char kIdText[] = "01234567-89ab-cdef-8123-456789abcdef";

// Who waits for an answer in pieces.
struct FakeSink final : http::AnswerSink {
  void begin(std::string_view content_type) override { type = content_type; }
  bool take(std::string_view bytes) override {
    taken += bytes;
    return !is_behind && !is_gone;
  }
  void on_room(std::function<void()> callback) override { room = std::move(callback); }
  bool client_is_gone() const override { return is_gone; }

  std::string type = "none";
  std::string taken;
  bool is_behind = false;
  bool is_gone = false;
  std::function<void()> room;
};

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    auto listener = http::listen_tcp("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok());
    port = http::port_of(*listener);
    Callbacks callbacks;
    callbacks.on_ready = [this] { events.push_back("ready"); };
    callbacks.on_response = [this](InvocationId id, std::string body, std::string type) {
      events.push_back("response " + to_string(id) + " " + body.substr(0, 100) + " " + type);
    };
    callbacks.on_error = [this](InvocationId id, std::string body, std::string type) {
      events.push_back("error " + to_string(id) + " " + body + " " + type);
    };
    callbacks.on_init_error = [this](std::string body, std::string type) {
      events.push_back("init error " + body + " " + type);
      if (end_in_callback) session.reset();
    };
    callbacks.sink_of = [this](InvocationId) { return sink; };
    callbacks.on_stuck = [this] { events.push_back("stuck"); };
    callbacks.on_disconnect = [this] { events.push_back("disconnect"); };
    callbacks.on_object = [this](http::Request request, std::string_view path,
                                 http::Responder responder) {
      events.push_back("object " + request.method + " '" + std::string(path) + "' " +
                       std::to_string(request.body.size()));
      responder.send({});
    };
    if (!has_objects) callbacks.on_object = nullptr;
    session = std::make_unique<Session>(loop, std::move(*listener),
                                        SessionOptions{.function_name = "f",
                                                       .handler = "app.handler",
                                                       .max_response = max_response,
                                                       .most_running = most_running},
                                        std::move(callbacks));
  }

  RawClient connect() const { return RawClient(port); }
  void turn(int times = 5) {
    for (int i = 0; i < times; i++) loop.run_once(Duration::zero());
  }
  // Small pieces may wait for what was sent before to be acknowledged.
  void turn_until(const std::function<bool()>& holds) {
    for (int i = 0; i < 2000 && !holds(); i++) loop.run_once(milliseconds(1));
  }
  // Sends a request and returns the answer, headers and all.
  std::string call(RawClient& client, std::string_view request) {
    client.received.clear();
    while (!request.empty()) {
      const ssize_t sent =
          ::send(client.fd.get(), request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) request.remove_prefix(static_cast<size_t>(sent));
      turn(1);
    }
    for (int i = 0; i < 2000 && client.received.empty() && !client.ended; i++) {
      loop.run_once(milliseconds(1));
      client.receive();
    }
    return client.received;
  }
  static std::string get(std::string_view target) {
    return "GET " + std::string(target) + " HTTP/1.1\r\nHost: 127.0.0.1:9001\r\n\r\n";
  }
  static std::string post(std::string_view target, std::string_view body,
                          std::string_view headers = "") {
    return "POST " + std::string(target) + " HTTP/1.1\r\nHost: h\r\n" + std::string(headers) +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }
  static std::string next() { return get("/2018-06-01/runtime/invocation/next"); }
  static std::string answer(std::string_view id, std::string_view body,
                            std::string_view headers = "") {
    return post("/2018-06-01/runtime/invocation/" + std::string(id) + "/response", body, headers);
  }
  static std::string error(std::string_view id, std::string_view body,
                           std::string_view headers = "") {
    return post("/2018-06-01/runtime/invocation/" + std::string(id) + "/error", body, headers);
  }
  static RuntimeInvocation invocation() {
    return {.id = kId, .deadline = milliseconds(1234567890123), .payload = "{\"a\":1}"};
  }
  // A runtime that has initialised and was given an invocation.
  RawClient start_running() {
    RawClient client = connect();
    client.send(next());
    turn();
    EXPECT_TRUE(session->is_idle());
    session->give(invocation());
    turn();
    client.receive();
    events.clear();
    return client;
  }

  FakeClock clock;
  loop::EventLoop loop{clock};
  std::vector<std::string> events;
  bool end_in_callback = false;
  std::shared_ptr<FakeSink> sink;  // shared with the session
  size_t most_running = 1;
  Bytes max_response = limits::kResponsePayload;
  bool has_objects = true;
  uint16_t port = 0;
  std::unique_ptr<Session> session;
};

TEST_F(SessionTest, ARuntimeIsGivenAnInvocationAndAnswersIt) {
  RawClient client = connect();
  client.send(next());
  turn();
  EXPECT_EQ(events, std::vector<std::string>{"ready"});
  session->give(invocation());
  EXPECT_TRUE(session->is_running());
  turn();
  client.receive();
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(client.received,
              HasSubstr(std::string("Lambda-Runtime-Aws-Request-Id: ") + kIdText + "\r\n"));
  EXPECT_THAT(client.received, HasSubstr("Lambda-Runtime-Deadline-Ms: 1234567890123\r\n"));
  EXPECT_THAT(client.received, HasSubstr("Content-Type: application/json\r\n"));
  // Of no client: the invocation's own.
  EXPECT_THAT(client.received, HasSubstr("Lambda-Runtime-Trace-Id: Root=1-"));
  EXPECT_THAT(client.received, EndsWith("\r\n\r\n{\"a\":1}"));
  const std::string reply = call(client, answer(kIdText, "42", "Content-Type: text/plain\r\n"));
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 202 Accepted\r\n"));
  EXPECT_THAT(reply, EndsWith("{\"status\":\"OK\"}\n"));
  EXPECT_EQ(events.back(), std::string("response ") + kIdText + " 42 text/plain");
  EXPECT_FALSE(session->is_idle());
  client.send(next());
  turn();
  EXPECT_TRUE(session->is_idle());
  EXPECT_EQ(events.back(), "ready");
}

TEST_F(SessionTest, HeadersAreSentIfTheyHaveAValue) {
  RawClient client = connect();
  client.send(next());
  turn();
  RuntimeInvocation full = invocation();
  full.content_type = "application/octet-stream";
  full.trace_id = "Root=1-2-3";
  full.client_context = "{\"custom\":{}}";
  full.function_arn = "arn:aws:lambda:local:0:function:f";
  session->give(full);
  turn();
  client.receive();
  for (const char* line :
       {"Content-Type: application/octet-stream", "Lambda-Runtime-Trace-Id: Root=1-2-3",
        "Lambda-Runtime-Client-Context: {\"custom\":{}}",
        "Lambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:local:0:function:f"}) {
    EXPECT_THAT(client.received, HasSubstr(std::string(line) + "\r\n"));
  }
}

TEST_F(SessionTest, AnAnswerBeforeTheFirstNextIsAnInvalidTransition) {
  RawClient client = connect();
  for (const std::string& request : {answer(kIdText, "1"), error(kIdText, "{}")}) {
    const std::string reply = call(client, request);
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 403 Forbidden\r\n"));
    EXPECT_THAT(reply, HasSubstr("\"errorType\":\"InvalidStateTransition\""));
  }
}

TEST_F(SessionTest, NextWhileRunningIsAnInvalidTransition) {
  RawClient client = start_running();
  EXPECT_THAT(call(client, next()), StartsWith("HTTP/1.1 403 "));
}

TEST_F(SessionTest, WrongAndOldIdsAreRefused) {
  RawClient client = start_running();
  for (const char* id : {"ffffffff-89ab-cdef-8123-456789abcdef", "x", ""}) {
    const std::string reply = call(client, answer(id, "1"));
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
    EXPECT_THAT(reply, HasSubstr("\"errorType\":\"InvalidRequestID\""));
  }
  EXPECT_THAT(call(client, answer(kIdText, "1")), StartsWith("HTTP/1.1 202 "));
  EXPECT_THAT(call(client, answer(kIdText, "1")), HasSubstr("InvalidRequestID"));
  EXPECT_THAT(call(client, error(kIdText, "{}")), HasSubstr("InvalidRequestID"));
  EXPECT_EQ(events.size(), 1u);
}

TEST_F(SessionTest, TheErrorTypeComesFromTheHeaderOrTheBody) {
  RawClient client = start_running();
  EXPECT_THAT(call(client, error(kIdText, "{\"errorType\":\"ValueError\"}",
                                 "Lambda-Runtime-Function-Error-Type: Unhandled\r\n")),
              StartsWith("HTTP/1.1 202 "));
  EXPECT_EQ(events.back(),
            std::string("error ") + kIdText + " {\"errorType\":\"ValueError\"} ValueError");
  EXPECT_EQ(error_type_of("Function.Oops", "{\"errorType\":\"E\"}", "F"), "Function.Oops");
  EXPECT_EQ(error_type_of("", "{\"errorType\":\"E\"}", "F"), "E");
  for (const char* body :
       {"", "[]", "{", "{\"errorType\":1}", "{\"errorType\":\"a\\nb\"}", "{\"errorType\":\"\"}"}) {
    EXPECT_EQ(error_type_of("Function.9", body, "Function.Unknown"), "Function.Unknown") << body;
    EXPECT_EQ(error_message_of(body), body);
  }
  EXPECT_EQ(error_message_of(error_json("E", "it \"broke\"")), "it \"broke\"");
}

TEST_F(SessionTest, ACauseOfAMebibyteInAHeaderIsTaken) {
  RawClient client = start_running();
  const std::string cause(1024 * 1024, 'x');
  EXPECT_THAT(call(client, error(kIdText, "{}",
                                 "Lambda-Runtime-Function-XRay-Error-Cause: " + cause + "\r\n")),
              StartsWith("HTTP/1.1 202 "));
}

TEST_F(SessionTest, InitErrorsAreReportedBeforeTheFirstNextOnly) {
  RawClient client = connect();
  EXPECT_THAT(call(client, post("/2018-06-01/runtime/init/error", "{\"errorMessage\":\"no\"}",
                                "Lambda-Runtime-Function-Error-Type: Runtime.ImportError\r\n")),
              StartsWith("HTTP/1.1 202 "));
  EXPECT_EQ(events.back(), "init error {\"errorMessage\":\"no\"} Runtime.ImportError");
  client.send(next());
  turn();
  RawClient other = connect();
  EXPECT_THAT(call(other, post("/2018-06-01/runtime/init/error", "{}")),
              StartsWith("HTTP/1.1 403 "));
}

TEST_F(SessionTest, ACallbackMayDestroyTheSession) {
  end_in_callback = true;
  RawClient client = connect();
  EXPECT_THAT(call(client, post("/2018-06-01/runtime/init/error", "{}")),
              StartsWith("HTTP/1.1 202 "));
  EXPECT_EQ(session, nullptr);
  turn();
  client.receive();
  EXPECT_TRUE(client.ended);
}

TEST_F(SessionTest, AResponseOfSixMebibytesIsTakenAndOneByteMoreEndsTheInvocation) {
  RawClient client = start_running();
  const std::string most(limits::kResponsePayload.count, 'x');
  EXPECT_THAT(call(client, answer(kIdText, most)), StartsWith("HTTP/1.1 202 "));
  client.send(next());
  turn();
  session->give(invocation());
  turn();
  client.receive();
  events.clear();
  const std::string reply = call(client, answer(kIdText, most + "x"));
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(reply, HasSubstr("\"errorMessage\":\"Exceeded maximum allowed payload size "
                               "(6291556 bytes).\",\"errorType\":\"RequestEntityTooLarge\""));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0], EndsWith(" Function.ResponseSizeTooLarge"));
  EXPECT_FALSE(session->is_running());
  RawClient again = connect();
  again.send(next());
  turn();
  EXPECT_TRUE(session->is_idle());
}

// The head of an answer in chunks.
std::string stream_head(std::string_view headers = "") {
  return "POST /2018-06-01/runtime/invocation/" + std::string(kIdText) +
         "/response HTTP/1.1\r\nHost: h\r\nLambda-Runtime-Function-Response-Mode: streaming\r\n"
         "Transfer-Encoding: chunked\r\n" +
         std::string(headers) + "\r\n";
}

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

TEST_F(SessionTest, AResponseCutShortEndsTheInvocation) {
  RawClient client = start_running();
  const std::string whole = answer(kIdText, std::string(1000, 'x'));
  client.send(whole.substr(0, whole.size() - 1));
  turn();
  client.fd.reset();
  turn();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0], EndsWith(" Runtime.TruncatedResponse"));
}

TEST_F(SessionTest, ARuntimeThatGoesAwayWhileItWaitsIsReported) {
  RawClient client = connect();
  client.send(next());
  turn();
  client.fd.reset();
  turn();
  EXPECT_EQ(events, (std::vector<std::string>{"ready", "disconnect"}));
  EXPECT_FALSE(session->is_idle());
}

TEST_F(SessionTest, TheNewestOfTwoCallsForWorkGetsIt) {
  RawClient first = connect();
  RawClient second = connect();
  first.send(next());
  turn();
  second.send(next());
  turn();
  first.receive();
  EXPECT_THAT(first.received, StartsWith("HTTP/1.1 403 "));
  session->give(invocation());
  turn();
  second.receive();
  EXPECT_THAT(second.received, StartsWith("HTTP/1.1 200 "));
}

TEST_F(SessionTest, AnInvocationGivenBeforeTheRuntimeAsksWaitsForIt) {
  RawClient client = start_running();
  EXPECT_THAT(call(client, answer(kIdText, "1")), StartsWith("HTTP/1.1 202 "));
  events.clear();
  session->give(invocation());
  EXPECT_FALSE(session->is_running());
  EXPECT_THAT(call(client, answer(kIdText, "1")), HasSubstr("InvalidRequestID"));
  EXPECT_THAT(call(client, next()), StartsWith("HTTP/1.1 200 "));
  EXPECT_TRUE(session->is_running());
  EXPECT_TRUE(events.empty());
}

std::string deadline_of(std::string_view id) {
  return "/lambent/2026-11/invocations/" + std::string(id) + "/deadline";
}

TEST_F(SessionTest, TheDeadlineOfAnInvocationIsCountedFromTheArrivalOfItsMemory) {
  const auto left = [this](const std::string& answer) {
    constexpr std::string_view kName = "\"deadlineMs\":";
    const size_t at = answer.find(kName);
    if (at == std::string::npos) return milliseconds(-1);
    return milliseconds(std::stoll(answer.substr(at + kName.size()))) -
           std::chrono::duration_cast<milliseconds>(clock.wall_now());
  };
  RawClient client = connect();
  client.send(next());
  turn();
  RuntimeInvocation given = invocation();
  given.timeout_with_memory = seconds(3);
  session->give(given);
  turn();
  client.receive();
  EXPECT_THAT(client.received, HasSubstr("Lambent-Runtime-Deadline: moves\r\n"));
  clock.advance(seconds(10));
  RawClient another = connect();
  std::string said = call(another, get(deadline_of(kIdText)));
  EXPECT_THAT(said, EndsWith(R"(,"moves":true})"));
  EXPECT_EQ(left(said), seconds(3)) << "at least";
  session->memory_came();
  clock.advance(seconds(1));
  said = call(another, get(deadline_of(kIdText)));
  EXPECT_THAT(said, EndsWith(R"(,"moves":false})"));
  EXPECT_EQ(left(said), seconds(2));
  EXPECT_THAT(call(client, answer(kIdText, "1")), StartsWith("HTTP/1.1 202 "));
  EXPECT_THAT(call(another, get(deadline_of(kIdText))), HasSubstr("InvalidRequestID"));
}

TEST_F(SessionTest, AnInvocationThatIsAskedForAfterItsMemoryCameHasItsOwnDeadline) {
  RawClient client = start_running();
  EXPECT_THAT(call(client, answer(kIdText, "1")), StartsWith("HTTP/1.1 202 "));
  RuntimeInvocation given = invocation();
  given.timeout_with_memory = seconds(3);
  session->give(given);
  clock.advance(seconds(10));
  session->memory_came();
  const auto deadline =
      std::chrono::duration_cast<milliseconds>(clock.wall_now() + seconds(3)).count();
  const std::string got = call(client, next());
  EXPECT_THAT(got, HasSubstr("Lambda-Runtime-Deadline-Ms: " + std::to_string(deadline) + "\r\n"));
  EXPECT_EQ(got.find("moves"), std::string::npos);
}

// An answer that is refused before it is whole: the head of one that is too large.
std::string endless_answer() {
  return "POST /2018-06-01/runtime/invocation/" + std::string(kIdText) +
         "/response HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000000\r\n\r\n";
}

TEST_F(SessionTest, ARuntimeThatStaysAwayAfterARefusedAnswerIsStuck) {
  RawClient client = start_running();
  EXPECT_THAT(call(client, endless_answer()), StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(events, ElementsAre(EndsWith(" Function.ResponseSizeTooLarge")));
  session->give(invocation());
  clock.advance(kReturnTime - milliseconds(1));
  turn();
  EXPECT_EQ(events.size(), 1u);
  clock.advance(milliseconds(1));
  turn();
  EXPECT_EQ(events.back(), "stuck");
  EXPECT_TRUE(session->has_undelivered()) << "another sandbox can have it";
}

TEST_F(SessionTest, ARuntimeThatComesBackAfterARefusedAnswerIsNotStuck) {
  RawClient client = start_running();
  EXPECT_THAT(call(client, endless_answer()), StartsWith("HTTP/1.1 413 "));
  session->give(invocation());
  RawClient again = connect();
  EXPECT_THAT(call(again, next()), StartsWith("HTTP/1.1 200 "));
  clock.advance(kReturnTime * 2);
  turn();
  EXPECT_THAT(events, ElementsAre(EndsWith(" Function.ResponseSizeTooLarge")));
}

TEST_F(SessionTest, ASocketThatIsNoGoodIsAnInitError) {
  std::string type;
  Callbacks callbacks;
  callbacks.on_init_error = [&](std::string, std::string its_type) { type = its_type; };
  const Session broken(loop, OwnedFd(), {}, std::move(callbacks));
  turn();
  EXPECT_EQ(type, "Sandbox.Failure");
}

TEST_F(SessionTest, AHandlerMayRunForHoursOnTheSameConnection) {
  RawClient client = start_running();
  clock.advance(std::chrono::hours(2));
  turn();
  EXPECT_THAT(call(client, answer(kIdText, "late")), StartsWith("HTTP/1.1 202 "));
}

TEST_F(SessionTest, OtherCallsAreAnsweredSensibly) {
  RawClient client = connect();
  EXPECT_THAT(call(client, get("/2018-06-01/ping")), EndsWith("\r\n\r\npong"));
  EXPECT_THAT(call(client, get("/2018-06-01/runtime/restore/next")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(call(client, get("/nothing")), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(call(client, get("/2018-06-01/runtime/init/error")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(call(client, post("/2018-06-01/runtime/invocation/next", "")),
              StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(call(client, post("/2022-07-01/telemetry", "{}")),
              HasSubstr("Telemetry.NotSupported"));
  EXPECT_THAT(call(client, post("/2020-08-15/logs", "{}")), HasSubstr("Logs.NotSupported"));
}

TEST_F(SessionTest, ExtensionsMayRegisterAndWait) {
  RawClient client = connect();
  const std::string reply = call(client, post("/2020-01-01/extension/register", "{}"));
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(reply, HasSubstr("Lambda-Extension-Identifier: "));
  EXPECT_THAT(reply, EndsWith("{\"functionName\":\"f\",\"functionVersion\":\"$LATEST\","
                              "\"handler\":\"app.handler\"}"));
  std::vector<RawClient> waiting;
  for (int i = 0; i < 10; i++) {
    waiting.push_back(connect());
    waiting.back().send(get("/2020-01-01/extension/event/next"));
  }
  turn();
  EXPECT_THAT(call(client, get("/2020-01-01/extension/event/next")), StartsWith("HTTP/1.1 429 "));
  waiting.clear();
  turn();
  RawClient another = connect();
  another.send(get("/2020-01-01/extension/event/next"));
  turn();
  another.receive();
  EXPECT_EQ(another.received, "");
}

TEST_F(SessionTest, CallsOnObjectsArePassedOn) {
  RawClient client = connect();
  EXPECT_THAT(call(client, get("/lambent/2026-11/objects")), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(call(client, get("/lambent/2026-11/objects/x.0?wait=1")),
              StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(call(client, get("/lambent/2026-11/objectsx")), StartsWith("HTTP/1.1 404 "));
  const std::string large(limits::kResponsePayload.count + 1, 'x');
  EXPECT_THAT(call(client, post("/lambent/2026-11/objects", large)), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(events, ElementsAre("object GET '' 0", "object GET '/x.0' 0",
                                  "object POST '' " + std::to_string(large.size())));
}

class TwoInFlightTest : public SessionTest {
 protected:
  TwoInFlightTest() { most_running = 2; }
  static RuntimeInvocation other() {
    RuntimeInvocation made = invocation();
    made.id = {3, 4};
    return made;
  }
  const std::string other_text = to_string(other().id);
};

TEST_F(TwoInFlightTest, TheNextIsAskedForBeforeTheLastIsAnswered) {
  RawClient asking = start_running();
  EXPECT_FALSE(session->is_idle());
  asking.send(next());
  turn();
  EXPECT_TRUE(session->is_idle());
  EXPECT_TRUE(events.empty()) << "it has something to do: " << events.front();
  session->give(other());
  turn();
  asking.receive();
  EXPECT_THAT(asking.received, HasSubstr(other_text));

  // A call for a third one waits, until a newer one takes its place; and each is answered once, as
  // itself.
  asking.received.clear();
  asking.send(next());
  turn();
  EXPECT_TRUE(session->is_idle());
  RawClient newer = connect();
  newer.send(next());
  turn();
  asking.receive();
  EXPECT_THAT(asking.received, StartsWith("HTTP/1.1 403"));
  RawClient answering = connect();
  EXPECT_THAT(call(answering, answer(kIdText, "1")), StartsWith("HTTP/1.1 202"));
  EXPECT_TRUE(session->is_running());
  EXPECT_THAT(call(answering, answer(kIdText, "1")), HasSubstr("InvalidRequestID"));
  EXPECT_THAT(call(answering, error(other_text, "{}")), StartsWith("HTTP/1.1 202"));
  EXPECT_FALSE(session->is_running());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_THAT(events[0], StartsWith(std::string("response ") + kIdText));
  EXPECT_THAT(events[1], StartsWith("error " + other_text));
}

TEST_F(TwoInFlightTest, EachIsAskedForOnAConnectionOfItsOwn) {
  RawClient one = connect();
  RawClient two = connect();
  one.send(next());
  two.send(next());
  turn();
  EXPECT_THAT(events, ElementsAre("ready", "ready"));
  session->give(invocation());
  EXPECT_TRUE(session->is_idle());
  session->give(other());
  EXPECT_FALSE(session->is_idle());
  turn();
  one.receive();
  two.receive();
  EXPECT_THAT(one.received, HasSubstr(kIdText));
  EXPECT_THAT(two.received, HasSubstr(other_text));
  EXPECT_THAT(call(two, answer(other_text, "2")), StartsWith("HTTP/1.1 202"));

  // With one at work, one more may wait: of two the newer.
  two.send(next());
  turn();
  RawClient three = connect();
  three.send(next());
  turn();
  two.received.clear();
  two.receive();
  EXPECT_THAT(two.received, StartsWith("HTTP/1.1 403"));
  three.fd.reset();
  turn();
  EXPECT_FALSE(session->is_idle());
}

TEST_F(TwoInFlightTest, OneThatIsAbandonedMakesRoomForAnother) {
  RawClient client = start_running();
  session->give(other());
  (void)call(client, next());
  session->abandon(kId);
  EXPECT_TRUE(session->is_running());
  RawClient another = connect();
  EXPECT_THAT(call(another, answer(kIdText, "1")), HasSubstr("InvalidRequestID"));
  another.send(next());
  turn();
  EXPECT_TRUE(session->is_idle());
  EXPECT_TRUE(events.empty()) << events.front();
}

TEST_F(TwoInFlightTest, OneThatIsAbandonedAndGoesOnLeavesTwoPlaces) {
  RawClient first = start_running();
  session->give(other());
  RawClient second = connect();
  EXPECT_THAT(call(second, next()), HasSubstr(other_text));
  // The runtime has two at work, as far as it knows, and asks for one more.
  RawClient third = connect();
  third.send(next());
  turn();
  session->abandon(kId);
  RuntimeInvocation more = invocation();
  more.id = {5, 6};
  session->give(more);
  EXPECT_FALSE(session->has_undelivered());
  turn();
  third.receive();
  EXPECT_THAT(third.received, HasSubstr(to_string(more.id)));
}

TEST_F(TwoInFlightTest, OneThatIsAbandonedBeforeItWasAskedForIsNeverSeen) {
  RawClient client = start_running();
  session->give(other());
  session->abandon(other().id);
  EXPECT_FALSE(session->has_undelivered());
  client.received.clear();
  client.send(next());
  turn();
  client.receive();
  EXPECT_EQ(client.received, "");
}

TEST_F(TwoInFlightTest, WhatWasGivenAheadWaitsUntilItIsAskedFor) {
  RawClient client = start_running();
  session->give(other());
  EXPECT_TRUE(session->has_undelivered());
  EXPECT_THAT(call(client, next()), HasSubstr(other_text));
  EXPECT_FALSE(session->has_undelivered());
}

TEST_F(TwoInFlightTest, ABodyAboveTheLimitFailsTheInvocationThatItAnswers) {
  RawClient client = start_running();
  session->give(other());
  (void)call(client, next());
  const auto too_large = [&](const std::string& path) {
    RawClient answering = connect();
    return call(answering, "POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: " +
                               std::to_string(limits::kHttpObject.count + 1) + "\r\n\r\n");
  };
  EXPECT_THAT(too_large("/2018-06-01/runtime/invocation/unknown/response"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_TRUE(events.empty()) << "which of the two is not known: " << events.front();

  EXPECT_THAT(too_large("/2018-06-01/runtime/invocation/" + other_text + "/response"),
              StartsWith("HTTP/1.1 413"));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0], StartsWith("error " + other_text));
  EXPECT_THAT(events[0], EndsWith(" Function.ResponseSizeTooLarge"));
  EXPECT_TRUE(session->is_running());

  // Only the other one runs now.
  EXPECT_THAT(too_large("/2018-06-01/runtime/invocation/unknown/response"),
              StartsWith("HTTP/1.1 413"));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_THAT(events[1], StartsWith(std::string("error ") + kIdText));
  EXPECT_FALSE(session->is_running());
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

class ManyInFlightTest : public SessionTest {
 protected:
  ManyInFlightTest() {
    most_running = 20;
    max_response = Bytes(1000);
    has_objects = false;
  }
};

TEST_F(ManyInFlightTest, AnAnswerThatComesBesideTooManyEndsItsInvocation) {
  std::vector<RawClient> clients;
  std::vector<std::string> ids;
  for (uint64_t each = 0; each < most_running; ++each) {
    RuntimeInvocation made = invocation();
    made.id = {9, each};
    ids.push_back(to_string(made.id));
    RawClient& client = clients.emplace_back(connect());
    client.send(next());
    turn();
    session->give(std::move(made));
    turn();
    client.receive();
    ASSERT_THAT(client.received, HasSubstr(ids.back()));
  }
  events.clear();
  // None comes whole.
  for (size_t each = 0; each < clients.size(); ++each) {
    clients[each].send("POST /2018-06-01/runtime/invocation/" + ids[each] +
                       "/response HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\n" +
                       std::string(890, 'x'));
    turn();
  }
  ASSERT_FALSE(events.empty()) << "the last ones are too many";
  EXPECT_LT(events.size(), clients.size());
  for (size_t each = 0; each < events.size(); ++each) {
    const std::string& id = ids[ids.size() - events.size() + each];
    EXPECT_THAT(events[each], StartsWith("error " + id));
    EXPECT_THAT(events[each], EndsWith(" Runtime.ResponseRefused"));
  }
}

TEST_F(TwoInFlightTest, WhatIsTruncatedIsTheAnswerToItsOwn) {
  RawClient client = start_running();
  session->give(other());
  (void)call(client, next());
  RawClient answering = connect();
  answering.send("POST /2018-06-01/runtime/invocation/" + other_text +
                 "/response HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
  turn();
  answering.fd.reset();
  turn();
  ASSERT_FALSE(events.empty());
  EXPECT_THAT(events[0], StartsWith("error " + other_text));
  EXPECT_THAT(events[0], HasSubstr("Runtime.TruncatedResponse"));
  EXPECT_TRUE(session->is_running());
}

TEST_F(SessionTest, ARuntimeThatWaitsGoesOnWithAnotherSession) {
  RawClient runtime = connect();
  runtime.send(next());
  turn();
  ASSERT_TRUE(session->is_idle());
  auto handed_over = session->hand_over();
  ASSERT_TRUE(handed_over.has_value());
  session.reset();
  turn();
  Callbacks callbacks;
  callbacks.on_ready = [this] { events.push_back("ready again"); };
  callbacks.on_response = [this](InvocationId, std::string body, std::string) {
    events.push_back("response " + body);
  };
  session = std::make_unique<Session>(loop, std::move(*handed_over), SessionOptions{},
                                      std::move(callbacks));
  ASSERT_TRUE(session->is_idle());
  session->give(invocation());
  turn();
  runtime.receive();
  EXPECT_THAT(runtime.received, HasSubstr(kIdText));
  EXPECT_THAT(runtime.received, EndsWith("{\"a\":1}"));
  EXPECT_THAT(call(runtime, answer(kIdText, "42")), StartsWith("HTTP/1.1 202"));
  EXPECT_THAT(events, ElementsAre("ready", "ready again", "response 42"));
}

TEST_F(TwoInFlightTest, ARuntimeThatWaitsTwiceGoesOnWithAnotherSession) {
  RawClient one = connect();
  RawClient two = connect();
  one.send(next());
  two.send(next());
  turn();
  auto handed_over = session->hand_over();
  ASSERT_TRUE(handed_over.has_value());
  EXPECT_EQ(handed_over->waiting.size(), 2u);
  session.reset();
  turn();
  session = std::make_unique<Session>(loop, std::move(*handed_over),
                                      SessionOptions{.most_running = 2}, Callbacks{});
  session->give(invocation());
  session->give(other());
  EXPECT_FALSE(session->has_undelivered());
  turn();
  one.receive();
  two.receive();
  const std::string both = one.received + two.received;
  EXPECT_THAT(both, HasSubstr(kIdText));
  EXPECT_THAT(both, HasSubstr(other_text));
}

TEST_F(SessionTest, ARuntimeThatWorksStays) {
  RawClient runtime = start_running();
  EXPECT_FALSE(session->hand_over().has_value());
  EXPECT_THAT(call(runtime, answer(kIdText, "42")), StartsWith("HTTP/1.1 202"));
  EXPECT_FALSE(session->hand_over().has_value()) << "it has not asked for work";
}

}  // namespace
}  // namespace lambent::runtime_api
