// Requests whose bodies and answers are streams: pieces both ways, back-pressure, other protocols.
#include <gmock/gmock.h>

#include "core/base/testing/testing.h"
#include "core/http/streamed_exchange.h"
#include "core/http/testing/server_test_support.h"

namespace lambent::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ServerStream : public ServerTest {
 protected:
  // Requests below /s stream; the test holds their responders.
  void start_streaming(ServerOptions options = {}) {
    options.max_body = Bytes(10);
    options.streams = [](const Request& head) { return head.target.starts_with("/s"); };
    start_holding(std::move(options));
  }
  StreamedExchange& stream(size_t number = 0) { return *held.at(number).stream(); }
  void receive(size_t number = 0) {
    stream(number).receive({.on_bytes = [this](std::string_view bytes) { body += bytes; },
                            .on_end = [this] { ++ends; }});
  }
  void wait_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 3000 && !condition(); i++) loop.run_once(milliseconds(1));
    ASSERT_TRUE(condition());
  }

  std::string body;
  int ends = 0;
};

TEST_F(ServerStream, ARequestIsHandledAsSoonAsItsHeadIsThere) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\nabc");
  turn();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(requests[0].body, "");
  receive();
  turn();
  EXPECT_EQ(body, "abc");
  client.send("defghijklmnopqrst");  // more than max_body in all
  wait_until([&] { return ends == 1; });
  EXPECT_EQ(body, "abcdefghijklmnopqrst");
}

TEST_F(ServerStream, PartsOfAStreamAreAcknowledgedAsTheyCome) {
  start_streaming();
  RawClient client = connect();
  for (size_t i = 0; i < 30; i++) {  // the first segments of a connection are, in any case
    client.send("GET /s HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_until([&] { return held.size() == i + 1; });
    held[i].send({});
    turn();
  }
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n");
  wait_until([&] { return held.size() == 31; });
  receive(30);
  EXPECT_EQ(unacknowledged(client), 0) << "the head";
  for (const std::string_view part : {"abc", "def"}) {
    client.send(part);
    turn();
    EXPECT_EQ(unacknowledged(client), 0) << "after '" << part << "'";
  }
  client.send("ghi");
  wait_until([&] { return ends == 1; });
  EXPECT_EQ(body, "abcdefghi");
}

TEST_F(ServerStream, OtherRequestsKeepTheirLimitAndComeWhole) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /whole HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nab");
  turn();
  EXPECT_TRUE(held.empty());
  client.send("c");
  turn();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].stream(), nullptr);
  EXPECT_THAT(answer_and_end("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
}

TEST_F(ServerStream, AChunkedBodyComesWithoutItsFraming) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
  turn();
  receive();
  client.send("14\r\nabcdefghijklmnopqrst\r\n0\r\n\r\n");
  wait_until([&] { return ends == 1; });
  EXPECT_EQ(body, "helloabcdefghijklmnopqrst");
}

TEST_F(ServerStream, TheNextRequestIsReadBehindABodyAndItsAnswer) {
  start_streaming();
  RawClient client = connect();
  client.send(
      "POST /s1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nabGET /s2 HTTP/1.1\r\nHost: "
      "h\r\n\r\n");
  turn();
  receive();
  wait_until([&] { return ends == 1; });
  EXPECT_EQ(body, "ab");
  stream().start({}, 2);
  EXPECT_TRUE(stream().send_bytes("ok"));
  stream().finish();
  wait_until([&] { return held.size() == 2; });
  EXPECT_EQ(requests[1].target, "/s2");
}

TEST_F(ServerStream, LeaveToSendIsGivenWhenTheBodyIsWanted) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  turn();
  client.receive();
  EXPECT_EQ(client.received, "");
  receive();
  wait_for(client, "100 Continue\r\n\r\n");
}

TEST_F(ServerStream, WhileHeldNothingIsRead) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\n");
  turn();
  receive();
  turn();
  stream().hold(true);
  client.send("abc");
  turn();
  EXPECT_EQ(body, "");
  clock.advance(std::chrono::minutes(10));
  turn();
  EXPECT_EQ(server->connection_count(), 1u) << "who holds it back is not the client";
  stream().hold(false);
  wait_until([&] { return body == "abc"; });
}

TEST_F(ServerStream, AClientThatWasHeldIsSeenToGo) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
  turn();
  int gone = 0;
  held[0].on_disconnect([&] { ++gone; });
  stream().receive({.on_bytes = [this](std::string_view) { stream().hold(true); },
                    .on_end = [this] { stream().hold(false); }});
  turn();
  client.fd.reset();
  wait_until([&] { return gone == 1; });
}

TEST_F(ServerStream, ASinkMayAnswerWhatCameWithTheHeadAndBeGone) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
  turn();
  stream().receive({.on_bytes =
                        [this](std::string_view) {
                          held[0].send({.status = 404});
                          held.clear();
                        },
                    .on_end = {}});
  turn();
  client.receive();
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 404"));
}

