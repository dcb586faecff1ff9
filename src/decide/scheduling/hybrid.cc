#include "decide/scheduling/hybrid.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace lambent::scheduling {
namespace {

// What nothing is known of is taken to be.
constexpr Duration kUnknownStart = seconds(1);
constexpr Duration kUnknownRun = seconds(1);
// A guess, for memory that has to come back before a run: PCIe 3 with pinned memory.
constexpr double kLinkBytesPerSecond = 10e9;
// A variant whose expected time is so much of its function's timeout is not begun.
constexpr double kMostOfTimeout = 0.8;
// A time on the host that was learnt so many times itself ago is doubted: half of it is believed.
constexpr int64_t kDoubtAfter = 100;
// After a failure on the host a function is not sent there for so long; twice as long after each
// further one, up to the limit.
constexpr Duration kFirstPause = seconds(10);
constexpr unsigned kMostDoublings = 6;
// Who asks again at an instant that was reckoned finds that it has passed.
constexpr Duration kTimerGrain = milliseconds(1);

// Nothing is expected to take longer; what was learnt in other times may be any number.
constexpr double kLongestSeconds = 1e9;

Duration bounded(double seconds) { return from_seconds(std::clamp(seconds, 0.0, kLongestSeconds)); }
Duration scaled(Duration duration, double factor) { return bounded(to_seconds(duration) * factor); }

// Where it would run first on a GPU: nothing to do if it is warm or about to be.
Duration gpu_setup(const View& gpu, FunctionId function, const Flow& flow) {
  if (flow.in_flight > 0) return {};
  bool outside = false;
  for (SandboxSlot slot = gpu.fleet.idle().newest_of(function); slot != kNoSandbox;
       slot = gpu.fleet.sandbox(slot).older) {
    const Sandbox& sandbox = gpu.fleet.sandbox(slot);
    if (!gpu.fleet.devices()[sandbox.device].healthy) continue;
    if (sandbox.memory_state == MemoryState::kIn || sandbox.memory_state == MemoryState::kMovingIn)
      return {};
    outside = true;
  }
  if (outside) return bounded(static_cast<double>(flow.device_memory.count) / kLinkBytesPerSecond);
  return flow.cold_start.mean_or(kUnknownStart);
}

Duration host_setup(const Fleet& host, FunctionId function, const Flow& flow) {
  if (host.idle().newest_of(function) != kNoSandbox) return {};
  return expected_host_cold_start(flow);
}

// When it may go to the host again; in the past if it may.
Instant pause_end(const Flow& flow) {
  if (flow.host_failures == 0) return {};
  const unsigned doublings = std::min(flow.host_failures - 1, kMostDoublings);
  return flow.host_failed + kFirstPause * (int64_t{1} << doublings);
}

// What is believed of it now: a time that was not checked for long may have become shorter. One
// run checks it, so it is doubted only while none is under way.
std::optional<Duration> believed_host_time(const Flow& flow, Instant now) {
  const std::optional<Duration> expected = expected_host_time(flow);
  if (!flow.host_execution.known() || flow.on_host > 0) return expected;
  return (now - flow.last_host_run) / kDoubtAfter > *expected ? *expected / 2 : *expected;
}

// When to ask again, of all those that time by itself may send to the host.
class Earliest {
 public:
  explicit Earliest(Instant now) : now_(now) {}
  void note(Instant instant) {
    if (instant > now_) earliest_ = std::min(earliest_, instant);
  }
  Instant instant() const { return earliest_; }

