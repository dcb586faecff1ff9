// A session and the programs that it relays to: real sockets on this machine, played by the test.
#include "node/http_relay/session.h"
#include "node/http_relay/limits.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include "core/base/testing/testing.h"
#include "core/http/streamed_exchange.h"
#include "core/http/testing/server_test_support.h"

namespace lambent::http_relay {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class RelaySession : public http::ServerTest {
 protected:
  RelaySession() {
    listener_ = std::move(*http::listen_tcp("127.0.0.1", 0));
    program_port_ = http::port_of(listener_);
    http::ServerOptions options;
    options.streams = [](const http::Request&) { return true; };
    start_holding(std::move(options));
  }
  ~RelaySession() override {
    session_.reset();
    turn();
  }

  void open(std::string readiness = "") {
    session_ = std::make_unique<Session>(
        loop,
        [this](unsigned count, auto then) {
          loop.call_after(Duration::zero(), [this, count, then] {
            ++fetches_;
            std::vector<OwnedFd> sockets;
            for (unsigned i = 0; i < count; ++i) {
              sockets.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
            }
            then(std::move(sockets));
          });
        },
        SessionOptions{.port = program_port_, .readiness = std::move(readiness)},
        Callbacks{
            .on_ready = [this] { ++readies_; },
            .on_end = [this](InvocationId, PassageEnd how) { ends_.push_back(std::move(how)); }});
  }
  // The program's next connection.
  void accept() {
    for (int i = 0; i < 3000; ++i) {
      loop.run_once(milliseconds(1));
      clock.advance(milliseconds(1));
      OwnedFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.valid()) continue;
      program_ = http::RawClient();
      program_.fd = std::move(fd);
      return;
    }
    FAIL() << "the session did not connect";
  }
  void open_ready() {
    open();
    accept();
    wait_until([this] { return readies_ == 1; });
  }
  void wait_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 3000 && !condition(); ++i) {
      loop.run_once(milliseconds(1));
      clock.advance(milliseconds(1));
    }
    ASSERT_TRUE(condition());
  }
  // A client's request, as a frontend would pass it on.
  void request(const std::string& text, const std::string& upgrade = "") {
    client_ = connect();
    client_.send(text);
    const size_t before = held.size();
    wait_until([&] { return held.size() > before; });
    relayed_ = std::make_shared<RelayedRequest>(requests.back(), std::move(held.back()));
    relayed_->has_body = requests.back().headers.contains("Content-Length") ||
                         requests.back().headers.contains("Transfer-Encoding");
    if (requests.back().headers.contains("Transfer-Encoding")) {
      http::Headers kept;
      kept.add("Host", "h");
      relayed_->head.headers = kept;
    }
    relayed_->upgrade = upgrade;
    relayed_->responder.on_disconnect([relayed = relayed_.get()] {
      relayed->client_is_gone = true;
      if (const auto gone = std::exchange(relayed->on_client_gone, nullptr)) gone();
    });
    session_->give(InvocationId{1, ++ids_}, relayed_);
  }
  void get() { request("GET /path HTTP/1.1\r\nHost: h\r\n\r\n"); }

  OwnedFd listener_;
  uint16_t program_port_ = 0;
  std::unique_ptr<Session> session_;
  http::RawClient program_;
  http::RawClient client_;
  std::shared_ptr<RelayedRequest> relayed_;
  std::vector<PassageEnd> ends_;
  int readies_ = 0;
  int fetches_ = 0;
  uint64_t ids_ = 0;
};

TEST_F(RelaySession, PartsOfAnAnswerAreAcknowledgedAsTheyCome) {
  open_ready();
  for (size_t i = 0; i < 30; ++i) {  // the first segments of a connection are, in any case
    get();
    wait_until([&] { return program_.receive(), !program_.received.empty(); });
    program_.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    wait_until([&] { return ends_.size() == i + 1; });
    program_.received.clear();
  }
  get();
  wait_until([&] { return program_.receive(), !program_.received.empty(); });
  for (const std::string_view part : {"HTTP/1.1 200 OK\r\n", "Content-Length: 4\r\n\r\n", "bo"}) {
    program_.send(part);
    turn();
    EXPECT_EQ(unacknowledged(program_), 0) << "after '" << part << "'";
  }
  program_.send("dy");
  wait_until([&] { return ends_.size() == 31; });
}

