// Timeline: what is to happen in a faulty world, in the order of its virtual time. Of the thread
// that runs the world.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "core/base/time.h"

namespace lambent::simulator {

class Timeline {
 public:
  Instant now() const { return now_; }
  // Passes without anything happening; what is due meanwhile happens late.
  void pass(Duration duration) { now_ += duration; }
  // The same until then; nothing happens if that has passed.
  void pass_until(Instant instant);

  // Has this happen then, or at once if that has passed; at one instant, in the order of the calls.
  void at(Instant instant, std::function<void()> happen);
  void after(Duration delay, std::function<void()> happen);

  // When the next thing is due; kNever if there is none.
  Instant next() const { return due_.empty() ? kNever : due_.top().at; }
  // Lets the next thing happen, which there is.
  void run_next();

 private:
  struct Due {
    Instant at{};
    uint64_t order = 0;
    std::function<void()> happen;
    bool operator>(const Due& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  Instant now_{};
  uint64_t order_ = 0;
};

}  // namespace lambent::simulator
