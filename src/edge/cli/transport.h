// Transport: how a verb reaches the worker. HttpTransport is the real one; tests answer themselves.
// One request at a time, one thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/http/client.h"
#include "edge/cli/credentials.h"

namespace lambent::cli {

class Transport {
 public:
  using Sink = std::function<bool(std::string_view)>;

  virtual ~Transport() = default;
  // As BlockingClient has them.
  virtual Result<http::Response> send(const http::Request& request, Duration timeout) = 0;
  virtual Result<http::Response> stream(const http::Request& request, Duration timeout,
                                        const Sink& sink) = 0;
  virtual Result<http::Response> upload(const http::Request& request, Bytes size, Duration timeout,
                                        const http::BodySource& source) = 0;
};

// How an HTTP function is asked there, as words of a shell after "curl": its URL, and the socket.
std::string curl_words(const http::Endpoint& endpoint, const std::string& function);

class HttpTransport final : public Transport {
 public:
  explicit HttpTransport(Destination destination)
      : destination_(std::move(destination)), client_(destination_.endpoint) {}

  // Errors say where the worker was looked for and what to do.
  Result<http::Response> send(const http::Request& request, Duration timeout) override;
  Result<http::Response> stream(const http::Request& request, Duration timeout,
                                const Sink& sink) override;
  Result<http::Response> upload(const http::Request& request, Bytes size, Duration timeout,
                                const http::BodySource& source) override;

 private:
  Error explained(const Error& error) const;

  http::Request authorized(const http::Request& request) const;

  const Destination destination_;
  http::BlockingClient client_;
};

}  // namespace lambent::cli