TEST_F(ServerStream, AnAnswerWithoutASizeIsChunkedAndOneWithASizeIsNot) {
  start_streaming();
  RawClient client = connect();
  client.send("GET /s HTTP/1.1\r\nHost: h\r\n\r\nGET /s HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  stream().start({.status = 201}, std::nullopt);
  stream().send_bytes("one");
  stream().send_bytes("two");
  stream().finish();
  wait_for(client, "0\r\n\r\n");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 201 Created\r\n"));
  EXPECT_THAT(client.received, EndsWith("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
  client.received.clear();
  wait_until([&] { return held.size() == 2; });
  stream(1).start({}, 6);
  stream(1).send_bytes("sized");
  stream(1).send_bytes("!and more");
  stream(1).finish();
  wait_for(client, "sized!");
  EXPECT_THAT(client.received, HasSubstr("Content-Length: 6\r\n"));
  EXPECT_THAT(client.received, EndsWith("sized!"));
}

TEST_F(ServerStream, AnAnswerThatIsNotFinishedIsCutOff) {
  start_streaming();
  for (const std::optional<uint64_t> size :
       {std::optional<uint64_t>(10), std::optional<uint64_t>()}) {
    RawClient client = connect();
    client.send("GET /s HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_until([&] { return held.size() == 1; });
    stream().start({}, size);
    stream().send_bytes("half");
    held.clear();
    wait_for_end(client);
    EXPECT_THAT(client.received, Not(EndsWith("0\r\n\r\n")));
    client.received.clear();
  }
}

TEST_F(ServerStream, AnAnswerShorterThanItsSizeIsCutOff) {
  start_streaming();
  RawClient client = connect();
  client.send("GET /s HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  stream().start({}, 10);
  stream().send_bytes("half");
  stream().finish();
  wait_for_end(client);
}

TEST_F(ServerStream, AnAnswerBeforeTheEndOfTheBodyEndsTheConnection) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc");
  turn();
  held[0].send({.status = 404});
  wait_for_end(client);
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(client.received, HasSubstr("Connection: close"));
}

TEST_F(ServerStream, ARefusalKeepsTheConnectionIfTheWholeBodyIsHere) {
  start_streaming();
  RawClient client = connect();
  for (const char* body : {"Content-Length: 3\r\n\r\nabc",
                           "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"}) {
    held.clear();
    client.received.clear();
    client.send("POST /s HTTP/1.1\r\nHost: h\r\n" + std::string(body));
    turn();
    ASSERT_EQ(held.size(), 1u) << body;
    held[0].send({.status = 503});
    wait_for(client, "\r\n\r\n");
    EXPECT_THAT(client.received, StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(client.received, Not(HasSubstr("Connection: close")));
  }
  held.clear();
  client.send(
      "POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nxGET /s HTTP/1.1\r\nHost: "
      "h\r\n\r\n");
  turn();
  held.at(0).send({.status = 503});
  turn();
  ASSERT_EQ(held.size(), 2u) << "the next request is read behind the body";
}

TEST_F(ServerStream, AMalformedBodyBehindARefusalEndsTheConnection) {
  start_streaming();
  RawClient client = connect();
  client.send(
      "POST /s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nGET / HTTP/1.1\r\n\r\n");
  turn();
  held.at(0).send({.status = 503});
  wait_for_end(client);
  EXPECT_THAT(client.received, HasSubstr("Connection: close"));
  EXPECT_EQ(requests.size(), 1u);
}

TEST_F(ServerStream, AnAnswerInPiecesBeforeTheEndOfTheBodySaysThatItEndsTheConnection) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc");
  turn();
  receive();
  stream().start({.status = 404}, 2);
  stream().send_bytes("no");
  stream().finish();
  wait_for_end(client);
  EXPECT_THAT(client.received, HasSubstr("Connection: close"));
}

TEST_F(ServerStream, AClientThatIsBehindHoldsItsSenderBack) {
  start_streaming();
  RawClient client = connect();
  client.send("GET /s HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  int rooms = 0;
  stream().on_room([&] { ++rooms; });
  stream().start({}, std::nullopt);
  const std::string piece(64 * 1024, 'x');
  size_t sent = 0;
  while (stream().send_bytes(piece) && sent < 1000) ++sent;
  ASSERT_LT(sent, 1000u) << "a client that reads nothing took 64 MB";
  EXPECT_EQ(rooms, 0);
  wait_until([&] {
    client.receive();
    return rooms > 0;
  });
  stream().finish();
  wait_for(client, "\r\n0\r\n\r\n");
}

TEST_F(ServerStream, ABodyThatEndsEarlyIsADisconnect) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc");
  turn();
  bool gone = false;
  held[0].on_disconnect([&] { gone = true; });
  receive();
  turn();
  shutdown(client.fd.get(), SHUT_WR);
  wait_until([&] { return gone; });
  EXPECT_EQ(ends, 0);
}

TEST_F(ServerStream, AClientThatGoesBeforeItsBodyIsWantedIsGone) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc");
  turn();
  bool gone = false;
  held[0].on_disconnect([&] { gone = true; });
  client.fd.reset();
  wait_until([&] { return gone; });
}

TEST_F(ServerStream, AClientThatHasSentItsWholeBodyMayEndItsSending) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
  shutdown(client.fd.get(), SHUT_WR);
  turn();
  receive();
  wait_until([&] { return ends == 1; });
  EXPECT_EQ(body, "abc");
  held[0].send({.body = "answer"});
  wait_for(client, "answer");
}

TEST_F(ServerStream, ABodyThatDoesNotGoOnIsToldSo) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc");
  turn();
  bool gone = false;
  held[0].on_disconnect([&] { gone = true; });
  receive();
  turn();
  clock.advance(std::chrono::minutes(2));
  wait_for(client, "408");
  wait_until([&] { return gone; });
}

TEST_F(ServerStream, ABodyThatIsWantedWholeIs408HoweverItTrickles) {
  start_streaming({.body_timeout = seconds(30)});
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\na");
  turn();
  bool gone = false;
  held[0].on_disconnect([&] { gone = true; });
  stream().expect_whole(true);
  receive();
  for (int i = 0; i < 5; ++i) {
    clock.advance(seconds(5));
    client.send("x");
    turn();
  }
  client.receive();
  EXPECT_EQ(client.received, "");
  clock.advance(seconds(5));
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  wait_until([&] { return gone; });
}

TEST_F(ServerStream, ABodyThatIsWantedWholeHasASecondMoreForEach64KiB) {
  start_streaming({.body_timeout = seconds(30)});
  RawClient client = connect();
  const std::string piece(Bytes::kib(320).count, 'x');
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(8 * piece.size()) +
              "\r\n\r\n");
  turn();
  stream().expect_whole(true);
  receive();
  // It takes 64 s. Before its last piece 30 s and seven times 5 s are allowed.
  for (size_t sent = 1; sent <= 8; ++sent) {
    clock.advance(seconds(8));
    for (size_t at = 0; at < piece.size(); at += 4096) {
      client.send(piece.substr(at, 4096));
      turn();
    }
    wait_until([&] { return body.size() == sent * piece.size(); });
  }
  wait_until([&] { return ends == 1; });
}

