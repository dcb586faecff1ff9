// The part of Fleet that finds places: a warm sandbox, a device for a new one, and who has to go
// for it.
#include <algorithm>
#include <utility>

#include "decide/scheduling/fleet.h"

namespace lambent::scheduling {
namespace {

constexpr double kLongestGracePeriod_s = 1e9;

// Whether its function uses a GPU, and it does not.
bool is_cpu_variant(const Fleet& fleet, const Flow& flow, uint32_t device) {
  return fleet.memory_of(flow, device) != flow.device_memory;
}

}  // namespace

PlaceOrReason Fleet::find_place(FunctionId function, const Flow& flow,
                                bool idle_devices_only) const {
  bool waits_for_warm = false;
  std::optional<Place> outside;
  WaitReason reason = WaitReason::kNoToken;
  for (SandboxSlot slot = newest_idle_of(function); slot != kNoSandbox;
       slot = sandboxes_[slot].older) {
    const Sandbox& sandbox = sandboxes_[slot];
    const Device& device = devices_[sandbox.device];
    if (!device.healthy) continue;
    waits_for_warm = true;
    if (idle_devices_only && !device.is_idle()) continue;
    if (const WaitReason obstacle = warm_obstacle(sandbox); obstacle != WaitReason::kNone) {
      if (obstacle != WaitReason::kNoToken) reason = obstacle;
      continue;
    }
    // One whose memory is there, if there is any.
    if (sandbox.memory_state == MemoryState::kIn) return {Place{sandbox.device, slot}};
    if (!outside) outside = Place{sandbox.device, slot};
  }
  if (outside) return {outside};
  if (waits_for_warm) {
    // Its warm sandboxes are on busy devices: only an idle one is worth a cold start, and that not
    // at once.
    const bool for_token = reason == WaitReason::kNoToken;
    if (!has_cold_place(flow.device_memory, true)) return {std::nullopt, reason, for_token};
    if (!is_time(worth_another_start(flow, options_.move_grace_period))) {
      return {std::nullopt, WaitReason::kWarmElsewhere, for_token};
    }
    return find_cold_place(flow.device_memory, true);
  }
  const bool may_wait = flow.in_flight > 0 && options_.second_grace_period > 0;
  if (may_wait && (!has_cold_place(flow.device_memory, idle_devices_only) ||
                   !is_worth_a_second(function, flow))) {
    return {std::nullopt, WaitReason::kAtWork, true};
  }
  return find_cold_place(flow.device_memory, idle_devices_only);
}

void Fleet::tell_time(Instant now) {
  now_ = now;
  next_move_ = kNever;
}

// While its first start goes on nobody knows what one costs, and that one will tell.
bool Fleet::is_worth_a_second(FunctionId function, const Flow& flow) const {
  if (flow.cold_start.known()) {
    return is_time(worth_another_start(flow, options_.second_grace_period));
  }
  return function.value >= functions_.size() || functions_[function.value].starts == 0;
}

// From when on a start is worth it beside a sandbox that it would otherwise wait for.
Instant Fleet::worth_another_start(const Flow& flow, double grace_period) const {
  if (grace_period == 0) return Instant::min();
  const double wait_s =
      std::min(to_seconds(flow.cold_start.mean()) * grace_period, kLongestGracePeriod_s);
  return flow.oldest_since + from_seconds(wait_s);
}

PlaceOrReason Fleet::find_place_on(uint32_t index, FunctionId function, const Flow& flow) const {
  const Device& device = devices_[index];
  if (!device.healthy) return {std::nullopt, WaitReason::kNoDevice};
  bool is_warm = false;
  std::optional<Place> outside;
  WaitReason reason = WaitReason::kNone;
  for (SandboxSlot slot = newest_idle_of(function); slot != kNoSandbox;
       slot = sandboxes_[slot].older) {
    const Sandbox& sandbox = sandboxes_[slot];
    if (!devices_[sandbox.device].healthy) continue;
    is_warm = true;
    if (sandbox.device != index) continue;
    reason = warm_obstacle(sandbox);
    if (reason != WaitReason::kNone) continue;
    if (sandbox.memory_state == MemoryState::kIn) return {Place{index, slot}};
    if (!outside) outside = Place{index, slot};
  }
  if (outside) return {outside};
  if (is_warm && !device.is_idle()) {
    return {std::nullopt, reason == WaitReason::kNone ? WaitReason::kNoToken : reason};
  }
  if (sandboxes_total_ - idle_total_ >= options_.most_sandboxes) {
    return {std::nullopt, WaitReason::kNoSandbox};
  }
  reason = cold_obstacle(device, flow.device_memory);
  if (reason != WaitReason::kNone) return {std::nullopt, reason};
  return {Place{index, kNoSandbox}};
}

// What keeps an idle sandbox from running now; kNone: nothing does.
WaitReason Fleet::warm_obstacle(const Sandbox& sandbox) const {
  const Device& device = devices_[sandbox.device];
  if (!device.has_token()) return WaitReason::kNoToken;
  if (!moves_idle()) return WaitReason::kNone;
  if (!memory_fits(device, sandbox.needed())) return WaitReason::kNoMemory;
  if (!sandbox.counts.wants_context && !context_fits(device)) return WaitReason::kNoSandbox;
  return WaitReason::kNone;
}

// The same for a new sandbox of this memory, on a device that is healthy. A larger one that has no
// place either has none for the same reason: find_cold_place remembers it.
WaitReason Fleet::cold_obstacle(const Device& device, Bytes memory) const {
  if (!device.has_token()) {
    const bool starts =
        has_start_slot(device, memory) && context_fits(device) && memory_fits(device, memory);
    return starts ? WaitReason::kNone : WaitReason::kNoToken;
  }
  if (!context_fits(device)) return WaitReason::kNoSandbox;
  if (!memory_fits(device, memory)) return WaitReason::kNoMemory;
  return WaitReason::kNone;
}

PlaceOrReason Fleet::find_cold_place(Bytes memory, bool idle_devices_only) const {
  if (sandboxes_total_ - idle_total_ >= options_.most_sandboxes) {
    return {std::nullopt, WaitReason::kNoSandbox};
  }
  if (idle_devices_only && idle_devices_ == 0) return {std::nullopt, WaitReason::kNoDevice};
  ColdSearches& known = cold_searches(idle_devices_only);
  if (known.failed && memory >= known.memory) return {std::nullopt, known.reason};
  if (!changed_.empty()) renew_cold_order();
  if (!cold_order_.empty()) {
    const Device& first = devices_[cold_order_.top()];
    if (takes(first, memory) && (!idle_devices_only || first.is_idle())) {
      note_cold_place(first, memory, idle_devices_only);
      return {Place{cold_order_.top(), kNoSandbox}};
    }
  }
  const PlaceOrReason found = scan_for_cold_place(memory, idle_devices_only);
  if (found.place) {
    known.fits_below = std::max(known.fits_below, memory + Bytes(1));
  } else {
    known.failed = true;
    known.memory = memory;
    known.reason = found.reason;
  }
  return found;
}

Fleet::ColdSearches& Fleet::cold_searches(bool idle_devices_only) const {
  if (!std::exchange(cold_searches_stand_, true)) cold_searches_[0] = cold_searches_[1] = {};
  return cold_searches_[idle_devices_only ? 1 : 0];
}

// On its tokens the device takes whatever has room; in a start slot not all of that.
void Fleet::note_cold_place(const Device& device, Bytes memory, bool idle_devices_only) const {
  const Bytes fits = device.has_token() ? room_of(device) : memory;
  Bytes& fits_below = cold_searches(idle_devices_only).fits_below;
  fits_below = std::max(fits_below, fits + Bytes(1));
}

// Where there was one before there mostly still is, or near there: only without is the order of
// devices renewed.
bool Fleet::look_for_cold_place(Bytes memory, bool idle_devices_only) const {
  uint32_t& last = cold_place_last_[idle_devices_only ? 1 : 0];
  const size_t near = std::min(kNearLastColdPlace, devices_.size());
  for (size_t looks = 0; looks < near; ++looks) {
    const Device& device = devices_[last];
    if (device.healthy && (!idle_devices_only || device.is_idle()) && takes(device, memory)) {
      note_cold_place(device, memory, idle_devices_only);
      return true;
    }
    if (++last == devices_.size()) last = 0;
  }
  return find_cold_place(memory, idle_devices_only).place.has_value();
}

void Fleet::note_changed(uint32_t device) {
  touch(device);
  if (has_changed_[device]) return;
  has_changed_[device] = 1;
  changed_.push_back(device);
}

void Fleet::renew_cold_order() const {
  for (const uint32_t i : changed_) {
    has_changed_[i] = 0;
    const Device& device = devices_[i];
    if (device.healthy && has_cold_room(device)) {
      cold_order_.put(i, {load_of(device), ~(device.capacity() - device.committed).count});
    } else {
      cold_order_.erase(i);
    }
  }
  changed_.clear();
}

// Whether a device with room for a cold start has sandboxes and memory left for this one.
bool Fleet::takes(const Device& device, Bytes memory) const {
  return cold_obstacle(device, memory) == WaitReason::kNone;
}

// Idle sandboxes can be evicted, so their contexts count as free.
bool Fleet::context_fits(const Device& device) const {
  return device.sandboxes - device.idle < device.options.contexts;
}

PlaceOrReason Fleet::scan_for_cold_place(Bytes memory, bool idle_devices_only) const {
  // The least loaded device; of equals the one with most memory that is not at work.
  const Device* best = nullptr;
  WaitReason reason = WaitReason::kNoDevice;
  for (const Device& device : devices_) {
    if (!device.healthy || (idle_devices_only && !device.is_idle())) continue;
    if (const WaitReason obstacle = cold_obstacle(device, memory); obstacle != WaitReason::kNone) {
      reason = obstacle;
      continue;
    }
    const auto spare = [](const Device& d) { return d.capacity() - d.committed; };
    if (best == nullptr || load_of(device) < load_of(*best) ||
        (load_of(device) == load_of(*best) && spare(device) > spare(*best))) {
      best = &device;
    }
  }
  if (best == nullptr) return {std::nullopt, reason};
  return {Place{static_cast<uint32_t>(best - devices_.data()), kNoSandbox}};
}

std::vector<SandboxSlot> Fleet::victims_for(const Place& place, Bytes memory, const Flows& flows,
                                            Instant now) const {
  std::vector<SandboxSlot> victims;
  const Device& device = devices_[place.device];
  Bytes committed = device.committed;
  unsigned on_device = device.sandboxes;
  unsigned total = sandboxes_total_;
  const auto crowded = [&] {
    // Where memory moves, who makes room for what is seen to from event to event.
    if (moves_idle()) return false;
    const bool memory_short = committed + memory > device.capacity();
    return memory_short || on_device >= device.options.contexts;
  };
  std::vector<EvictionCandidate> candidates;
  while (crowded() || total >= options_.most_sandboxes) {
    candidates.clear();
    // A crowded device can only be helped by its own sandboxes.
    if (crowded()) {
      add_candidates_of_device(place.device, flows, victims, candidates);
    } else {
      add_candidates_of_functions(flows, victims, candidates);
    }
    const SandboxSlot victim = choose_victim(options_.eviction, options_.guesses, candidates, now);
    victims.push_back(victim);
    --total;
    if (sandboxes_[victim].device == place.device) {
      --on_device;
      committed -= sandboxes_[victim].memory;
    }
  }
  return victims;
}

std::optional<SandboxSlot> Fleet::crowded_out(uint32_t device, const Flows& flows,
                                              Instant now) const {
  if (devices_[device].committed <= devices_[device].capacity()) return std::nullopt;
  std::vector<EvictionCandidate> candidates;
  add_candidates_of_device(device, flows, {}, candidates);
  if (candidates.empty()) return std::nullopt;
  return choose_victim(options_.eviction, options_.guesses, candidates, now);
}

void Fleet::add_candidates_of_device(uint32_t device, const Flows& flows,
                                     const std::vector<SandboxSlot>& except,
                                     std::vector<EvictionCandidate>& candidates) const {
  for (const auto [slot, function] : idle_on_[device]) {
    if (std::find(except.begin(), except.end(), slot) != except.end()) continue;
    const Sandbox& sandbox = sandboxes_[slot];
    const Flow& flow = flows[function.value];
    candidates.push_back({slot, sandbox.last_used, &flow, is_cpu_variant(*this, flow, device)});
  }
}

// Of a function's sandboxes both rules give up the least recently used one first, and its list has
// them in this order; of those used last at the same instant, any may come first.
void Fleet::add_candidates_of_functions(const Flows& flows, const std::vector<SandboxSlot>& except,
                                        std::vector<EvictionCandidate>& candidates) const {
  for (uint32_t function = 0; function < functions_.size(); ++function) {
    std::optional<Instant> least;
    for (SandboxSlot slot = functions_[function].oldest_idle; slot != kNoSandbox;
         slot = sandboxes_[slot].newer) {
      if (std::find(except.begin(), except.end(), slot) != except.end()) continue;
      const Instant last_used = sandboxes_[slot].last_used;
      if (least && *least != last_used) break;
      least = last_used;
      const Flow& flow = flows[function];
      candidates.push_back(
          {slot, last_used, &flow, is_cpu_variant(*this, flow, sandboxes_[slot].device)});
    }
  }
}

// As far as one can tell without its memory.
bool Fleet::has_cold_room(const Device& device) const {
  if (device.has_token()) return true;
  return device.start_slots_held < options_.starts_outside_tokens && device.gives_tokens();
}

// Whether a cold start of this memory would hold a start slot. As many as there are tokens run
// meanwhile, and one more is fetched: beside what starts they have to fit if each takes as much as
// this one, or starts would drive out what is warm. None where a token will never come.
bool Fleet::has_start_slot(const Device& device, Bytes memory) const {
  if (device.start_slots_held >= options_.starts_outside_tokens) return false;
  if (!device.gives_tokens()) return false;
  const uint64_t beside = device.options.most_tokens() + uint64_t{2};
  return device.starting + memory * beside <= device.capacity();
}

// Idle sandboxes can be evicted, so what they hold counts as free.
Bytes Fleet::at_work_on(const Device& device) const {
  return moves_idle() ? device.committed : device.committed - device.idle_memory;
}

bool Fleet::memory_fits(const Device& device, Bytes memory) const {
  return at_work_on(device) + memory <= device.capacity();
}

}  // namespace lambent::scheduling
