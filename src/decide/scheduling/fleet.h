// Fleet: the devices that share one set of flows and the sandboxes on them: tokens, memory, warm
// pool. Kept by dispatch on the loop thread; policies and tests read it to find a place for a flow.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "decide/scheduling/device_concurrency.h"
#include "decide/scheduling/fleet_changes.h"
#include "decide/scheduling/fleet_options.h"
#include "decide/scheduling/flow.h"
#include "decide/scheduling/indexed_heap.h"
#include "decide/scheduling/no_place.h"
#include "decide/scheduling/wait_reason.h"

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
  // MemoryRule::kMoveIdle (fleet_memory.cc).
  bool memory_moves = true;  // as its flow had them when it was planned
  bool checkpoints = false;
  MemoryState memory_state = MemoryState::kIn;
  bool deep = false;         // with its context, where it is out or on its way there
  bool move_failed = false;  // the last move; it is asked for no other before it runs again
  bool prefetched = false;   // moved in, or on its way, before its turn had come
  enum class Holds : uint8_t { kNothing, kToken, kStartSlot } holds = Holds::kNothing;
  unsigned device_losses = 0;  // of its device, when it was started
  // What it adds to the totals of its device and of the fleet.
  struct Counts {
    Bytes on_device, promised, leaving, on_host;
    bool without_context = false, wants_context = false, rests_outside = false;
  } counts;

  uint64_t served = 0;
  Bytes left;       // what stayed on the device the last time that it was moved out
  Bytes offloaded;  // of it, what is on the host while the rest is in
  Bytes fetching;   // of that, what was admitted to the device and waits for room there

  // What it takes on its device once it is in. How much that is, a move out tells when it is over.
  Bytes needed() const {
    return memory_state == MemoryState::kMovingOut && !deep ? memory : memory - offloaded;
  }
};

struct alignas(64) Device {
  DeviceOptions options;
  std::optional<DeviceConcurrency> concurrency;
  bool healthy = true;
  bool lost = false;    // by its last reading; never healthy then
  Bytes taken;          // of its memory, by what is no sandbox and does not move for one
  unsigned losses = 0;  // how often it was lost
  double utilisation = 0;
  unsigned tokens_held = 0;
  unsigned start_slots_held = 0;
  Bytes starting;            // memory of the sandboxes that hold them
  unsigned tokens_hung = 0;  // of those held, by sandboxes whose stop hangs
  unsigned sandboxes = 0;    // planned, starting, idle and busy
  unsigned occupants = 0;    // processes that exist: starting, idle, busy and stopping
  unsigned idle = 0;
  // What admission counts, by MemoryRule. A sandbox that is being stopped does not count where the
  // next one waits for it to be gone (may_start); where it does not wait, a stopped run still does.
  Bytes committed;
  Bytes idle_memory;
  Bytes occupied;  // memory of the processes that exist, stopping ones included
  // MemoryRule::kMoveIdle: what is on the device now, moving memory included; what those admitted
  // will yet bring; and what will go, its sandbox being stopped or its memory on its way out.
  Bytes resident;
  Bytes promised;
  Bytes leaving;
  unsigned without_context = 0;  // of the occupants
  unsigned contexts_wanted = 0;  // once all that is under way is over

  // D as it is now.
  unsigned tokens() const {
    return concurrency ? concurrency->tokens(tokens_held) : options.tokens;
  }
  bool has_token() const { return tokens_held < tokens(); }
  // Whether it has one, or somebody will give one back.
  bool gives_tokens() const { return has_token() || tokens_held > tokens_hung; }
  bool is_idle() const { return tokens_held == 0 && start_slots_held == 0; }
  // What is left for sandboxes.
  Bytes capacity() const { return options.memory - taken; }
  // MemoryRule::kMoveIdle: how much more has to leave than does, so that all admitted find room.
  Bytes memory_short() const { return resident + promised - leaving - capacity(); }
  bool contexts_short() const { return contexts_wanted > options.contexts; }
};

