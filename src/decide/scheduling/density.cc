#include "decide/scheduling/density.h"

#include <algorithm>
#include <bit>

namespace lambent::scheduling {
namespace {

constexpr Duration kMostGracePeriod = std::chrono::hours(24);
constexpr unsigned kFractionBits = 16;

// The binary logarithm in units of 2^-16, straight between the powers of two: whole numbers, so
// that every machine decides alike. `number` is not zero.
uint64_t logarithm(uint64_t number) {
  const auto whole = static_cast<unsigned>(std::bit_width(number)) - 1;
  const uint64_t rest = number - (uint64_t{1} << whole);
  const uint64_t fraction =
      whole <= kFractionBits ? rest << (kFractionBits - whole) : rest >> (whole - kFractionBits);
  return uint64_t{whole} << kFractionBits | fraction;
}

}  // namespace

DensityPolicy::DensityPolicy(FairQueuingOptions fair_queuing, DensityOptions options)
    : FairQueuing(fair_queuing), options_(options) {
  options_.grace_period = std::min(options_.grace_period, kMostGracePeriod);
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
  if (outside == kNoSandbox) return view.flow(function).cold_start.mean_or(options_.first_start);
  const auto bytes = static_cast<double>(view.fleet.sandbox(outside).needed().count);
  return from_seconds(bytes / options_.link_bytes_per_second);
}

Duration DensityPolicy::cost_of(const View& view, FunctionId function) const {
  const Flow& flow = view.flow(function);
  const int64_t pending = std::max(flow.pending, 1U);
  const Duration cost = estimate_of(flow) + set_up_of(view, function) / pending;
  return flow.weight == 1 ? cost : from_seconds(to_seconds(cost) / flow.weight);
}

Instant DensityPolicy::due_of(const View& view, FunctionId function) const {
  const auto cost = static_cast<uint64_t>(std::max<int64_t>(cost_of(view, function).count(), 1));
  const auto grace_period = static_cast<unsigned __int128>(options_.grace_period.count());
  const auto later = static_cast<int64_t>((grace_period * logarithm(cost)) >> kFractionBits);
  return view.flow(function).oldest_since + Duration(later);
}

FairQueuing::Rank DensityPolicy::rank_of(const View& view, FunctionId function, Duration) const {
  const Flow& flow = view.flow(function);
  const uint64_t beside_itself = flow.in_flight > 0 ? 1 : 0;
  return {beside_itself << 1 | (flow.sheds ? 1 : 0), due_of(view, function).time_since_epoch()};
}

}  // namespace lambent::scheduling
