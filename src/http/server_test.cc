#include "http/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/testing.h"

namespace lambent::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Server and clients on one thread: the test turns the loop, and the clock where time matters.
class ServerTest : public testing::Test {
 protected:
  struct Client {
    OwnedFd fd;
    std::string received;
    bool ended = false;
  };

  void start(ServerOptions options, Server::Handler handler) {
    server = std::make_unique<Server>(loop, std::move(options), std::move(handler));
    auto listener = listen_tcp("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok()) << to_string(listener.error());
    port = port_of(*listener);
    ASSERT_TRUE(server->listen(std::move(*listener)).ok());
  }
  void start_echo(ServerOptions options = {}) {
    start(std::move(options), [this](Request request, Responder responder) {
      requests.push_back(request);
      Response response;
      response.headers.add("X-Target", request.target);
      response.body = std::move(request.body);
      responder.send(std::move(response));
    });
  }
  // Keeps requests, to be answered by the test.
  void start_holding(ServerOptions options = {}) {
    start(std::move(options), [this](Request request, Responder responder) {
      requests.push_back(std::move(request));
      held.push_back(std::move(responder));
    });
  }

  Client connect() const {
    Client client;
    client.fd = OwnedFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(client.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return client;
  }
  static void send(const Client& client, std::string_view text) {
    ASSERT_EQ(::send(client.fd.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  static void receive(Client& client) {
    char bytes[65536];
    for (;;) {
      const ssize_t got = recv(client.fd.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) client.ended = true;
      if (got <= 0) return;
      client.received.append(bytes, static_cast<size_t>(got));
    }
  }
  void turn(int times = 5) {
    for (int i = 0; i < times; i++) loop.run_once(Duration::zero());
  }
  // Turns the loop until `client` has received `text`, or the connection ended, or too long.
  void wait_for(Client& client, std::string_view text) {
    for (int i = 0; i < 3000; i++) {
      loop.run_once(milliseconds(1));
      receive(client);
      if (client.ended || client.received.find(text) != std::string::npos) return;
    }
    FAIL() << "waited for '" << text << "', got '" << client.received << "'";
  }
  void wait_for_end(Client& client) {
    for (int i = 0; i < 3000 && !client.ended; i++) {
      loop.run_once(milliseconds(1));
      receive(client);
    }
    ASSERT_TRUE(client.ended) << client.received;
  }
  // The whole answer to `text`, to the end of the connection.
  std::string answer_and_end(std::string_view text) {
    Client client = connect();
    send(client, text);
    wait_for_end(client);
    return client.received;
  }

  FakeClock clock;
  loop::EventLoop loop{clock};
  std::vector<Request> requests;
  std::vector<Responder> held;
  uint16_t port = 0;
  std::unique_ptr<Server> server;
};

TEST_F(ServerTest, AnswersARequestAndKeepsTheConnection) {
  start_echo();
  Client client = connect();
  send(client, "POST /a?b=c HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
  wait_for(client, "hello");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 200 OK\r\nX-Target: /a?b=c\r\nDate: "));
  EXPECT_THAT(client.received, EndsWith(" GMT\r\nContent-Length: 5\r\n\r\nhello"));
  client.received.clear();
  send(client, "GET /again HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, HasSubstr("X-Target: /again\r\n"));
  EXPECT_EQ(server->connection_count(), 1u);
  EXPECT_EQ(requests[0].method, "POST");
  EXPECT_EQ(requests[0].headers.get("host"), "h");
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  start_holding();
  Client client = connect();
  send(client, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  ASSERT_EQ(held.size(), 1u) << "the second waits for the answer to the first";
  send(client, "GET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
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
  Client client = connect();
  const std::string text =
      "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2;name=value\r\nde\r\n0\r\nTrailer: ignored\r\n\r\n";
  for (const char byte : text) {
    send(client, std::string_view(&byte, 1));
    loop.run_once(Duration::zero());
  }
  wait_for(client, "abcde");
  EXPECT_FALSE(requests[0].headers.contains("Trailer"));
}

TEST_F(ServerTest, ABodyOfManyMegabytesComesAndGoesWhole) {
  start_echo();
  Client client = connect();
  std::string body(10 << 20, 'x');
  for (size_t i = 0; i < body.size(); i++) body[i] = static_cast<char>('a' + i * 7 % 26);
  const std::string head =
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  send(client, head);
  std::string_view rest = body;
  for (int i = 0; i < 200'000 && client.received.size() < body.size(); i++) {
    const ssize_t sent = ::send(client.fd.get(), rest.data(), rest.size(), MSG_DONTWAIT);
    if (sent > 0) rest.remove_prefix(static_cast<size_t>(sent));
    loop.run_once(Duration::zero());
    receive(client);
  }
  ASSERT_GT(client.received.size(), body.size());
  EXPECT_TRUE(client.received.ends_with(body));
}

TEST_F(ServerTest, ExpectContinueIsAnsweredBeforeTheBodyIsSent) {
  start_echo();
  Client client = connect();
  send(client, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  wait_for(client, "HTTP/1.1 100 Continue\r\n\r\n");
  send(client, "ok");
  wait_for(client, "\r\n\r\nok");
}

TEST_F(ServerTest, AnEmptyExpectHeaderIsIgnored) {
  start_echo();
  Client client = connect();
  send(client, "POST / HTTP/1.1\r\nHost: h\r\nExpect:\r\nContent-Length: 2\r\n\r\n");
  turn();
  send(client, "ok");
  wait_for(client, "ok");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 200"));
}

TEST_F(ServerTest, HeadHasTheLengthButNotTheBody) {
  start(ServerOptions{}, [](Request, Responder responder) { responder.send({.body = "12345"}); });
  Client client = connect();
  send(client, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(client.received, EndsWith("\r\n\r\n"));
}

TEST_F(ServerTest, StatusesWithoutABodyHaveNoLength) {
  start(ServerOptions{}, [](Request, Responder responder) { responder.send({.status = 204}); });
  Client client = connect();
  send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, Not(HasSubstr("Content-Length")));
}

TEST_F(ServerTest, ConnectionCloseIsHonouredAndHttp10ClosesByDefault) {
  start_echo();
  EXPECT_THAT(answer_and_end("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
              HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer_and_end("GET / HTTP/1.0\r\n\r\n"), HasSubstr("Connection: close\r\n"));
  Client client = connect();
  send(client, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
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
  Client client = connect();
  send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, HasSubstr("X: a  Set-Cookie: evil\r\n"));
  EXPECT_THAT(client.received, Not(HasSubstr("9999")));
}

TEST_F(ServerTest, ChunkedResponsesArriveAsTheyAreSent) {
  start_holding();
  Client client = connect();
  send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
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
  Client client = connect();
  send(client, "GET / HTTP/1.0\r\n\r\n");
  turn();
  held[0].start_chunked({});
  EXPECT_TRUE(held[0].send_chunk("plain"));
  held[0].finish_chunked();
  wait_for_end(client);
  EXPECT_THAT(client.received, EndsWith("\r\n\r\nplain"));
}

TEST_F(ServerTest, AChunkedResponseThatIsDroppedIsCutShort) {
  start_holding();
  Client client = connect();
  send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  held[0].start_chunked({});
  held[0].send_chunk("part");
  held.clear();
  wait_for_end(client);
  EXPECT_THAT(client.received, EndsWith("part\r\n"));
}

TEST_F(ServerTest, AReaderThatDoesNotReadIsLetGoAboveOneMegabyte) {
  start_holding();
  Client client = connect();
  send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  held[0].start_chunked({});
  const std::string chunk(64 * 1024, 'x');
  int accepted = 0;
  while (accepted < 10'000 && held[0].send_chunk(chunk)) accepted++;
  EXPECT_GT(accepted, 15);
  EXPECT_LT(accepted, 10'000);
  turn();
  EXPECT_EQ(server->connection_count(), 0u);
}

TEST_F(ServerTest, ADroppedResponderAnswers500) {
  start_holding();
  Client client = connect();
  send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  held.clear();
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 500 Internal Server Error\r\n"));
}

TEST_F(ServerTest, AClientThatGoesAwayIsReportedOnce) {
  start_holding();
  Client client = connect();
  send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  int calls = 0;
  held[0].on_disconnect([&] {
    calls++;
    held.clear();
  });
  const linger reset{1, 0};
  setsockopt(client.fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  client.fd.reset();
  turn();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(server->connection_count(), 0u);
}

TEST_F(ServerTest, AnAnswerForAClientThatIsGoneIsDropped) {
  start_holding();
  Client client = connect();
  send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  const linger reset{1, 0};
  setsockopt(client.fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  client.fd.reset();
  turn();
  held[0].send({.body = "nobody hears"});
  EXPECT_FALSE(held[0].send_chunk("x"));
}

TEST_F(ServerTest, AHalfClosedClientStillGetsItsAnswers) {
  start_holding();
  Client client = connect();
  send(client, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
  shutdown(client.fd.get(), SHUT_WR);
  turn();
  held[0].on_disconnect([] { FAIL(); });
  held[0].send({.body = "one"});
  turn();
  ASSERT_EQ(held.size(), 2u);
  held[1].send({.body = "two"});
  wait_for_end(client);
  EXPECT_THAT(client.received, HasSubstr("one"));
  EXPECT_THAT(client.received, EndsWith("two"));
}

TEST_F(ServerTest, WhereHalfCloseMeansGoneItIsADisconnect) {
  start_holding({.serve_half_closed = false});
  Client client = connect();
  send(client, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  bool gone = false;
  held[0].on_disconnect([&] { gone = true; });
  shutdown(client.fd.get(), SHUT_WR);
  turn();
  EXPECT_TRUE(gone);
}

TEST_F(ServerTest, ARequestCutShortIsNotHandled) {
  start_echo();
  Client client = connect();
  send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf");
  turn();
  shutdown(client.fd.get(), SHUT_WR);
  wait_for_end(client);
  EXPECT_TRUE(requests.empty());
}

TEST_F(ServerTest, ABodyAboveTheLimitIs413AndIsNotRead) {
  start_echo({.max_body = Bytes(10)});
  Client client = connect();
  send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n");
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 413 Payload Too Large\r\n"));
  EXPECT_THAT(client.received, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(requests.empty());
  send(client, "12345678901");  // is still taken, so that the answer is not lost to a reset
  wait_for_end(client);
  client.fd.reset();
  turn();
  EXPECT_EQ(server->connection_count(), 0u);
}

TEST_F(ServerTest, AChunkedBodyAboveTheLimitIs413) {
  start_echo({.max_body = Bytes(10)});
  EXPECT_THAT(answer_and_end("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                             "6\r\nabcdef\r\n6\r\nabcdef\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
}

TEST_F(ServerTest, UnfinishedBodiesTogetherStayBelowTheirLimit) {
  start_echo({.max_body = Bytes(1000), .max_unfinished_bodies = Bytes(1500)});
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";
  Client first = connect();
  send(first, head + std::string(900, 'x'));
  turn();
  Client second = connect();
  send(second, head + std::string(900, 'x'));
  wait_for(second, "HTTP/1.1 503");
  // The one that came first may finish, and so may whoever comes when there is room again.
  send(first, std::string(100, 'x'));
  wait_for(first, "HTTP/1.1 200");
  Client third = connect();
  send(third, head + std::string(900, 'x'));
  turn();
  send(third, std::string(100, 'x'));
  wait_for(third, "HTTP/1.1 200");
  EXPECT_EQ(requests.size(), 2U);
}

TEST_F(ServerTest, AClientThatGoesAwayGivesBackWhatItsBodyHeld) {
  start_echo({.max_body = Bytes(1000), .max_unfinished_bodies = Bytes(1500)});
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";
  for (int i = 0; i < 5; i++) {
    Client client = connect();
    send(client, head + std::string(900, 'x'));
    turn();
    client.fd.reset();
    turn();
  }
  Client last = connect();
  send(last, head + std::string(900, 'x'));
  turn();
  send(last, std::string(100, 'x'));
  wait_for(last, "HTTP/1.1 200");
}

TEST_F(ServerTest, HeadersAboveTheLimitAre431) {
  start_echo({.max_headers = Bytes(200)});
  EXPECT_THAT(answer_and_end("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(300, 'x')),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(
      answer_and_end("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(300, 'x') + "\r\n\r\n"),
      StartsWith("HTTP/1.1 431 "));
}

TEST_F(ServerTest, ErrorsSpeakTheFrontendsLanguage) {
  ServerOptions options;
  options.error_response = [](int status, std::string_view reason) {
    Response response;
    response.headers.add("X-Error", std::to_string(status));
    response.body = "{" + std::string(reason) + "}";
    return response;
  };
  start_echo(std::move(options));
  const std::string answer = answer_and_end("nonsense\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 Bad Request\r\nX-Error: 400\r\n"));
  EXPECT_THAT(answer, EndsWith("}"));
}

TEST_F(ServerTest, SlowHeadersAre408HoweverTheyTrickle) {
  start_echo();
  Client client = connect();
  send(client, "GET / HTTP/1.1\r\n");
  for (int i = 0; i < 9; i++) {
    turn();
    clock.advance(seconds(1));
    send(client, "X: y\r\n");
  }
  turn();
  receive(client);
  EXPECT_EQ(client.received, "");
  clock.advance(seconds(1));
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  clock.advance(seconds(11));
  turn();
  EXPECT_EQ(server->connection_count(), 0u) << "it does not linger for ever";
}

TEST_F(ServerTest, ASlowBodyIs408) {
  start_echo();
  Client client = connect();
  send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n");
  turn();
  for (int i = 0; i < 6; i++) {
    clock.advance(seconds(10));
    send(client, "x");
    turn();
  }
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 408 "));
}

TEST_F(ServerTest, AnIdleConnectionIsClosedButNotOneWhoseRequestIsBeingHandled) {
  start_holding();
  Client idle = connect();
  Client busy = connect();
  send(busy, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  clock.advance(seconds(76));
  wait_for_end(idle);
  clock.advance(seconds(1000));
  turn();
  EXPECT_EQ(server->connection_count(), 1u);
  held[0].send({.body = "late"});
  wait_for(busy, "late");
}

TEST_F(ServerTest, AThousandIdleConnectionsDoNotKeepAnotherFromBeingServed) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 2100) GTEST_SKIP() << "needs 2,100 descriptors: ulimit -Hn";
  start_echo();
  std::vector<Client> idle;
  for (int i = 0; i < 1000; i++) idle.push_back(connect());
  Client client = connect();
  send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok");
  wait_for(client, "ok");
  EXPECT_EQ(server->connection_count(), 1001u);
}

TEST_F(ServerTest, OneConnectionTooManyIs503) {
  start_echo({.max_connections = 2});
  Client first = connect();
  Client second = connect();
  turn();
  Client third = connect();
  wait_for_end(third);
  EXPECT_THAT(third.received, StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  third.fd.reset();
  first.fd.reset();
  turn();
  Client fourth = connect();
  send(fourth, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok");
  wait_for(fourth, "ok");
}

TEST_F(ServerTest, DrainClosesIdleConnectionsAndLetsOthersFinish) {
  start_holding();
  Client idle = connect();
  Client busy = connect();
  send(busy, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  server->drain();
  wait_for_end(idle);
  held[0].send({.body = "last"});
  wait_for_end(busy);
  EXPECT_THAT(busy.received, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(busy.received, EndsWith("last"));
}

TEST_F(ServerTest, AServerDestroyedBeforeItsRespondersLeavesThemMute) {
  start_holding();
  Client client = connect();
  send(client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
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
  auto listener = listen_unix(path, 0660);
  ASSERT_TRUE(listener.ok()) << to_string(listener.error());
  struct stat status {};
  stat(path.c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0660u);
  ASSERT_TRUE(server->listen(std::move(*listener)).ok());
  Client client;
  client.fd = OwnedFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::connect(client.fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok");
  wait_for(client, "ok");
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

}  // namespace
}  // namespace lambent::http