// Where an invocation of a flow could go now.
struct Place {
  uint32_t device = 0;            // index into devices()
  SandboxSlot warm = kNoSandbox;  // the idle sandbox to use; kNoSandbox: a new one is started
};
struct PlaceOrReason {
  std::optional<Place> place;
  WaitReason reason = WaitReason::kNone;
  // No place: it has sandboxes, all at work or on devices without a token, and waits for these.
  bool waits_where_warm = false;
};

struct IdleSandbox {
  SandboxSlot slot = kNoSandbox;
  FunctionId function;
};

class Fleet {
 public:
  explicit Fleet(FleetOptions options);

  const FleetOptions& options() const { return options_; }
  const std::vector<Device>& devices() const { return devices_; }
  const Sandbox& sandbox(SandboxSlot slot) const { return sandboxes_[slot]; }
  std::optional<SandboxSlot> find(SandboxId id) const;
  std::optional<uint32_t> device_index(DeviceId id) const;
  // Every sandbox that exists, in no order.
  const std::vector<SandboxSlot>& all() const { return all_; }
  size_t idle_sandboxes() const { return idle_total_; }
  // The idle ones of one device, in no order.
  const std::vector<IdleSandbox>& idle_on(uint32_t device) const { return idle_on_[device]; }

  // Whether any healthy device could take an invocation at all; asked before every decision.
  bool has_room() const { return open_devices_ > 0; }
  // Whether some healthy device has nothing to do.
  bool any_device_idle() const { return idle_devices_ > 0; }
  // Whether all devices are healthy and at work, and none has a token left: then no idle sandbox
  // may run, whosever it is.
  bool every_device_is_full() const {
    return full_devices_ == devices_.size() && !any_device_idle();
  }
  // The device memory that a sandbox of this flow takes there: none on the host.
  Bytes memory_of(const Flow& flow, uint32_t device) const {
    return devices_[device].options.id == kHostDevice ? Bytes(0) : flow.device_memory;
  }
  // Whether a sandbox of this memory could ever be placed. What is taken of a device is given back.
  bool could_ever_fit(Bytes memory) const;
  // Whether a healthy device is large enough for the flow's sandboxes, whatever is on it now. Its
  // answers change with the health of devices alone.
  bool could_hold(const Flow& flow) const { return flow.device_memory <= largest_healthy_; }

  // The present, before anything is asked.
  void tell_time(Instant now);
  // When time alone gives a place to a flow that was asked about since then and refused one as
  // kWarmElsewhere or kAtWork; the earliest, or kNever.
  Instant next_move() const { return next_move_; }

  // Late binding: the warm sandbox if its device has a token. A flow whose warm sandboxes are all
  // on busy devices waits for them unless another device has nothing to do, and the first of its
  // queue has waited for as long as its cold start takes (FleetOptions::move_grace_period):
  // whenever the warm one would have come free, that is at most twice the least that this had to
  // take. One whose sandboxes are all at work or starting waits for these as long
  // (second_grace_period).
  PlaceOrReason find_place(FunctionId function, const Flow& flow, bool idle_devices_only) const;
  // For whoever was just told that there is none, and will ask again.
  NoPlace note_no_place(FunctionId function, const Flow& flow, bool idle_devices_only) const;
  // Whether it follows from the note that there is still none; `answer` is then what find_place
  // would say. Only while neither the flow has changed since it was made, nor, by
  // changes(), its sandboxes or a device where one of them is idle.
  bool still_no_place(const NoPlace& note, FunctionId function, bool idle_devices_only,
                      PlaceOrReason& answer) const;
  // Whether it may be another thing now because of this device, on which the function of the note
  // has an idle sandbox.
  bool may_end_wait(uint32_t device, const NoPlace& note) const;
  // Whether any device with nothing to do takes a new sandbox of this memory.
  bool takes_on_idle_device(Bytes memory) const { return has_cold_place(memory, true); }
  // Whether that instant has come; if not, next_move() is not later.
  bool is_time(Instant then) const {
    if (now_ >= then) return true;
    next_move_ = std::min(next_move_, then);
    return false;
  }
  Instant now() const { return now_; }

