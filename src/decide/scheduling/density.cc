#include "decide/scheduling/density.h"

#include <algorithm>
#include <bit>

#include "decide/scheduling/place_victims.h"

namespace lambent::scheduling {
namespace {

constexpr Duration kMostGracePeriod = std::chrono::hours(24);
constexpr unsigned kFractionBits = 16;
// The weight of the cold start that evicting a sandbox is expected to cause: others wait behind it.
constexpr double kLossWeight = 2;

// The binary logarithm in units of 2^-16, straight between the powers of two: whole numbers, so
// that every machine decides alike. `number` is not zero.
uint64_t logarithm(uint64_t number) {
  const auto whole = static_cast<unsigned>(std::bit_width(number)) - 1;
  const uint64_t rest = number - (uint64_t{1} << whole);
  const uint64_t fraction =
      whole <= kFractionBits ? rest << (kFractionBits - whole) : rest >> (whole - kFractionBits);
  return uint64_t{whole} << kFractionBits | fraction;
}

FairQueuingOptions with_rounds(FairQueuingOptions options, const DensityOptions& density) {
  options.over_run_by_rounds = density.adapts;
  if (density.adapts && density.weighs_queue) {
    options.waiting_holds_global = true;
    options.backlog_unit = std::min(density.grace_period, kMostGracePeriod);
  }
  return options;
}

}  // namespace

DensityPolicy::DensityPolicy(FairQueuingOptions fair_queuing, DensityOptions options)
    : FairQueuing(with_rounds(fair_queuing, options)), options_(options) {
  options_.grace_period = std::min(options_.grace_period, kMostGracePeriod);
}

void DensityPolicy::adapt(FleetOptions& options) const {
  options.learns_contention = options_.adapts;
  if (!options_.adapts || !options_.weighs_queue) return;
  options.spread = options_.weighs_returns ? Spread::kOfSeveral : Spread::kOfEach;
}

void DensityPolicy::places_changed(const View& view, FunctionId function, Instant now) {
  FairQueuing::places_changed(view, function, now);
  rank_again(view, function);
}

FlowStatus DensityPolicy::status(const View& view, FunctionId function, Instant now) const {
  FlowStatus status = FairQueuing::status(view, function, now);
  if (view.flow(function).pending > 0) status.due = due_of(view, function);
  return status;
}

Duration DensityPolicy::set_up_of(const View& view, FunctionId function) const {
  // What leaves to make room has to come back.
  const int returns = options_.adapts && options_.weighs_queue && options_.weighs_returns ? 2 : 1;
  SandboxSlot outside = kNoSandbox;
  for (SandboxSlot slot = view.fleet.idle().newest_of(function); slot != kNoSandbox;
       slot = view.fleet.sandbox(slot).older) {
    const Sandbox& sandbox = view.fleet.sandbox(slot);
    if (!view.fleet.devices()[sandbox.device].healthy) continue;
    if (sandbox.memory_state == MemoryState::kIn ||
        sandbox.memory_state == MemoryState::kMovingIn) {
      return Duration(0);
    }
    if (outside == kNoSandbox) outside = slot;
  }
  if (outside == kNoSandbox) {
    return returns * view.flow(function).cold_start.mean_or(options_.first_start);
  }
  const auto bytes = static_cast<double>(view.fleet.sandbox(outside).needed().count);
  return from_seconds(returns * bytes / options_.link_bytes_per_second);
}

Duration DensityPolicy::cost_of(const View& view, FunctionId function) const {
  const Flow& flow = view.flow(function);
  const int64_t pending = std::max(flow.pending, 1U);
  const Duration cost = (estimate_of(flow) + set_up_of(view, function) / pending) * flow.gpu_count;
  return flow.weight == 1 ? cost : from_seconds(to_seconds(cost) / flow.weight);
}

Instant DensityPolicy::due_of(const View& view, FunctionId function) const {
  const auto cost = static_cast<uint64_t>(std::max<int64_t>(cost_of(view, function).count(), 1));
  const auto grace_period = static_cast<unsigned __int128>(options_.grace_period.count()) *
                            rounds_.scale(view.flow(function).tenant_slot);
  const auto later = static_cast<int64_t>((grace_period * logarithm(cost)) >> kFractionBits);
  return view.flow(function).oldest_since + Duration(later);
}

FairQueuing::Rank DensityPolicy::rank_of(const View& view, FunctionId function, Duration) const {
  const Flow& flow = view.flow(function);
  const uint64_t beside_itself = flow.in_flight > 0 ? 1 : 0;
  return {beside_itself << 1 | (flow.sheds ? 1 : 0), due_of(view, function).time_since_epoch()};
}

// ---- What is gained

// What the function takes by itself, as far as it is known.
Duration DensityPolicy::takes(const View& view, FunctionId function) const {
  return view.fleet.contention().unshared(function).value_or(estimate_of(view.flow(function)));
}

WaitReason DensityPolicy::not_worth_it(const View& view, FunctionId function,
                                       const Place& place) const {
  // What is learnt of runs side by side is of one device.
  if (!options_.adapts || view.flow(function).gpu_count > 1) return WaitReason::kNone;
  // No device idles.
  if (view.fleet.devices()[place.device].is_idle()) return WaitReason::kNone;
  if (place.warm != kNoSandbox) {
    return run_gains(view, function, place) ? WaitReason::kNone : WaitReason::kSlowsOthers;
  }
  if (drives_out_wanted(view, function, place)) return WaitReason::kNoSandbox;
  const bool is_second = view.flow(function).in_flight > 0;
  if (is_second && !second_gains(view, function, place)) return WaitReason::kAtWork;
  return WaitReason::kNone;
}

// Whether a start would cost another flow within T a sandbox that it waits to run in: that one
// would have to start again at once.
bool DensityPolicy::drives_out_wanted(const View& view, FunctionId function,
                                      const Place& place) const {
  const DeviceTable& devices = view.fleet.device_table();
  if (devices.sandboxes() < view.fleet.options().most_sandboxes) return false;
  // Mostly there is one that no call waits for, and that is evicted first.
  for (uint32_t device = 0; device < devices.all().size(); ++device) {
    for (const IdleSandbox& idle : view.fleet.idle().on(device)) {
      if (view.flow(idle.function).pending == 0) return false;
    }
  }
  const Bytes memory = view.fleet.memory_of(view.flow(function), place.device);
  for (const SandboxSlot slot :
       victims_for(view.fleet, place, memory, view.flows, view.fleet.places().now())) {
    const FunctionId loses = view.fleet.sandbox(slot).function;
    const bool waits = view.flow(loses).in_flight < view.flow(loses).max_concurrency;
    const bool is_within = FairQueuing::status(view, loses, Instant{}).state == FlowState::kActive;
    if (waits && is_within) return true;
  }
  return false;
}

bool DensityPolicy::second_gains(const View& view, FunctionId function, const Place& place) const {
  const Flow& flow = view.flow(function);
  const Device& device = view.fleet.devices()[place.device];
  SecondSandbox second{.slowdown = view.fleet.contention().slowdown_of(function),
                       .at_work = view.fleet.contention().at_work(place.device),
                       .most_at_once = device.options.most_tokens(),
                       .pending = flow.pending,
                       .takes = takes(view, function),
                       .cold_start = flow.cold_start.mean()};
  // Most are refused without a look at what would be evicted.
  if (!gains_by_second(second)) return false;
  const EvictionGuesses& guesses = view.fleet.options().guesses;
  const Instant now = view.fleet.places().now();
  const double lasts_s = to_seconds(second.cold_start) + flow.pending * to_seconds(second.takes);
  const Bytes memory = view.fleet.memory_of(flow, place.device);
  for (const SandboxSlot slot : victims_for(view.fleet, place, memory, view.flows, now)) {
    const Sandbox& victim = view.fleet.sandbox(slot);
    const Flow& loses = view.flow(victim.function);
    const Duration gap = std::max(loses.interarrival.mean_or(guesses.gap), now - victim.last_used);
    const double share = std::min(1.0, lasts_s / std::max(to_seconds(gap), 1e-3));
    second.drives_out += from_seconds(kLossWeight * share *
                                      to_seconds(loses.cold_start.mean_or(guesses.cold_start)));
  }
  return gains_by_second(second);
}

bool DensityPolicy::run_gains(const View& view, FunctionId function, const Place& place) const {
  const Contention& contention = view.fleet.contention();
  if (contention.at_work(place.device) == 0) return true;
  const AtWork& at_work = at_work_on(view, place.device);
  const Share newcomer{takes(view, function), contention.slowdown_of(function)};
  // Time changes that where a run takes longer than expected.
  Duration wait = at_work.until_late;
  if (options_.weighs_queue) {
    const auto behind = static_cast<double>(rounds_.waiting()) - 1;
    const double of_device = behind / static_cast<double>(view.fleet.devices().size());
    if (gains_now(newcomer, at_work.shares, std::max(0.0, of_device))) return true;
    wait += slowed_by(newcomer, at_work.shares);
  } else {
    if (gains_beside(newcomer, at_work.shares)) return true;
    wait += least_left_that_gains(newcomer, at_work.shares);
  }
  view.fleet.places().is_time(view.fleet.places().now() +
                              std::max(wait, Duration(milliseconds(1))));
  return false;
}

const DensityPolicy::AtWork& DensityPolicy::at_work_on(const View& view, uint32_t device) const {
  if (knows_at_work_ && at_work_.device == device) return at_work_;
  const Contention& contention = view.fleet.contention();
  at_work_.device = device;
  at_work_.shares.clear();
  at_work_.until_late = {};
  Duration least = Duration::max();  // that is left
  contention.for_each_at_work(
      device, view.fleet.places().now(), [&](FunctionId other, Duration done) {
        const Duration other_takes = takes(view, other);
        at_work_.shares.push_back({left_of(other_takes, done), contention.slowdown_of(other)});
        if (at_work_.shares.back().left >= least) return;
        least = at_work_.shares.back().left;
        at_work_.until_late = std::max(Duration(0), other_takes - done);
      });
  knows_at_work_ = in_decision_;
  return at_work_;
}

// Nothing is begun or ends within one.
Decision DensityPolicy::decide(const View& view, Instant now) {
  in_decision_ = true;
  const Decision decision = FairQueuing::decide(view, now);
  in_decision_ = knows_at_work_ = false;
  return decision;
}

}  // namespace lambent::scheduling