TEST_F(ServerStream, ABodyThatIsNoLongerWantedWholeMayTrickle) {
  start_streaming({.body_timeout = seconds(30)});
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\na");
  turn();
  stream().expect_whole(true);
  receive();
  turn();
  stream().expect_whole(false);
  for (int i = 0; i < 8; ++i) {
    clock.advance(seconds(50));
    client.send("x");
    turn();
  }
  wait_until([&] { return ends == 1; });
  EXPECT_EQ(body, "axxxxxxxx");
}

TEST_F(ServerStream, AMalformedBodyIsToldSo) {
  start_streaming();
  RawClient client = connect();
  client.send("POST /s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n");
  turn();
  bool gone = false;
  held[0].on_disconnect([&] { gone = true; });
  receive();
  wait_for(client, "400");
  wait_until([&] { return gone; });
}

TEST_F(ServerStream, AfterAChangeOfProtocolBytesPassBothWays) {
  start_streaming();
  RawClient client = connect();
  client.send("GET /s HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
  turn();
  Response head{.status = 101};
  head.headers.add("Upgrade", "x");
  stream().switch_protocols(std::move(head));
  receive();
  stream().send_bytes("welcome");
  wait_for(client, "welcome");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n"));
  EXPECT_THAT(client.received, HasSubstr("\r\nConnection: Upgrade\r\n\r\nwelcome"));
  client.send("GET / no HTTP any more");
  wait_until([&] { return body == "GET / no HTTP any more"; });
  shutdown(client.fd.get(), SHUT_WR);
  wait_until([&] { return ends == 1; });
  stream().send_bytes("bye");
  stream().finish();
  wait_for_end(client);
  EXPECT_THAT(client.received, EndsWith("bye"));
}

TEST_F(ServerStream, AClientThatEndsItsSendingWhileAnAnswerRestsIsGone) {
  start_streaming();
  RawClient client = connect();
  client.send("GET /s HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  bool gone = false;
  held[0].on_disconnect([&] { gone = true; });
  stream().start({}, std::nullopt);
  turn();
  EXPECT_FALSE(gone);
  client.fd.reset();
  wait_until([&] { return gone; });
}

TEST_F(ServerStream, AnAnswerToHeadHasItsSizeAndNoBody) {
  start_streaming();
  RawClient client = connect();
  client.send("HEAD /s HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  stream().start({}, 1000);
  stream().finish();
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, HasSubstr("Content-Length: 1000\r\n"));
  EXPECT_EQ(server->connection_count(), 1u);
}

}  // namespace
}  // namespace lambent::http
