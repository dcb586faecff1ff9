#include "edge/frontend/log_followers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/http/streamed_exchange.h"
#include "edge/frontend/limits.h"

namespace lambent::frontend {
namespace {

constexpr Duration kInterval = milliseconds(100);
constexpr size_t kMostFollowers = 16 * limits::kLogFollowers;  // of all tenants
// Other nodes are asked again after so long: soon while lines come, else less and less often.
constexpr Duration kLeastPause = milliseconds(200);
constexpr Duration kMostPause = seconds(1);
// Lines of several nodes wait for so long, that those which are printed together come in order.
constexpr Duration kSettle = milliseconds(300);
// An answer with as much is followed by the next at once.
constexpr size_t kBacklog = 64 * 1024;

}  // namespace

LogFollowers::LogFollowers(LogReader& reader, loop::EventLoop& loop, std::function<bool()> ready)
    : reader_(reader),
      loop_(loop),
      ready_(std::move(ready)),
      self_(std::make_shared<LogFollowers*>(this)) {}

LogFollowers::~LogFollowers() {
  *self_ = nullptr;
  if (scheduled_) loop_.cancel(timer_);
}

bool LogFollowers::add(LogReader::Question question, LogForm form, std::function<bool()> may_read,
                       http::Responder& responder) {
  std::erase_if(followers_, [](const auto& each) { return *each.second.left; });
  const TenantId tenant = question.function.tenant;
  const auto of_tenant = std::count_if(followers_.begin(), followers_.end(), [&](const auto& each) {
    return each.second.question.function.tenant == tenant;
  });
  if (static_cast<size_t>(of_tenant) >= limits::kLogFollowers) return false;
  if (followers_.size() >= kMostFollowers) return false;
  auto left = std::make_shared<bool>(false);
  responder.on_disconnect([left] { *left = true; });
  auto is_behind = std::make_shared<bool>(false);
  if (auto* stream = responder.answer_stream()) {
    stream->end_at_half_close();
    stream->on_room([is_behind] { *is_behind = false; });
  }
  question.merge = {.settle = kSettle, .waits_for_characters = form.is_json};
  const uint64_t id = next_++;
  followers_.emplace(id, Follower{.question = std::move(question),
                                  .view = LogView(form),
                                  .may_read = std::move(may_read),
                                  .responder = std::move(responder),
                                  .left = std::move(left),
                                  .is_behind = std::move(is_behind),
                                  .form = form});
  serve(id);
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
  std::vector<uint64_t> ids;
  for (const auto& [id, follower] : followers_) ids.push_back(id);
  for (const uint64_t id : ids) serve(id);
}

void LogFollowers::serve(uint64_t id) {
  Follower& follower = followers_.at(id);
  if (*follower.left) {
    followers_.erase(id);
    return;
  }
  const bool may_wait = !*follower.is_behind || ready_();
  if (follower.has_begun && (!may_wait || !follower.may_read())) {
    follower.responder.finish_chunked();
    followers_.erase(id);
    return;
  }
  if (follower.is_reading || *follower.is_behind || follower.next_read > loop_.now()) return;
  follower.is_reading = true;
  reader_.read(follower.question, [self = self_, id](const Result<LogReader::Answer>& answer) {
    if (*self != nullptr) (*self)->took(id, answer);
  });
}

void LogFollowers::took(uint64_t id, const Result<LogReader::Answer>& answer) {
  const auto found = followers_.find(id);
  if (found == followers_.end()) return;
  found->second.is_reading = false;
  if (!pass_on(found->second, answer)) followers_.erase(found);
}

void LogFollowers::begin(Follower& follower, const LogReader::Answer& answer) {
  http::Response head;
  head.headers.add("Content-Type", std::string(content_type_of(follower.form)));
  if (!answer.silent.empty()) {
    head.headers.add(std::string(kSilentNodes), names_in_a_row(answer.silent));
  }
  follower.responder.start_chunked(std::move(head));
  follower.has_begun = true;
  follower.question.goes_on = true;
  follower.question.at_end = false;
}

bool LogFollowers::send(Follower& follower, std::string_view shown) {
  if (shown.empty()) return true;
  auto* const stream = follower.responder.answer_stream();
  if (stream == nullptr) return follower.responder.send_chunk(shown);
  // That the client is gone is told by its disconnect.
  *follower.is_behind = !stream->send_bytes(shown);
  return true;
}

bool LogFollowers::pass_on(Follower& follower, const Result<LogReader::Answer>& answer) {
  if (*follower.left) return false;
  if (!answer.ok() && !follower.has_begun) {
    follower.responder.send(log_error(answer.error()));
    return false;
  }
  if (!follower.has_begun) begin(follower, *answer);
  // The token may be worth nothing since the nodes were asked.
  const bool may_see = answer.ok() && follower.may_read();
  const std::string shown = may_see ? follower.view.show(*answer, true) : std::string();
  const bool is_there = send(follower, shown);
  if (!may_see || !ready_()) {
    follower.responder.finish_chunked();
    return false;
  }
  follower.question.from = answer->log.next;
  if (answer->is_alone) return is_there;
  const bool is_calm = answer->log.lines.empty() && !answer->log.has_more;
  follower.pause = is_calm ? std::clamp(2 * follower.pause, kLeastPause, kMostPause) : kLeastPause;
  const bool has_backlog = answer->log.has_more && shown.size() >= kBacklog;
  follower.next_read = has_backlog ? Instant::min() : loop_.now() + follower.pause;
  return is_there;
}

}  // namespace lambent::frontend
