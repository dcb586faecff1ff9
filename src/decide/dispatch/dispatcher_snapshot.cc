// The part of Dispatcher::State that is saved and restored: what the journal's segments begin with,
// so that a replay can begin at each of them.
#include "decide/dispatch/dispatcher_state.h"

namespace lambent::dispatch {

void Dispatcher::State::archive(StateArchive& archive) {
  log.archive_now(archive);
  archive.list(flows, [&](scheduling::Flow& flow) { flow.archive(archive); });
  queues.archive(archive);
  placements.archive(archive);
  for (DevicePool* pool : pools.all()) pool->archive(archive, queues);
  queues.archive_deadlines(archive);
  archive.field(armed_);
  admission.archive(archive);
  overflow.archive(archive);
  log.archive_totals(archive);
  if (!archive.reading() || !archive.ok()) return;
  archive.expect(each_sandbox_has_its_own_invocation());
  if (!archive.ok()) return;
  overflow.find_again();
  queues.find_again();
}

// Each one with work.
bool Dispatcher::State::each_sandbox_has_its_own_invocation() {
  std::vector<bool> taken = queues.free_slots();
  for (const DevicePool* pool : pools.all()) {
    for (const scheduling::SandboxSlot slot : pool->fleet().all()) {
      const scheduling::Sandbox& sandbox = pool->fleet().sandbox(slot);
      if (!sandbox.has_invocation) continue;
      if (sandbox.invocation >= taken.size() || taken[sandbox.invocation]) return false;
      taken[sandbox.invocation] = true;
    }
  }
  return true;
}

}  // namespace lambent::dispatch