 private:
  Instant now_;
  Instant earliest_ = kNever;
};

struct Backlog {
  double work_s = 0;  // on the GPUs, of all that waits and runs
  double waiting = 0;
  double capacity = 0;              // of the healthy GPUs, in tokens
  bool has_token = false;           // one of these is free
  std::optional<Instant> last_end;  // of what runs there, by expectation
};

Backlog backlog_of(const HybridView& view, Instant now) {
  Backlog backlog;
  for (const Device& device : view.gpu.fleet.devices()) {
    if (!device.healthy) continue;
    backlog.capacity += device.tokens();
    backlog.has_token |= device.has_token();
  }
  // A sum of integers, which is the same in whichever order the runs are told.
  Duration running{};
  for (const GpuRun& run : view.runs) {
    running += std::max(Duration(0), run.end - now);
    backlog.last_end = std::max(backlog.last_end.value_or(run.end), run.end);
  }
  backlog.work_s = to_seconds(running);
  view.waiting.for_each([&](FunctionId function) {
    const Flow& flow = view.gpu.flow(function);
    if (flow.max_concurrency == 0) return;
    backlog.waiting += flow.pending;
    backlog.work_s += flow.pending * to_seconds(expected_gpu_time(flow).value_or(kUnknownRun)) +
                      to_seconds(gpu_setup(view.gpu, function, flow));
  });
  return backlog;
}

struct Offer {
  HostChoice choice;
  double gain = 0;  // seconds saved for each second that it takes a core
};

// From when on all that holds up this flow is overdue, the future included: its own runs where it
// may not have more of them, else all runs if they leave no token.
std::optional<Instant> overdue_from_of(const HybridView& view, const Backlog& backlog,
                                       FunctionId function, bool at_limit) {
  if (!at_limit) return backlog.has_token ? std::nullopt : backlog.last_end;
  std::optional<Instant> last;
  for (const GpuRun& run : view.runs) {
    if (run.function == function) last = std::max(last.value_or(run.end), run.end);
  }
  return last;
}

// What it gains to send the first of this flow to the host, and nothing if it must not go.
std::optional<Offer> offer_of(const HybridOptions& options, const HybridView& view,
                              const Backlog& backlog, FunctionId function, Instant now,
                              Earliest& ask_again) {
  const Flow& flow = view.gpu.flow(function);
  if (!host_is_in_time(flow, now)) return std::nullopt;
  if (now < pause_end(flow)) {
    ask_again.note(pause_end(flow));
    return std::nullopt;
  }
  const double gpu_run_s = to_seconds(expected_gpu_time(flow).value_or(kUnknownRun));
  const double gpu_setup_s = to_seconds(gpu_setup(view.gpu, function, flow));
  const double capacity = std::max(1.0, backlog.capacity);
  // All of the backlog but itself, and where it may not run beside itself, its own run.
  const double own_s = gpu_run_s + gpu_setup_s;
  double wait_s = std::max(0.0, backlog.work_s - own_s) / capacity;
  // Where it may not run beside itself now, for want of room or because that is not worth a start.
  const bool at_limit =
      flow.in_flight >= flow.max_concurrency ||
      (flow.in_flight > 0 &&
       view.gpu.fleet.places().find(function, flow, false).reason == WaitReason::kAtWork);
  if (at_limit) wait_s = std::max(wait_s, gpu_run_s / 2);
  const std::optional<Instant> overdue_from = overdue_from_of(view, backlog, function, at_limit);
  if (overdue_from) wait_s = std::max(wait_s, to_seconds(now - *overdue_from));
  // It goes, if what it waits for is still not over when it is expected to take so much longer.
  const auto ask_when_wait_is = [&](double needed_s) {
    if (overdue_from) ask_again.note(*overdue_from + bounded(needed_s) + kTimerGrain);
  };
  Offer offer{.choice = {.function = function, .reason = HostReason::kQueue}};
  const double with_gpu_s = wait_s + own_s;
  offer.choice.with_gpu = bounded(with_gpu_s);

  const std::optional<Duration> host_time = believed_host_time(flow, now);
  if (!host_time) {
    // A run on a GPU will tell, for its owner knows how they compare.
    if (flow.gpu_speedup > 0) return std::nullopt;
    // One at a time, where the wait is longer than the run and the host has much room.
    const Device& host = view.host.devices()[0];
    const bool room = 2 * host.tokens_held < host.tokens();
    if (flow.on_host > 0 || !room) return std::nullopt;
    if (wait_s < gpu_run_s) {
      ask_when_wait_is(gpu_run_s);
      return std::nullopt;
    }
    offer.choice.reason = HostReason::kTrial;
    return offer;
  }
  const double with_host_s =
      to_seconds(host_setup(view.host, function, flow)) + to_seconds(*host_time);
  offer.choice.with_host = bounded(with_host_s);
  const double freed_s = gpu_run_s + (flow.pending == 1 ? gpu_setup_s : 0);
  const double others_s = options.others * (backlog.waiting - 1) * freed_s / capacity;
  const double saved_s = with_gpu_s + others_s - with_host_s;
  if (saved_s <= 0) {
    ask_when_wait_is(with_host_s - own_s - others_s);
    return std::nullopt;
  }
  offer.gain = saved_s / std::max(with_host_s, 1e-3);
  return offer;
}

// A quota of its tenant keeps it from GPUs, and not from the host: perhaps for an hour.
std::optional<HostChoice> held_from_gpus(const HybridView& view, FunctionId function, Instant now) {
  const Flow& flow = view.gpu.flow(function);
  if (view.gpu.hold_of(function) == WaitReason::kNone) return std::nullopt;
  if (!host_is_in_time(flow, now) || now < pause_end(flow)) return std::nullopt;
  const Duration host_time = believed_host_time(flow, now).value_or(kUnknownRun);
  return HostChoice{.function = function,
                    .reason = HostReason::kTenantQuota,
                    .with_host = bounded(to_seconds(host_time) +
                                         to_seconds(host_setup(view.host, function, flow)))};
}

// No GPU that could take it is healthy: at once if they are lost; else when they have been away for
// as long as the host would take, for what has been away that long is expected to stay so.
std::optional<HostChoice> without_device(const HybridView& view, FunctionId function, Instant now,
                                         Earliest& ask_again) {
  const Flow& flow = view.gpu.flow(function);
  bool present = false;
  Instant away_since{};
  const std::vector<Device>& devices = view.gpu.fleet.devices();
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].options.memory < flow.device_memory) continue;
    if (devices[i].healthy) return std::nullopt;
    present |= !devices[i].lost;
    away_since = std::max(away_since, view.away_since[i]);
  }
  if (!host_is_in_time(flow, now)) return std::nullopt;
  const Duration host_time = believed_host_time(flow, now).value_or(kUnknownRun);
  const Duration with_host =
      bounded(to_seconds(host_time) + to_seconds(host_setup(view.host, function, flow)));
  const Instant earliest = std::max(pause_end(flow), present ? away_since + with_host : away_since);
  if (now < earliest) {
    ask_again.note(earliest);
    return std::nullopt;
  }
  return HostChoice{.function = function,
                    .reason = HostReason::kNoDevice,
                    .with_gpu = now - away_since,
                    .with_host = with_host};
}

