#include "decide/dispatch/starts_ahead.h"

#include <algorithm>

#include "decide/scheduling/place_victims.h"

namespace lambent::dispatch {

using scheduling::Device;
using scheduling::Flow;
using scheduling::Place;
using scheduling::Sandbox;
using scheduling::SandboxSlot;

namespace {

// By how much what is saved has to exceed what evicted sandboxes are worth.
constexpr double kMargin = 2;
// What a start costs where no call comes, of what it saves where one does.
constexpr double kWaste = 0.5;
// At what rate memory is taken to come back that left for it.
constexpr double kLinkBytesPerSecond = 10e9;
// Where there was no room, or it was not worth it: the next look comes after
// ForesightOptions::look_again, or this part of how long the function is silent.
constexpr int kLookAgainShare = 16;

}  // namespace

void StartsAhead::look() {
  if (!options_.fleet.foresight.starts_ahead) return;
  if (const auto call = std::exchange(foreseen_, std::nullopt)) look_at_foreseen(*call);
  while (foresight().any_look(log_.now())) look_at(foresight().pop_look());
}

bool StartsAhead::may_start(FunctionId function) const {
  if (!is_registered(flows_, function) || admission_.draining()) return false;
  const Flow& flow = flows_[function.value];
  // The end of its calls plans the next look.
  if (flow.pending > 0 || flow.in_flight > 0 || flow.on_host > 0) return false;
  if (processor_of(flow) != Processor::kGpu || flow.max_concurrency == 0) return false;
  return flow.gpu_count == 1;  // what its start would cost others is not known
}

void StartsAhead::look_at(FunctionId function) {
  if (!may_start(function)) return;
  const Flow& flow = flows_[function.value];
  if (pool_.fleet().idle().newest_of(function) != scheduling::kNoSandbox) {
    pressure_.bring_in(function);
    return;
  }
  if (tenants_.limit_memory(flow.tenant_slot)) return;
  const auto found = pool_.fleet().places().find(function, flow, false);
  const Outlook outlook = outlook_of(function);
  if (found.place && is_worth(function, *found.place, outlook, cold_start_of(flow), false)) {
    return start(function, *found.place, outlook);
  }
  const Duration again =
      std::max<Duration>(options_.fleet.foresight.look_again, silence_of(flow) / kLookAgainShare);
  foresight().plan_look(function, flow, cold_start_of(flow), log_.now() + again);
}

void StartsAhead::look_at_foreseen(const CallForeseen& call) {
  const FunctionId function = call.function;
  if (!may_start(function) || pool_.fleet().starts_of(function) > 0) return;
  const Flow& flow = flows_[function.value];
  if (pool_.fleet().idle().newest_of(function) != scheduling::kNoSandbox) {
    pressure_.bring_in(function);
    return;
  }
  if (tenants_.limit_memory(flow.tenant_slot)) return;
  const auto found = pool_.fleet().places().find(function, flow, false);
  if (!found.place) return;
  // A call that comes sooner takes over what was begun.
  const Duration start_takes = cold_start_of(flow);
  const Outlook outlook{.within = std::max(call.within, start_takes), .chance = call.chance};
  const Duration saves = std::min(std::max(call.within, Duration(0)), start_takes);
  if (is_worth(function, *found.place, outlook, saves, true)) {
    start(function, *found.place, outlook);
  }
}

void StartsAhead::start(FunctionId function, const Place& place, const Outlook& outlook) {
  foresight().expect(function, {.at = log_.now(),
                                .silence = silence_of(flows_[function.value]),
                                .within = outlook.within,
                                .chance = std::min(1.0, outlook.chance)});
  ++started_;
  placements_.start_ahead(pool_, function, place);
}

Duration StartsAhead::silence_of(const Flow& flow) const {
  return flow.last_arrival == kNever ? Duration(0) : log_.now() - flow.last_arrival;
}

StartsAhead::Outlook StartsAhead::outlook_of(FunctionId function) const {
  const Flow& flow = flows_[function.value];
  const Duration within = pool_.fleet().foresight().reach(cold_start_of(flow), silence_of(flow));
  return {.within = within, .chance = chance(function, within)};
}

bool StartsAhead::starts_ahead_on(uint32_t device) const {
  return std::any_of(pool_.fleet().all().begin(), pool_.fleet().all().end(), [&](SandboxSlot slot) {
    const Sandbox& sandbox = pool_.fleet().sandbox(slot);
    return sandbox.is_on(device) && is_start(sandbox.state) && !sandbox.has_invocation;
  });
}

Duration StartsAhead::cold_start_of(const Flow& flow) const {
  return flow.cold_start.mean_or(options_.fleet.guesses.cold_start);
}

double StartsAhead::chance(FunctionId function, Duration ahead) const {
  const Flow& flow = flows_[function.value];
  return pool_.fleet().foresight().chance(
      function, flow, flow.interarrival.mean_or(options_.fleet.guesses.gap), ahead, log_.now());
}

bool StartsAhead::is_worth(FunctionId function, const Place& place, const Outlook& outlook,
                           Duration saves, bool is_foreseen) const {
  const scheduling::Fleet& fleet = pool_.fleet();
  const Flow& flow = flows_[function.value];
  const Device& device = fleet.devices()[place.device];
  const Bytes memory = fleet.memory_of(flow, place.device);
  const bool has_slot = fleet.device_table().room().has_start_slot(device, memory);
  if (!has_slot && !(device.is_idle() && device.tokens() > 1)) return false;
  if (!(is_foreseen && has_slot) && starts_ahead_on(place.device)) return false;
  const double saves_s = outlook.chance * to_seconds(saves);
  double costs_s = (1 - std::min(outlook.chance, 1.0)) * kWaste * to_seconds(cold_start_of(flow));
  if (fleet.memory().moves_idle()) {
    // What leaves for it has to be able to come back.
    const Bytes crowded = device.resident + device.promised + memory - device.leaving;
    const Bytes missing = crowded - device.capacity();
    const auto& idle = fleet.idle().on(place.device);
    const bool may_leave = std::all_of(idle.begin(), idle.end(), [&](const auto& one) {
      return fleet.sandbox(one.slot).memory_moves;
    });
    if (missing > Bytes(0) && !may_leave) return false;
    costs_s += static_cast<double>(missing.count) / kLinkBytesPerSecond;
  }
  for (const SandboxSlot slot : victims_for(fleet, place, memory, flows_, log_.now())) {
    const Flow& loses = flows_[fleet.sandbox(slot).function.value];
    if (loses.pending > 0) return false;
    costs_s += kMargin * chance(fleet.sandbox(slot).function, outlook.within) *
               to_seconds(cold_start_of(loses));
  }
  return saves_s > costs_s;
}

}  // namespace lambent::dispatch
