// The HTTP server behind TLS: the same answers and limits as without, and what handshakes may cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "core/http/server.h"
#include "core/http/testing/testing.h"
#include "core/tls/testing/authority.h"
#include "core/tls/testing/stream_pair.h"

namespace lambent::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using tls::Authority;
using tls::ClientCertificates;
using tls::ClientContext;
using tls::Issued;
using tls::ServerContext;
using tls::Side;

class SecureServerTest : public testing::Test {
 protected:
  void start(ServerOptions options, Server::Handler handler,
             ClientCertificates clients = ClientCertificates::kAsked) {
    auto context = ServerContext::make(
        tls::credentials_of(authority.issue(), authority.certificate()), clients);
    ASSERT_TRUE(context.ok()) << to_string(context.error());
    server = std::make_unique<Server>(loop, std::move(options), std::move(handler));
    auto listener = listen_tcp("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok());
    port = port_of(*listener);
    ASSERT_TRUE(server
                    ->listen_encrypted(std::move(*listener),
                                       [this, context = *context](OwnedFd fd) {
                                         return context.encrypt(std::move(fd), counts);
                                       })
                    .ok());
  }
  void start_echo(ServerOptions options = {},
                  ClientCertificates clients = ClientCertificates::kAsked) {
    start(
        std::move(options),
        [this](Request request, Responder responder) {
          requests.push_back(request);
          Response response;
          response.body = std::move(request.body);
          responder.send(std::move(response));
        },
        clients);
  }
  void start_holding(ServerOptions options = {}) {
    start(std::move(options), [this](Request request, Responder responder) {
      requests.push_back(std::move(request));
      held.push_back(std::move(responder));
    });
  }

  Side connect(const Issued& shown = {}) {
    auto context = ClientContext::make(tls::credentials_of(shown, authority.certificate()));
    EXPECT_TRUE(context.ok());
    OwnedFd fd = connect_to(port);
    fcntl(fd.get(), F_SETFL, O_NONBLOCK);
    auto stream = context->encrypt(std::move(fd), "127.0.0.1");
    EXPECT_TRUE(stream.ok());
    return {.stream = std::move(*stream), .received = {}};
  }
  // Sends all of it, turning the server meanwhile.
  void send(Side& client, std::string_view text) {
    for (int i = 0; i < 100'000 && !text.empty(); ++i) {
      text.remove_prefix(client.send(text));
      if (client.last == Transfer::Kind::kFailed) return;
      loop.run_once(Duration::zero());
    }
    ASSERT_TRUE(text.empty());
  }
  void turn(int times = 5) {
    for (int i = 0; i < times; i++) loop.run_once(Duration::zero());
  }
  static bool is_over(const Side& client) {
    return client.has_failed() || client.last == Transfer::Kind::kEnd;
  }
  void wait_for(Side& client, std::string_view text) {
    for (int i = 0; i < 3000; ++i) {
      loop.run_once(milliseconds(1));
      client.receive();
      if (client.received.find(text) != std::string::npos || is_over(client)) return;
    }
    FAIL() << "waited for '" << text << "', got '" << client.received << "'";
  }
  void wait_for_end(Side& client) {
    for (int i = 0; i < 3000 && !is_over(client); ++i) {
      loop.run_once(milliseconds(1));
      client.receive();
    }
    ASSERT_TRUE(is_over(client)) << client.received;
  }

  FakeClock clock;
  loop::EventLoop loop{clock};
  Authority authority{"ca"};
  tls::HandshakeCounts counts;
  std::vector<Request> requests;
  std::vector<Responder> held;
  uint16_t port = 0;
  std::unique_ptr<Server> server;
};

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

std::string post(size_t size, char letter = 'x') {
  return "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" +
         std::string(size, letter);
}

TEST_F(SecureServerTest, RequestsAreServedAndKnowHowTheyCame) {
  start_echo();
  Side client = connect();
  send(client, post(3));
  wait_for(client, "xxx");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 200 OK\r\n"));
  send(client, kGet);
  wait_for(client, "Content-Length: 0");
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].peer.transport, Transport::kTls);
  EXPECT_FALSE(requests[0].peer.certificate);
  EXPECT_EQ(counts.finished, 1U);
}