// Of those that only the host serves or that no GPU can, the one that has waited longest.
std::optional<HostChoice> choose_without_gpu(const HybridView& view, Instant now,
                                             Earliest& ask_again) {
  std::optional<HostChoice> first;
  view.waiting_variants.for_each([&](FunctionId function) {
    const Flow& flow = view.gpu.flow(function);
    if (first && view.gpu.flow(first->function).oldest < flow.oldest) return;
    if (view.gpu.tenants.hold_on_host(flow) != WaitReason::kNone) return;
    if (flow.max_concurrency > 0) {
      auto choice = held_from_gpus(view, function, now);
      if (!choice) choice = without_device(view, function, now, ask_again);
      if (choice) first = choice;
      return;
    }
    if (now < pause_end(flow)) {
      ask_again.note(pause_end(flow));
      return;
    }
    const bool fits =
        view.gpu.fleet.device_table().could_ever_fit(flow.device_memory, flow.gpu_count);
    first = HostChoice{.function = function,
                       .reason = fits ? HostReason::kSmallSpeedup : HostReason::kTooLarge,
                       .with_host = expected_host_time(flow).value_or(Duration(0))};
  });
  return first;
}

std::optional<HostChoice> choose_by_queue(const HybridOptions& options, const HybridView& view,
                                          Instant now, Earliest& ask_again) {
  const Backlog backlog = backlog_of(view, now);
  std::optional<Offer> best;
  view.waiting_variants.for_each([&](FunctionId function) {
    const Flow& flow = view.gpu.flow(function);
    if (flow.max_concurrency == 0) return;
    if (view.gpu.tenants.hold_on_host(flow) != WaitReason::kNone) return;
    auto offer = offer_of(options, view, backlog, function, now, ask_again);
    if (offer && (!best || offer->gain > best->gain)) best = std::move(offer);
  });
  if (!best) return std::nullopt;
  return best->choice;
}

}  // namespace

