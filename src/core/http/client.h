// BlockingClient: a keep-alive HTTP/1.1 client for programs that may wait: the CLI, tests and load
// generators. One connection, plain or encrypted; one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/http/message.h"
#include "core/http/stream.h"

namespace lambent::http {

// "http://127.0.0.1:9000", "https://node.example:8980" or "unix:/run/lambent.sock".
struct Endpoint {
  std::string host;  // empty for a Unix socket
  uint16_t port = 0;
  bool encrypted = false;  // https
  // How connections to it are encrypted, which a main gives: an endpoint of https without it fails.
  SecureConnector encrypt = nullptr;
  std::string socket_path;
};
Result<Endpoint> parse_endpoint(std::string_view text);
std::string to_string(const Endpoint& endpoint);

// Gives the next bytes of a body, at least one; an error ends the request.
using BodySource = std::function<Result<void>(std::string& piece)>;

class BlockingClient {
 public:
  explicit BlockingClient(Endpoint endpoint);
  ~BlockingClient();
  BlockingClient(const BlockingClient&) = delete;
  BlockingClient& operator=(const BlockingClient&) = delete;

  // Sends and waits for the whole response. A connection that the server had closed in the meantime
  // is opened again once, if nothing of the response was read. UNAVAILABLE if no server listens;
  // DEADLINE_EXCEEDED after `timeout`; UNAUTHENTICATED if one side refuses the other's certificate;
  // FAILED_PRECONDITION if the endpoint cannot be encrypted, or the server does not speak TLS.
  Result<Response> send(const Request& request, Duration timeout);
  // The same, handing body bytes to `sink` as they arrive; a false from it ends the request.
  Result<Response> stream(const Request& request, Duration timeout,
                          const std::function<bool(std::string_view)>& sink);
  // A body of `size` bytes that comes in pieces, on a connection of its own; the request's has
  // none. What the server answers before it has all of them is the response. DEADLINE_EXCEEDED
  // after `timeout` without any progress.
  Result<Response> upload(const Request& request, uint64_t size, Duration timeout,
                          const BodySource& source);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lambent::http
