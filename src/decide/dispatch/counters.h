// Counters: how often what happened since dispatch started. A value; the parts of Dispatcher count,
// status and metrics read it.
#pragma once

#include <cstdint>

#include "core/base/state_archive.h"

namespace lambent::dispatch {

struct Counters {
  uint64_t submitted = 0;
  uint64_t succeeded = 0;
  uint64_t function_errors = 0;
  uint64_t rejected = 0;
  uint64_t cold_starts = 0;  // invocations by start class
  uint64_t gpu_cold_starts = 0;
  uint64_t warm_starts = 0;
  uint64_t host_runs = 0;    // of these, as CPU variants on the host
  uint64_t host_trials = 0;  // of these, to learn how long they take there
  uint64_t sandboxes_started = 0;
  uint64_t evictions = 0;
  uint64_t timeouts = 0;
  uint64_t returned = 0;  // dispatched, then put back into the queue: their place was no more
  uint64_t moves_in = 0;  // of device memory, done
  uint64_t moves_out = 0;
  uint64_t failed_moves = 0;
  uint64_t moved_bytes = 0;    // both ways
  uint64_t prefetches = 0;     // moves in that were begun before the turn of the flow had come
  uint64_t prefetch_hits = 0;  // invocations that found a prefetch done or under way
  uint64_t fetches = 0;        // of memory that was offloaded, granted to programs that asked
  uint64_t refused_fetches = 0;
  uint64_t ignored_events = 0;  // about something that is over, such as a late answer
};

void archive(StateArchive& archive, Counters& counters);

}  // namespace lambent::dispatch
