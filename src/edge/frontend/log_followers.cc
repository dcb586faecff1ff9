#include "edge/frontend/log_followers.h"

#include <algorithm>

namespace lambent::frontend {
namespace {

constexpr Duration kInterval = milliseconds(100);
constexpr size_t kMostFollowers = 16 * limits::kLogFollowers;  // of all tenants

}  // namespace

LogFollowers::LogFollowers(InvocationService& service, loop::EventLoop& loop,
                           std::function<bool()> ready)
    : service_(service), loop_(loop), ready_(std::move(ready)) {}

LogFollowers::~LogFollowers() {
  if (scheduled_) loop_.cancel(timer_);
}

bool LogFollowers::add(const FunctionName& function, uint64_t offset,
                       std::function<bool()> may_read, http::Responder& responder) {
  const auto of_tenant = std::count_if(followers_.begin(), followers_.end(), [&](const auto& each) {
    return each.second.function.tenant == function.tenant;
  });
  if (static_cast<size_t>(of_tenant) >= limits::kLogFollowers) return false;
  if (followers_.size() >= kMostFollowers) return false;
  http::Response head;
  head.headers.add("Content-Type", "text/plain; charset=utf-8");
  auto left = std::make_shared<bool>(false);
  responder.on_disconnect([left] { *left = true; });
  responder.start_chunked(std::move(head));
  Follower follower{function, offset, std::move(may_read), std::move(responder), std::move(left)};
  if (serve(follower)) followers_.emplace(next_++, std::move(follower));
  schedule();
  return true;
}

void LogFollowers::schedule() {
  if (scheduled_ || followers_.empty()) return;
  scheduled_ = true;
  timer_ = loop_.call_after(kInterval, [this] {
    scheduled_ = false;
    serve_all();
    schedule();
  });
}

void LogFollowers::serve_all() {
  for (auto follower = followers_.begin(); follower != followers_.end();) {
    follower = serve(follower->second) ? std::next(follower) : followers_.erase(follower);
  }
}

// Sends what is new; false if there is no follower left, or nothing more to come.
bool LogFollowers::serve(Follower& follower) {
  if (*follower.left) return false;
  if (!follower.may_read()) {
    follower.responder.finish_chunked();
    return false;
  }
  const auto chunk = service_.read_log(follower.function, follower.offset);
  if (!chunk.ok() || !ready_()) {
    if (chunk.ok() && !chunk->text.empty()) follower.responder.send_chunk(chunk->text);
    follower.responder.finish_chunked();
    return false;
  }
  follower.offset = chunk->next_offset;
  return chunk->text.empty() || follower.responder.send_chunk(chunk->text);
}

}  // namespace lambent::frontend