  // What may have changed the answers of find_place.
  const FleetChanges& changes() const { return changes_; }
  // The same on one device. A new sandbox beside warm ones elsewhere only if it has nothing to do.
  PlaceOrReason find_place_on(uint32_t device, FunctionId function, const Flow& flow) const;

  // The sandboxes to stop so that a new one of this memory may be planned there, by the eviction
  // rule; empty if there is room already. Only for a place that find_place gave. Under
  // MemoryRule::kMoveIdle the pool's limit alone counts here: memory_victims.h has the rest.
  std::vector<SandboxSlot> victims_for(const Place& place, Bytes memory, const Flows& flows,
                                       Instant now) const;

  // MemoryRule::kEverySandbox: of the idle sandboxes of a device on which so much was taken that
  // all do not fit, the first that has to go; none: they fit, or all are at work.
  std::optional<SandboxSlot> crowded_out(uint32_t device, const Flows& flows, Instant now) const;
  // The devices where more is committed than what was taken of them leaves, in their order.
  const std::vector<uint32_t>& crowded() const { return crowded_; }

  // What dispatch did. Each keeps the counts of the device.
  SandboxSlot plan(SandboxId id, FunctionId function, const Flow& flow, uint32_t device,
                   Instant now);
  // Whether the processes that still exist leave room for this planned one to be started.
  bool may_start(SandboxSlot slot) const;
  void start(SandboxSlot slot, Instant now);
  // A sandbox that is ready may run if it holds a token or its device has one left.
  bool may_run(SandboxSlot slot) const;
  // Returns whether its memory was on the device.
  bool run(SandboxSlot slot, Instant now);
  void rest(SandboxSlot slot, Instant now);
  // What it holds stays held until it is gone, for the device is not free before.
  void stop(SandboxSlot slot, Instant now);
  // A stopping one that does not go counts for admission again until it is removed. Nothing may be
  // planned at that moment, or it would count on the same room.
  void keep_counting(SandboxSlot slot);
  void remove(SandboxSlot slot);
  // The same place, token and memory for another try at starting it.
  void replace_id(SandboxSlot slot, SandboxId id, Instant now);
  // A busy sandbox that is gone is started again in the same place, with what it holds.
  void restart(SandboxSlot slot, SandboxId id, uint64_t revision, Instant now);
  void assign(SandboxSlot slot, uint32_t invocation);
  void unassign(SandboxSlot slot);

  // MemoryRule::kMoveIdle (fleet_memory.cc).
  bool moves_idle() const { return options_.memory_rule == MemoryRule::kMoveIdle; }
  Bytes memory_on_host() const { return memory_on_host_; }
  // How many idle sandboxes have their memory off their device.
  unsigned resting_outside() const { return resting_outside_; }
  // The devices where room may have become short since the last settled().
  const std::vector<uint32_t>& unsettled() const { return unsettled_; }
  void settled();
  // Whether the memory of this one, which is out, finds room on its device now. It may be one that
  // was given an invocation, or an idle one whose memory is fetched ahead.
  bool may_move_in(SandboxSlot slot) const;
  // Whether this idle one, which stands still, may be moved out: its memory, or what that left.
  bool may_move_out(SandboxSlot slot, bool deep) const;
  void begin_move_in(SandboxSlot slot);
  void begin_move_out(SandboxSlot slot, bool deep);
  // The move is over: it was done, and after a move out so much stayed on the device and so much
  // will stay on the host when it is moved in again; or nothing has changed.
  void end_move(SandboxSlot slot, bool done, Bytes left, Bytes offloaded = Bytes(0));
  // Memory that is offloaded is fetched by the sandbox that runs, once that was admitted here:
  // beside those at work, as a sandbox is. Idle ones then make room.
  bool admits_fetch(SandboxSlot slot, Bytes bytes) const;
  void begin_fetch(SandboxSlot slot, Bytes bytes);
  // Whether what was admitted finds room now.
  bool may_fetch(SandboxSlot slot) const;
  // It is on the device, or stays where it is.
  void end_fetch(SandboxSlot slot, bool granted);

