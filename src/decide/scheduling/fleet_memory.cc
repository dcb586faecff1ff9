#include "decide/scheduling/fleet_memory.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace lambent::scheduling {

bool FleetMemory::may_move_in(SandboxSlot slot) const {
  const Sandbox& sandbox = sandboxes_[slot];
  if (sandbox.memory_state != MemoryState::kOut) return false;
  if (sandbox.device_losses != devices_.losses_of(sandbox)) return false;
  bool may = true;
  sandbox.for_each_device([&](uint32_t index) { may = may && may_move_in_on(index, sandbox); });
  return may;
}

void FleetMemory::note_cleared(SandboxSlot slot) {
  Sandbox& sandbox = sandboxes_[slot];
  if (sandbox.beside == 0 || !sandbox.move_failed) return;
  sandbox.for_each_device([&](uint32_t index) {
    if (devices_[index].leaving == Bytes(0)) sandbox.cleared |= uint64_t{1} << index;
  });
}

bool FleetMemory::may_move_in_on(uint32_t index, const Sandbox& sandbox) const {
  const Device& device = devices_[index];
  if (!device.healthy) return false;
  if (sandbox.counts.without_context &&
      device.occupants - device.without_context >= device.options.contexts) {
    return false;
  }
  // A second try waits for all that is leaving.
  const bool is_cleared = sandbox.beside != 0 && (sandbox.cleared >> index & 1) != 0;
  if (sandbox.move_failed && device.leaving > Bytes(0) && !is_cleared) return false;
  const Bytes missing = sandbox.needed() - sandbox.counts.on_device;
  if (sandbox.state == SandboxState::kBusy) {
    return device.resident + missing <= device.capacity();
  }
  // What is fetched ahead leaves those who were admitted their room, and their contexts.
  const bool has_context = sandbox.counts.wants_context;
  return device.resident + device.promised + missing <= device.capacity() &&
         device.contexts_wanted + (has_context ? 0 : 1) <= device.options.contexts;
}

bool FleetMemory::may_move_out(SandboxSlot slot, bool deep) const {
  const Sandbox& sandbox = sandboxes_[slot];
  if (sandbox.state != SandboxState::kIdle || sandbox.move_failed) return false;
  if (!sandbox.memory_moves) return false;
  bool all_may = true;
  sandbox.for_each_device([&](uint32_t index) { all_may &= devices_[index].options.memory_moves; });
  if (!all_may) return false;
  if (deep && (!sandbox.checkpoints || sandbox.deep)) return false;
  if (sandbox.memory_state != (deep ? MemoryState::kOut : MemoryState::kIn)) return false;
  return has_host_room(sandbox.memory_of_all() - sandbox.counts.on_host);
}

void FleetMemory::begin_move_in(SandboxSlot slot) {
  Sandbox& sandbox = sandboxes_[slot];
  CHECK(may_move_in(slot), "memory is moved in where there is room for it");
  changes_.note_function(sandbox.function);
  sandbox.memory_state = MemoryState::kMovingIn;
  if (sandbox.state == SandboxState::kIdle) sandbox.prefetched = true;
  recount(slot);
}

void FleetMemory::begin_move_out(SandboxSlot slot, bool deep) {
  Sandbox& sandbox = sandboxes_[slot];
  CHECK(may_move_out(slot, deep), "only idle sandboxes are moved out, one step at a time");
  changes_.note_function(sandbox.function);
  sandbox.memory_state = MemoryState::kMovingOut;
  sandbox.deep = deep;
  sandbox.prefetched = false;
  recount(slot);
}

void FleetMemory::end_move(SandboxSlot slot, bool done, Bytes left, Bytes offloaded) {
  Sandbox& sandbox = sandboxes_[slot];
  const bool was_in = sandbox.memory_state == MemoryState::kMovingIn;
  CHECK(was_in || sandbox.memory_state == MemoryState::kMovingOut, "a move ends once");
  changes_.note_function(sandbox.function);
  if (!done) {
    sandbox.move_failed = true;
    sandbox.cleared = 0;
  }
  if (was_in) {
    sandbox.memory_state = done ? MemoryState::kIn : MemoryState::kOut;
    if (done) sandbox.deep = false;
    if (!done) sandbox.prefetched = false;
  } else if (sandbox.deep) {
    // It was out before, so it is out in either case.
    sandbox.memory_state = MemoryState::kOut;
    sandbox.deep = done;
  } else {
    sandbox.memory_state = done ? MemoryState::kOut : MemoryState::kIn;
    if (done) {
      // No more can have stayed than was there.
      sandbox.left = std::min(left, sandbox.memory - sandbox.offloaded);
      sandbox.offloaded = std::min(offloaded, sandbox.memory - sandbox.left);
    }
  }
  // One that was given an invocation on its way out was admitted with all of its memory.
  if (sandbox.state == SandboxState::kBusy) devices_.commit(sandbox, sandbox.needed());
  recount(slot);
}

void FleetMemory::place(SandboxSlot slot, const MemoryPlace& memory) {
  Sandbox& sandbox = sandboxes_[slot];
  sandbox.memory_state = memory.is_out ? MemoryState::kOut : MemoryState::kIn;
  sandbox.deep = memory.is_out && memory.deep;
  CHECK(memory.left + memory.offloaded <= sandbox.memory, "no more is anywhere than there is");
  sandbox.left = memory.left;
  sandbox.offloaded = memory.offloaded;
  recount(slot);
}

