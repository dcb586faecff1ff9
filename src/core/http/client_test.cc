#include "core/http/client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>

#include "core/http/server.h"

namespace lambent::http {
namespace {

// A server on its own thread, as the client blocks.
class ClientTest : public testing::Test {
 protected:
  ~ClientTest() override {
    loop.stop();
    if (thread.joinable()) thread.join();
    server.reset();
  }
  Endpoint start(Server::Handler handler, ServerOptions options = {}) {
    server = std::make_unique<Server>(loop, std::move(options), std::move(handler));
    auto listener = listen_tcp("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok());
    const uint16_t port = port_of(*listener);
    copy_of_listener = OwnedFd(fcntl(listener->get(), F_DUPFD_CLOEXEC, 0));
    EXPECT_TRUE(server->listen(std::move(*listener)).ok());
    thread = std::thread([this] { loop.run(); });
    return {.host = "127.0.0.1", .port = port};
  }
  // Another server takes the place of the first, whose connections end.
  void start_again(Server::Handler handler) {
    std::promise<void> started;
    loop.post([&] {
      server.reset();
      server = std::make_unique<Server>(loop, ServerOptions{}, std::move(handler));
      EXPECT_TRUE(server->listen(std::move(copy_of_listener)).ok());
      started.set_value();
    });
    started.get_future().wait();
  }
  static Request post(std::string body) {
    return {.method = "POST", .target = "/x", .headers = {}, .body = std::move(body)};
  }

  SystemClock clock;
  loop::EventLoop loop{clock};
  std::unique_ptr<Server> server;
  OwnedFd copy_of_listener;
  std::thread thread;
};

void echo(Request request, Responder responder) { responder.send({.body = request.body}); }

TEST_F(ClientTest, SendsAndReceivesOverOneConnection) {
  BlockingClient client(start(echo));
  for (int i = 0; i < 10; i++) {
    auto response = client.send(post("hello " + std::to_string(i)), seconds(5));
    ASSERT_TRUE(response.ok()) << to_string(response.error());
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "hello " + std::to_string(i));
  }
  bool one = false;
  loop.post([&] {
    one = server->connection_count() == 1;
    loop.stop();
  });
  thread.join();
  EXPECT_TRUE(one);
}

TEST_F(ClientTest, SendsAndReceivesManyMegabytes) {
  BlockingClient client(start(echo));
  const std::string body(20 << 20, 'x');
  auto response = client.send(post(body), seconds(30));
  ASSERT_TRUE(response.ok()) << to_string(response.error());
  EXPECT_TRUE(response->body == body);
}

TEST_F(ClientTest, StreamsAChunkedResponseUntilItHasEnough) {
  BlockingClient client(start([](Request, Responder responder) {
    responder.start_chunked({});
    for (int i = 0; i < 100; i++) responder.send_chunk("piece ");
    responder.finish_chunked();
  }));
  std::string all;
  auto response =
      client.stream({.method = "GET", .target = "/"}, seconds(5), [&](std::string_view piece) {
        all += piece;
        return true;
      });
  ASSERT_TRUE(response.ok()) << to_string(response.error());
  EXPECT_EQ(all.size(), 600u);
  all.clear();
  response = client.stream({.method = "GET", .target = "/"}, seconds(5), [&](std::string_view) {
    all += "x";
    return false;
  });
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(all, "x");
}

TEST_F(ClientTest, OpensAClosedConnectionAgain) {
  BlockingClient client(start(echo));
  ASSERT_TRUE(client.send(post("a"), seconds(5)).ok());
  start_again(echo);
  const auto response = client.send(post("b"), seconds(5));
  ASSERT_TRUE(response.ok()) << to_string(response.error());
  EXPECT_EQ(response->body, "b");
}

TEST_F(ClientTest, ReadsTheAnswerToABodyThatWasRefused) {
  BlockingClient client(start(echo, {.max_body = Bytes(1000)}));
  auto response = client.send(post(std::string(8 << 20, 'x')), seconds(10));
  ASSERT_TRUE(response.ok()) << to_string(response.error());
  EXPECT_EQ(response->status, 413);
}

TEST_F(ClientTest, GivesUpInTime) {
  std::vector<Responder> held;
  const Endpoint endpoint =
      start([&](Request, Responder responder) { held.push_back(std::move(responder)); });
  BlockingClient client(endpoint);
  const auto response = client.send(post("a"), milliseconds(20));
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().code, ErrorCode::kDeadlineExceeded);
  loop.stop();
  thread.join();
}

TEST(BlockingClient, SaysWhenNobodyListens) {
  uint16_t port = 0;
  {
    const auto listener = listen_tcp("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok());
    port = port_of(*listener);
  }
  BlockingClient tcp({.host = "127.0.0.1", .port = port});
  EXPECT_EQ(tcp.send({.method = "GET", .target = "/"}, seconds(5)).error().code,
            ErrorCode::kUnavailable);
  BlockingClient local({.socket_path = "/nonexistent/socket"});
  EXPECT_EQ(local.send({.method = "GET", .target = "/"}, seconds(5)).error().code,
            ErrorCode::kUnavailable);
}

TEST(BlockingClient, RefusesHttpsWhereNothingEncrypts) {
  BlockingClient client({.host = "127.0.0.1", .port = 1, .encrypted = true});
  EXPECT_EQ(client.send({.method = "GET", .target = "/"}, seconds(5)).error().code,
            ErrorCode::kFailedPrecondition);
}

TEST(Endpoint, ReadsWhatItWrites) {
  for (const char* text : {"http://127.0.0.1:9000", "unix:/run/x.sock", "http://[::1]:80",
                           "https://node.example:8980", "https://[::1]:443"}) {
    const auto endpoint = parse_endpoint(text);
    ASSERT_TRUE(endpoint.ok()) << text;
    EXPECT_EQ(to_string(*endpoint), text);
  }
  EXPECT_EQ(to_string(*parse_endpoint("localhost:1234/")), "http://localhost:1234");
  EXPECT_EQ(to_string(*parse_endpoint("https://node.example/")), "https://node.example:443");
  EXPECT_TRUE(parse_endpoint("https://a")->encrypted);
  EXPECT_FALSE(parse_endpoint("http://a")->encrypted);
  for (const char* text : {"", "http://", "https://", "https://a:0", "a:b", "a:0", "a:70000",
                           "unix:", "a/b", "[::1", "[::1]x"}) {
    EXPECT_FALSE(parse_endpoint(text).ok()) << text;
  }
}

}  // namespace
}  // namespace lambent::http