TEST_F(RelaySession, IsReadyOnceTheProgramListens) {
  listener_.reset();
  open();
  for (int i = 0; i < 20; ++i) {
    loop.run_once(milliseconds(1));
    clock.advance(milliseconds(10));
  }
  EXPECT_EQ(readies_, 0);
  auto again = http::listen_tcp("127.0.0.1", program_port_);
  if (!again.ok()) GTEST_SKIP() << "another program took the port meanwhile";
  listener_ = std::move(*again);
  accept();
  wait_until([this] { return readies_ == 1; });
  EXPECT_EQ(fetches_, 1) << "a socket that was refused is good for another try";
}

TEST_F(RelaySession, AsksAPathUntilItIsAnsweredWell) {
  open("/ready");
  accept();
  wait_for(program_, "\r\n\r\n");
  EXPECT_THAT(program_.received, StartsWith("GET /ready HTTP/1.1\r\nHost: localhost\r\n"));
  program_.send("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
  accept();
  EXPECT_EQ(readies_, 0);
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 204 Yes\r\n\r\n");
  wait_until([this] { return readies_ == 1; });
}

TEST_F(RelaySession, ABodyThatCameWholeGoesWithTheHead) {
  open_ready();
  client_ = connect();
  client_.send("POST /path HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_until([this] { return !held.empty(); });
  relayed_ = std::make_shared<RelayedRequest>(requests.back(), std::move(held.back()));
  relayed_->head.headers.add("Content-Length", "5");
  relayed_->head.body = "hello";
  session_->give(InvocationId{1, ++ids_}, relayed_);
  wait_for(program_, "\r\n\r\nhello");
  EXPECT_THAT(program_.received, HasSubstr("Content-Length: 5\r\n"));
  program_.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
  wait_for(client_, "\r\n\r\nhi");
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_TRUE(ends_[0].succeeded);
  EXPECT_TRUE(ends_[0].keeps_connection);
}

TEST_F(RelaySession, PassesARequestAndItsAnswerAndKeepsTheConnection) {
  open_ready();
  for (int i = 0; i < 3; ++i) {
    get();
    wait_for(program_, "\r\n\r\n");
    EXPECT_THAT(program_.received, StartsWith("GET /path HTTP/1.1\r\nHost: h\r\n"));
    program_.received.clear();
    program_.send("HTTP/1.1 200 OK\r\nX-Own: 1\r\nKeep-Alive: 5\r\nContent-Length: 2\r\n\r\nok");
    wait_for(client_, "ok");
    EXPECT_THAT(client_.received, HasSubstr("X-Own: 1\r\n"));
    EXPECT_THAT(client_.received, testing::Not(HasSubstr("Keep-Alive")));
    wait_until([&] { return ends_.size() == static_cast<size_t>(i + 1); });
    EXPECT_TRUE(ends_.back().succeeded);
  }
}

TEST_F(RelaySession, PassesBodiesWithAndWithoutASize) {
  open_ready();
  request("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
  wait_for(program_, "hello");
  EXPECT_THAT(program_.received, EndsWith("\r\n\r\nhello"));
  program_.received.clear();
  program_.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  wait_until([this] { return ends_.size() == 1; });
  request(
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
  wait_for(program_, "0\r\n\r\n");
  EXPECT_THAT(program_.received,
              EndsWith("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
}

TEST_F(RelaySession, AServerErrorOfTheProgramPassesAndCountsAsAFailure) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
  wait_for(client_, "busy");
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_FALSE(ends_[0].succeeded);
  EXPECT_EQ(ends_[0].error_type, "Http.ServerError");
}

TEST_F(RelaySession, AnAnswerThatIsKeptIsNoneForTheClientWhichAnotherMayAnswer) {
  open_ready();
  client_ = connect();
  client_.send("GET /path HTTP/1.1\r\nHost: h\r\n\r\n");
  wait_until([this] { return held.size() == 1; });
  relayed_ = std::make_shared<RelayedRequest>(requests.back(), std::move(held.back()));
  relayed_->keeps = [](const http::Response& answer) { return answer.headers.contains("X-No"); };
  session_->give(InvocationId{1, ++ids_}, relayed_);
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 503 No\r\nX-No: 1\r\nContent-Length: 4\r\n\r\nbusy");
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_TRUE(relayed_->kept);
  EXPECT_FALSE(relayed_->answered);
  EXPECT_TRUE(ends_[0].keeps_connection);
  const auto again =
      std::make_shared<RelayedRequest>(requests.back(), std::move(relayed_->responder));
  session_->give(InvocationId{1, ++ids_}, again);
  program_.received.clear();
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone");
  wait_for(client_, "done");
  EXPECT_THAT(client_.received, StartsWith("HTTP/1.1 200"));
}

TEST_F(RelaySession, InterimAnswersAreNotTheAnswer) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send(
      "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  wait_for(client_, "ok");
  EXPECT_THAT(client_.received, StartsWith("HTTP/1.1 200"));
}

TEST_F(RelaySession, AnAnswerThatIsNoHttpIsAFailure) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send("garbage\r\n\r\n");
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_EQ(ends_[0].error_type, "Http.BadAnswer");
  EXPECT_FALSE(relayed_->answered);
}

// It would be waited for until the request's time is over.
TEST_F(RelaySession, AnAnswerWhoseLinesEndWithLfIsRefusedAtOnce) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 200 OK\nContent-Length: 2\n");
  turn();
  EXPECT_TRUE(ends_.empty());
  program_.send("\nok");
  wait_until([&] { return ends_.size() == 1; });
  EXPECT_EQ(ends_[0].error_type, "Http.BadAnswer");
  EXPECT_THAT(ends_[0].message, HasSubstr("lines of its head must end with CR LF"));
  EXPECT_FALSE(relayed_->answered);
}

TEST_F(RelaySession, AProgramThatKnowsHttp2OnlyIsToldSo) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  // SETTINGS with one setting, by which a server of gRPC begins.
  program_.send(std::string("\0\0\6\4\0\0\0\0\0\0\4\0\x40\0\0", 15));
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_EQ(ends_[0].error_type, "Http.BadAnswer");
  EXPECT_THAT(ends_[0].message, HasSubstr("answers in HTTP/2"));
  EXPECT_FALSE(relayed_->answered);
}

TEST_F(RelaySession, HeadsOfAnswersHaveALimit) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 200 OK\r\nX: " + std::string(limits::kRelayedHead.count, 'x'));
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_THAT(ends_[0].message, HasSubstr("headers have more than 65536 bytes"));
}

TEST_F(RelaySession, AnAnswerThatBreaksOffIsAFailure) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
  wait_for(client_, "half");
  program_.fd.reset();
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_EQ(ends_[0].error_type, "Http.Disconnected");
  EXPECT_TRUE(relayed_->answered);
  relayed_->responder = http::Responder(nullptr);
  wait_for_end(client_);
}

