// BodyCollector: bodies of requests that stream, for those who want them whole, or want to see how
// they begin. What arrives is bounded, for one request and for all together, and so is the time. On
// the loop thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/ids.h"
#include "core/http/server.h"
#include "edge/frontend/limits.h"

namespace lambent::frontend {

// Whether a body follows the head, perhaps an empty one in chunks: a stream tells of no end of a
// body that does not exist.
bool has_body(const http::Headers& headers);

// Of a body whose beginning says who gets it.
inline constexpr Bytes kMostBeginning = Bytes::mib(32);

class BodyCollector {
 public:
  using Then = std::function<void(http::Request, http::Responder)>;
  // What becomes of a request with such a body; empty: too little of it is there.
  using Look = std::function<Then(std::string_view beginning, bool is_whole)>;

  struct Limit {
    Bytes most = limits::kEventBody;
    // Whose bodies, of those that may be longer than an event, have a quarter of all that may be.
    std::optional<TenantId> tenant;
  };

  // `then` gets the request with its body, now or later; not if its client goes away meanwhile. A
  // body of more than `limit` is answered 413, and 503 is answered if all that arrive have more
  // than limits::kArrivingEventBodies; `answer_of` makes these answers.
  void collect(http::Request request, http::Responder responder,
               std::function<http::Response(const Error&)> answer_of, Then then, Limit limit);
  void collect(http::Request request, http::Responder responder,
               std::function<http::Response(const Error&)> answer_of, Then then) {
    collect(std::move(request), std::move(responder), std::move(answer_of), std::move(then),
            Limit());
  }

  // Asks `look` as more of the body arrives, and at last with the whole. What it decides gets the
  // request without its body, which its responder streams from the begin; with its body if that
  // does not stream. 413 is answered if kMostBeginning is too little, and 503 as above, and if the
  // tenant's own are a quarter of all that may be.
  void read_beginning(TenantId tenant, http::Request request, http::Responder responder,
                      std::function<http::Response(const Error&)> answer_of, Look look);

 private:
  // Shared with requests whose bodies are kept still, which may end after this.
  std::shared_ptr<size_t> arriving_ = std::make_shared<size_t>(0);
  std::shared_ptr<std::map<TenantId, size_t>> of_tenants_ =
      std::make_shared<std::map<TenantId, size_t>>();
};

}  // namespace lambent::frontend
