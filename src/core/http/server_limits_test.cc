// What the server bears from its clients: sizes, slowness, numbers of connections.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>

#include "core/http/testing/server_test_support.h"

namespace lambent::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(ServerTest, ABodyAboveTheLimitIs413AndIsNotRead) {
  start_echo({.max_body = Bytes(10)});
  RawClient client = connect();
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n");
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 413 Payload Too Large\r\n"));
  EXPECT_THAT(client.received, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(requests.empty());
  client.send("12345678901");  // is still taken, so that the answer is not lost to a reset
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
  RawClient first = connect();
  first.send(head + std::string(900, 'x'));
  turn();
  RawClient second = connect();
  second.send(head + std::string(900, 'x'));
  wait_for(second, "HTTP/1.1 503");
  // The one that came first may finish, and so may one that comes when there is room again.
  first.send(std::string(100, 'x'));
  wait_for(first, "HTTP/1.1 200");
  RawClient third = connect();
  third.send(head + std::string(900, 'x'));
  turn();
  third.send(std::string(100, 'x'));
  wait_for(third, "HTTP/1.1 200");
  EXPECT_EQ(requests.size(), 2U);
}

TEST_F(ServerTest, ALeaseEndsWhenTheBodyHasLeftOrTheClientIsGone) {
  std::weak_ptr<const void> lease;
  start({}, [&](Request request, Responder responder) {
    const std::shared_ptr<const void> leased = std::make_shared<int>();
    lease = leased;
    Response response;
    response.body.assign(std::stoul(std::string(request.headers.get("x-size"))), 'x');
    response.lease = leased;
    responder.send(std::move(response));
  });
  const auto ask = [&](const RawClient& client, size_t size, const char* method = "GET") {
    client.send(std::string(method) + " / HTTP/1.1\r\nHost: h\r\nX-Size: " + std::to_string(size) +
                "\r\n\r\n");
    turn();
  };
  constexpr size_t kMuch = 64 << 20;  // more than the kernel takes
  RawClient reader = connect();
  ask(reader, 10);
  EXPECT_TRUE(lease.expired());
  ask(reader, kMuch, "HEAD");
  EXPECT_TRUE(lease.expired());
  ask(reader, kMuch);
  EXPECT_FALSE(lease.expired());
  for (int i = 0; i < 3000 && !lease.expired(); ++i) {
    loop.run_once(milliseconds(1));
    reader.receive();
  }
  EXPECT_TRUE(lease.expired());
  RawClient leaves = connect();
  ask(leaves, kMuch);
  EXPECT_FALSE(lease.expired());
  leaves.fd.reset();
  turn(20);
  EXPECT_TRUE(lease.expired());
  RawClient idles = connect();
  ask(idles, kMuch);
  EXPECT_FALSE(lease.expired());
  clock.advance(ServerOptions().body_timeout);
  turn();
  EXPECT_TRUE(lease.expired());
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
  options.max_body = Bytes(3);
  options.error_response = [](int status, std::string_view reason, const Request& partial) {
    Response response;
    response.headers.add("X-Error", std::to_string(status));
    response.body = "{" + std::string(reason) + "} " + partial.target;
    return response;
  };
  start_echo(std::move(options));
  const std::string answer = answer_and_end("nonsense\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 Bad Request\r\nX-Error: 400\r\n"));
  EXPECT_THAT(answer, EndsWith("} "));
  EXPECT_THAT(answer_and_end("POST /to HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"),
              EndsWith("} /to"));
}

// Sends until the server closes the connection; how much went out.
size_t flood(const RawClient& client, const std::function<void()>& turn) {
  const std::string block(1 << 16, 'x');
  size_t sent = 0;
  for (int stalls = 0; stalls < 1000;) {
    const ssize_t put =
        ::send(client.fd.get(), block.data(), block.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno != EAGAIN) return sent;
    stalls = put < 0 ? stalls + 1 : 0;
    if (put > 0) sent += static_cast<size_t>(put);
    turn();
  }
  return SIZE_MAX;
}

TEST_F(ServerTest, WhatComesAfterA413IsDroppedOnlySoFar) {
  start_echo({.max_body = Bytes::mib(1)});
  RawClient client = connect();
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000000\r\n\r\n");
  const size_t sent = flood(client, [this] { turn(1); });
  // What the kernel holds for both ends comes on top.
  EXPECT_GT(sent, Bytes::mib(2).count);
  EXPECT_LT(sent, Bytes::mib(20).count);
  turn();
  EXPECT_EQ(server->connection_count(), 0u);
  client.receive();
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 413 "));
}

TEST_F(ServerTest, ManyThatSendAfterA413ShareOneBound) {
  start_echo({.max_body = Bytes::mib(1)});
  std::vector<RawClient> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(connect());
    clients.back().send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000000\r\n\r\n");
  }
  turn(20);
  const std::string block(1 << 16, 'x');
  std::vector<size_t> sent(clients.size());
  size_t open = clients.size();
  for (int round = 0; round < 20'000 && open > 0; ++round) {
    open = 0;
    for (size_t i = 0; i < clients.size(); ++i) {
      const ssize_t put =
          ::send(clients[i].fd.get(), block.data(), block.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put > 0) sent[i] += static_cast<size_t>(put);
      if (put >= 0 || errno == EAGAIN) ++open;
    }
    turn(1);
  }
  EXPECT_EQ(open, 0u) << "all were closed";
  EXPECT_EQ(server->connection_count(), 0u);
  // And who comes later has the whole bound again.
  RawClient late = connect();
  late.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000000\r\n\r\n");
  EXPECT_GT(flood(late, [this] { turn(1); }), Bytes::mib(2).count);
}

