// What the tests of verbs stand on: a worker that answers from a script.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <sstream>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

class ScriptedTransport final : public Transport {
 public:
  void answer(http::Response response) { answers_.push_back(std::move(response)); }
  Result<http::Response> send(const http::Request& request, Duration) override {
    requests.push_back(request);
    if (answers_.empty()) return Error{ErrorCode::kUnavailable, "no worker listens"};
    http::Response response = std::move(answers_.front());
    answers_.pop_front();
    return response;
  }
  Result<http::Response> stream(const http::Request& request, Duration timeout,
                                const Sink& sink) override {
    auto response = send(request, timeout);
    if (response.ok()) sink(std::exchange(response->body, ""));
    return response;
  }

  Result<http::Response> upload(const http::Request& request, Bytes size, Duration timeout,
                                const http::BodySource& source) override {
    http::Request whole = request;
    while (whole.body.size() < size.count) {
      std::string piece;
      RETURN_IF_ERROR(source(piece));
      whole.body += piece;
    }
    return send(whole, timeout);
  }

  std::vector<http::Request> requests;

 private:
  std::deque<http::Response> answers_;
};

inline http::Response response(int status, std::string body,
                               std::vector<std::pair<std::string, std::string>> headers = {}) {
  http::Response response{.status = status, .body = std::move(body)};
  for (auto& [name, value] : headers) response.headers.add(name, value);
  return response;
}

inline http::Response invoked(std::string body) {
  return response(200, std::move(body),
                  {{"x-amzn-requestid", "4f2c"},
                   {"X-Lambent-Queue-Us", "4000"},
                   {"x-lambent-sandbox-us", "2000"},
                   {"x-lambent-init-us", "80000"},
                   {"x-lambent-run-us", "226000"},
                   {"x-lambent-start", "cold"},
                   {"x-lambent-device", "0"},
                   {"x-lambent-device-memory-peak-bytes", "1048576"}});
}

class Verbs : public testing::Test {
 protected:
  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err};
  ScriptedTransport transport;
};

}  // namespace lambent::cli
