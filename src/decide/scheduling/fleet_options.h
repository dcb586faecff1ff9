// What a fleet is made of and by which rules it is used: devices, limits, waits. Values; given by
// the configuration of dispatch, kept in every journal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/units.h"
#include "decide/scheduling/device_concurrency.h"
#include "decide/scheduling/eviction.h"
#include "decide/scheduling/foresight.h"
#include "decide/scheduling/spread.h"

namespace lambent::scheduling {

// Devices are counted from 1; this one means "no GPU": the host's processors.
constexpr DeviceId kHostDevice{0};

struct DeviceOptions {
  DeviceId id;
  Bytes memory;
  unsigned tokens = 2;     // D: how many invocations it may run at once
  unsigned contexts = 32;  // sandboxes, each with a GPU context, that may exist on it at once
  // Whether memory of idle sandboxes can be moved off it at all; not where it is the host's own.
  bool memory_moves = true;
  // D by utilisation instead of a fixed one; its readings come with DeviceReading events.
  std::optional<UtilisationOptions> by_utilisation;

  // D, or the most that it may be.
  unsigned most_tokens() const {
    return by_utilisation ? std::max(1U, by_utilisation->most) : tokens;
  }
};

// Which sandboxes count against a device's memory.
enum class MemoryRule {
  kEverySandbox,  // all of them: nothing moves idle ones off the device
  // Those at work. The memory of idle ones is moved to the host where it is in the way, by acts
  // that take time, and back before they run.
  kMoveIdle,
  // The same, and the memory of idle sandboxes also leaves unasked once their flow is inactive or
  // throttled, one sandbox of a device at a time.
  kMoveEarly,
};
// Whether memory of idle sandboxes moves at all.
constexpr bool moves_idle(MemoryRule rule) { return rule != MemoryRule::kEverySandbox; }

// Where the memory of a sandbox is, under MemoryRule::kMoveIdle.
enum class MemoryState : uint8_t { kIn, kMovingOut, kOut, kMovingIn };

// FleetOptions::starts_outside_tokens of `lambent serve` and `lambent simulate`.
constexpr unsigned kStartsOutsideTokens = 2;

struct FleetOptions {
  std::vector<DeviceOptions> devices;
  unsigned most_sandboxes = 64;  // on all devices together
  MemoryRule memory_rule = MemoryRule::kEverySandbox;
  EvictionRule eviction = EvictionRule::kCostAware;
  EvictionGuesses guesses;
  // So many cold starts of a device hold a start slot instead of one of its tokens, where its
  // memory leaves room for others beside them (DeviceRoom::has_start_slot); they need a token when
  // the sandbox is ready. Those beyond hold tokens. 0, as in the papers: all do.
  unsigned starts_outside_tokens = 0;
  // MemoryRule::kMoveIdle: whether memory is moved in ahead, for those whose turn comes soon.
  bool prefetch = true;
  // How much host memory may hold what was moved off all devices; by default as much as there is.
  Bytes host_memory = Bytes(~uint64_t{0});
  // A function that is warm on a busy device goes cold to one with nothing to do when the first of
  // its queue has waited for so many times what its cold start takes; 0: at once.
  double move_grace_period = 1;
  // A function whose sandboxes are all at work gets one more when the first of its queue has waited
  // for so many times what its cold start takes; 0: at once.
  double second_grace_period = 1;
  // Journals have it apart from archive().
  ForesightOptions foresight;
  // A start on the host counts as twice what was expected at most, and one of before this program
  // not at all. Else as in journals of before state version 23.
  bool bounds_host_starts = true;
  // Memory of sandboxes on several devices moves as that of others. Else as in journals of before
  // state version 24: it stays until they are stopped.
  bool moves_gangs = true;
  // Whether the fleet learns how runs slow each other down (Fleet::contention). Its policy says so
  // (Policy::adapt), so it is no option of the journal.
  bool learns_contention = false;
  // Where it does: which functions tell less of it. Likewise.
  Spread spread = Spread::kIgnored;
};

// So that a journal can say under which options it was recorded.
void archive(StateArchive& archive, FleetOptions& options);
void archive(StateArchive& archive, ForesightOptions& options);

}  // namespace lambent::scheduling
