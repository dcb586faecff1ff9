#include "decide/scheduling/fleet.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "decide/scheduling/gang_devices.h"

namespace lambent::scheduling {
namespace {

void note_devices(FleetChanges& changes, const Sandbox& sandbox) {
  sandbox.for_each_device([&](uint32_t index) { changes.note_device(index); });
}

}  // namespace

Fleet::Fleet(FleetOptions options)
    : options_(std::move(options)),
      changes_(options_.devices.size()),
      devices_(options_, changes_),
      idle_(sandboxes_, options_.devices.size()),
      memory_(options_, sandboxes_, devices_, changes_),
      places_(options_, sandboxes_, idle_, devices_, changes_),
      contention_(options_.devices.size(), options_.learns_contention, options_.spread),
      foresight_(options_.foresight,
                 options_.foresight.starts_ahead || options_.eviction == EvictionRule::kForeseen) {}

// ---- Questions

bool Fleet::may_start(SandboxSlot slot) const {
  const Sandbox& sandbox = sandboxes_[slot];
  if (devices_.occupants() >= options_.most_sandboxes) return false;
  bool may = true;
  sandbox.for_each_device([&](uint32_t index) {
    const Device& device = devices_[index];
    if (device.occupants - device.without_context >= device.options.contexts) may = false;
    const Bytes held = memory_.moves_idle() ? device.resident : device.occupied;
    if (held + sandbox.memory > device.capacity()) may = false;
  });
  return may;
}

bool Fleet::may_run(SandboxSlot slot) const {
  const Sandbox& sandbox = sandboxes_[slot];
  if (sandbox.holds == Sandbox::Holds::kToken) return true;
  // On a reserved device as well: its end is waited for.
  bool may = true;
  sandbox.for_each_device([&](uint32_t index) { may &= devices_[index].has_token_left(); });
  return may;
}

// ---- What dispatch did

SandboxSlot Fleet::plan(SandboxId id, FunctionId function, const Flow& flow, const Place& place,
                        Instant now) {
  const uint32_t device = place.device;
  const SandboxSlot slot = sandboxes_.add(Sandbox{.id = id,
                                                  .function = function,
                                                  .device = device,
                                                  .revision = flow.revision,
                                                  .memory = memory_of(flow, device),
                                                  .since = now,
                                                  .last_used = now,
                                                  .memory_moves = flow.memory_moves,
                                                  .checkpoints = flow.checkpoints,
                                                  .beside = place.beside});
  Sandbox& sandbox = sandboxes_[slot];
  idle_.note_function(function);
  devices_.add_sandbox(sandbox);
  devices_.commit(sandbox, sandbox.memory);
  memory_.recount(slot);
  // One on several devices has a token of each from the first: it never waits there for the rest.
  const bool in_start_slot =
      place.beside == 0 && devices_.room().has_start_slot(devices_[device], sandbox.memory);
  devices_.hold(sandbox, in_start_slot ? Sandbox::Holds::kStartSlot : Sandbox::Holds::kToken);
  return slot;
}

void Fleet::start(SandboxSlot slot, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  CHECK(sandbox.state == SandboxState::kPlanned, "only a planned sandbox is started");
  become(slot, SandboxState::kStarting, now);
  sandbox.device_losses = devices_.losses_of(sandbox);
  devices_.add_occupant(sandbox);
  memory_.recount(slot);
}

bool Fleet::run(SandboxSlot slot, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  if (sandbox.state == SandboxState::kIdle) {
    devices_.remove_idle(sandbox);
    idle_.leave(slot);
    devices_.commit(sandbox, sandbox.needed());
  }
  if (sandbox.holds != Sandbox::Holds::kToken) {
    devices_.release(sandbox);
    devices_.hold(sandbox, Sandbox::Holds::kToken);
  }
  become(slot, SandboxState::kBusy, now);
  sandbox.last_used = now;
  ++sandbox.served;
  sandbox.move_failed = false;
  sandbox.cleared = 0;
  sandbox.prefetched = false;
  memory_.recount(slot);
  const bool memory_is_in = sandbox.memory_state == MemoryState::kIn;
  if (memory_is_in) begin_work(slot, now);
  return memory_is_in;
}

void Fleet::begin_work(SandboxSlot slot, Instant now) {
  const Sandbox& sandbox = sandboxes_[slot];
  contention_.begin(slot, sandbox.function, sandbox.device, now);
}

void Fleet::rest(SandboxSlot slot, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  devices_.release(sandbox);
  if (memory_.moves_idle()) devices_.commit(sandbox, Bytes(0));
  become(slot, SandboxState::kIdle, now);
  sandbox.last_used = now;
  devices_.add_idle(sandbox);
  idle_.enter(slot);
  memory_.recount(slot);
}

void Fleet::stop(SandboxSlot slot, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  CHECK(sandbox.state != SandboxState::kStopping, "a sandbox is stopped once");
  CHECK(sandbox.state != SandboxState::kPlanned, "a planned sandbox has no process to stop");
  note_devices(changes_, sandbox);
  if (sandbox.state == SandboxState::kIdle) {
    devices_.remove_idle(sandbox);
    idle_.leave(slot);
  }
  devices_.commit(sandbox, Bytes(0));
  devices_.remove_sandbox(sandbox);
  sandbox.fetching = Bytes(0);
  become(slot, SandboxState::kStopping, now);
  memory_.recount(slot);
}

void Fleet::keep_counting(SandboxSlot slot) {
  Sandbox& sandbox = sandboxes_[slot];
  CHECK(sandbox.state == SandboxState::kStopping, "only a stopping sandbox can hang");
  if (std::exchange(sandbox.hangs, true)) return;
  note_devices(changes_, sandbox);
  devices_.commit(sandbox, memory_.moves_idle() ? sandbox.counts.on_device : sandbox.memory);
  devices_.add_sandbox(sandbox);
  if (sandbox.holds == Sandbox::Holds::kToken) devices_.note_hung_token(sandbox);
  memory_.recount(slot);
}

void Fleet::remove(SandboxSlot slot) {
  Sandbox& sandbox = sandboxes_[slot];
  note_devices(changes_, sandbox);
  if (sandbox.state == SandboxState::kPlanned || sandbox.hangs) {
    devices_.remove_sandbox(sandbox);
  }
  if (sandbox.state != SandboxState::kPlanned) {
    if (sandbox.state != SandboxState::kStopping)
      stop(slot, std::max(sandbox.since, places_.now()));
    devices_.remove_occupant(sandbox);
  }
  devices_.commit(sandbox, Bytes(0));
  devices_.release(sandbox);
  memory_.uncount(slot);
  sandboxes_.remove(slot);
}

void Fleet::replace_id(SandboxSlot slot, SandboxId id, Instant now) {
  sandboxes_.rename(slot, id);
  sandboxes_[slot].since = now;
}

void Fleet::restart(SandboxSlot slot, SandboxId id, uint64_t revision, Instant now) {
  replace_id(slot, id, now);
  become(slot, SandboxState::kStarting, now);
  Sandbox& sandbox = sandboxes_[slot];
  sandbox.revision = revision;
  sandbox.device_losses = devices_.losses_of(sandbox);
  sandbox.served = 0;
  memory_.recount(slot);
}

void Fleet::assign(SandboxSlot slot, uint32_t invocation) {
  sandboxes_[slot].invocation = invocation;
  sandboxes_[slot].has_invocation = true;
}

void Fleet::become(SandboxSlot slot, SandboxState state, Instant now) {
  if (sandboxes_[slot].state == SandboxState::kBusy) {
    contention_.end(slot, sandboxes_[slot].device, state == SandboxState::kIdle, now);
  }
  if (sandboxes_.set_state(slot, state, now)) changes_.note_function(sandboxes_[slot].function);
}

// ---- What devices report

void Fleet::set_reading(uint32_t device, double utilisation, bool healthy, bool lost) {
  devices_.set_reading(device, utilisation, healthy, lost);
  if (memory_.moves_idle()) memory_.unsettle(device);
}

void Fleet::set_taken(uint32_t device, Bytes taken) {
  devices_.set_taken(device, taken);
  if (memory_.moves_idle()) memory_.unsettle(device);
}

// ---- As bytes

void Fleet::archive(StateArchive& archive) {
  devices_.archive(archive);
  if (!archive.ok()) return;
  sandboxes_.archive(archive, devices_.all().size());
  idle_.archive(archive);
  devices_.archive_totals(archive);
  memory_.archive_totals(archive);
  if (archive.ok()) contention_.archive(archive);
  if (archive.ok()) foresight_.archive(archive);
  if (!archive.reading() || !archive.ok()) return;
  devices_.find_again();
  memory_.find_unsettled();
}

void Fleet::archive_gangs(StateArchive& archive) {
  uint64_t reserved = devices_.reserved();
  uint64_t known = 0;
  for (uint32_t i = 0; i < devices().size() && i < kMostDevicesOfGangs; ++i) {
    known |= uint64_t{takes_gangs(devices()[i])} << i;
  }
  archive.field(reserved);
  archive.expect((reserved & ~known) == 0);
  for (const SandboxSlot slot : sandboxes_.all()) {
    if (!archive.ok()) return;
    Sandbox& sandbox = sandboxes_[slot];
    archive.field(sandbox.beside);
    archive.expect((sandbox.beside & ~known) == 0);
    if (sandbox.beside == 0) continue;
    if (options_.moves_gangs) archive.field(sandbox.cleared);
    const bool is_led = sandbox.device < kMostDevicesOfGangs && (known >> sandbox.device & 1) != 0;
    archive.expect(is_led && (sandbox.beside >> sandbox.device & 1) == 0);
  }
  if (!archive.reading() || !archive.ok()) return;
  idle_.list_again();
  devices_.restore_reserved(reserved);
}

}  // namespace lambent::scheduling
