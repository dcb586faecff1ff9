#include "decide/scheduling/flow.h"

namespace lambent::scheduling {

void Flow::archive(StateArchive& archive) {
  archive.field(registered);
  archive.field(tenant);
  archive.field(revision);
  archive.field(weight);
  archive.field(max_concurrency);
  archive.field(declared_concurrency);
  archive.field(device_memory);
  archive.field(timeout);
  archive.field(memory_moves);
  archive.field(checkpoints);
  archive.field(has_cpu_variant);
  archive.field(gpu_speedup);
  archive.field(pending);
  archive.field(pending_synchronous);
  archive.field(in_flight);
  archive.field(on_host);
  archive.field(oldest);
  archive.field(oldest_since);
  execution.archive(archive);
  interarrival.archive(archive);
  cold_start.archive(archive);
  host_execution.archive(archive);
  host_cold_start.archive(archive);
  archive.field(sheds);
  turns.archive(archive);
  archive.field(turns_learnt);
  archive.field(last_turn);
  archive.field(last_host_run);
  archive.field(host_failures);
  archive.field(host_failed);
  archive.field(last_arrival);
  archive.field(last_activity);
  archive.field(active_until);
}

}  // namespace lambent::scheduling
