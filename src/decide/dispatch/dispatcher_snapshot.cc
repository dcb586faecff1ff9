// The part of Dispatcher::State that is saved and restored: what the journal's segments begin with,
// so that a replay can begin at each of them.
#include <algorithm>

#include "decide/dispatch/dispatcher_state.h"

namespace lambent::dispatch {
namespace {

// A snapshot begins with its instant, which is never negative. This one says that the instant is
// the next field, and that a part about tenants follows at the end.
constexpr Instant kWithTenants = Instant(Duration(-1));
// The same, with two bools after it: whether that part follows, and one about queues after it.
constexpr Instant kWithParts = Instant(Duration(-2));

}  // namespace

void Dispatcher::State::archive(StateArchive& archive) {
  bool with_tenants = !archive.reading() && tenants_are_state();
  bool with_queues = !archive.reading() && admission.control().is_state();
  archive_parts(archive, with_tenants, with_queues);
  archive.list(flows, [&](scheduling::Flow& flow) { flow.archive(archive); });
  queues.archive(archive);
  placements.archive(archive);
  for (DevicePool* pool : pools.all()) pool->archive(archive, queues);
  queues.archive_deadlines(archive);
  archive.field(armed_);
  admission.archive(archive);
  overflow.archive(archive);
  log.archive_totals(archive);
  if (options.fleet.foresight.starts_ahead) ahead.archive(archive);
  if (with_tenants) archive_tenants(archive);
  if (with_queues) archive_queues(archive);
  if (!archive.reading() || !archive.ok()) return;
  archive.expect(each_sandbox_has_its_own_invocation());
  if (!archive.ok()) return;
  if (!with_tenants) find_tenants();
  overflow.find_again();
  queues.find_again();
}

// Which parts a snapshot has beyond those that all have, and its instant.
void Dispatcher::State::archive_parts(StateArchive& archive, bool& with_tenants,
                                      bool& with_queues) {
  if (with_tenants || with_queues) {
    Instant mark = with_queues ? kWithParts : kWithTenants;
    archive.field(mark);
    if (with_queues) {
      archive.field(with_tenants);
      archive.field(with_queues);
    }
  }
  log.archive_now(archive);
  if (!archive.reading() || log.now() >= Instant{}) return;
  with_tenants = log.now() == kWithTenants;
  if (log.now() == kWithParts) {
    archive.field(with_tenants);
    archive.field(with_queues);
  }
  log.archive_now(archive);
}

void Dispatcher::State::archive_queues(StateArchive& archive) {
  admission.control().archive(archive);
  for (scheduling::Flow& flow : flows) {
    if (archive.ok()) archive.field(flow.max_queue_time);
  }
}

// A node without tenants has the state that it had before there were any.
bool Dispatcher::State::tenants_are_state() const {
  return tenants.matter() || std::any_of(flows.begin(), flows.end(), [](const auto& flow) {
           return flow.host_memory.count > 0;
         });
}

void Dispatcher::State::archive_tenants(StateArchive& archive) {
  tenants.archive(archive);
  for (scheduling::Flow& flow : flows) {
    if (archive.ok()) archive.field(flow.host_memory);
  }
  if (archive.reading() && archive.ok()) find_tenants();
  for (DevicePool* pool : pools.all()) {
    if (archive.ok()) pool->archive_tenants(archive);
  }
}

// What is not written because it follows from the rest.
void Dispatcher::State::find_tenants() {
  for (scheduling::Flow& flow : flows) {
    const bool is_known = flow.registered || flow.tenant.value != 0;
    if (is_known) flow.tenant_slot = tenants.enter(flow.tenant);
  }
  tenants.count_again(flows);
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