TEST_F(SecureServerTest, RequestsBearTheNamesOfTheClientsCertificate) {
  start_echo();
  Side client = connect(authority.issue({.common_name = "alice", .alternatives = "email:a@b"}));
  for (size_t i = 0; i < 2; ++i) {
    client.received.clear();
    send(client, post(1));
    wait_for(client, "x");
    ASSERT_EQ(requests.size(), i + 1);
    ASSERT_TRUE(requests[i].peer.certificate);
    EXPECT_EQ(requests[i].peer.certificate->common_name, "alice");
    EXPECT_EQ(requests[i].peer.certificate->emails, std::vector<std::string>{"a@b"});
  }
}

TEST_F(SecureServerTest, AClientWithoutACertificateIsToldThatOneIsRequired) {
  start_echo({}, ClientCertificates::kRequired);
  Side client = connect();
  send(client, kGet);
  wait_for_end(client);
  EXPECT_EQ(client.stream->failure().code, ErrorCode::kUnauthenticated);
  EXPECT_TRUE(requests.empty());
  client.stream.reset();
  turn(20);
  EXPECT_EQ(server->connection_count(), 0U);
}

TEST_F(SecureServerTest, LargeBodiesComeAndGoWhole) {
  start_echo();
  Side client = connect();
  std::string body(20 << 20, 'x');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 7 % 253);
  send(client,
       "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n");
  send(client, body);
  for (int i = 0; i < 100'000 && client.received.size() < body.size(); ++i) {
    loop.run_once(Duration::zero());
    client.receive();
  }
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_TRUE(requests[0].body == body);
  ASSERT_GT(client.received.size(), body.size());
  EXPECT_TRUE(std::string_view(client.received).substr(client.received.size() - body.size()) ==
              body);
}

TEST_F(SecureServerTest, PipelinedRequestsOfManyRecordsAreAllAnswered) {
  start_echo();
  Side client = connect();
  std::string many;
  for (int i = 0; i < 300; ++i) many += post(200);
  send(client, many);
  for (int i = 0; i < 3000 && requests.size() < 300; ++i) {
    loop.run_once(Duration::zero());
    client.receive();
  }
  EXPECT_EQ(requests.size(), 300U);
}

TEST_F(SecureServerTest, WhatComesWhileARequestIsAnsweredIsServedAfterIt) {
  start_holding();
  Side client = connect();
  send(client, kGet);
  turn(20);
  ASSERT_EQ(held.size(), 1U);
  // The second comes while the first is being answered, in one record, which the server has looked
  // at by then.
  send(client, kGet);
  turn(20);
  ASSERT_EQ(held.size(), 1U);
  held[0].send({.body = "first"});
  turn(20);
  ASSERT_EQ(held.size(), 2U);
  held[1].send({.body = "second"});
  wait_for(client, "second");
  EXPECT_THAT(client.received, HasSubstr("first"));
}

TEST_F(SecureServerTest, AClientThatOnlyEndedItsSendingGetsItsAnswer) {
  start_holding();
  Side client = connect();
  send(client, kGet);
  turn(20);
  client.receive();
  EXPECT_TRUE(client.stream->finish_sending());
  turn(20);
  ASSERT_EQ(held.size(), 1U);
  held[0].send({.body = "late"});
  wait_for_end(client);
  EXPECT_THAT(client.received, EndsWith("late"));
  EXPECT_EQ(client.last, Transfer::Kind::kEnd);
}

TEST_F(SecureServerTest, AClientThatIsGoneIsADisconnect) {
  start_holding();
  Side client = connect();
  send(client, kGet);
  turn(20);
  ASSERT_EQ(held.size(), 1U);
  bool disconnected = false;
  held[0].on_disconnect([&] { disconnected = true; });
  client.stream.reset();
  turn(20);
  EXPECT_TRUE(disconnected);
  EXPECT_EQ(server->connection_count(), 0U);
}

TEST_F(SecureServerTest, AClientThatReadsChunksTooSlowlyIsLetGo) {
  start_holding();
  Side client = connect();
  send(client, kGet);
  turn(20);
  ASSERT_EQ(held.size(), 1U);
  held[0].start_chunked({});
  bool open = true;
  for (int i = 0; i < 4000 && open; ++i) {
    open = held[0].send_chunk(std::string(16 * 1024, 'x'));
  }
  EXPECT_FALSE(open);
  EXPECT_EQ(server->connection_count(), 0U);
}

