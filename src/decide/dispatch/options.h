// DispatchOptions: what an operator may choose about dispatch. A value; made by main from the
// configuration, read by Dispatcher.
#pragma once

#include "core/domain/limits.h"
#include "decide/scheduling/admission.h"
#include "decide/scheduling/fleet.h"
#include "decide/scheduling/hybrid.h"
#include "decide/scheduling/overload_watch.h"

namespace lambent::dispatch {

struct DispatchOptions {
  // The GPUs; their ids count from 1. Functions that use a GPU share them.
  scheduling::FleetOptions fleet;
  // Functions without GPU: how many invocations may be at work at once on the host's processors,
  // and how many sandboxes there may be for them.
  unsigned host_concurrency = 16;
  unsigned host_sandboxes = 64;
  // Which invocations of functions that use a GPU run there too, as CPU variants, and count against
  // both. Functions without GPU go first: as long as there are any, variants leave them a quarter
  // of host_concurrency.
  scheduling::HybridOptions hybrid;

  // Who may wait (decide/scheduling/admission.h). A worker bounds the last two, for behind each
  // synchronous invocation stands a client with a connection; comparisons of policies let all
  // requests wait.
  size_t queued_per_function = limits::kQueuedPerFunction;
  size_t queued_invocations = limits::kQueuedInvocations;
  size_t queued_synchronous = limits::kQueuedInvocations;
  Duration queue_wait = scheduling::QueueLimits::kForever;
  // The same of functions that state no max_queue_time (overload_watch.h). A worker learns it;
  // comparisons of policies have no such bound. Journals have it apart from archive().
  Duration max_queue_time = scheduling::kNoQueueTime;
  // Whether an outcome names what the invocation waited for longest; else what it waited for last,
  // as in journals of before state version 23. Those have it apart from archive().
  bool tells_longest_wait = true;
  // A synchronous invocation that waited this long for its turn is rejected.
  Duration longest_wait = seconds(300);
  // A sandbox must ask for work within this time after it was started, or within its function's
  // timeout, if that is longer.
  Duration init_timeout = limits::kInitTimeout;
  // An idle sandbox is stopped after this time.
  Duration keep_alive = std::chrono::minutes(10);
  // A stopped sandbox that is not gone after this time (a driver call that cannot be killed) counts
  // as one that stays: what waited for its place looks for another.
  Duration stop_timeout = seconds(30);
  // scheduling::MemoryRule::kMoveIdle: any move may take so long; then its sandbox is stopped. An
  // invocation waits twice as long for the move of its sandbox's memory to begin, so that one that
  // does not move out of its way is stopped first. A run's own timeout begins when its memory is
  // there.
  Duration move_timeout = seconds(30);
  Duration move_wait() const { return 2 * move_timeout; }
  // How often a start that the platform (not the function) failed is tried again.
  unsigned start_retries = 1;
  // How often an invocation is given to another sandbox because its own ended through no fault of
  // it, before its handler saw it or beside a kernel that broke what they share.
  unsigned restarts = 8;
};

// So that a journal can say under which options it was recorded.
void archive(StateArchive& archive, DispatchOptions& options);

}  // namespace lambent::dispatch
