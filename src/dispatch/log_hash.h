// LogHash: a rolling 64-bit hash over every event that dispatch saw and every action it wanted, so
// that two runs can be compared by one number. A value; owned by Dispatcher.
#pragma once

#include <cstdint>

#include "dispatch/action.h"
#include "dispatch/event.h"

namespace lambent::dispatch {

class LogHash {
 public:
  uint64_t value() const { return state_; }
  void add(const Event& event, Instant now);
  void add(const Action& action);

 private:
  void mix(uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15ULL;
    state_ ^= state_ >> 29;
  }
  void mix(InvocationId id) {
    mix(id.high);
    mix(id.low);
  }
  void mix(Duration duration) { mix(static_cast<uint64_t>(duration.count())); }
  void mix(Bytes bytes) { mix(bytes.count); }

  uint64_t state_ = 0x6c616d62656e74ULL;
};

}  // namespace lambent::dispatch
