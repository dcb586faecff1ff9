// Clients that go away, half-way or wholly, and how the server notices.
#include <gmock/gmock.h>

#include "core/http/streamed_exchange.h"
#include "core/http/testing/server_test_support.h"

namespace lambent::http {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(ServerTest, AReaderThatDoesNotReadIsReleasedAboveOneMegabyte) {
  start_holding();
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
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

TEST_F(ServerTest, AClientThatGoesAwayIsReportedOnce) {
  start_holding();
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
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
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  const linger reset{1, 0};
  setsockopt(client.fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  client.fd.reset();
  turn();
  held[0].send({.body = "no client reads"});
  EXPECT_FALSE(held[0].send_chunk("x"));
}

TEST_F(ServerTest, AHalfClosedClientStillGetsItsAnswers) {
  start_holding();
  RawClient client = connect();
  client.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
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

TEST_F(ServerTest, AClientThatJustClosesIsFoundOutBeforeItsAnswer) {
  start_holding();
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  bool gone = false;
  held[0].on_disconnect([&] { gone = true; });
  client.fd.reset();
  turn();
  EXPECT_TRUE(gone);
  EXPECT_EQ(server->connection_count(), 0u);
}

TEST_F(ServerTest, AHalfClosedClientIsSentAnInterimAnswerToSeeWhetherItIsThere) {
  start_holding();
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  held[0].on_disconnect([] { FAIL(); });
  shutdown(client.fd.get(), SHUT_WR);
  turn();
  held[0].send({.body = "late"});
  wait_for_end(client);
  EXPECT_THAT(client.received, StartsWith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(client.received, EndsWith("\r\n\r\nlate"));
}

TEST_F(ServerTest, NothingInterimIsSentToHttp10OrAmidAChunkedAnswer) {
  start_holding();
  RawClient old = connect();
  old.send("GET / HTTP/1.0\r\n\r\n");
  RawClient reader = connect();
  reader.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  ASSERT_EQ(held.size(), 2u);
  held[1].start_chunked({});
  for (const RawClient* client : {&old, &reader}) shutdown(client->fd.get(), SHUT_WR);
  turn();
  held[0].send({.body = "whole"});
  held[1].send_chunk("part");
  held[1].finish_chunked();
  for (RawClient* client : {&old, &reader}) {
    wait_for_end(*client);
    EXPECT_THAT(client->received, Not(HasSubstr("100 Continue")));
  }
  EXPECT_THAT(old.received, EndsWith("whole"));
  EXPECT_THAT(reader.received, EndsWith("4\r\npart\r\n0\r\n\r\n"));
}

TEST_F(ServerTest, AnAnswerThatMayRestEndsWithItsClientsSending) {
  start_holding();
  RawClient client = connect();
  client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  RawClient early = connect();
  early.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  ASSERT_EQ(held.size(), 2u);
  // Before the answer begins it is no end of it.
  shutdown(early.fd.get(), SHUT_WR);
  turn();
  std::vector<int> gone(2);
  for (size_t i = 0; i < 2; ++i) {
    held[i].on_disconnect([&gone, i] { ++gone[i]; });
    held[i].answer_stream()->end_at_half_close();
    held[i].start_chunked({});
  }
  shutdown(client.fd.get(), SHUT_WR);
  turn();
  EXPECT_EQ(gone, (std::vector<int>{1, 0}));
  held[1].send_chunk("part");
  held[1].finish_chunked();
  wait_for_end(early);
  EXPECT_THAT(early.received, EndsWith("4\r\npart\r\n0\r\n\r\n"));
}

TEST_F(ServerTest, WhereHalfCloseMeansGoneItIsADisconnect) {
  start_holding({.serve_half_closed = false});
  RawClient client = connect();
  client.send("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
  turn();
  bool gone = false;
  held[0].on_disconnect([&] { gone = true; });
  shutdown(client.fd.get(), SHUT_WR);
  turn();
  EXPECT_TRUE(gone);
}

TEST_F(ServerTest, ARequestCutShortIsNotHandled) {
  start_echo();
  RawClient client = connect();
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf");
  turn();
  shutdown(client.fd.get(), SHUT_WR);
  wait_for_end(client);
  EXPECT_TRUE(requests.empty());
}

TEST_F(ServerTest, AClientThatGoesAwayGivesBackWhatItsBodyHeld) {
  start_echo({.max_body = Bytes(1000), .max_unfinished_bodies = Bytes(1500)});
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";
  for (int i = 0; i < 5; i++) {
    RawClient client = connect();
    client.send(head + std::string(900, 'x'));
    turn();
    client.fd.reset();
    turn();
  }
  RawClient last = connect();
  last.send(head + std::string(900, 'x'));
  turn();
  last.send(std::string(100, 'x'));
  wait_for(last, "HTTP/1.1 200");
}

}  // namespace
}  // namespace lambent::http
