#include "decide/scheduling/sandbox_table.h"

#include "decide/scheduling/indexed_heap.h"

namespace lambent::scheduling {

std::optional<SandboxSlot> SandboxTable::find(SandboxId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? std::nullopt : std::optional(found->second);
}

SandboxSlot SandboxTable::add(const Sandbox& sandbox) {
  SandboxSlot slot = static_cast<SandboxSlot>(sandboxes_.size());
  if (free_slots_.empty()) {
    sandboxes_.emplace_back();
    place_in_all_.push_back(0);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  sandboxes_[slot] = sandbox;
  by_id_[sandbox.id] = slot;
  place_in_all_[slot] = static_cast<uint32_t>(all_.size());
  all_.push_back(slot);
  if (is_start(sandbox.state)) count_start(sandbox.function);
  return slot;
}

void SandboxTable::remove(SandboxSlot slot) {
  const Sandbox& sandbox = sandboxes_[slot];
  if (is_start(sandbox.state)) --starts_[sandbox.function.value];
  by_id_.erase(sandbox.id);
  const SandboxSlot last = all_.back();
  all_[place_in_all_[slot]] = last;
  place_in_all_[last] = place_in_all_[slot];
  all_.pop_back();
  free_slots_.push_back(slot);
}

void SandboxTable::rename(SandboxSlot slot, SandboxId id) {
  by_id_.erase(sandboxes_[slot].id);
  by_id_[id] = slot;
  sandboxes_[slot].id = id;
}

bool SandboxTable::set_state(SandboxSlot slot, SandboxState state, Instant now) {
  Sandbox& sandbox = sandboxes_[slot];
  const bool was_start = is_start(sandbox.state);
  sandbox.state = state;
  sandbox.since = now;
  if (was_start == is_start(state)) return false;
  if (was_start) {
    --starts_[sandbox.function.value];
  } else {
    count_start(sandbox.function);
  }
  return true;
}

void SandboxTable::count_start(FunctionId function) {
  if (function.value >= starts_.size()) starts_.resize(function.value + 1);
  ++starts_[function.value];
}

void SandboxTable::archive(StateArchive& archive, size_t devices) {
  archive_slots(archive);
  for (const SandboxSlot slot : all_) {
    if (!archive.ok()) return;
    Sandbox& sandbox = sandboxes_[slot];
    sandbox.archive(archive);
    if (!archive.reading()) continue;
    archive.expect(sandbox.device < devices);
    archive.expect(sandbox.function.value < kMostArchivedItem);
  }
  if (archive.reading() && archive.ok()) find_again();
}

// Which slots are used, in the order of all_, and which are free.
void SandboxTable::archive_slots(StateArchive& archive) {
  const size_t slots = archive.count(sandboxes_.size());
  if (!archive.ok()) return;
  if (archive.reading()) sandboxes_.assign(slots, Sandbox{});
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
}

// What is not written because it follows from the rest.
void SandboxTable::find_again() {
  place_in_all_.assign(sandboxes_.size(), 0);
  by_id_.clear();
  starts_.clear();
  for (uint32_t i = 0; i < all_.size(); ++i) {
    const Sandbox& sandbox = sandboxes_[all_[i]];
    place_in_all_[all_[i]] = i;
    by_id_[sandbox.id] = all_[i];
    if (is_start(sandbox.state)) count_start(sandbox.function);
  }
}

}  // namespace lambent::scheduling
