// How the server answers: framing, order, chunks; listening and the end.
#include "core/http/server.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/testing/testing.h"
#include "core/http/testing/server_test_support.h"

namespace lambent::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(ServerTest, AnswersARequestAndKeepsTheConnection) {
  start_echo();
  RawClient client = connect();
  client.send("POST /a?b=c HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
  wait_for(client, "hello");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 200 OK\r\nX-Target: /a?b=c\r\nDate: "));
  EXPECT_THAT(client.received, EndsWith(" GMT\r\nContent-Length: 5\r\n\r\nhello"));
  client.received.clear();
  client.send("GET /again HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, HasSubstr("X-Target: /again\r\n"));
  EXPECT_EQ(server->connection_count(), 1u);
  EXPECT_EQ(requests[0].method, "POST");
  EXPECT_EQ(requests[0].headers.get("host"), "h");
  EXPECT_EQ(requests[0].peer.transport, Transport::kTcp);
  EXPECT_THAT(requests[0].peer.address, StartsWith("127.0.0.1:"));
  EXPECT_FALSE(requests[0].peer.user.has_value());
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  start_holding();
  RawClient client = connect();
  client.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  ASSERT_EQ(held.size(), 1u) << "the second waits for the answer to the first";
  client.send("GET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  held[0].send({.body = "one"});
  ASSERT_EQ(held.size(), 2u);
  held[1].send({.body = "two"});
  wait_for(client, "two");
  turn();
  ASSERT_EQ(held.size(), 3u);
  held[2].send({.body = "three"});
  wait_for(client, "three");
  EXPECT_LT(client.received.find("one"), client.received.find("two"));
  EXPECT_EQ(requests[2].target, "/3");
}

TEST_F(ServerTest, ARequestMayArriveByteByByte) {
  start_echo();
  RawClient client = connect();
  const std::string text =
      "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2;name=value\r\nde\r\n0\r\nTrailer: ignored\r\n\r\n";
  for (const char byte : text) {
    client.send(std::string_view(&byte, 1));
    loop.run_once(Duration::zero());
  }
  wait_for(client, "abcde");
  EXPECT_FALSE(requests[0].headers.contains("Trailer"));
}

TEST_F(ServerTest, PartsOfARequestAreAcknowledgedAsTheyCome) {
  start_echo();
  RawClient client = connect();
  for (int i = 0; i < 30; i++) {  // the first segments of a connection are, in any case
    client.received.clear();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok");
    wait_for(client, "\r\n\r\nok");
  }
  client.received.clear();
  for (const std::string_view part :
       {"POST / HTTP/1.1\r\nHost: h\r\n", "Content-Length: 4\r\n\r\n", "bo"}) {
    client.send(part);
    turn();
    EXPECT_EQ(unacknowledged(client), 0) << "after '" << part << "'";
  }
  client.send("dy");
  wait_for(client, "\r\n\r\nbody");
}

TEST_F(ServerTest, ABodyOfManyMegabytesComesAndGoesWhole) {
  start_echo();
  RawClient client = connect();
  std::string body(10 << 20, 'x');
  for (size_t i = 0; i < body.size(); i++) body[i] = static_cast<char>('a' + i * 7 % 26);
  const std::string head =
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  client.send(head);
  std::string_view rest = body;
  for (int i = 0; i < 200'000 && client.received.size() < body.size(); i++) {
    const ssize_t sent = ::send(client.fd.get(), rest.data(), rest.size(), MSG_DONTWAIT);
    if (sent > 0) rest.remove_prefix(static_cast<size_t>(sent));
    loop.run_once(Duration::zero());
    client.receive();
  }
  ASSERT_GT(client.received.size(), body.size());
  EXPECT_TRUE(client.received.ends_with(body));
}

TEST_F(ServerTest, ExpectContinueIsAnsweredBeforeTheBodyIsSent) {
  start_echo();
  RawClient client = connect();
  client.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  wait_for(client, "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  wait_for(client, "\r\n\r\nok");
}

TEST_F(ServerTest, AnEmptyExpectHeaderIsIgnored) {
  start_echo();
  RawClient client = connect();
  client.send("POST / HTTP/1.1\r\nHost: h\r\nExpect:\r\nContent-Length: 2\r\n\r\n");
  turn();
  client.send("ok");
  wait_for(client, "ok");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 200"));
}

TEST_F(ServerTest, HeadHasTheLengthButNotTheBody) {
  start(ServerOptions{}, [](Request, Responder responder) { responder.send({.body = "12345"}); });
  RawClient client = connect();
  client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(client.received, EndsWith("\r\n\r\n"));
}

TEST_F(ServerTest, StatusesWithoutABodyHaveNoLength) {
  start(ServerOptions{}, [](Request, Responder responder) { responder.send({.status = 204}); });
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, Not(HasSubstr("Content-Length")));
}

TEST_F(ServerTest, ConnectionCloseIsHonouredAndHttp10ClosesByDefault) {
  start_echo();
  EXPECT_THAT(answer_and_end("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer_and_end("GET / HTTP/1.0\r\n\r\n"), HasSubstr("Connection: close\r\n"));
  RawClient client = connect();
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, HasSubstr("Connection: keep-alive\r\n"));
  EXPECT_FALSE(client.ended);
}

TEST_F(ServerTest, HeadersOfAResponseCannotEndTheirLine) {
  start(ServerOptions{}, [](Request, Responder responder) {
    Response response;
    response.headers.add("X", "a\r\nSet-Cookie: evil");
    response.headers.add("Content-Length", "9999");
    responder.send(std::move(response));
  });
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, HasSubstr("X: a  Set-Cookie: evil\r\n"));
  EXPECT_THAT(client.received, Not(HasSubstr("9999")));
}

TEST_F(ServerTest, ChunkedResponsesArriveAsTheyAreSent) {
  start_holding();
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  held[0].start_chunked({});
  EXPECT_TRUE(held[0].send_chunk("first"));
  wait_for(client, "5\r\nfirst\r\n");
  EXPECT_THAT(client.received, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_TRUE(held[0].send_chunk(""));
  EXPECT_TRUE(held[0].send_chunk("second"));
  held[0].finish_chunked();
  wait_for(client, "6\r\nsecond\r\n0\r\n\r\n");
  EXPECT_FALSE(held[0].send_chunk("late"));
  EXPECT_FALSE(client.ended);
}

TEST_F(ServerTest, AChunkedResponseToHttp10EndsWithTheConnection) {
  start_holding();
  RawClient client = connect();
  client.send("GET / HTTP/1.0\r\n\r\n");
  turn();
  held[0].start_chunked({});
  EXPECT_TRUE(held[0].send_chunk("plain"));
  held[0].finish_chunked();
  wait_for_end(client);
  EXPECT_THAT(client.received, EndsWith("\r\n\r\nplain"));
}

TEST_F(ServerTest, AChunkedResponseThatIsDroppedIsCutShort) {
  start_holding();
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  held[0].start_chunked({});
  held[0].send_chunk("part");
  held.clear();
  wait_for_end(client);
  EXPECT_THAT(client.received, EndsWith("part\r\n"));
}

TEST_F(ServerTest, ADroppedResponderAnswers500) {
  start_holding();
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  held.clear();
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 500 Internal Server Error\r\n"));
}

TEST_F(ServerTest, DrainClosesIdleConnectionsAndLetsOthersFinish) {
  start_holding();
  RawClient idle = connect();
  RawClient busy = connect();
  busy.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  server->drain();
  wait_for_end(idle);
  held[0].send({.body = "last"});
  wait_for_end(busy);
  EXPECT_THAT(busy.received, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(busy.received, EndsWith("last"));
}

TEST_F(ServerTest, WithoutAcceptingItServesWhatComesOnOpenConnections) {
  start_echo();
  RawClient open = connect();
  RawClient used = connect();
  used.send("GET /first HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_for(used, "/first");
  EXPECT_THAT(used.received, Not(HasSubstr("Connection: close")));
  server->stop_accepting();
  turn();
  EXPECT_EQ(server->open_exchanges(), 2U);
  for (RawClient* client : {&open, &used}) {
    client->send("GET /last HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_for_end(*client);
    EXPECT_THAT(client->received, HasSubstr("/last"));
    EXPECT_THAT(client->received, HasSubstr("Connection: close\r\n"));
  }
  EXPECT_EQ(server->open_exchanges(), 0U);
}

TEST_F(ServerTest, AServerDestroyedBeforeItsRespondersLeavesThemMute) {
  start_holding();
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  server.reset();
  held[0].send({.body = "x"});
  held.clear();
  wait_for_end(client);
}

TEST_F(ServerTest, ServesUnixSocketsAndReplacesAStaleFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "socket";
  {
    auto stale = listen_unix(path, 0600);
    ASSERT_TRUE(stale.ok());
    EXPECT_EQ(listen_unix(path, 0600).error().code, ErrorCode::kUnavailable);
  }
  start_echo();
  auto listener = listen_unix(path, 0660, getegid());
  ASSERT_TRUE(listener.ok()) << to_string(listener.error());
  struct stat status {};
  stat(path.c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0660u);
  EXPECT_EQ(status.st_gid, getegid());
  ASSERT_TRUE(server->listen(std::move(*listener)).ok());
  RawClient client;
  client.fd = OwnedFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::connect(client.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok");
  wait_for(client, "ok");
  EXPECT_EQ(requests[0].peer.transport, Transport::kUnix);
  EXPECT_EQ(requests[0].peer.user, getuid());
  EXPECT_EQ(requests[0].peer.address, "");
  unlink(path.c_str());
}

TEST(Listen, SaysWhatIsWrong) {
  const auto first = listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(listen_tcp("127.0.0.1", port_of(*first)).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(listen_tcp("localhost", 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(listen_unix(std::string(200, 'x'), 0600).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(listen_unix("/tmp", 0600).error().code, ErrorCode::kAlreadyExists);
}

// A server that another one, of the same loop, goes on for.
class HandOverTest : public ServerTest {
 protected:
  // The clients of `server`, which ends, are this test's `server` again.
  void hand_over(std::string_view received) {
    auto clients = server->hand_over();
    ASSERT_TRUE(clients.has_value());
    held.clear();
    server.reset();
    turn();
    server = std::make_unique<Server>(loop, ServerOptions{},
                                      [this](Request request, Responder responder) {
                                        requests.push_back(std::move(request));
                                        held.push_back(std::move(responder));
                                      });
    for (OwnedFd& each : clients->listeners) ASSERT_TRUE(server->listen(std::move(each)).ok());
    for (OwnedFd& each : clients->resting) server->take_over(std::move(each), {});
    for (OwnedFd& each : clients->waiting) server->take_over(std::move(each), received);
  }
};

TEST_F(HandOverTest, AClientThatWaitsGetsItsAnswerFromTheNextServer) {
  start_holding();
  RawClient waits = connect();
  waits.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  RawClient rests = connect();
  turn();
  ASSERT_EQ(held.size(), 1u);
  ASSERT_NO_FATAL_FAILURE(hand_over("GET /again HTTP/1.1\r\nHost: h\r\n\r\n"));
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(requests.back().target, "/again");
  held[0].send({.body = "one"});
  wait_for(waits, "one");
  rests.send("GET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  ASSERT_EQ(held.size(), 2u);
  held[1].send({.body = "two"});
  wait_for(rests, "two");
  RawClient fresh = connect();
  fresh.send("GET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  EXPECT_EQ(held.size(), 3u) << "it listens at the same address";
}

TEST_F(HandOverTest, AClientInTheMiddleOfSomethingStays) {
  start_holding();
  for (const char* text : {"GET /1 HTTP/1.1\r\nHo", "GET /1 HTTP/1.0\r\n\r\n",
                           "GET /1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                           "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\n"}) {
    RawClient client = connect();
    client.send(text);
    turn();
    EXPECT_FALSE(server->hand_over().has_value()) << text;
    held.clear();
    client.fd.reset();
    turn();
  }
  RawClient gets_pieces = connect();
  gets_pieces.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  ASSERT_EQ(held.size(), 1u);
  held[0].start_chunked({});
  EXPECT_FALSE(server->hand_over().has_value());
  EXPECT_TRUE(held[0].send_chunk("still here"));
  wait_for(gets_pieces, "still here");
}

}  // namespace
}  // namespace lambent::http