  void set_reading(uint32_t device, double utilisation, bool healthy, bool lost = false);
  void set_taken(uint32_t device, Bytes taken);
  // Counts a loss: sandboxes from before are told from those after by device_losses.
  void lose(uint32_t device) { ++devices_[device].losses; }

  // Everything but the options, which must be the same where it is restored.
  void archive(StateArchive& archive);

  // The idle sandboxes of the function, most recently used first.
  std::vector<SandboxSlot> idle_of(FunctionId function) const;
  // The first of them; the others follow as `Sandbox::older`.
  SandboxSlot newest_idle_of(FunctionId function) const {
    return function.value < functions_.size() ? functions_[function.value].newest_idle : kNoSandbox;
  }
  // Whether the device could take an invocation at all.
  bool is_open(const Device& device) const;

 private:
  // Of a function's sandboxes, the ends of the list of idle ones, and how many are being started.
  struct OfFunction {
    SandboxSlot newest_idle = kNoSandbox;
    SandboxSlot oldest_idle = kNoSandbox;
    uint32_t starts = 0;  // planned or starting
  };

  // What is known of places for new sandboxes until some device changes: there is one for less than
  // so much memory; there is none for so much or more, for the same reason.
  struct ColdSearches {
    Bytes fits_below;
    bool failed = false;
    Bytes memory;
    WaitReason reason = WaitReason::kNone;
  };

  static unsigned load_of(const Device& device) {
    return device.tokens_held + device.start_slots_held;
  }
  static bool is_healthy_and_idle(const Device& device) {
    return device.healthy && device.is_idle();
  }
  static bool is_healthy_and_full(const Device& device) {
    return device.healthy && !device.has_token();
  }
  bool has_cold_room(const Device& device) const;
  Bytes at_work_on(const Device& device) const;
  Bytes room_of(const Device& device) const { return device.capacity() - at_work_on(device); }
  bool has_start_slot(const Device& device, Bytes memory) const;
  bool memory_fits(const Device& device, Bytes memory) const;
  bool is_worth_a_second(FunctionId function, const Flow& flow) const;
  Instant worth_another_start(const Flow& flow, double grace_period) const;
  WaitReason warm_obstacle(const Sandbox& sandbox) const;
  WaitReason cold_obstacle(const Device& device, Bytes memory) const;
  bool context_fits(const Device& device) const;
  PlaceOrReason find_cold_place(Bytes memory, bool idle_devices_only) const;
  // Whether there is one, wherever it is; mostly known since the search before.
  bool has_cold_place(Bytes memory, bool idle_devices_only) const {
    if (sandboxes_total_ - idle_total_ >= options_.most_sandboxes) return false;
    if (idle_devices_only && idle_devices_ == 0) return false;
    const Bytes fits_below = cold_searches_[idle_devices_only ? 1 : 0].fits_below;
    if (cold_searches_stand_ && memory < fits_below) return true;
    return look_for_cold_place(memory, idle_devices_only);
  }
  bool look_for_cold_place(Bytes memory, bool idle_devices_only) const;
  ColdSearches& cold_searches(bool idle_devices_only) const;
  void note_cold_place(const Device& device, Bytes memory, bool idle_devices_only) const;
  void note_changed(uint32_t device);
  void renew_cold_order() const;
  bool takes(const Device& device, Bytes memory) const;
  void add_candidates_of_device(uint32_t device, const Flows& flows,
                                const std::vector<SandboxSlot>& except,
                                std::vector<EvictionCandidate>& candidates) const;
  void add_candidates_of_functions(const Flows& flows, const std::vector<SandboxSlot>& except,
                                   std::vector<EvictionCandidate>& candidates) const;
  PlaceOrReason scan_for_cold_place(Bytes memory, bool idle_devices_only) const;
  void hold(SandboxSlot slot, Sandbox::Holds what);
  void release(SandboxSlot slot);
  void commit(SandboxSlot slot, Bytes committed);
  // After every change to what its counts follow from.
  void recount(SandboxSlot slot) {
    if (moves_idle()) add_counts(slot, counts_of(sandboxes_[slot]));
  }
  void uncount(SandboxSlot slot) {
    if (moves_idle()) add_counts(slot, {});
  }
  Sandbox::Counts counts_of(const Sandbox& sandbox) const;
  void add_counts(SandboxSlot slot, const Sandbox::Counts& counts);
  void unsettle(uint32_t device);
  void archive_sandboxes(StateArchive& archive);
  void archive_links(StateArchive& archive);
  void become(SandboxSlot slot, SandboxState state, Instant now);
  void enter_idle(SandboxSlot slot);
  void leave_idle(SandboxSlot slot);
  void list_on_device(SandboxSlot slot);
  void find_again();
  void find_largest_healthy();
  void note_crowded(uint32_t device);
  // Wraps a change of a device's tokens so that the counts of devices stay right.
  template <typename Change>
  void change(uint32_t device, Change change_it);

