#include "decide/dispatch/counters.h"

namespace lambent::dispatch {

void archive(StateArchive& archive, Counters& counters) {
  for (uint64_t* each :
       {&counters.submitted,         &counters.succeeded,   &counters.function_errors,
        &counters.rejected,          &counters.cold_starts, &counters.gpu_cold_starts,
        &counters.warm_starts,       &counters.host_runs,   &counters.host_trials,
        &counters.sandboxes_started, &counters.evictions,   &counters.timeouts,
        &counters.returned,          &counters.moves_in,    &counters.moves_out,
        &counters.failed_moves,      &counters.moved_bytes, &counters.prefetches,
        &counters.prefetch_hits,     &counters.fetches,     &counters.refused_fetches,
        &counters.ignored_events}) {
    archive.field(*each);
  }
}

}  // namespace lambent::dispatch
