// LogHash: a rolling 64-bit hash over every event that dispatch saw and every action it wanted, so
// that two runs can be compared by one number. A value; owned by Dispatcher.
#pragma once

#include <cstdint>

#include "core/base/state_archive.h"
#include "decide/dispatch/action.h"
#include "decide/dispatch/event.h"

namespace lambent::dispatch {

// Good for comparing runs of one build: the number of a log may change from version to version.
class LogHash {
 public:
  uint64_t value() const { return state_; }
  void add(const Event& event, Instant now);
  void add(const StartSandbox& action);
  void add(const StartInvocation& action);
  void add(const StopSandbox& action);
  void add(const CompleteInvocation& action);
  void add(const WakeAt& action);
  void add(const MoveMemoryIn& action);
  void add(const MoveMemoryOut& action);
  void add(const GrantMemory& action);
  void archive(StateArchive& archive) { archive.field(state_); }

 private:
  // The words of one event or action do not wait for each other, only the next one for them all:
  // this is on the path of every decision.
  template <typename... Words>
  void mix(uint64_t kind, Words... words) {
    uint64_t sum = scrambled(kind, 0);
    uint64_t place = 0;
    ((sum += scrambled(static_cast<uint64_t>(words), ++place)), ...);
    state_ = scrambled(state_ + sum, ++place);
  }

  // A different function of the word at every place.
  static uint64_t scrambled(uint64_t word, uint64_t place) {
    const uint64_t factor = 0x9e3779b97f4a7c15ULL * (2 * place + 1);
    const auto product = static_cast<unsigned __int128>(word ^ 0xd6e8feb86659fd93ULL) * factor;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  uint64_t state_ = 0x6c616d62656e74ULL;
};

}  // namespace lambent::dispatch