TEST_F(RelaySession, AnAnswerWithoutASizeIsWholeIfTheProgramGoesOn) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 200 OK\r\n\r\nto the end");
  program_.fd.reset();
  wait_for(client_, "to the end");
  turn(5);
  client_.receive();
  EXPECT_THAT(client_.received, Not(EndsWith("0\r\n\r\n"))) << "it may be the program's end";
  EXPECT_TRUE(ends_.empty());
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_TRUE(ends_[0].succeeded);
  wait_for(client_, "0\r\n\r\n");
}

TEST_F(RelaySession, AnAnswerWithoutASizeIsCutOffIfTheProgramEnds) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 200 OK\r\n\r\nhalf");
  program_.fd.reset();
  wait_for(client_, "half");
  // As the worker does at the end of a sandbox.
  session_.reset();
  relayed_->responder = http::Responder(nullptr);
  wait_for_end(client_);
  EXPECT_THAT(client_.received, Not(EndsWith("0\r\n\r\n")));
}

TEST_F(RelaySession, ARequestIsRepeatedWhereTheProgramHadClosedTheConnection) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  wait_until([this] { return ends_.size() == 1; });
  get();
  wait_for(program_, "GET /path");
  program_.fd.reset();  // it had decided so before
  accept();
  wait_for(program_, "GET /path");
  program_.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain");
  wait_for(client_, "again");
}

TEST_F(RelaySession, ARequestThatChangesSomethingIsNotRepeated) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  wait_until([this] { return ends_.size() == 1; });
  request("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
  wait_for(program_, "POST");
  program_.fd.reset();
  wait_until([this] { return ends_.size() == 2; });
  EXPECT_THAT(ends_[1].message, HasSubstr("closed the connection without an answer"));
}

TEST_F(RelaySession, WhatTheProgramHasNotSeenIsGivenBack) {
  open_ready();
  program_.fd.reset();
  listener_.reset();
  turn();
  get();
  turn(20);
  EXPECT_TRUE(ends_.empty()) << "its end is on the way";
  EXPECT_EQ(session_->take_unseen().size(), 1u);
}

TEST_F(RelaySession, AProgramThatListensNoLongerIsToldAfterAWhile) {
  open_ready();
  program_.fd.reset();
  listener_.reset();
  turn();
  get();
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_EQ(ends_[0].error_type, "Http.NotListening");
}

