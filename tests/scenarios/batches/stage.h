// The first part of a scenario of batches, and the Stage that plays it on a CallQueue: it compares
// the runs that follow with what the story expects. Used by the runner; one thread.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "decide/batching/call_queue.h"
#include "tests/scenarios/words.h"

namespace lambent::batch_scenario {

using scenario::Failure;
using scenario::Words;

class Given {
 public:
  // Reads one line of it; false if the line belongs to the story already.
  bool read(Words& words);
  const batching::CallLimits& limits() const { return limits_; }

 private:
  batching::CallLimits limits_;
};

class Stage {
 public:
  explicit Stage(const Given& given) : queue_(given.limits()) {}

  // "at TIME EVENT ...": what happens by itself until then must have been expected.
  void play(Words& words);
  // "expect ..."
  void expect(Words& words);
  // Everything was expected, and no call waits or runs.
  void end() const;

 private:
  void play_call(Words& words);
  // Until then: a call that waits for others waits no longer than it may.
  void pass_until(Instant time);
  void begin();
  void expect_nothing_untold() const;

  batching::CallQueue queue_;
  std::map<std::string, InvocationId> ids_;
  std::map<InvocationId, std::string> names_;
  std::optional<Instant> again_;
  std::deque<std::string> untold_;
  Instant now_{};
};

}  // namespace lambent::batch_scenario
