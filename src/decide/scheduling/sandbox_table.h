// SandboxTable: every sandbox that exists, in slots that are used again, found by id; and how many
// of each function are being started. Owned by Fleet, on the loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/scheduling/sandbox.h"

namespace lambent::scheduling {

class SandboxTable {
 public:
  Sandbox& operator[](SandboxSlot slot) { return sandboxes_[slot]; }
  const Sandbox& operator[](SandboxSlot slot) const { return sandboxes_[slot]; }
  // Those that exist, in no order.
  const std::vector<SandboxSlot>& all() const { return all_; }
  std::optional<SandboxSlot> find(SandboxId id) const;
  // How many slots there are, used or not.
  size_t slots() const { return sandboxes_.size(); }
  // How many of the function are planned or starting.
  unsigned starts_of(FunctionId function) const {
    return function.value < starts_.size() ? starts_[function.value] : 0;
  }

  // Its id must be unknown.
  SandboxSlot add(const Sandbox& sandbox);
  void remove(SandboxSlot slot);
  void rename(SandboxSlot slot, SandboxId id);
  // Returns whether it is a start no more, or one again.
  bool set_state(SandboxSlot slot, SandboxState state, Instant now);

  // Sandboxes keep their slots and their order: both decide between equals. `devices` is how many
  // there are.
  void archive(StateArchive& archive, size_t devices);

 private:
  void archive_slots(StateArchive& archive);
  void find_again();
  void count_start(FunctionId function);

  std::vector<Sandbox> sandboxes_;
  std::vector<SandboxSlot> free_slots_;
  std::vector<SandboxSlot> all_;
  std::vector<uint32_t> place_in_all_;  // by slot
  std::unordered_map<SandboxId, SandboxSlot> by_id_;
  std::vector<uint32_t> starts_;  // by FunctionId, of all that had a sandbox
};

}  // namespace lambent::scheduling
