// Given: the first part of a scenario of an asynchronous invocation: what its function and its
// worker say, and how it came about. Used by the runner; one thread.
#pragma once

#include "decide/asynchronous/follow_up.h"
#include "tests/scenarios/words.h"

namespace lambent::asynchronous_scenario {

using scenario::Failure;
using scenario::Words;

class Given {
 public:
  // Reads one line of it; false if the line belongs to the story already.
  bool read(Words& words);
  asynchronous::Rules rules() const { return asynchronous::rules_of(settings_, of_worker_); }
  const AsyncSettings& settings() const { return settings_; }
  unsigned chain() const { return chain_; }

 private:
  asynchronous::Rules of_worker_;
  AsyncSettings settings_;
  unsigned chain_ = 0;
};

}  // namespace lambent::asynchronous_scenario