bool FleetMemory::admits_fetch(SandboxSlot slot, Bytes bytes) const {
  const Sandbox& sandbox = sandboxes_[slot];
  bool fits = true;
  sandbox.for_each_device([&](uint32_t index) {
    const Device& device = devices_[index];
    fits = fits && device.healthy && devices_.room().memory_fits(device, bytes);
  });
  return fits && sandbox.state == SandboxState::kBusy && sandbox.memory_state == MemoryState::kIn &&
         sandbox.fetching == Bytes(0) && bytes <= sandbox.offloaded;
}

void FleetMemory::begin_fetch(SandboxSlot slot, Bytes bytes) {
  CHECK(admits_fetch(slot, bytes), "what is fetched was admitted");
  Sandbox& sandbox = sandboxes_[slot];
  sandbox.fetching = bytes;
  devices_.commit(sandbox, sandbox.needed() + bytes);
  recount(slot);
}

bool FleetMemory::may_fetch(SandboxSlot slot) const {
  const Sandbox& sandbox = sandboxes_[slot];
  bool fits = true;
  sandbox.for_each_device([&](uint32_t index) {
    fits &= devices_[index].resident + sandbox.fetching <= devices_[index].capacity();
  });
  return fits;
}

bool FleetMemory::awaits_room(SandboxSlot slot) const {
  const Sandbox& sandbox = sandboxes_[slot];
  if (!moves_idle() || sandbox.state != SandboxState::kPlanned) return false;
  bool awaits = false;
  sandbox.for_each_device([&](uint32_t index) {
    if (index != sandbox.device && !options_.moves_gangs) return;
    awaits |= devices_[index].resident + sandbox.memory > devices_[index].capacity();
  });
  return awaits;
}

void FleetMemory::end_fetch(SandboxSlot slot, bool granted) {
  Sandbox& sandbox = sandboxes_[slot];
  const Bytes fetched = std::exchange(sandbox.fetching, Bytes(0));
  if (granted) sandbox.offloaded -= fetched;
  devices_.commit(sandbox, sandbox.needed());
  recount(slot);
}

Sandbox::Counts FleetMemory::counts_of(const Sandbox& sandbox) const {
  Sandbox::Counts counts;
  if (sandbox.state == SandboxState::kPlanned) {
    counts.promised = sandbox.memory;
    counts.wants_context = true;
    return counts;
  }
  const bool stopping = sandbox.state == SandboxState::kStopping;
  const bool busy = sandbox.state == SandboxState::kBusy;
  const bool going_deep = sandbox.deep && sandbox.memory_state == MemoryState::kMovingOut;
  // No less than all of its devices have there together.
  const Bytes all = sandbox.memory_of_all();
  const Bytes outside = all - sandbox.left;
  const Bytes inside = sandbox.memory - sandbox.offloaded;
  switch (sandbox.memory_state) {
    case MemoryState::kIn:
      counts.on_device = inside;
      counts.on_host = sandbox.offloaded * sandbox.devices();
      break;
    case MemoryState::kMovingIn:
      counts.on_device = inside;
      counts.on_host = sandbox.deep ? all : outside;
      break;
    case MemoryState::kMovingOut:
      counts.on_device = sandbox.deep ? sandbox.left : inside;
      counts.on_host = all;
      // Sandboxes mostly leave behind what they left the last time.
      counts.leaving = sandbox.deep ? sandbox.left : inside - sandbox.left;
      break;
    case MemoryState::kOut:
      counts.on_device = sandbox.deep ? Bytes(0) : sandbox.left;
      counts.on_host = sandbox.deep ? all : outside;
      counts.without_context = sandbox.deep;
      break;
  }
  if (stopping) {
    counts.leaving = sandbox.hangs ? Bytes(0) : counts.on_device;
    counts.wants_context = sandbox.hangs && !counts.without_context;
    return counts;
  }
  const bool is_out =
      sandbox.memory_state == MemoryState::kOut || sandbox.memory_state == MemoryState::kMovingOut;
  if (busy && is_out) counts.promised = sandbox.needed() - (counts.on_device - counts.leaving);
  counts.promised += sandbox.fetching;
  counts.wants_context = busy || !(going_deep || counts.without_context);
  counts.rests_outside =
      sandbox.state == SandboxState::kIdle && sandbox.memory_state == MemoryState::kOut;
  return counts;
}

void FleetMemory::count(SandboxSlot slot, const Sandbox::Counts& counts) {
  Sandbox& sandbox = sandboxes_[slot];
  on_host_ = on_host_ - sandbox.counts.on_host + counts.on_host;
  resting_outside_ += static_cast<unsigned>(counts.rests_outside) -
                      static_cast<unsigned>(sandbox.counts.rests_outside);
  devices_.count(sandbox, counts);
  sandbox.for_each_device([this](uint32_t device) { unsettle(device); });
}

void FleetMemory::unsettle(uint32_t device) {
  if (is_unsettled_[device]) return;
  is_unsettled_[device] = 1;
  unsettled_.push_back(device);
}

void FleetMemory::settled() {
  for (const uint32_t device : unsettled_) is_unsettled_[device] = 0;
  unsettled_.clear();
}

void FleetMemory::find_unsettled() {
  for (uint32_t i = 0; i < devices_.all().size(); ++i) {
    const Device& device = devices_.all()[i];
    if (device.memory_short() > Bytes(0) || device.contexts_short()) unsettle(i);
  }
}

void FleetMemory::archive_totals(StateArchive& archive) {
  archive.field(on_host_);
  archive.field(resting_outside_);
}

}  // namespace lambent::scheduling
