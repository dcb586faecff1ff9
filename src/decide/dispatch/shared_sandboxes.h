// SharedSandboxes: the sandboxes at work of functions that take several invocations in one sandbox
// at once, and which invocations are in each. Owned by DevicePool, on the thread that handles
// events.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/dispatch/invocation_table.h"
#include "decide/scheduling/sandbox.h"

namespace lambent::dispatch {

// A sandbox is given its first invocation by the policy, and holds a token until the last one in it
// is over: that is its turn. Others of its function join it meanwhile. The fleet knows one of them
// (Sandbox::invocation), this the rest.
class SharedSandboxes {
 public:
  struct Turn {
    FunctionId function;
    std::vector<InvocationSlot> others;  // beside the one that the fleet knows
    Instant began{};
    Instant last_start{};             // of an invocation in it
    Instant charged_until{};          // GPU time, to its tenant
    Instant answered = kNeverBefore;  // when one in it last succeeded
    bool is_shared = false;           // one has joined it in this turn
    bool is_suspect = false;          // one timed out in it, and none has succeeded since
    bool leaves = false;              // it takes no more: it is about to end

    size_t size() const { return 1 + others.size(); }
  };

  // Before any turn.
  static constexpr Instant kNeverBefore = Instant::min();

  bool empty() const { return turns_.empty(); }
  // Null: it has no turn, or its function takes one invocation in a sandbox.
  const Turn* find(scheduling::SandboxSlot slot) const;
  Turn* find(scheduling::SandboxSlot slot);
  bool has_others(scheduling::SandboxSlot slot) const {
    const Turn* turn = find(slot);
    return turn != nullptr && !turn->others.empty();
  }
  // Those of the function, in the order in which their turns began.
  const std::vector<scheduling::SandboxSlot>& of(FunctionId function) const;
  // How many invocations joined so far.
  uint64_t joins() const { return joins_; }

  // Whether each turn is of a sandbox at work there, and `take` is true of each of the others.
  template <typename Fleet, typename Take>
  bool all_of(const Fleet& fleet, Take take) const {
    for (const scheduling::SandboxSlot slot : fleet.all()) {
      const Turn* turn = find(slot);
      if (turn == nullptr) continue;
      const scheduling::Sandbox& sandbox = fleet.sandbox(slot);
      if (sandbox.state != scheduling::SandboxState::kBusy || !sandbox.has_invocation) return false;
      if (sandbox.function != turn->function) return false;
      for (const InvocationSlot invocation : turn->others) {
        if (!take(invocation)) return false;
      }
    }
    return std::all_of(by_function_.begin(), by_function_.end(), [&](const auto& slots) {
      return std::all_of(slots.begin(), slots.end(), [&](scheduling::SandboxSlot slot) {
        return std::find(fleet.all().begin(), fleet.all().end(), slot) != fleet.all().end();
      });
    });
  }

  void begin(scheduling::SandboxSlot slot, FunctionId function, Instant now);
  // Returns how long ago the one before it began.
  Duration join(scheduling::SandboxSlot slot, InvocationSlot invocation, Instant now);
  // It is in the sandbox no longer.
  void leave(scheduling::SandboxSlot slot, InvocationSlot invocation);
  // Nothing is in it any more; nothing happens if it has no turn.
  void end(scheduling::SandboxSlot slot);

  void archive(StateArchive& archive);

 private:
  uint64_t joins_ = 0;
  std::unordered_map<scheduling::SandboxSlot, Turn> turns_;
  std::vector<std::vector<scheduling::SandboxSlot>> by_function_;
};

}  // namespace lambent::dispatch
