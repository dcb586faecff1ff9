// BatchPolicy: how many of the requests that wait for a model run together, and when. Batches grow
// while the SLO allows, and shrink when a run was too long for it. Pure: it is told what waits and
// how long each run took; one thread.
//
// A request that comes during a run waits for the rest of that run and then has its own: both fit
// the SLO while a run takes at most half of it. A longer wait comes of too many requests, which
// larger batches make better and smaller ones worse, so it is no reason to shrink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/time.h"

namespace lambent::batching {

struct BatchLimits {
  // In one run: elements of the first dimension, which most requests have one of. 1: no batches.
  uint64_t most_elements = 1;
  // How long a request waits for others while the model is idle. Zero: not at all; then batches are
  // made of what came while the run before went on.
  Duration most_wait{};
  // From a request's arrival to the end of its run, which takes at most half of it. Zero: none, and
  // batches are as large as they may be.
  Duration slo{};

  bool operator==(const BatchLimits&) const = default;
};

// A request that waits.
struct Waiting {
  Instant since{};
  uint64_t elements = 1;  // at least 1; one that is larger than a batch runs by itself
};

struct BatchDecision {
  size_t requests = 0;  // so many, the oldest, run now; 0: none does
  // When to ask again if nothing comes; of a decision that runs none while some wait.
  Instant again{};
};

class BatchPolicy {
 public:
  explicit BatchPolicy(BatchLimits limits);

  // The model is idle, and these wait, the oldest first.
  BatchDecision decide(std::span<const Waiting> waiting, Instant now) const;
  // A run of so many elements took so long.
  void ran(uint64_t elements, Duration run);

  // How many elements a batch may have now: from 1 to the limit.
  uint64_t size() const { return size_; }

 private:
  const BatchLimits limits_;
  uint64_t size_;
  Duration last_run_{};  // of a batch as large as size_, at most
};

}  // namespace lambent::batching
