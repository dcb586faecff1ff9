#include "node/worker/parked_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lambent::worker {
namespace {

// Two rounds of tries are so far apart at least, and at most while anything waits.
constexpr Duration kPace = milliseconds(10);
constexpr Duration kLatest = seconds(1);
// And one is no longer than this.
constexpr size_t kTriesOfARound = 256;
constexpr Duration kRound = milliseconds(5);

}  // namespace

ParkedCalls::~ParkedCalls() {
  if (timer_) loop_.cancel(*timer_);
}

uint64_t ParkedCalls::park(const FunctionName& function, InvocationId call) {
  parked_[function][++numbers_] = call;
  try_at(loop_.clock().now() + kLatest);
  return numbers_;
}

void ParkedCalls::remove(const FunctionName& function, uint64_t number) {
  const auto found = parked_.find(function);
  found->second.erase(number);
  if (found->second.empty()) parked_.erase(found);
}

size_t ParkedCalls::count() const {
  size_t sum = 0;
  for (const auto& [function, calls] : parked_) sum += calls.size();
  return sum;
}

void ParkedCalls::try_soon() {
  if (!parked_.empty()) try_at(std::max(loop_.clock().now(), tried_at_ + kPace));
}

void ParkedCalls::try_at(Instant when) {
  if (timer_ && timer_at_ <= when) return;
  if (timer_) loop_.cancel(*timer_);
  timer_at_ = when;
  timer_ = loop_.call_after(when - loop_.clock().now(), [this] {
    timer_.reset();
    try_all();
  });
}

// Each function in turn, as long as there is room for more of it; the next round begins after the
// one that was tried last.
void ParkedCalls::try_all() {
  tried_at_ = loop_.clock().now();
  std::vector<FunctionName> round;
  for (const auto& [function, calls] : parked_) round.push_back(function);
  std::ranges::rotate(round, std::ranges::upper_bound(round, last_tried_));
  size_t tries = 0;
  const auto is_over = [&] {
    return tries >= kTriesOfARound || loop_.clock().now() - tried_at_ >= kRound;
  };
  while (!round.empty() && !is_over()) {
    std::erase_if(round, [&](const FunctionName& function) {
      if (is_over()) return false;
      ++tries;
      last_tried_ = function;
      return !try_first(function);
    });
  }
  const bool was_cut = !round.empty();
  if (!parked_.empty()) try_at(tried_at_ + (was_cut ? kPace : kLatest));
}

// False: the function has no more calls here, or no room for one.
bool ParkedCalls::try_first(const FunctionName& function) {
  const auto found = parked_.find(function);
  return found != parked_.end() && try_call_(found->second.begin()->second);
}

}  // namespace lambent::worker
