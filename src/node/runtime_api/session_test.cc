#include "node/runtime_api/session.h"
#include "core/domain/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "node/runtime_api/error_type.h"
#include "node/runtime_api/testing/session_test_support.h"

namespace lambent::runtime_api {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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

TEST_F(SessionTest, AnAnswerThatAsksForTheNextInvocationWaitsForIt) {
  constexpr const char* kAsks = "Lambent-Runtime-Next: wait\r\n";
  RawClient client = start_running();
  client.send(answer(kIdText, "42", kAsks));
  turn();
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events[events.size() - 2], std::string("response ") + kIdText + " 42 ");
  EXPECT_EQ(events.back(), "ready");
  EXPECT_TRUE(session->is_idle());
  session->give(invocation());
  turn();
  client.receive();
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: "));
  client.received.clear();
  client.send(error(kIdText, "{}", kAsks));
  turn();
  EXPECT_TRUE(session->is_idle());
  client.receive();
  EXPECT_EQ(client.received, "");
  // It has been answered: a refusal comes at once, and nothing waits in its place.
  RawClient other = connect();
  EXPECT_THAT(call(other, answer(kIdText, "43", kAsks)), StartsWith("HTTP/1.1 400 "));
}

TEST_F(SessionTest, ARefusalOfTheNextInvocationSaysWhetherAnAnswerBeforeWasAccepted) {
  constexpr const char* kAsks = "Lambent-Runtime-Next: wait\r\n";
  constexpr const char* kAccepted = "\r\nLambent-Runtime-Answer: accepted\r\n";
  RawClient client = start_running();
  client.received.clear();
  client.send(answer(kIdText, "42", kAsks));
  turn();
  RawClient other = connect();
  other.send(next());
  turn();
  client.receive();
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(client.received, HasSubstr("took this one's place"));
  EXPECT_THAT(client.received, HasSubstr(kAccepted));
  // Neither that of a call for nothing else nor that of an answer.
  client.received.clear();
  client.send(next());
  turn();
  other.receive();
  EXPECT_THAT(other.received, StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(other.received, Not(HasSubstr("Lambent-Runtime-Answer")));
  EXPECT_THAT(call(other, answer(kIdText, "43", kAsks)), Not(HasSubstr("Lambent-Runtime-Answer")));
  session->give(invocation());
  turn();
  client.receive();
  client.received.clear();
  client.send(error(kIdText, "{}", kAsks));
  turn();
  session = nullptr;
  turn();
  client.receive();
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(client.received, HasSubstr(kAccepted));
}

TEST_F(SessionTest, AnAnswerThatEndsTheSessionIsAccepted) {
  RawClient client = start_running();
  end_in_callback = true;
  client.send(answer(kIdText, "42", "Lambent-Runtime-Next: wait\r\n"));
  turn();
  EXPECT_EQ(session, nullptr);
  EXPECT_EQ(events, std::vector<std::string>{std::string("response ") + kIdText + " 42 "});
}

TEST_F(SessionTest, HeadersAreSentIfTheyHaveAValue) {
  RawClient client = connect();
  client.send(next());
  turn();
  RuntimeInvocation full = invocation();
  full.content_type = "application/octet-stream";
  full.trace_id = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0";
  full.client_context = "{\"custom\":{}}";
  full.function_arn = "arn:aws:lambda:local:0:function:f";
  session->give(full);
  turn();
  client.receive();
  for (const char* line :
       {"Content-Type: application/octet-stream",
        "Lambda-Runtime-Trace-Id: Root=1-5759e988-bd862e3fe1be46a994272793;"
        "Parent=8123456789abcdef;Sampled=0",
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

TEST_F(SessionTest, ARuntimeThatWorksStays) {
  RawClient runtime = start_running();
  EXPECT_FALSE(session->hand_over().has_value());
  EXPECT_THAT(call(runtime, answer(kIdText, "42")), StartsWith("HTTP/1.1 202"));
  EXPECT_FALSE(session->hand_over().has_value()) << "it has not asked for work";
}

}  // namespace
}  // namespace lambent::runtime_api
