// Several invocations at once in one session.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "core/domain/limits.h"
#include "node/runtime_api/testing/session_test_support.h"

namespace lambent::runtime_api {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

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

}  // namespace
}  // namespace lambent::runtime_api
