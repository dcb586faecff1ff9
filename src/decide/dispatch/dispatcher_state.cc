// The part of Dispatcher that saves and restores its whole state: what the journal's segments begin
// with, so that a replay can begin at each of them.
#include <algorithm>

#include "decide/dispatch/device_pool.h"
#include "decide/dispatch/dispatcher.h"

namespace lambent::dispatch {
namespace {

void archive_counters(StateArchive& archive, Counters& counters) {
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

}  // namespace

void archive(StateArchive& archive, DispatchOptions& options) {
  scheduling::archive(archive, options.fleet);
  archive.field(options.host_concurrency);
  archive.field(options.host_sandboxes);
  archive.field(options.queued_per_function);
  archive.field(options.queued_invocations);
  archive.field(options.queued_synchronous);
  archive.field(options.queue_wait);
  archive.field(options.longest_wait);
  archive.field(options.init_timeout);
  archive.field(options.keep_alive);
  archive.field(options.stop_timeout);
  archive.field(options.start_retries);
  archive.field(options.restarts);
  archive.field(options.move_timeout);
  scheduling::archive(archive, options.hybrid);
}

std::string Dispatcher::snapshot() const {
  std::string bytes;
  StateArchive archive(&bytes);
  // An archive that writes changes nothing.
  const_cast<Dispatcher*>(this)->archive(archive);
  return bytes;
}

bool Dispatcher::restore(std::string_view snapshot) {
  StateArchive archive(snapshot);
  this->archive(archive);
  return archive.complete();
}

void Dispatcher::archive(StateArchive& archive) {
  log_.archive_now(archive);
  archive.list(flows_, [&](scheduling::Flow& flow) { flow.archive(archive); });
  queues_.archive(archive);
  archive.field(sandbox_ids_);
  this->archive(archive, *gpu_);
  this->archive(archive, *host_);
  queues_.archive_deadlines(archive);
  archive.field(armed_);
  archive.field(draining_);
  archive.field(ranks_stale_);
  archive.field(functions_without_gpu_);
  archive.list(away_since_);
  archive.expect(away_since_.size() == gpu_->fleet.devices().size());
  archive_counters(archive, counters_);
  log_.archive_hash(archive);
  if (!archive.reading() || !archive.ok()) return;
  // Each sandbox with work has an invocation of its own.
  std::vector<bool> taken = queues_.free_slots();
  for (const DevicePool* device_pool : {gpu_.get(), host_.get()}) {
    for (const scheduling::SandboxSlot slot : device_pool->fleet.all()) {
      const scheduling::Sandbox& sandbox = device_pool->fleet.sandbox(slot);
      if (!sandbox.has_invocation) continue;
      const bool is_its_own = sandbox.invocation < taken.size() && !taken[sandbox.invocation];
      archive.expect(is_its_own);
      if (is_its_own) taken[sandbox.invocation] = true;
    }
  }
  if (archive.ok()) find_again();
}

// What is not written because it follows from the rest.
void Dispatcher::find_again() {
  gpu_runs_.clear();
  for (const scheduling::SandboxSlot slot : gpu_->fleet.all()) {
    const scheduling::Sandbox& sandbox = gpu_->fleet.sandbox(slot);
    if (sandbox.has_invocation) gpu_runs_.add(sandbox.invocation);
  }
  queues_.find_again();
}

void Dispatcher::archive(StateArchive& archive, DevicePool& device_pool) {
  device_pool.fleet.archive(archive);
  device_pool.policy->archive(archive);
  queues_.archive_pending(archive, device_pool.processor);
  archive.list(device_pool.planned);
  archive.list(device_pool.ready);
  archive.list(device_pool.wanting);
  archive.list(device_pool.fetching);
  device_pool.deadlines.archive(archive);
  device_pool.moves.archive(archive);
  const auto& all = device_pool.fleet.all();
  for (const auto* list :
       {&device_pool.planned, &device_pool.ready, &device_pool.wanting, &device_pool.fetching}) {
    for (const scheduling::SandboxSlot slot : *list) {
      archive.expect(std::find(all.begin(), all.end(), slot) != all.end());
    }
  }
}

}  // namespace lambent::dispatch
