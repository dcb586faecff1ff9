#include "decide/scheduling/host_victims.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <optional>
#include <utility>

#include "decide/scheduling/hybrid.h"
#include "decide/scheduling/place_victims.h"

namespace lambent::scheduling {
namespace {

// The order of who goes, least first.
struct HostRank {
  double worth = 0;
  Instant last_used{};
  SandboxSlot slot = kNoSandbox;
  Bytes memory;
  bool rests = true;
  auto operator<=>(const HostRank&) const = default;
};

// What the sandboxes of a host have in common: medians of those whose start was measured.
struct UsualSandbox {
  Duration start{};
  Bytes memory;
};

// Fewer say nothing of what is usual.
constexpr size_t kLeastForUsual = 4;
// What was measured once is believed up to so many times the usual, twice: to the square of that.
constexpr double kBelievedOnce = 2;

RunningMean start_of(const Flow& flow) {
  const bool is_cpu_variant = flow.device_memory > Bytes(0);
  return is_cpu_variant && flow.host_cold_start.known() ? flow.host_cold_start : flow.cold_start;
}

template <typename T>
T median_of(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// None: too few starts are known.
std::optional<UsualSandbox> usual_of(const Fleet& host, const Flows& flows,
                                     std::span<const MeasuredSandbox> measured) {
  std::vector<Duration> starts;
  std::vector<Bytes> memory;
  for (const MeasuredSandbox& each : measured) {
    const RunningMean start = start_of(flows[host.sandbox(each.slot).function.value]);
    if (!start.known() || each.memory == Bytes(0)) continue;
    starts.push_back(start.mean());
    memory.push_back(each.memory);
  }
  if (starts.size() < kLeastForUsual) return std::nullopt;
  return UsualSandbox{median_of(std::move(starts)), median_of(std::move(memory))};
}

// Starts of a busy host take many times as long as others, and a function that is called seldom has
// few of them: without a bound, one such start would keep it for long. What is larger than others
// may take longer in proportion.
Duration believed(const RunningMean& start, Bytes memory, const UsualSandbox& usual) {
  const double larger =
      std::max(1.0, static_cast<double>(memory.count) / static_cast<double>(usual.memory.count));
  const double most_s = to_seconds(usual.start) * larger *
                        std::pow(kBelievedOnce, static_cast<double>(start.samples()));
  return to_seconds(start.mean()) <= most_s ? start.mean() : from_seconds(most_s);
}

// What a byte of it is expected to save, in seconds of starts per second. A function that has been
// silent for longer than its usual gap is taken to come as rarely as that silence.
double worth_of(const FleetOptions& options, const Flow& flow, Duration silence, Bytes memory,
                const std::optional<UsualSandbox>& usual) {
  if (options.eviction == EvictionRule::kLeastRecentlyUsed) return 0;
  const EvictionGuesses& guesses = options.guesses;
  const Duration gap =
      std::max({flow.interarrival.mean_or(guesses.gap), silence, Duration(milliseconds(1))});
  const bool is_cpu_variant = flow.device_memory > Bytes(0);
  Duration start =
      is_cpu_variant ? expected_host_cold_start(flow) : flow.cold_start.mean_or(guesses.cold_start);
  if (const RunningMean known = start_of(flow); usual && known.known()) {
    start = believed(known, memory, *usual);
  }
  return to_seconds(start) / to_seconds(gap) / static_cast<double>(memory.count);
}

std::vector<HostRank> ranked(const Fleet& host, const Flows& flows,
                             std::span<const MeasuredSandbox> measured, Instant now) {
  const std::optional<UsualSandbox> usual = usual_of(host, flows, measured);
  std::vector<HostRank> ranks;
  for (const auto& [slot, memory] : measured) {
    const Sandbox& sandbox = host.sandbox(slot);
    const Flow& flow = flows[sandbox.function.value];
    const bool rests = sandbox.state == SandboxState::kIdle;
    if (sandbox.state == SandboxState::kStopping || memory == Bytes(0)) continue;
    if (rests && flow.pending > 0) continue;
    const Instant last_used = rests ? sandbox.last_used : now;
    ranks.push_back({.worth = worth_of(host.options(), flow, now - last_used, memory, usual),
                     .last_used = last_used,
                     .slot = slot,
                     .memory = memory,
                     .rests = rests});
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

std::vector<SandboxSlot> host_victims(const Fleet& host, const Flows& flows,
                                      std::span<const MeasuredSandbox> measured,
                                      HostShortage shortage, Instant now) {
  std::vector<HostRank> chosen;
  std::map<FunctionId, unsigned> leaving;
  Bytes needed = shortage.needed;
  Bytes waits;  // until one rests that starts or works
  Bytes freed;
  for (const HostRank& rank : ranked(host, flows, measured, now)) {
    if (freed >= needed) break;
    const FunctionId function = host.sandbox(rank.slot).function;
    if (!rank.rests) {
      // One whose function has calls waiting serves those before it rests, which may be never.
      const Flow& flow = flows[function.value];
      const bool stays = flow.min_instances > 0 || flow.pending > 0;
      if (stays || waits + rank.memory > shortage.may_wait) continue;
      waits += rank.memory;
      needed -= std::min(needed, rank.memory);
      continue;
    }
    if (is_kept(host, flows[function.value], function, leaving[function])) continue;
    ++leaving[function];
    freed += rank.memory;
    chosen.push_back(rank);
  }
  // The last was large, perhaps: then the dearest of those before it may stay.
  for (size_t i = chosen.size(); i-- > 0;) {
    if (freed - chosen[i].memory < needed) continue;
    freed -= chosen[i].memory;
    chosen.erase(chosen.begin() + static_cast<ptrdiff_t>(i));
  }
  std::vector<SandboxSlot> victims;
  for (const HostRank& rank : chosen) victims.push_back(rank.slot);
  return victims;
}

}  // namespace lambent::scheduling
