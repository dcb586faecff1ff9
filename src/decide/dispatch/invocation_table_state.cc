// The part of InvocationTable that saves and restores it: invocations keep their slots, which
// decide between equal deadlines; where they lie among the buckets decides nothing.
#include "decide/dispatch/invocation_table.h"

namespace lambent::dispatch {
namespace {

void archive_invocation(StateArchive& archive, PendingInvocation& invocation, bool longest_wait) {
  archive.field(invocation.id);
  archive.field(invocation.function);
  archive.choice(invocation.state, InvocationState::kRunning);
  archive.field(invocation.asynchronous);
  archive.field(invocation.acknowledged);
  archive.field(invocation.within_run);
  archive.choice(invocation.start, StartClass::kWarm);
  archive.field(invocation.failed_starts);
  archive.field(invocation.restarts);
  invocation.wait.archive(archive, longest_wait);
  archive.field(invocation.sandbox);
  archive.field(invocation.on_host);
  archive.choice(invocation.host_reason, scheduling::HostReason::kTenantQuota);
  archive.field(invocation.expected_with_gpu);
  archive.field(invocation.expected_with_host);
  archive.field(invocation.expected_end);
  archive.field(invocation.device);
  archive.field(invocation.arrival);
  archive.field(invocation.submitted);
  archive.field(invocation.dispatched);
  archive.field(invocation.started);
  archive.field(invocation.init_time);
  archive.field(invocation.sandbox_time);
  archive.field(invocation.awaits_memory);
  archive.field(invocation.memory_time);
  archive.field(invocation.earlier);
  archive.field(invocation.later);
}

}  // namespace

void InvocationTable::archive(StateArchive& archive, bool longest_waits) {
  const size_t slots = archive.count(slots_.size());
  if (!archive.ok()) return;
  if (archive.reading()) {
    slots_.assign(slots, PendingInvocation{});
    used_ = 0;
    buckets_.clear();
  }
  archive.list(free_);
  archive_used(archive, longest_waits);
  archive.list(queues_, [&](Queue& queue) {
    archive.field(queue.front);
    archive.field(queue.back);
  });
  const auto exists = [&](InvocationSlot slot) {
    return slot == kNoInvocation || slot < slots_.size();
  };
  for (const Queue& queue : queues_) archive.expect(exists(queue.front) && exists(queue.back));
}

std::vector<bool> InvocationTable::free_slots() const {
  std::vector<bool> is_free(slots_.size(), false);
  for (const InvocationSlot slot : free_) is_free[slot] = true;
  return is_free;
}

void InvocationTable::archive_used(StateArchive& archive, bool longest_waits) {
  for (const InvocationSlot slot : free_) archive.expect(slot < slots_.size());
  if (!archive.ok()) return;
  const std::vector<bool> is_free = free_slots();
  for (InvocationSlot slot = 0; slot < slots_.size() && archive.ok(); ++slot) {
    if (is_free[slot]) continue;
    archive_invocation(archive, slots_[slot], longest_waits);
    if (!archive.reading()) continue;
    archive.expect(slots_[slot].later == kNoInvocation || slots_[slot].later < slots_.size());
    archive.expect(slots_[slot].earlier == kNoInvocation || slots_[slot].earlier < slots_.size());
    archive.expect(!archive.ok() || !find(slots_[slot].id));
    if (archive.ok()) enter(slot);
  }
}

}  // namespace lambent::dispatch