  // The order in which a new sandbox takes devices: the least loaded; of equals the one with most
  // memory that is not at work, then the first.
  struct ColdRank {
    unsigned load = 0;
    uint64_t memory_at_work = 0;  // larger the less is spare
    auto operator<=>(const ColdRank&) const = default;
  };
  // What find_place says of this device may be another thing now.
  void touch(uint32_t device) {
    cold_searches_stand_ = false;
    changes_.note_device(device);
  }
  // The same of the function's sandboxes.
  void touch(FunctionId function) { changes_.note_function(function); }

  FleetOptions options_;
  std::vector<Device> devices_;
  unsigned open_devices_ = 0;
  unsigned idle_devices_ = 0;
  unsigned full_devices_ = 0;
  Bytes largest_healthy_;  // memory; zero if no device is healthy
  std::vector<uint32_t> crowded_;
  std::vector<std::vector<IdleSandbox>> idle_on_;  // the idle sandboxes of each device, unordered
  std::vector<uint32_t> place_in_idle_on_;         // by slot
  // Healthy devices with room for a cold start, in their order, but for those that have changed
  // since the last search: most changes come and go between two of them.
  mutable IndexedHeap<ColdRank> cold_order_;
  mutable std::vector<uint32_t> changed_;
  mutable std::vector<uint8_t> has_changed_;  // bytes, for they are asked at every turn
  mutable ColdSearches cold_searches_[2];     // on any device, and on idle ones only
  mutable bool cold_searches_stand_ = false;
  // Where look_for_cold_place begins, and at how many devices from there it looks.
  mutable uint32_t cold_place_last_[2] = {0, 0};
  static constexpr size_t kNearLastColdPlace = 8;
  FleetChanges changes_;
  Instant now_{};
  mutable Instant next_move_ = kNever;
  std::vector<Sandbox> sandboxes_;
  std::vector<SandboxSlot> free_slots_;
  std::vector<SandboxSlot> all_;
  std::vector<uint32_t> place_in_all_;
  std::unordered_map<SandboxId, SandboxSlot> by_id_;
  std::vector<OfFunction> functions_;  // by FunctionId, of all that had a sandbox
  unsigned sandboxes_total_ = 0;
  unsigned occupants_total_ = 0;
  unsigned idle_total_ = 0;
  Bytes memory_on_host_;
  unsigned resting_outside_ = 0;
  std::vector<uint32_t> unsettled_;
  std::vector<uint8_t> is_unsettled_;
};

}  // namespace lambent::scheduling
