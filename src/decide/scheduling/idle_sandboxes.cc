#include "decide/scheduling/idle_sandboxes.h"

#include <algorithm>

namespace lambent::scheduling {

std::vector<SandboxSlot> IdleSandboxes::of(FunctionId function) const {
  std::vector<SandboxSlot> idle;
  for (SandboxSlot slot = newest_of(function); slot != kNoSandbox; slot = sandboxes_[slot].older) {
    idle.push_back(slot);
  }
  return idle;
}

void IdleSandboxes::enter(SandboxSlot slot) {
  list_on_devices(slot);
  Sandbox& sandbox = sandboxes_[slot];
  OfFunction& function = at(sandbox.function);
  sandbox.older = function.newest;
  sandbox.newer = kNoSandbox;
  (sandbox.older == kNoSandbox ? function.oldest : sandboxes_[sandbox.older].newer) = slot;
  function.newest = slot;
}

void IdleSandboxes::leave(SandboxSlot slot) {
  const Sandbox& sandbox = sandboxes_[slot];
  std::vector<IdleSandbox>& neighbours = on_device_[sandbox.device];
  const uint32_t place = place_on_device_[slot];
  neighbours[place] = neighbours.back();
  if (sandboxes_[neighbours[place].slot].device == sandbox.device) {
    place_on_device_[neighbours[place].slot] = place;
  }
  neighbours.pop_back();
  for_each_device_in(sandbox.beside, [&](uint32_t device) {
    std::vector<IdleSandbox>& others = on_device_[device];
    const auto found = std::find_if(others.begin(), others.end(),
                                    [&](const IdleSandbox& one) { return one.slot == slot; });
    *found = others.back();
    if (sandboxes_[found->slot].device == device) {
      place_on_device_[found->slot] = static_cast<uint32_t>(found - others.begin());
    }
    others.pop_back();
  });
  OfFunction& function = functions_[sandbox.function.value];
  (sandbox.older == kNoSandbox ? function.oldest : sandboxes_[sandbox.older].newer) = sandbox.newer;
  (sandbox.newer == kNoSandbox ? function.newest : sandboxes_[sandbox.newer].older) = sandbox.older;
}

IdleSandboxes::OfFunction& IdleSandboxes::at(FunctionId function) {
  if (function.value >= functions_.size()) functions_.resize(function.value + 1);
  return functions_[function.value];
}

void IdleSandboxes::list_on_devices(SandboxSlot slot) {
  if (slot >= place_on_device_.size()) place_on_device_.resize(slot + 1);
  const Sandbox& sandbox = sandboxes_[slot];
  place_on_device_[slot] = static_cast<uint32_t>(on_device_[sandbox.device].size());
  sandbox.for_each_device([&](uint32_t device) {
    on_device_[device].push_back({slot, sandbox.function});
  });
}

void IdleSandboxes::list_again() {
  for (std::vector<IdleSandbox>& idle : on_device_) idle.clear();
  for (const SandboxSlot slot : sandboxes_.all()) {
    if (sandboxes_[slot].state == SandboxState::kIdle) list_on_devices(slot);
  }
}

// A function that never had one may be missing at the end.
void IdleSandboxes::archive(StateArchive& archive) {
  std::vector<SandboxSlot> newest;
  for (const OfFunction& function : functions_) newest.push_back(function.newest);
  archive.list(newest);
  const auto may_be_listed = [&](SandboxSlot slot) {
    return slot == kNoSandbox ||
           (slot < sandboxes_.slots() && sandboxes_[slot].state == SandboxState::kIdle);
  };
  for (const SandboxSlot slot : newest) archive.expect(may_be_listed(slot));
  if (archive.reading()) {
    functions_.clear();
    for (const SandboxSlot slot : newest) functions_.push_back({.newest = slot});
  }
  for (const SandboxSlot slot : sandboxes_.all()) {
    if (!archive.ok()) return;
    if (sandboxes_[slot].state != SandboxState::kIdle) continue;
    archive.expect(may_be_listed(sandboxes_[slot].older));
    archive.expect(may_be_listed(sandboxes_[slot].newer));
  }
  if (archive.reading() && archive.ok()) find_again();
}

// What is not written because it follows from the rest.
void IdleSandboxes::find_again() {
  for (std::vector<IdleSandbox>& idle : on_device_) idle.clear();
  for (const SandboxSlot slot : sandboxes_.all()) {
    const Sandbox& sandbox = sandboxes_[slot];
    OfFunction& function = at(sandbox.function);
    if (sandbox.state != SandboxState::kIdle) continue;
    list_on_devices(slot);
    if (sandbox.older == kNoSandbox) function.oldest = slot;
  }
}

}  // namespace lambent::scheduling
