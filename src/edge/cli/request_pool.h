// RequestPool: many HTTP requests in flight at once, each on a connection of its own, plain or
// encrypted, that is kept and used again. All on the loop's thread. Used by replay, whose arrivals
// do not wait for answers.
#pragma once

#include <functional>
#include <memory>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/http/client.h"
#include "core/loop/event_loop.h"
#include "edge/cli/credentials.h"
#include "edge/cli/limits.h"

namespace lambent::cli {

class RequestPool {
 public:
  using Done = std::function<void(Result<http::Response>)>;

  // At most `most_outstanding` requests wait for their answers at a time.
  RequestPool(loop::EventLoop& loop, Destination destination,
              size_t most_outstanding = limits::kReplayOutstanding);
  // Requests still outstanding are given up without a word.
  ~RequestPool();
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  // Sends now; `done` is called once, later, with the response, UNAVAILABLE if the connection could
  // not be made or was lost, or DEADLINE_EXCEEDED. False, and nothing is sent, at the bound.
  bool send(const http::Request& request, Duration timeout, Done done);
  size_t outstanding() const;
  size_t connections() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lambent::cli