TEST_F(ServerTest, SlowHeadersAre408HoweverTheyTrickle) {
  start_echo();
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\n");
  for (int i = 0; i < 9; i++) {
    turn();
    clock.advance(seconds(1));
    client.send("X: y\r\n");
  }
  turn();
  client.receive();
  EXPECT_EQ(client.received, "");
  clock.advance(seconds(1));
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 408 Request Timeout\r\n"));
  clock.advance(seconds(11));
  turn();
  EXPECT_EQ(server->connection_count(), 0u) << "it does not linger for ever";
}

TEST_F(ServerTest, ABodyThatComesSteadilyIsWaitedFor) {
  start_echo({.body_timeout = seconds(30)});
  RawClient client = connect();
  const std::string piece(Bytes::kib(64).count, 'x');
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(60 * piece.size()) +
              "\r\n\r\n");
  turn();
  for (size_t sent = 0; sent < 60; ++sent) {
    clock.advance(seconds(1));
    for (size_t at = 0; at < piece.size(); at += 4096) {
      client.send(piece.substr(at, 4096));
      turn();
    }
  }
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServerTest, ASlowBodyIs408) {
  start_echo();
  RawClient client = connect();
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n");
  turn();
  for (int i = 0; i < 6; i++) {
    clock.advance(seconds(10));
    client.send("x");
    turn();
  }
  wait_for(client, "\r\n\r\n");
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 408 "));
}

TEST_F(ServerTest, AnIdleConnectionIsClosedButNotOneWhoseRequestIsBeingHandled) {
  start_holding();
  RawClient idle = connect();
  RawClient busy = connect();
  busy.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
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
  std::vector<RawClient> idle;
  for (int i = 0; i < 1000; i++) idle.push_back(connect());
  RawClient client = connect();
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok");
  wait_for(client, "ok");
  EXPECT_EQ(server->connection_count(), 1001u);
}

TEST_F(ServerTest, OneConnectionTooManyIs503) {
  start_echo({.max_connections = 2});
  RawClient first = connect();
  RawClient second = connect();
  turn();
  RawClient third = connect();
  wait_for_end(third);
  EXPECT_THAT(third.received, StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  third.fd.reset();
  first.fd.reset();
  turn();
  RawClient fourth = connect();
  fourth.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok");
  wait_for(fourth, "ok");
}

TEST_F(ServerTest, OneConnectionTooManyTakesThePlaceOfThatWhichWasIdleLongest) {
  start_echo({.max_connections = 2});
  RawClient first = connect();
  turn();
  clock.advance(milliseconds(500));
  RawClient second = connect();
  turn();
  clock.advance(milliseconds(600));
  RawClient third = connect();
  wait_for_end(first);
  EXPECT_EQ(first.received, "");
  for (RawClient* client : {&second, &third}) {
    client->send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok");
    wait_for(*client, "ok");
  }
}

TEST_F(ServerTest, WhereDescriptorsRunOutAnIdleConnectionMakesRoomToo) {
  start_echo();
  RawClient first = connect();
  turn();
  clock.advance(seconds(2));
  RawClient second = connect();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit files = before;
  files.rlim_cur = static_cast<rlim_t>(second.fd.get()) + 1;
  setrlimit(RLIMIT_NOFILE, &files);
  std::vector<OwnedFd> taken;
  while (taken.empty() || taken.back().valid()) taken.emplace_back(dup(0));
  turn();
  clock.advance(seconds(1));
  second.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok");
  wait_for(second, "ok");
  setrlimit(RLIMIT_NOFILE, &before);
  wait_for_end(first);
}

TEST_F(ServerTest, NoPlaceIsTakenFromAnIdleConnectionThatIsCountedOn) {
  start_echo({.max_connections = 1, .idle_ones_make_room = false});
  RawClient first = connect();
  turn();
  clock.advance(seconds(2));
  RawClient second = connect();
  wait_for_end(second);
  EXPECT_THAT(second.received, StartsWith("HTTP/1.1 503 "));
  first.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok");
  wait_for(first, "ok");
}

TEST_F(ServerTest, NoPlaceIsTakenFromAConnectionWhoseRequestIsBeingRead) {
  start_holding({.max_connections = 2});
  RawClient sends = connect();
  sends.send("POST / HTTP/1.1\r\n");
  RawClient waits = connect();
  waits.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  clock.advance(seconds(2));
  RawClient third = connect();
  wait_for_end(third);
  EXPECT_THAT(third.received, StartsWith("HTTP/1.1 503 "));
  held[0].send({.body = "served"});
  wait_for(waits, "served");
}

}  // namespace
}  // namespace lambent::http
