#include "decide/scheduling/overload_watch.h"

#include "decide/scheduling/admission.h"

namespace lambent::scheduling {
namespace {

// Fewer than so many in a window prove nothing.
constexpr uint32_t kEnough = 8;
// So much of what can be served is as good as all of it: what passes between two runs is no run.
constexpr double kAsGoodAsAll = 0.9;

}  // namespace

void OverloadWatch::offered(const Flow& flow, Instant now) {
  const bool was_empty = flow.pending == 0;
  const bool for_long = emptied_ != kNever && now - emptied_ > window_of(flow);
  if (overloaded_ && was_empty && for_long) {
    overloaded_ = false;
    since_ = kNever;
  }
  if (!overloaded_) {
    const bool is_over = since_ != kNever && now - since_ >= window_of(flow);
    // The first of the queue came after the window began, or nothing waits: a queue that moves.
    const bool moves = was_empty || flow.oldest_since >= since_;
    if (since_ == kNever || (is_over && moves)) begin_window(now);
  }
  ++offered_;
}

void OverloadWatch::begin_window(Instant now) {
  since_ = now;
  offered_ = 0;
  served_ = 0;
  judged_ = 0;
}

bool OverloadWatch::is_suspect(const Flow& flow, Instant now) const {
  if (overloaded_ || !flow.execution.known() || flow.pending == 0) return false;
  if (now - since_ < window_of(flow) || flow.oldest_since >= since_) return false;
  return offered_ >= judged_ + kEnough &&
         static_cast<double>(offered_) >= kAsGoodAsAll * static_cast<double>(served_);
}

bool OverloadWatch::judge(Duration turn, Instant now) {
  const double can_be_served = to_seconds(now - since_) / std::max(1e-9, to_seconds(turn));
  judged_ = offered_;
  overloaded_ = static_cast<double>(offered_) >= kAsGoodAsAll * can_be_served;
  return overloaded_;
}

Duration OverloadWatch::turn_of(const Flow& flow, double at_once) const {
  const Duration held = std::max(Duration(1), held_.mean_or(service_of(flow)));
  return from_seconds(to_seconds(held) / std::max(at_once, 1e-3));
}

bool OverloadWatch::has_room(const Flow& flow, Duration turn, bool promised) {
  if (flow.pending == 0) return true;
  const Duration most = service_of(flow) * (promised ? kPromisedWait : kFreshWait);
  return turn <= most / static_cast<int64_t>(flow.pending);
}

Duration OverloadWatch::promise(Duration turn, Instant now) {
  const Duration one = std::min(turn, kLongestRetryAfter);
  const Duration furthest =
      std::min(std::max(kFurthestPromise, one * kFurthestTurn), kLongestRetryAfter);
  promised_ = std::clamp(promised_ + one, now + one, now + furthest);
  return promised_ - now;
}

void OverloadWatch::archive(StateArchive& archive) {
  archive.field(overloaded_);
  archive.field(since_);
  archive.field(offered_);
  archive.field(served_);
  archive.field(judged_);
  archive.field(emptied_);
  archive.field(promised_);
  held_.archive(archive);
}

}  // namespace lambent::scheduling
