// BodyCollector: bodies of requests that stream, for those who want them whole. What arrives is
// bounded, for one request and for all together. On the loop thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "core/http/server.h"

namespace lambent::frontend {

// Whether a body follows the head, perhaps an empty one in chunks: a stream tells of no end of a
// body that does not exist.
bool has_body(const http::Headers& headers);

class BodyCollector {
 public:
  using Then = std::function<void(http::Request, http::Responder)>;

  // `then` gets the request with its body, now or later; not if its client goes away meanwhile. A
  // body of more than limits::kEventBody is answered 413, and 503 is answered if all that arrive
  // have more than limits::kArrivingEventBodies; `answer_of` makes these answers.
  void collect(http::Request request, http::Responder responder,
               std::function<http::Response(const Error&)> answer_of, Then then);

 private:
  // Shared with requests whose bodies still arrive, which may end after this.
  std::shared_ptr<size_t> arriving_ = std::make_shared<size_t>(0);
};

}  // namespace lambent::frontend