TEST_F(SecureServerTest, PlainHttpIsAnsweredInPlainWith400) {
  ServerOptions options;
  options.error_response = [](int status, std::string_view reason, const http::Request&) {
    Response response;
    response.body = std::to_string(status) + ": " + std::string(reason);
    return response;
  };
  start_echo(std::move(options));
  RawClient client(port);
  client.send(kGet);
  for (int i = 0; i < 3000 && !client.ended; ++i) {
    loop.run_once(milliseconds(1));
    client.receive();
  }
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(client.received,
              EndsWith("400: this port speaks HTTPS: use a URL that begins with https://"));
  EXPECT_TRUE(requests.empty());
  EXPECT_EQ(counts.failed, 1U);
}

TEST_F(SecureServerTest, ASlowHandshakeEndsLikeASlowHead) {
  start_echo();
  std::vector<RawClient> clients;
  for (const std::string_view begin : {std::string_view(""), std::string_view("\x16", 1),
                                       std::string_view("\x16\x03\x01\x01", 4)}) {
    clients.emplace_back(port);
    if (!begin.empty()) clients.back().send(begin);
  }
  turn(20);
  EXPECT_EQ(server->connection_count(), 3U);
  clock.advance(ServerOptions().header_timeout - milliseconds(1));
  clients[1].send("\x03");  // more bytes give no more time
  turn(20);
  EXPECT_EQ(server->connection_count(), 3U);
  clock.advance(milliseconds(1));
  turn(20);
  EXPECT_EQ(server->connection_count(), 0U);
  EXPECT_EQ(counts.failed, 3U);
}

TEST_F(SecureServerTest, AThousandUnfinishedHandshakesKeepNoClientOut) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  start_echo({.max_connections = 1000});
  std::vector<RawClient> silent;
  for (int i = 0; i < 1000; ++i) {
    silent.emplace_back(port);
    if (i % 2 == 0) silent.back().send("\x16\x03\x01");
    if (i % 100 == 0) turn();
  }
  turn(50);
  EXPECT_EQ(server->connection_count(), 1000U);
  // At once a client is not served...
  Side early = connect();
  for (int i = 0; i < 50 && !early.has_failed(); ++i) {
    early.send(kGet);
    turn();
  }
  EXPECT_EQ(requests.size(), 0U);
  // ...but those that have done nothing for a second make room.
  clock.advance(seconds(2));
  turn();
  Side client = connect();
  send(client, post(3));
  wait_for(client, "xxx");
  EXPECT_EQ(requests.size(), 1U);
  clock.advance(ServerOptions().header_timeout);
  turn(20);
  EXPECT_LE(server->connection_count(), 1U);
}

TEST_F(SecureServerTest, GarbageAndTruncatedHandshakesLeaveNothingBehind) {
  start_echo();
  std::string hello(200, '\x01');
  hello.replace(0, 5, std::string_view("\x16\x03\x01\x00\xc3", 5));
  for (size_t size = 0; size <= hello.size(); size += 7) {
    RawClient client(port);
    if (size > 0) client.send(hello.substr(0, size));
    turn();
    client.fd.reset();
    turn();
  }
  for (const char first : {'\x80', '\x00', '\x17', '\x15', 'a'}) {
    RawClient client(port);
    client.send(std::string(100, first));
    for (int i = 0; i < 1000 && !client.ended; ++i) {
      loop.run_once(milliseconds(1));
      client.receive();
    }
    EXPECT_TRUE(client.ended);
  }
  turn(20);
  EXPECT_EQ(server->connection_count(), 0U);
  EXPECT_EQ(counts.finished, 0U);
}

TEST_F(SecureServerTest, ABodyThatIsCutIsNoRequest) {
  start_echo();
  Side client = connect();
  send(client, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345");
  turn(20);
  client.stream.reset();
  turn(20);
  EXPECT_TRUE(requests.empty());
  EXPECT_EQ(server->connection_count(), 0U);
}

TEST_F(SecureServerTest, MalformedRequestsAreAnsweredAndTheEndIsInGoodOrder) {
  start_echo();
  Side client = connect();
  send(client, "nonsense\r\n\r\n");
  wait_for_end(client);
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_EQ(client.last, Transfer::Kind::kEnd);
}

TEST_F(SecureServerTest, DrainingEndsIdleConnectionsInGoodOrder) {
  start_echo();
  Side client = connect();
  send(client, post(1));
  wait_for(client, "x");
  server->drain();
  wait_for_end(client);
  EXPECT_EQ(client.last, Transfer::Kind::kEnd);
  EXPECT_EQ(server->connection_count(), 0U);
}

}  // namespace
}  // namespace lambent::http
