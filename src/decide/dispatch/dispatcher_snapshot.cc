// The part of Dispatcher::State that is saved and restored: what the journal's segments begin with,
// so that a replay can begin at each of them.
#include <algorithm>

#include "decide/dispatch/dispatcher_state.h"

namespace lambent::dispatch {
namespace {

// A node without tenants has the state that it had before there were any.
bool tenants_are_state(const scheduling::Tenants& tenants, const scheduling::Flows& flows) {
  return tenants.matter() || std::any_of(flows.begin(), flows.end(), [](const auto& flow) {
           return flow.host_memory.count > 0;
         });
}

bool any_shares(const scheduling::Flows& flows, const DevicePools& pools) {
  return pools.gpu.shared().joins() + pools.host.shared().joins() > 0 ||
         std::any_of(flows.begin(), flows.end(),
                     [](const auto& flow) { return flow.sandbox_concurrency > 1; });
}

bool any_is_version(const scheduling::Flows& flows) {
  return std::any_of(flows.begin(), flows.end(),
                     [](const auto& flow) { return flow.account != FunctionId{}; });
}

// A snapshot begins with its instant, which is never negative. This one says that the instant is
// the next field, and that a part about tenants follows at the end.
constexpr Instant kWithTenants = Instant(Duration(-1));
// The same, with two bools after it: whether that part follows, and one about queues after it.
constexpr Instant kWithParts = Instant(Duration(-2));
// The same, with a third one: whether a part about versions comes after these.
constexpr Instant kWithVersions = Instant(Duration(-3));
// The same, with a fourth one: whether a part about min_instances comes after these.
constexpr Instant kWithInstances = Instant(Duration(-4));
// The same, with a fifth one: whether a part about shared sandboxes comes last.
constexpr Instant kWithSharing = Instant(Duration(-5));
// The same, with a sixth one: whether a part about functions on several devices comes last.
constexpr Instant kWithGangs = Instant(Duration(-6));

}  // namespace

void Dispatcher::State::archive(StateArchive& archive) {
  SnapshotParts parts;
  if (!archive.reading()) {
    parts = {tenants_are_state(tenants, flows),
             admission.control().is_state(),
             any_is_version(flows),
             instances.is_state(),
             any_shares(flows, pools),
             gangs.is_state()};
  }
  archive_parts(archive, parts);
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
  if (parts.tenants) archive_tenants(archive);
  if (parts.queues) archive_queues(archive);
  if (parts.versions) archive_versions(archive);
  if (parts.instances) archive_instances(archive);
  if (parts.sharing) archive_sharing(archive);
  if (parts.gangs && archive.ok()) archive_gangs(archive);
  if (!archive.reading() || !archive.ok()) return;
  archive.expect(each_sandbox_has_its_own_invocations());
  if (!archive.ok()) return;
  if (!parts.tenants) find_tenants();
  overflow.find_again();
  queues.find_again();
}

// Which parts a snapshot has beyond those that all have, and its instant.
void Dispatcher::State::archive_parts(StateArchive& archive, SnapshotParts& parts) {
  if (parts.any()) {
    Instant mark = parts.gangs       ? kWithGangs
                   : parts.sharing   ? kWithSharing
                   : parts.instances ? kWithInstances
                   : parts.versions  ? kWithVersions
                   : parts.queues    ? kWithParts
                                     : kWithTenants;
    archive.field(mark);
    archive_marks(archive, mark, parts);
  }
  log.archive_now(archive);
  if (!archive.reading() || log.now() >= Instant{}) return;
  const Instant mark = log.now();
  archive.expect(mark >= kWithGangs);
  parts.tenants = mark == kWithTenants;
  archive_marks(archive, mark, parts);
  log.archive_now(archive);
}

void Dispatcher::State::archive_marks(StateArchive& archive, Instant mark, SnapshotParts& parts) {
  if (mark == kWithTenants) return;
  archive.field(parts.tenants);
  archive.field(parts.queues);
  if (mark <= kWithVersions) archive.field(parts.versions);
  if (mark <= kWithInstances) archive.field(parts.instances);
  if (mark <= kWithSharing) archive.field(parts.sharing);
  if (mark == kWithGangs) archive.field(parts.gangs);
}

void Dispatcher::State::archive_instances(StateArchive& archive) {
  for (scheduling::Flow& flow : flows) {
    if (!archive.ok()) return;
    archive.field(flow.min_instances);
    archive.field(flow.keep_alive);
  }
  instances.archive(archive);
}

void Dispatcher::State::archive_versions(StateArchive& archive) {
  for (scheduling::Flow& flow : flows) {
    if (archive.ok()) archive.field(flow.account);
  }
}

void Dispatcher::State::archive_sharing(StateArchive& archive) {
  for (scheduling::Flow& flow : flows) {
    if (archive.ok()) archive.field(flow.sandbox_concurrency);
  }
  for (DevicePool* pool : pools.all()) {
    if (archive.ok()) pool->shared().archive(archive);
  }
}

void Dispatcher::State::archive_gangs(StateArchive& archive) {
  for (scheduling::Flow& flow : flows) {
    if (!archive.ok()) return;
    archive.field(flow.gpu_count);
    archive.expect(flow.gpu_count > 0 && flow.gpu_count <= scheduling::kMostDevicesOfGangs);
  }
  if (archive.ok()) pools.gpu.fleet().archive_gangs(archive);
  if (archive.ok()) gangs.archive(archive);
}

void Dispatcher::State::archive_queues(StateArchive& archive) {
  admission.control().archive(archive);
  for (scheduling::Flow& flow : flows) {
    if (archive.ok()) archive.field(flow.max_queue_time);
  }
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
bool Dispatcher::State::each_sandbox_has_its_own_invocations() {
  std::vector<bool> taken = queues.free_slots();
  const auto take = [&](InvocationSlot slot) {
    if (slot >= taken.size() || taken[slot]) return false;
    taken[slot] = true;
    return true;
  };
  for (const DevicePool* pool : pools.all()) {
    for (const scheduling::SandboxSlot slot : pool->fleet().all()) {
      const scheduling::Sandbox& sandbox = pool->fleet().sandbox(slot);
      if (sandbox.has_invocation && !take(sandbox.invocation)) return false;
    }
    if (!pool->shared().all_of(pool->fleet(), take)) return false;
  }
  return true;
}

}  // namespace lambent::dispatch
