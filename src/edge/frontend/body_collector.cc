#include "edge/frontend/body_collector.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "core/http/streamed_exchange.h"
#include "edge/frontend/begun_exchange.h"
#include "edge/frontend/limits.h"

namespace lambent::frontend {
namespace {

Error too_many() { return {ErrorCode::kUnavailable, "too many request bodies at once; try again"}; }

using OfTenants = std::map<TenantId, size_t>;

void release(OfTenants& of_tenants, TenantId tenant, size_t bytes) {
  const auto its = of_tenants.find(tenant);
  if (its != of_tenants.end() && (its->second -= bytes) == 0) of_tenants.erase(its);
}

// Longer bodies get their place at once, when so much is there.
constexpr Bytes kLongBody = Bytes::mib(4);
constexpr uint64_t kPlacesOfLong = 16;

// Zero: it comes in chunks.
uint64_t length_of(const http::Headers& headers) {
  const std::string_view length = headers.get("Content-Length");
  uint64_t bytes = 0;
  std::from_chars(length.data(), length.data() + length.size(), bytes);
  return bytes;
}

// A request whose body arrives. Shared by the callbacks of its exchange.
struct Arrival {
  ~Arrival() { release_body(); }

  // The exchange's callbacks are these: it ends only after the one that calls.
  void refuse(const Error& error) {
    is_over = true;
    http::Responder answering = std::move(*responder);
    answering.send(answer_of(error));
  }
  void take(std::string_view bytes) {
    if (is_over) return;
    if (request.body.size() + bytes.size() > limit.most.count) return refuse(too_long());
    const size_t most = limits::kArrivingEventBodies.count;
    if (*arriving + bytes.size() > most) return refuse(too_many());
    if (limit.tenant && (*of_tenants)[*limit.tenant] + bytes.size() > most / 4) {
      return refuse(too_many());
    }
    *arriving += bytes.size();
    if (limit.tenant) (*of_tenants)[*limit.tenant] += bytes.size();
    reserve(request.body.size() + bytes.size());
    request.body += bytes;
  }
  // Of a long one the place for what is to come, so that it is not copied each time that it has
  // doubled. Memory is taken only as bytes arrive, addresses for at most 16 times as many.
  void reserve(size_t so_far) {
    if (so_far <= kLongBody.count || request.body.capacity() >= so_far) return;
    const uint64_t most = std::min<uint64_t>(kPlacesOfLong * so_far, limit.most.count);
    request.body.reserve(std::clamp<uint64_t>(length_of(request.headers), so_far, most));
  }
  void end() {
    if (std::exchange(is_over, true)) return;
    release_body();
    http::Request whole = std::exchange(request, {});
    http::Responder answering = std::move(*responder);
    answering.on_disconnect(nullptr);
    then(std::move(whole), std::move(answering));
  }

  Error too_long() const {
    return {ErrorCode::kOutOfRange, "the request body has more than " + to_string(limit.most)};
  }
  void release_body() const {
    *arriving -= request.body.size();
    if (limit.tenant) release(*of_tenants, *limit.tenant, request.body.size());
  }

  http::Request request;
  std::optional<http::Responder> responder;
  std::function<http::Response(const Error&)> answer_of;
  BodyCollector::Then then;
  BodyCollector::Limit limit;
  std::shared_ptr<size_t> arriving;  // the collector's
  std::shared_ptr<OfTenants> of_tenants;
  bool is_over = false;
};

}  // namespace

bool has_body(const http::Headers& headers) {
  const std::string_view length = headers.get("Content-Length");
  return headers.contains("Transfer-Encoding") || (!length.empty() && length != "0");
}

void BodyCollector::collect(http::Request request, http::Responder responder,
                            std::function<http::Response(const Error&)> answer_of, Then then,
                            Limit limit) {
  http::StreamedExchange* stream = responder.stream();
  if (stream == nullptr || !has_body(request.headers)) {
    return then(std::move(request), std::move(responder));
  }
  const bool is_too_long = length_of(request.headers) > limit.most.count;
  auto arrival = std::make_shared<Arrival>();
  arrival->request = std::move(request);
  arrival->request.body.clear();
  arrival->responder.emplace(std::move(responder));
  arrival->answer_of = std::move(answer_of);
  arrival->then = std::move(then);
  arrival->limit = limit;
  arrival->arriving = arriving_;
  arrival->of_tenants = of_tenants_;
  if (is_too_long) return arrival->refuse(arrival->too_long());
  arrival->responder->on_disconnect([arrival] {
    arrival->is_over = true;
    arrival->responder.reset();
  });
  stream->expect_whole(true);
  stream->receive({.on_bytes = [arrival](std::string_view bytes) { arrival->take(bytes); },
                   .on_end = [arrival] { arrival->end(); }});
}

void BodyCollector::read_beginning(TenantId tenant, http::Request request,
                                   http::Responder responder,
                                   std::function<http::Response(const Error&)> answer_of,
                                   Look look) {
  if (responder.stream() == nullptr || !has_body(request.headers)) {
    return look(request.body, true)(std::move(request), std::move(responder));
  }
  const auto admits = [tenant, arriving = arriving_, of_tenants = of_tenants_,
                       answer_of = std::move(answer_of)](
                          size_t so_far, size_t more) -> std::optional<http::Response> {
    if (so_far + more > kMostBeginning.count) {
      return answer_of({ErrorCode::kOutOfRange,
                        "what says who gets this request is not within the "
                        "first " +
                            to_string(kMostBeginning) + " of its body"});
    }
    const size_t most = limits::kArrivingEventBodies.count;
    size_t& its = (*of_tenants)[tenant];
    if (*arriving + more > most || its + more > most / 4) return answer_of(too_many());
    *arriving += more;
    its += more;
    return std::nullopt;
  };
  const auto leave = [tenant, arriving = arriving_, of_tenants = of_tenants_](size_t bytes) {
    *arriving -= bytes;
    release(*of_tenants, tenant, bytes);
  };
  const auto begun = std::make_shared<BegunExchange>(std::move(responder), admits, leave);
  request.body.clear();
  // Shared because a std::function is copied.
  const auto head = std::make_shared<http::Request>(std::move(request));
  begun->read(
      [its = begun.get(), head, look = std::move(look)](std::string_view beginning, bool is_whole) {
        const Then decided = look(beginning, is_whole);
        if (!decided) return false;
        decided(std::move(*head), http::Responder(its->shared_from_this()));
        return true;
      });
}

}  // namespace lambent::frontend
