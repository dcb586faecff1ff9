// Figure 4: sixteen copies of FFT, 1.5 GB each, on a device of 16 GB, called twenty times in turn.
#include <algorithm>
#include <cstdio>
#include <limits>

#include "bench/json.h"
#include "bench/paper_mqfq/figures.h"
#include "core/base/check.h"
#include "decide/scheduling/make_policy.h"
#include "sim/simulator/simulation.h"

namespace lambent::paper_mqfq {

using bench::Joined;
using bench::number;
using bench::quoted;

namespace {

constexpr uint32_t kCopies = 16;
constexpr unsigned kRounds = 20;
constexpr double kWarm_s = 0.897, kCold_s = 2.648;  // Table 1
constexpr uint64_t kMiB = 1 << 20;
// What the directives of a call take, its allocations to the device and back. The paper says of
// them that they move nothing and take time, and does not say how much: a guess.
constexpr double kAdvise_ms = 1;

// How a copy's memory comes onto the device and goes.
struct MemoryPolicy {
  const char* name;
  bool by_faults;     // at what page faults reach, not at the link's rate
  bool free_leaving;  // pages leave while others come: their way costs nothing more
  bool ahead;         // moved in before the turn of who waits
  bool off_after_run;
  bool advises = false;  // where memory should be, at every call
};
constexpr MemoryPolicy kPolicies[] = {
    {"stock UVM", true, true, false, false},
    {"madvise", true, true, false, false, true},
    {"prefetch", false, true, false, false},
    {"prefetch and swap", false, false, true, true},
    {"as lambent moves", false, false, true, false},
};

// Seconds of a call from its turn to its end, after the first round, which is cold. One at a time:
// the next call is made when the one before it has ended; else all are queued from the start.
double mean_call_s(const MemoryPolicy& policy, const Constants& constants, bool one_at_a_time,
                   uint64_t seed) {
  simulator::SimulationOptions options;
  options.seed = seed;
  dispatch::DispatchOptions& dispatch = options.dispatch;
  dispatch.fleet.devices.push_back(
      {.id = DeviceId{1},
       .memory = Bytes(static_cast<uint64_t>(constants.device_memory_mib * kMiB)),
       .tokens = 1,
       .contexts = kCopies});
  dispatch.fleet.most_sandboxes = kCopies;
  dispatch.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
  dispatch.fleet.prefetch = policy.ahead;
  dispatch.longest_wait = seconds(1'000'000);
  const double link =
      constants.link_gb_per_s * 1e9 * (policy.by_faults ? constants.fault_share : 1);
  options.device.link_bytes_per_second = link;
  options.device.link_out_bytes_per_second = policy.free_leaving ? 1e18 : link;
  options.device.stays = Bytes(static_cast<uint64_t>(constants.context_mib * kMiB));
  for (uint32_t i = 1; i <= kCopies; ++i) {
    simulator::FunctionModel function;
    function.profile.id = FunctionId{i};
    function.profile.tenant = TenantId{1};
    function.profile.timeout = seconds(1'000'000);
    function.profile.device_memory = Bytes(1'500'000'000) + options.device.stays;
    function.execution = from_seconds(kWarm_s + (policy.advises ? kAdvise_ms / 1e3 : 0));
    function.spread = constants.spread;
    function.sandbox_time = from_seconds(constants.sandbox_ms / 1e3);
    function.init_time = from_seconds(kCold_s - kWarm_s);
    options.functions.push_back(function);
  }
  auto fcfs = scheduling::make_policy("fcfs", {.fcfs_moves_off_after_run = policy.off_after_run});
  workload::Mean calls;
  uint32_t ended = 0;
  simulator::Simulation* running = nullptr;
  simulator::Simulation simulation(
      std::move(options), std::move(*fcfs), [&](const simulator::SimulatedInvocation& one) {
        CHECK(one.outcome.outcome == Outcome::kSucceeded, "nothing fails in this world");
        if (++ended > kCopies) {
          calls.add(to_seconds(one.outcome.phases.memory + one.outcome.phases.run));
        }
        if (one_at_a_time && ended < kCopies * kRounds) {
          running->submit_after(Duration(0), FunctionId{1 + ended % kCopies});
        }
      });
  running = &simulation;
  uint32_t sent = 0;
  simulation.run([&]() -> std::optional<simulator::Arrival> {
    if (sent == (one_at_a_time ? 1 : kCopies * kRounds)) return std::nullopt;
    return simulator::Arrival{Instant(), FunctionId{1 + sent++ % kCopies}};
  });
  return calls.mean();
}

sweep::Estimate call_s(const Bench& bench, const MemoryPolicy& policy, const Constants& constants,
                       bool one_at_a_time) {
  std::vector<double> values;
  for (uint64_t seed = 1; seed <= bench.wide_runs.seeds(); ++seed) {
    values.push_back(mean_call_s(policy, constants, one_at_a_time, seed));
  }
  return sweep::estimate_of(values);
}

}  // namespace

std::string figure4(Bench& bench) {
  std::printf(
      "\nFigure 4: 16 x FFT of 1.5 GB, each called 20 times in turn: seconds a call, over Table "
      "1's %.3f s\n"
      "(paper: stock UVM +40 %%, madvise slightly worse, prefetch and swap as Table 1 and 33 %% "
      "below stock, swap worth 6 %%)\n",
      kWarm_s);
  Joined rows;
  double stock[2] = {};
  for (const MemoryPolicy& policy : kPolicies) {
    Joined row;
    row.add("policy", quoted(policy.name));
    std::printf("%-20s", policy.name);
    for (const bool one_at_a_time : {true, false}) {
      const auto is = call_s(bench, policy, Constants(), one_at_a_time);
      if (policy.by_faults && !policy.advises) stock[one_at_a_time] = is.mean;
      const char* when = one_at_a_time ? "one_at_a_time" : "all_queued";
      row.add(when, Joined()
                        .add("call_s", json_of(is))
                        .add("over_table1", is.mean / kWarm_s)
                        .add("over_stock", is.mean / stock[one_at_a_time])
                        .object());
      std::printf("  %s: %.3f s, %+5.1f %%, over stock %+5.1f %%", when, is.mean,
                  100 * (is.mean / kWarm_s - 1), 100 * (is.mean / stock[one_at_a_time] - 1));
    }
    std::printf("\n");
    rows.add(row.object());
  }
  Joined changed;
  for (const double factor : {0.5, 2.0}) {
    Constants other;
    other.fault_share *= factor;
    changed.add(factor < 1 ? "halved" : "doubled",
                call_s(bench, kPolicies[0], other, true).mean / kWarm_s);
  }
  return Joined()
      .add("rows", rows.list())
      .add("advise_ms",
           Joined()
               .add("value", kAdvise_ms)
               .add("source", quoted("a guess: the paper says that it is a cost and no "
                                     "gain"))
               .object())
      .add("fault_share", Joined()
                              .add("value", Constants().fault_share)
                              .add("source", quoted("measured on the emulated driver: bench swap"))
                              .add("stock_over_table1", changed.object())
                              .object())
      .object();
}

}  // namespace lambent::paper_mqfq
