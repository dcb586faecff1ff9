// Sandbox: what the fleet knows of one sandbox: its state, its memory, what it holds of its device.
// A value; kept by SandboxTable, read by policies and by dispatch.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "decide/scheduling/fleet_options.h"

namespace lambent::scheduling {

using SandboxSlot = uint32_t;
constexpr SandboxSlot kNoSandbox = ~SandboxSlot{0};

enum class SandboxState {
  kPlanned,   // waits for the memory of sandboxes that are being stopped for it
  kStarting,  // until it asks for work
  kIdle,
  kBusy,
  kStopping,
};
std::string_view name_of(SandboxState state);
// A function that takes several devices takes them among the first so many.
constexpr uint32_t kMostDevicesOfGangs = 64;
// Calls visit(index) for each device of a set, from the lowest on.
template <typename Visit>
constexpr void for_each_device_in(uint64_t devices, Visit visit) {
  for (; devices != 0; devices &= devices - 1) {
    visit(static_cast<uint32_t>(std::countr_zero(devices)));
  }
}

// It is not ready yet.
constexpr bool is_start(SandboxState state) {
  return state == SandboxState::kPlanned || state == SandboxState::kStarting;
}

// What every run looks at comes first, in two lines of the processor's cache.
struct alignas(64) Sandbox {
  SandboxId id;
  FunctionId function;
  uint32_t device = 0;  // index into devices()
  uint64_t revision = 0;
  Bytes memory;
  Bytes committed;  // of its memory, what counts for admission
  Instant since{};  // when it came into this state
  Instant last_used{};
  SandboxState state = SandboxState::kPlanned;
  // Neighbours among the idle sandboxes of its function.
  SandboxSlot older = kNoSandbox;

  SandboxSlot newer = kNoSandbox;
  uint32_t invocation = 0;  // dispatch's number of the invocation that it starts for or runs
  bool has_invocation = false;
  bool hangs = false;  // stopping for too long: it counts as one that stays
  // MemoryRule::kMoveIdle (fleet_memory.h).
  bool memory_moves = true;  // as its flow had them when it was planned
  bool checkpoints = false;
  MemoryState memory_state = MemoryState::kIn;
  bool deep = false;         // with its context, where it is out or on its way there
  bool move_failed = false;  // the last move; it is asked for no other before it runs again
  bool prefetched = false;   // moved in, or on its way, before its turn had come
  enum class Holds : uint8_t { kNothing, kToken, kStartSlot } holds = Holds::kNothing;
  unsigned device_losses = 0;  // of its device, when it was started
  // What it adds to the totals of each of its devices, and of the fleet: `on_host` of all devices.
  struct Counts {
    Bytes on_device, promised, leaving, on_host;
    bool without_context = false, wants_context = false, rests_outside = false;
  } counts;

  uint64_t served = 0;
  // Of several devices, `left` is the most that any of them kept, and `offloaded` the least of any.
  Bytes left;       // what stayed on the device the last time that it was moved out
  Bytes offloaded;  // of it, what is on the host while the rest is in
  Bytes fetching;   // of that, what was admitted to the device and waits for room there
  // The other devices of one that is on several, as bits by their index: each has as much of its
  // memory as `device`, and whatever it holds of that it holds of them all.
  uint64_t beside = 0;
  // Of its devices, where there are others: those that no memory was leaving at some time since its
  // move in failed.
  uint64_t cleared = 0;

  bool is_on(uint32_t index) const {
    return index == device || (index < kMostDevicesOfGangs && (beside >> index & 1) != 0);
  }
  unsigned devices() const { return 1 + static_cast<unsigned>(std::popcount(beside)); }
  Bytes memory_of_all() const { return memory * devices(); }
  // Calls visit(index) for each device that it is on.
  template <typename Visit>
  void for_each_device(Visit visit) const {
    visit(device);
    for_each_device_in(beside, visit);
  }

  // What it takes on its device once it is in. How much that is, a move out tells when it is over.
  Bytes needed() const {
    return memory_state == MemoryState::kMovingOut && !deep ? memory : memory - offloaded;
  }

  void archive(StateArchive& archive);
};

}  // namespace lambent::scheduling
