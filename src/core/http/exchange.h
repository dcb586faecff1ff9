// Responder::Exchange: one request's way back to its client, as a Responder sees it. Implemented by
// the server's connections; tests of handlers may bring their own. Loop thread only.
#pragma once

#include <functional>
#include <string_view>

#include "core/http/server.h"
#include "core/http/streamed_exchange.h"

namespace lambent::http {

class Responder::Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void send(Response response) = 0;
  virtual void start_chunked(Response head) = 0;
  virtual bool send_chunk(std::string_view data) = 0;
  virtual void finish_chunked() = 0;
  virtual void on_disconnect(std::function<void()> callback) = 0;
  // Null: its body came whole, and its answer goes by the above.
  virtual StreamedExchange* stream() { return nullptr; }
  // For answers in pieces of any request; null: there are none here.
  virtual StreamedExchange* answer_stream() { return stream(); }
  // The responder is gone; if it did not finish its answer, it stays unfinished.
  virtual void abandon() = 0;
};

}  // namespace lambent::http