TEST_F(RelaySession, TheProgramSeesThatItsClientIsGone) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
  wait_for(client_, "x\r\n");
  client_.fd.reset();
  wait_for_end(program_);
  turn();
  EXPECT_TRUE(ends_.empty()) << "until it closes too, it is at work";
  program_.fd.reset();
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_TRUE(ends_[0].succeeded) << "it is not the program that failed";
}

TEST_F(RelaySession, AStreamWithoutAClientIsCutOffAtTheProgramsNextWrite) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
  wait_for(client_, "x\r\n");
  client_.fd.reset();
  wait_for_end(program_);
  program_.send("1\r\ny\r\n");
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_TRUE(ends_[0].succeeded);
}

TEST_F(RelaySession, AProgramWhoseClientLeftIsAtWorkUntilItHasAnswered) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  client_.fd.reset();
  wait_for_end(program_);
  turn();
  EXPECT_TRUE(ends_.empty());
  program_.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  turn();
  EXPECT_TRUE(ends_.empty());
  program_.send("hello");
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_EQ(ends_[0].error_type, "Http.ClientLeft");
  EXPECT_FALSE(ends_[0].keeps_connection);
}

// The worker drops the responder of what it has given up: its memory is another client's by then.
TEST_F(RelaySession, AClientThatIsOverIsNotTouchedWhenItsSessionEnds) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  const auto gone = std::exchange(relayed_->on_client_gone, nullptr);
  ASSERT_TRUE(gone);
  gone();
  relayed_->responder = http::Responder(nullptr);
  turn();
  EXPECT_TRUE(ends_.empty());
  client_ = http::RawClient();
  client_ = connect();
  client_.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
  const size_t before = held.size();
  wait_until([&] { return held.size() > before; });
  std::string received;
  held.back().stream()->receive(
      {.on_bytes = [&](std::string_view bytes) { received += bytes; }, .on_end = [] {}});
  session_.reset();
  turn();
  client_.send("hello");
  wait_until([&] { return received == "hello"; });
}

TEST_F(RelaySession, AnAnswerWithAnImpossibleStatusOrAForeignCodingIsRefused) {
  for (const char* answer :
       {"HTTP/1.1 000 Odd\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"}) {
    ends_.clear();
    open_ready();
    get();
    wait_for(program_, "\r\n\r\n");
    program_.send(answer);
    wait_until([this] { return ends_.size() == 1; });
    EXPECT_EQ(ends_[0].error_type, "Http.BadAnswer") << answer;
    session_.reset();
    readies_ = 0;
  }
}

TEST_F(RelaySession, ASlowClientHoldsTheProgramBack) {
  open_ready();
  get();
  wait_for(program_, "\r\n\r\n");
  program_.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
  const std::string piece(64 * 1024, 'x');
  size_t sent = 0;
  for (int idle = 0; idle < 200 && sent < 100'000'000;) {
    const ssize_t got =
        send(program_.fd.get(), piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    sent += got > 0 ? static_cast<size_t>(got) : 0;
    idle = got > 0 ? 0 : idle + 1;
    loop.run_once(Duration::zero());
  }
  EXPECT_LT(sent, 40'000'000u) << "what the kernel's buffers hold, and little beside";
}

TEST_F(RelaySession, AnotherProtocolPassesBothWays) {
  open_ready();
  request("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "x");
  wait_for(program_, "\r\n\r\n");
  EXPECT_THAT(program_.received, HasSubstr("Connection: Upgrade\r\nUpgrade: x\r\n\r\n"));
  program_.send("HTTP/1.1 101 Yes\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nfirst");
  wait_for(client_, "first");
  client_.send("ping");
  wait_for(program_, "ping");
  program_.send("pong");
  wait_for(client_, "pong");
  program_.fd.reset();
  wait_for_end(client_);
  wait_until([this] { return ends_.size() == 1; });
  EXPECT_TRUE(ends_[0].succeeded);
}

TEST_F(RelaySession, EndsInTheMiddleOfEverything) {
  open_ready();
  request("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nhello");
  wait_for(program_, "hello");
  program_.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
  wait_for(client_, "half");
  session_.reset();
  client_.send("more of the body");
  turn(20);
  relayed_->responder = http::Responder(nullptr);
  wait_for_end(client_);
  EXPECT_TRUE(ends_.empty());
}

}  // namespace
}  // namespace lambent::http_relay
