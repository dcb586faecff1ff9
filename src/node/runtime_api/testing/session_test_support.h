// A session and the runtime that speaks with it, for tests. Included by tests only; one thread.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/domain/limits.h"
#include "core/http/testing/testing.h"
#include "node/runtime_api/session.h"

namespace lambent::runtime_api {

using http::RawClient;

inline constexpr InvocationId kId{0x0123456789abcdef, 0x8123456789abcdef};
inline constexpr char kIdText[] = "01234567-89ab-cdef-8123-456789abcdef";

// Who waits for an answer in pieces.
struct FakeSink final : http::AnswerSink {
  void begin(std::string_view content_type) override { type = content_type; }
  bool take(std::string_view bytes) override {
    taken += bytes;
    return !is_behind && !is_gone;
  }
  void on_room(std::function<void()> callback) override { room = std::move(callback); }
  bool client_is_gone() const override { return is_gone; }

  std::string type = "none";
  std::string taken;
  bool is_behind = false;
  bool is_gone = false;
  std::function<void()> room;
};

class SessionTest : public testing::Test {
 protected:
  void SetUp() override {
    auto listener = http::listen_tcp("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok());
    port = http::port_of(*listener);
    Callbacks callbacks;
    callbacks.on_ready = [this] { events.push_back("ready"); };
    callbacks.on_response = [this](InvocationId id, std::string body, std::string type) {
      events.push_back("response " + to_string(id) + " " + body.substr(0, 100) + " " + type);
      if (end_in_callback) session.reset();
    };
    callbacks.on_error = [this](InvocationId id, std::string body, std::string type) {
      events.push_back("error " + to_string(id) + " " + body + " " + type);
    };
    callbacks.on_init_error = [this](std::string body, std::string type) {
      events.push_back("init error " + body + " " + type);
      if (end_in_callback) session.reset();
    };
    callbacks.sink_of = [this](InvocationId) { return sink; };
    callbacks.on_stuck = [this] { events.push_back("stuck"); };
    callbacks.on_disconnect = [this] { events.push_back("disconnect"); };
    callbacks.on_object = [this](http::Request request, std::string_view path,
                                 http::Responder responder) {
      events.push_back("object " + request.method + " '" + std::string(path) + "' " +
                       std::to_string(request.body.size()));
      responder.send({});
    };
    if (!has_objects) callbacks.on_object = nullptr;
    session = std::make_unique<Session>(loop, std::move(*listener),
                                        SessionOptions{.function_name = "f",
                                                       .handler = "app.handler",
                                                       .max_response = max_response,
                                                       .most_running = most_running},
                                        std::move(callbacks));
  }

  RawClient connect() const { return RawClient(port); }
  void turn(int times = 5) {
    for (int i = 0; i < times; i++) loop.run_once(Duration::zero());
  }
  // Small pieces may wait for what was sent before to be acknowledged.
  void turn_until(const std::function<bool()>& holds) {
    for (int i = 0; i < 2000 && !holds(); i++) loop.run_once(milliseconds(1));
  }
  // Sends a request and returns the answer, headers and all.
  std::string call(RawClient& client, std::string_view request) {
    client.received.clear();
    while (!request.empty()) {
      const ssize_t sent =
          ::send(client.fd.get(), request.data(), request.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) request.remove_prefix(static_cast<size_t>(sent));
      turn(1);
    }
    for (int i = 0; i < 2000 && client.received.empty() && !client.ended; i++) {
      loop.run_once(milliseconds(1));
      client.receive();
    }
    return client.received;
  }
  static std::string get(std::string_view target) {
    return "GET " + std::string(target) + " HTTP/1.1\r\nHost: 127.0.0.1:9001\r\n\r\n";
  }
  static std::string post(std::string_view target, std::string_view body,
                          std::string_view headers = "") {
    return "POST " + std::string(target) + " HTTP/1.1\r\nHost: h\r\n" + std::string(headers) +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }
  static std::string next() { return get("/2018-06-01/runtime/invocation/next"); }
  static std::string answer(std::string_view id, std::string_view body,
                            std::string_view headers = "") {
    return post("/2018-06-01/runtime/invocation/" + std::string(id) + "/response", body, headers);
  }
  static std::string error(std::string_view id, std::string_view body,
                           std::string_view headers = "") {
    return post("/2018-06-01/runtime/invocation/" + std::string(id) + "/error", body, headers);
  }
  static RuntimeInvocation invocation() {
    return {.id = kId, .deadline = milliseconds(1234567890123), .payload = "{\"a\":1}"};
  }
  // A runtime that has initialised and was given an invocation.
  RawClient start_running() {
    RawClient client = connect();
    client.send(next());
    turn();
    EXPECT_TRUE(session->is_idle());
    session->give(invocation());
    turn();
    client.receive();
    events.clear();
    return client;
  }

  FakeClock clock;
  loop::EventLoop loop{clock};
  std::vector<std::string> events;
  bool end_in_callback = false;
  std::shared_ptr<FakeSink> sink;  // shared with the session
  size_t most_running = 1;
  Bytes max_response = limits::kResponsePayload;
  bool has_objects = true;
  uint16_t port = 0;
  std::unique_ptr<Session> session;
};

// The head of an answer in chunks.
inline std::string stream_head(std::string_view headers = "") {
  return "POST /2018-06-01/runtime/invocation/" + std::string(kIdText) +
         "/response HTTP/1.1\r\nHost: h\r\nLambda-Runtime-Function-Response-Mode: streaming\r\n"
         "Transfer-Encoding: chunked\r\n" +
         std::string(headers) + "\r\n";
}

}  // namespace lambent::runtime_api