std::string_view name_of(HybridRule rule) {
  switch (rule) {
    case HybridRule::kOff:
      return "off";
    case HybridRule::kTopShare:
      return "top-share";
    case HybridRule::kQueueing:
      return "queueing";
  }
  return "off";
}

std::optional<HybridRule> hybrid_rule_from(std::string_view name) {
  for (const HybridRule rule : {HybridRule::kOff, HybridRule::kTopShare, HybridRule::kQueueing}) {
    if (name == name_of(rule)) return rule;
  }
  return std::nullopt;
}

std::string_view name_of(HostReason reason) {
  switch (reason) {
    case HostReason::kNone:
      return "none";
    case HostReason::kTooLarge:
      return "too_large";
    case HostReason::kNoDevice:
      return "no_device";
    case HostReason::kSmallSpeedup:
      return "small_speedup";
    case HostReason::kQueue:
      return "queue";
    case HostReason::kTrial:
      return "trial";
    case HostReason::kTenantQuota:
      return "tenant_quota";
  }
  return "none";
}

void archive(StateArchive& archive, HybridOptions& options) {
  archive.choice(options.rule, HybridRule::kQueueing);
  archive.field(options.gpu_share);
  archive.field(options.others);
}

std::optional<Duration> expected_gpu_time(const Flow& flow) {
  if (flow.execution.known()) return flow.execution.mean();
  if (!flow.host_execution.known() || flow.gpu_speedup <= 0) return std::nullopt;
  return scaled(flow.host_execution.mean(), 1 / flow.gpu_speedup);
}

std::optional<Duration> expected_host_time(const Flow& flow) {
  if (flow.host_execution.known()) return flow.host_execution.mean();
  if (!flow.execution.known() || flow.gpu_speedup <= 0) return std::nullopt;
  return scaled(flow.execution.mean(), flow.gpu_speedup);
}

std::optional<double> speedup_of(const Flow& flow) {
  if (flow.execution.known() && flow.host_execution.known() &&
      flow.execution.mean() > Duration(0)) {
    return to_seconds(flow.host_execution.mean()) / to_seconds(flow.execution.mean());
  }
  return flow.gpu_speedup > 0 ? std::optional(flow.gpu_speedup) : std::nullopt;
}

Duration expected_host_cold_start(const Flow& flow) {
  return flow.host_cold_start.mean_or(flow.cold_start.mean_or(kUnknownStart));
}

bool host_is_in_time(const Flow& flow, Instant now) {
  if (flow.timeout <= Duration(0)) return true;
  const std::optional<Duration> expected = believed_host_time(flow, now);
  return !expected || *expected <= scaled(flow.timeout, kMostOfTimeout);
}

std::vector<bool> outside_top_share(const Flows& flows, double gpu_share, Instant now) {
  std::vector<std::pair<double, uint32_t>> ranked;
  for (uint32_t id = 0; id < flows.size(); ++id) {
    const Flow& flow = flows[id];
    if (!flow.registered || !flow.has_cpu_variant || !host_is_in_time(flow, now)) continue;
    if (const auto speedup = speedup_of(flow)) ranked.emplace_back(-*speedup, id);
  }
  std::sort(ranked.begin(), ranked.end());
  const double share = std::clamp(gpu_share, 0.0, 1.0);
  const auto kept = static_cast<size_t>(std::lround(share * static_cast<double>(ranked.size())));
  std::vector<bool> outside(flows.size(), false);
  for (size_t i = kept; i < ranked.size(); ++i) outside[ranked[i].second] = true;
  return outside;
}

HostAdvice choose_for_host(const HybridOptions& options, const HybridView& view, Instant now) {
  if (options.rule == HybridRule::kOff || view.waiting_variants.empty()) return {};
  const Device& host = view.host.devices()[0];
  if (host.tokens_held + view.reserved >= host.tokens()) return {};
  Earliest ask_again(now);
  std::optional<HostChoice> choice = choose_without_gpu(view, now, ask_again);
  if (!choice && options.rule == HybridRule::kQueueing) {
    choice = choose_by_queue(options, view, now, ask_again);
  }
  if (!choice) return {.choice = std::nullopt, .ask_again = ask_again.instant()};
  const PlaceOrReason found = view.host.places().find(choice->function, Flow{}, false);
  if (!found.place) return {};
  choice->place = *found.place;
  return {.choice = choice};
}

}  // namespace lambent::scheduling
