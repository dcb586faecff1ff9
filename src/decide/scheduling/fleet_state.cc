// The part of Fleet, and of what lies in it, that saves and restores state: sandboxes keep their
// slots and their order, for both decide between equals.
#include <algorithm>

#include "decide/scheduling/fleet.h"

namespace lambent::scheduling {
namespace {

void archive_device_options(StateArchive& archive, DeviceOptions& device) {
  archive.field(device.id);
  archive.field(device.memory);
  archive.field(device.tokens);
  archive.field(device.contexts);
  archive.field(device.memory_moves);
  bool by_utilisation = device.by_utilisation.has_value();
  archive.field(by_utilisation);
  if (archive.reading() && by_utilisation) device.by_utilisation.emplace();
  if (!device.by_utilisation) return;
  archive.field(device.by_utilisation->threshold);
  archive.field(device.by_utilisation->most);
}

void archive_device(StateArchive& archive, Device& device) {
  if (device.concurrency) device.concurrency->archive(archive);
  archive.field(device.healthy);
  archive.field(device.lost);
  archive.field(device.taken);
  archive.field(device.losses);
  archive.field(device.utilisation);
  archive.field(device.tokens_held);
  archive.field(device.start_slots_held);
  archive.field(device.starting);
  archive.field(device.tokens_hung);
  archive.field(device.sandboxes);
  archive.field(device.occupants);
  archive.field(device.idle);
  archive.field(device.committed);
  archive.field(device.idle_memory);
  archive.field(device.occupied);
  archive.field(device.resident);
  archive.field(device.promised);
  archive.field(device.leaving);
  archive.field(device.without_context);
  archive.field(device.contexts_wanted);
}

void archive_sandbox(StateArchive& archive, Sandbox& sandbox) {
  archive.field(sandbox.id);
  archive.field(sandbox.function);
  archive.field(sandbox.revision);
  archive.field(sandbox.device);
  archive.field(sandbox.memory);
  archive.choice(sandbox.state, SandboxState::kStopping);
  archive.choice(sandbox.holds, Sandbox::Holds::kStartSlot);
  archive.field(sandbox.committed);
  archive.field(sandbox.memory_moves);
  archive.field(sandbox.checkpoints);
  archive.choice(sandbox.memory_state, MemoryState::kMovingIn);
  archive.field(sandbox.deep);
  archive.field(sandbox.move_failed);
  archive.field(sandbox.prefetched);
  archive.field(sandbox.left);
  archive.field(sandbox.offloaded);
  archive.field(sandbox.fetching);
  archive.field(sandbox.counts.on_device);
  archive.field(sandbox.counts.promised);
  archive.field(sandbox.counts.leaving);
  archive.field(sandbox.counts.on_host);
  archive.field(sandbox.counts.without_context);
  archive.field(sandbox.counts.wants_context);
  archive.field(sandbox.counts.rests_outside);
  archive.field(sandbox.hangs);
  archive.field(sandbox.device_losses);
  archive.field(sandbox.invocation);
  archive.field(sandbox.has_invocation);
  archive.field(sandbox.since);
  archive.field(sandbox.last_used);
  archive.field(sandbox.served);
  archive.field(sandbox.older);
  archive.field(sandbox.newer);
}

}  // namespace

void archive(StateArchive& archive, FleetOptions& options) {
  archive.list(options.devices,
               [&](DeviceOptions& device) { archive_device_options(archive, device); });
  archive.field(options.most_sandboxes);
  archive.choice(options.memory_rule, MemoryRule::kMoveIdle);
  archive.field(options.prefetch);
  archive.field(options.host_memory);
  archive.choice(options.eviction, EvictionRule::kCostAware);
  archive.field(options.guesses.gap);
  archive.field(options.guesses.cold_start);
  archive.field(options.starts_outside_tokens);
  archive.field(options.move_grace_period);
  archive.field(options.second_grace_period);
}

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

void Fleet::archive(StateArchive& archive) {
  archive.expect(archive.count(devices_.size()) == devices_.size());
  if (!archive.ok()) return;
  for (Device& device : devices_) archive_device(archive, device);
  archive.field(open_devices_);
  archive_sandboxes(archive);
  archive_links(archive);
  archive.field(sandboxes_total_);
  archive.field(occupants_total_);
  archive.field(idle_total_);
  archive.field(memory_on_host_);
  archive.field(resting_outside_);
  if (archive.reading() && archive.ok()) find_again();
}

// What is not written because it follows from the rest.
void Fleet::find_again() {
  crowded_.clear();
  for (uint32_t i = 0; i < devices_.size(); ++i) {
    note_changed(i);
    note_crowded(i);
  }
  find_largest_healthy();
  idle_devices_ = full_devices_ = 0;
  for (const Device& device : devices_) {
    if (is_healthy_and_idle(device)) ++idle_devices_;
    if (is_healthy_and_full(device)) ++full_devices_;
  }
  for (std::vector<IdleSandbox>& idle : idle_on_) idle.clear();
  place_in_idle_on_.assign(sandboxes_.size(), 0);
  for (const SandboxSlot slot : all_) {
    if (sandboxes_[slot].state == SandboxState::kIdle) list_on_device(slot);
  }
  for (const SandboxSlot slot : all_) {
    const Sandbox& sandbox = sandboxes_[slot];
    if (sandbox.function.value >= functions_.size()) {
      functions_.resize(sandbox.function.value + 1);
    }
    OfFunction& function = functions_[sandbox.function.value];
    if (is_start(sandbox.state)) ++function.starts;
    if (sandbox.state == SandboxState::kIdle && sandbox.older == kNoSandbox) {
      function.oldest_idle = slot;
    }
  }
}

// Only those that exist, in the order of all_, each with its slot.
void Fleet::archive_sandboxes(StateArchive& archive) {
  const size_t slots = archive.count(sandboxes_.size());
  if (!archive.ok()) return;
  if (archive.reading()) {
    sandboxes_.assign(slots, Sandbox{});
    place_in_all_.assign(slots, 0);
    by_id_.clear();
  }
  archive.list(all_);
  archive.list(free_slots_);
  archive.expect(all_.size() + free_slots_.size() == slots);
  std::vector<bool> seen(archive.ok() ? slots : 0, false);
  for (const auto* list : {&all_, &free_slots_}) {
    for (const SandboxSlot slot : *list) {
      archive.expect(slot < slots);
      if (!archive.ok()) return;
      archive.expect(!seen[slot]);
      seen[slot] = true;
    }
  }
  for (uint32_t i = 0; i < all_.size() && archive.ok(); ++i) {
    Sandbox& sandbox = sandboxes_[all_[i]];
    archive_sandbox(archive, sandbox);
    if (!archive.reading()) continue;
    archive.expect(sandbox.device < devices_.size());
    archive.expect(sandbox.function.value < kMostArchivedItem);
    place_in_all_[all_[i]] = i;
    by_id_[sandbox.id] = all_[i];
  }
}

// The lists of idle sandboxes; a function that never had one may be missing at the end.
void Fleet::archive_links(StateArchive& archive) {
  std::vector<SandboxSlot> newest_idle;
  for (const OfFunction& function : functions_) newest_idle.push_back(function.newest_idle);
  archive.list(newest_idle);
  const auto exists = [&](SandboxSlot slot) {
    return slot == kNoSandbox ||
           (slot < sandboxes_.size() && sandboxes_[slot].state == SandboxState::kIdle);
  };
  for (const SandboxSlot slot : newest_idle) archive.expect(exists(slot));
  if (archive.reading()) {
    functions_.clear();
    for (const SandboxSlot slot : newest_idle) functions_.push_back({.newest_idle = slot});
  }
  for (const SandboxSlot slot : all_) {
    if (!archive.ok()) return;
    if (sandboxes_[slot].state != SandboxState::kIdle) continue;
    archive.expect(exists(sandboxes_[slot].older));
    archive.expect(exists(sandboxes_[slot].newer));
  }
}

}  // namespace lambent::scheduling
