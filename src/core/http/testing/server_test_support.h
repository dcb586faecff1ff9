// What the server's tests share: a server and clients on one thread. The test turns the loop, and
// the clock where time matters.
#pragma once

#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <memory>
#include <string>
#include <vector>

#include "core/http/server.h"
#include "core/http/testing/testing.h"

namespace lambent::http {

// Bytes of what a client sent that the other side's machine has not acknowledged.
inline int unacknowledged(const RawClient& client) {
  int bytes = -1;
  EXPECT_EQ(ioctl(client.fd.get(), SIOCOUTQ, &bytes), 0);
  return bytes;
}

class ServerTest : public testing::Test {
 protected:
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

  RawClient connect() const { return RawClient(port); }
  void turn(int times = 5) {
    for (int i = 0; i < times; i++) loop.run_once(Duration::zero());
  }
  // Turns the loop until `client` has received `text`, or the connection ended, or too long.
  void wait_for(RawClient& client, std::string_view text) {
    for (int i = 0; i < 3000; i++) {
      loop.run_once(milliseconds(1));
      client.receive();
      if (client.ended || client.received.find(text) != std::string::npos) return;
    }
    FAIL() << "waited for '" << text << "', got '" << client.received << "'";
  }
  void wait_for_end(RawClient& client) {
    for (int i = 0; i < 3000 && !client.ended; i++) {
      loop.run_once(milliseconds(1));
      client.receive();
    }
    ASSERT_TRUE(client.ended) << client.received;
  }
  // The whole answer to `text`, to the end of the connection.
  std::string answer_and_end(std::string_view text) {
    RawClient client = connect();
    client.send(text);
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

}  // namespace lambent::http
