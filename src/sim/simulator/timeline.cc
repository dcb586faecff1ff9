#include "sim/simulator/timeline.h"

#include <algorithm>
#include <utility>

namespace lambent::simulator {

void Timeline::pass_until(Instant instant) { now_ = std::max(now_, instant); }

void Timeline::at(Instant instant, std::function<void()> happen) {
  due_.push({std::max(instant, now_), ++order_, std::move(happen)});
}

void Timeline::after(Duration delay, std::function<void()> happen) {
  at(now_ + delay, std::move(happen));
}

void Timeline::run_next() {
  pass_until(due_.top().at);
  const std::function<void()> happen = due_.top().happen;
  due_.pop();
  happen();
}

}  // namespace lambent::simulator
