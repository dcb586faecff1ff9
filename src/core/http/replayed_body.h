// ReplayedBody: a body that has come, as a stream gives it: in pieces, and while its receiver does
// not hold it. For implementations of StreamedExchange. Loop thread only.
#pragma once

#include <memory>
#include <string>

#include "core/http/streamed_exchange.h"

namespace lambent::http {

class ReplayedBody {
 public:
  // Shared because a body may be sent more than once; released once all of it was received.
  explicit ReplayedBody(std::shared_ptr<const std::string> body);
  // Nothing comes any more. The receiver may end it, from its callbacks too.
  ~ReplayedBody();
  ReplayedBody(const ReplayedBody&) = delete;
  ReplayedBody& operator=(const ReplayedBody&) = delete;

  // As those of StreamedExchange; the sink is called within them.
  void receive(StreamedExchange::Sink sink);
  void hold(bool held);

 private:
  struct State;
  // Shared with the calls of the sink that are under way.
  const std::shared_ptr<State> state_;
};

}  // namespace lambent::http
