#include "edge/grpc_inference/worker_client.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/base/time.h"
#include "core/http/server.h"
#include "core/loop/event_loop.h"

namespace lambent::grpc_inference {
namespace {

// A worker that answers with the request's target, on its own thread, and notes from which
// addresses its clients came: each is a connection.
class WorkerClientTest : public testing::Test {
 protected:
  WorkerClientTest()
      : server_(loop_, {}, [this](http::Request request, http::Responder responder) {
          clients_.insert(request.peer.address);
          if (request.target == "/never") {
            held_.push_back(std::move(responder));
          } else {
            responder.send({.body = request.target});
          }
        }) {
    auto listener = http::listen_tcp("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok());
    port_ = http::port_of(*listener);
    EXPECT_TRUE(server_.listen(std::move(*listener)).ok());
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~WorkerClientTest() override { stop(); }
  void stop() {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }

  SystemClock clock_;
  loop::EventLoop loop_{clock_};
  // On the server's thread.
  std::set<std::string> clients_;
  std::vector<http::Responder> held_;
  http::Server server_;
  uint16_t port_ = 0;
  std::thread thread_;
};

TEST_F(WorkerClientTest, AnswersEachOfManyThreadsOverConnectionsThatAreKept) {
  constexpr size_t kThreads = 8, kRequests = 100;
  std::vector<size_t> answered(kThreads);
  {
    WorkerClient client({.host = "127.0.0.1", .port = port_});
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (size_t k = 0; k < kRequests; ++k) {
          const std::string target = "/" + std::to_string(i) + "/" + std::to_string(k);
          const auto answer = client.send({.method = "GET", .target = target}, seconds(30));
          if (answer.ok() && answer->body == target) ++answered[i];
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  stop();
  EXPECT_EQ(answered, std::vector<size_t>(kThreads, kRequests));
  EXPECT_LE(clients_.size(), kThreads) << "a connection was not used again";
}

TEST_F(WorkerClientTest, AConnectionInTheMiddleOfAnAnswerIsNotUsedAgain) {
  WorkerClient client({.host = "127.0.0.1", .port = port_});
  ASSERT_TRUE(client.send({.method = "GET", .target = "/1"}, seconds(30)).ok());
  const auto late = client.send({.method = "GET", .target = "/never"}, milliseconds(50));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
  const auto next = client.send({.method = "GET", .target = "/3"}, seconds(30));
  ASSERT_TRUE(next.ok()) << to_string(next.error());
  EXPECT_EQ(next->body, "/3");
}

}  // namespace
}  // namespace lambent::grpc_inference
