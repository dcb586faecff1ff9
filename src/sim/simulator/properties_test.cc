// Properties that hold in every world. Each case runs many seeds; a failure names its seed, and the
// same seed makes the same world again.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "decide/scheduling/make_policy.h"
#include "sim/simulator/faulty_world.h"
#include "sim/simulator/invariants.h"
#include "sim/simulator/scan_cfs.h"
#include "sim/simulator/scan_density.h"
#include "sim/simulator/scan_mqfq.h"
#include "sim/simulator/testing/random_world.h"

namespace lambent::simulator {
namespace {

using dispatch::Action;
using dispatch::Event;

constexpr uint64_t kSeeds = 150;

// As it ships; "density" is without what it adapts.
constexpr std::string_view kAdaptive = "density-adapts";

std::unique_ptr<scheduling::Policy> policy(std::string_view name,
                                           scheduling::PolicyOptions options = {}) {
  if (name == kAdaptive) {
    options.density.adapts = true;
    options.density.weighs_queue = true;
    name = "density";
  }
  return std::move(scheduling::make_policy(name, options)).value();
}

scheduling::PolicyOptions some_options(uint64_t seed) {
  scheduling::PolicyOptions options;
  options.mqfq.over_run = seconds(seed % 3 == 0 ? 1 : 10);
  options.mqfq.order = seed % 2 == 0 ? scheduling::CandidateOrder::kInFlightFirst
                                     : scheduling::CandidateOrder::kLengthFirst;
  options.mqfq.duplicates_last = seed % 5 != 0;
  options.mqfq.memory_first = seed % 7 == 0;
  options.density.grace_period = seconds(seed % 4 == 0 ? 1 : 20);
  return options;
}

bool is_fair_queuing(std::string_view policy) {
  return policy.starts_with("mqfq") || policy.starts_with("density");
}

// T, or the most that it becomes.
Duration most_over_run(std::string_view policy, uint64_t seed) {
  return some_options(seed).mqfq.over_run * (policy == kAdaptive ? scheduling::kMostOverRuns : 1);
}

// Memory, tokens and sandboxes, as the fleet holds them now.
void expect_nothing_over_its_limit(const dispatch::Dispatcher& dispatcher) {
  const scheduling::Fleet& fleet = dispatcher.fleet();
  for (const scheduling::Device& device : fleet.devices()) {
    EXPECT_LE(device.occupants - device.without_context, device.options.contexts);
    EXPECT_LE(device.committed, device.options.memory);
    EXPECT_LE(device.resident, device.options.memory);
    if (fleet.options().memory_rule == scheduling::MemoryRule::kEverySandbox) {
      EXPECT_LE(device.occupied, device.options.memory);
    }
    EXPECT_LE(device.tokens_held, device.options.most_tokens());
  }
  EXPECT_LE(fleet.device_table().occupants(), fleet.options().most_sandboxes);
  EXPECT_LE(fleet.memory().on_host(), fleet.options().host_memory);
  EXPECT_LE(dispatcher.queued(), dispatcher.options().queued_invocations);
  for (const scheduling::Flow& flow : dispatcher.flows()) {
    EXPECT_LE(flow.pending, dispatcher.options().queued_per_function);
    EXPECT_LE(flow.in_flight, flow.declared_concurrency);
  }
}

// No device with nothing to do while a function that may start one more would fit on it.
void expect_no_idle_device_with_fitting_work(const dispatch::Dispatcher& dispatcher) {
  const scheduling::Fleet& fleet = dispatcher.fleet();
  if (!fleet.device_table().any_idle()) return;
  for (uint32_t f = 0; f < dispatcher.flows().size(); ++f) {
    const scheduling::Flow& flow = dispatcher.flows()[f];
    if (flow.pending == 0 || flow.device_memory.count == 0 || flow.max_concurrency == 0) continue;
    // Batch has one batch per function at a time, whatever the function allows.
    const bool is_batch = dispatcher.policy().name() == "batch";
    if (flow.in_flight >= (is_batch ? 1 : flow.max_concurrency)) continue;
    EXPECT_FALSE(fleet.places().find(FunctionId{f}, flow, true).place.has_value())
        << "function " << f << " waits and would fit on an idle device";
  }
}

class EveryPolicy : public testing::TestWithParam<std::string_view> {};

TEST_P(EveryPolicy, GivesOneOutcomeToEachInvocationAndExceedsNoLimitWhateverGoesWrong) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomWorld world = make_random_world(seed, true);
    std::set<InvocationId> finished;
    Simulation simulation(world.options, policy(GetParam(), some_options(seed)),
                          [&](const SimulatedInvocation& invocation) {
                            const dispatch::CompleteInvocation& outcome = invocation.outcome;
                            EXPECT_TRUE(finished.insert(outcome.invocation).second);
                            EXPECT_EQ(outcome.phases.total(),
                                      invocation.completed - invocation.submitted);
                            EXPECT_GE(outcome.phases.queue.count(), 0);
                            EXPECT_GE(outcome.phases.sandbox.count(), 0);
                          });
    InvariantOptions limits{.limits = world.options.dispatch};
    simulation.dispatcher().policy().adapt(limits.limits.fleet);
    limits.may_idle = GetParam() == "exclusive";
    if (is_fair_queuing(GetParam())) limits.over_run = most_over_run(GetParam(), seed);
    limits.waiting_holds_global = GetParam() == kAdaptive;
    limits.one_batch_per_function = GetParam() == "batch";
    Invariants invariants(simulation.dispatcher(), limits);
    for (const FunctionModel& function : world.options.functions) {
      invariants.check(dispatch::FunctionRegistered{function.profile}, Instant(), {});
    }
    simulation.observe([&](const Event& event, Instant now, const std::vector<Action>& actions) {
      expect_nothing_over_its_limit(simulation.dispatcher());
      invariants.check(event, now, actions);
    });
    simulation.run(arrivals_from(world.arrivals));
    EXPECT_FALSE(invariants.violation()) << invariants.violation()->what;
    EXPECT_EQ(finished.size(), world.arrivals.size());
    EXPECT_EQ(simulation.dispatcher().queued(), 0u);
    EXPECT_EQ(simulation.dispatcher().in_flight(), 0u);
    if (HasFailure()) return;
  }
}

// With the memory of those that take several devices on its way between them and the host.
TEST(Gangs, ExceedNoLimitOfAnyOfTheirDevicesAndStarveNobody) {
  uint64_t moves[2] = {};
  for (const std::string_view name : {"density-adapts", "density", "mqfq-sticky", "fcfs"}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
      RandomWorld world = make_random_world(seed, seed % 2 == 0);
      world.options.dispatch.fleet.memory_rule =
          seed % 3 == 0 ? scheduling::MemoryRule::kMoveEarly : scheduling::MemoryRule::kMoveIdle;
      add_gangs(world, seed);
      size_t outcomes = 0;
      size_t succeeded = 0;
      Simulation simulation(world.options, policy(name, some_options(seed)),
                            [&](const SimulatedInvocation& invocation) {
                              ++outcomes;
                              const Outcome outcome = invocation.outcome.outcome;
                              if (outcome == Outcome::kSucceeded) ++succeeded;
                            });
      const dispatch::Dispatcher& dispatcher = simulation.dispatcher();
      InvariantOptions limits{.limits = world.options.dispatch};
      dispatcher.policy().adapt(limits.limits.fleet);
      Invariants invariants(dispatcher, limits);
      for (const FunctionModel& function : world.options.functions) {
        invariants.check(dispatch::FunctionRegistered{function.profile}, Instant(), {});
      }
      simulation.observe([&](const Event& event, Instant now, const std::vector<Action>& actions) {
        expect_nothing_over_its_limit(dispatcher);
        invariants.check(event, now, actions);
        const auto* moved = std::get_if<dispatch::MemoryMoved>(&event);
        const auto slot = moved == nullptr ? std::nullopt : dispatcher.fleet().find(moved->sandbox);
        if (!slot || dispatcher.fleet().sandbox(*slot).beside == 0) return;
        ++moves[moved->direction == dispatch::MoveDirection::kIn ? 0 : 1];
      });
      simulation.run(arrivals_from(world.arrivals));
      EXPECT_FALSE(invariants.violation()) << invariants.violation()->what;
      EXPECT_EQ(outcomes, world.arrivals.size());
      if (seed % 2 == 1) {
        EXPECT_EQ(succeeded, world.arrivals.size());
      }
      for (const scheduling::Device& device : dispatcher.fleet().devices()) {
        // A move out, or a stop, may be under way at the end.
        EXPECT_EQ(device.promised, Bytes(0));
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(moves[0], 1000u);
  EXPECT_GT(moves[1], 1000u);
}

TEST_P(EveryPolicy, LeavesNoDeviceIdleWhileFittingWorkWaits) {
  if (GetParam() == "exclusive") GTEST_SKIP() << "it keeps devices for those who have them";
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world = make_random_world(seed, false);
    Simulation simulation(world.options, policy(GetParam(), some_options(seed)), nullptr);
    simulation.observe([&](const Event&, Instant, const std::vector<Action>&) {
      expect_no_idle_device_with_fitting_work(simulation.dispatcher());
    });
    simulation.run(arrivals_from(world.arrivals));
    if (HasFailure()) return;
  }
}

TEST_P(EveryPolicy, StarvesNobody) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world = make_random_world(seed, false);
    size_t succeeded = 0;
    Simulation simulation(world.options, policy(GetParam(), some_options(seed)),
                          [&](const SimulatedInvocation& invocation) {
                            if (invocation.outcome.outcome == Outcome::kSucceeded) ++succeeded;
                          });
    simulation.run(arrivals_from(world.arrivals));
    EXPECT_EQ(succeeded, world.arrivals.size());
    if (HasFailure()) return;
  }
}

// What runs and what its sandboxes were admitted with, against what was told of each tenant.
void expect_no_tenant_beyond_its_quotas(const dispatch::Dispatcher& dispatcher, Instant now,
                                        const std::vector<dispatch::TenantChanged>& tenants) {
  for (const dispatch::TenantStatus& status : dispatcher.tenant_status(now)) {
    for (const dispatch::TenantChanged& tenant : tenants) {
      if (tenant.tenant != status.id) continue;
      EXPECT_LE(status.running, tenant.concurrency.value_or(status.running));
      EXPECT_LE(status.gpu_memory, tenant.gpu_memory.value_or(status.gpu_memory));
      EXPECT_LE(status.host_memory, tenant.host_memory.value_or(status.host_memory));
    }
  }
}

TEST_P(EveryPolicy, KeepsEveryTenantWithinItsQuotasAndStarvesNobodyOfThose) {
  uint64_t held = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world = make_random_world(seed, false);
    add_tenants(world, seed, true);
    for (Arrival& arrival : world.arrivals) arrival.asynchronous = true;
    size_t succeeded = 0;
    size_t refused = 0;
    Simulation simulation(
        world.options, policy(GetParam(), some_options(seed)),
        [&](const SimulatedInvocation& invocation) {
          const dispatch::CompleteInvocation& outcome = invocation.outcome;
          succeeded += outcome.outcome == Outcome::kSucceeded ? 1 : 0;
          const bool of_quota =
              outcome.error && outcome.error->code == ErrorCode::kFailedPrecondition;
          refused += of_quota ? 1 : 0;
          held += outcome.wait_reason >= scheduling::WaitReason::kTenantConcurrency ? 1 : 0;
        });
    simulation.observe([&](const Event&, Instant now, const std::vector<Action>&) {
      expect_no_tenant_beyond_its_quotas(simulation.dispatcher(), now, world.options.tenants);
    });
    simulation.run(arrivals_from(world.arrivals));
    EXPECT_EQ(succeeded + refused, world.arrivals.size());
    for (const dispatch::TenantStatus& status :
         simulation.dispatcher().tenant_status(simulation.now())) {
      EXPECT_EQ(status.running, 0u);
      EXPECT_EQ(status.waiting, 0u);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(held, 100u) << "the worlds hardly ever put a quota to the test";
}

TEST_P(EveryPolicy, DecidesTheSameForTheSameSeed) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomWorld world = make_random_world(seed, true);
    std::set<uint64_t> hashes;
    for (int repeat = 0; repeat < 2; ++repeat) {
      Simulation simulation(world.options, policy(GetParam(), some_options(seed)), nullptr);
      simulation.run(arrivals_from(world.arrivals));
      hashes.insert(simulation.dispatcher().log_hash());
    }
    EXPECT_EQ(hashes.size(), 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy,
                         testing::Values("density", kAdaptive, "mqfq-sticky", "mqfq-uniform",
                                         "fcfs", "fcfs-naive", "batch", "cfs-affinity",
                                         "exclusive"),
                         [](const auto& info) {
                           std::string name(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class EveryFairQueuing : public testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Policies, EveryFairQueuing,
                         testing::Values("density", kAdaptive, "mqfq-sticky"),
                         [](const auto& info) {
                           std::string name(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(EveryFairQueuing, NeverTakesGlobalVirtualTimeBackAndDispatchesThrottledFlowsOnlyAsCounted) {
  uint64_t dispatched_within = 0;
  uint64_t dispatched_beyond = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomWorld world = make_random_world(seed, false);
    const scheduling::PolicyOptions options = some_options(seed);
    Simulation simulation(world.options, policy(GetParam(), options), nullptr);
    Duration global{};
    std::map<uint32_t, Duration> before;  // virtual times before the event
    uint64_t conserving = 0;
    simulation.observe([&](const Event&, Instant now, const std::vector<Action>&) {
      const dispatch::Dispatcher& dispatcher = simulation.dispatcher();
      const Duration new_global = dispatcher.policy().global_virtual_time();
      EXPECT_GE(new_global, global);
      uint64_t beyond = 0;
      for (uint32_t f = 0; f < dispatcher.flows().size(); ++f) {
        if (dispatcher.flows()[f].device_memory.count == 0) continue;
        const Duration time = dispatcher.status(FunctionId{f}, now).virtual_time;
        // An event dispatches a flow at most a few times; the last one began within T of the
        // global time at most, and global time only grows, or it was counted.
        if (time > before[f] && before[f] > new_global + most_over_run(GetParam(), seed)) ++beyond;
        if (time > before[f]) ++dispatched_within;
        before[f] = time;
      }
      const uint64_t counted = dispatcher.policy().conserving_dispatches() - conserving;
      EXPECT_LE(beyond, counted);
      conserving += counted;
      global = new_global;
    });
    simulation.run(arrivals_from(world.arrivals));
    dispatched_beyond += conserving;
    if (HasFailure()) return;
  }
  EXPECT_GT(dispatched_within, 1000u);
  EXPECT_GT(dispatched_beyond, 0u) << "the worlds never put work conservation to the test";
}

// Two flows that always have work, in between others that come and go. What holds for any D while
// work conservation is not needed: the virtual service charged to them in any interval differs by
// at most 2T and one charge of each.
TEST_P(EveryFairQueuing, ChargesTwoBackloggedFlowsTheSameWithinTwiceTheOverRunAndOneChargeEach) {
  uint64_t checked = 0;
  uint64_t checked_concurrent = 0;
  uint64_t put_to_the_test = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world = make_random_world(seed, false);
    dispatch::DispatchOptions& dispatch = world.options.dispatch;
    // Room for all, so that the one behind can always run.
    dispatch.fleet.most_sandboxes = 1000;
    for (auto& device : dispatch.fleet.devices) {
      device.contexts = 1000;
      device.memory = Bytes::gib(10'000);
    }
    for (FunctionModel& function : world.options.functions) {
      function.profile.max_concurrency = 1000;
      function.profile.device_memory = Bytes::gib(1);
      // What the host takes leaves its queue without a charge.
      function.profile.has_cpu_variant = false;
    }
    if (world.options.functions.size() < 2) continue;
    const FunctionId pair[] = {FunctionId{1}, FunctionId{2}};
    std::vector<Arrival> arrivals;
    for (int i = 0; i < 100; ++i) {
      for (const FunctionId id : pair) arrivals.push_back({Instant(), id});
    }
    arrivals.insert(arrivals.end(), world.arrivals.begin(), world.arrivals.end());

    const scheduling::PolicyOptions options = some_options(seed);
    Simulation simulation(world.options, policy(GetParam(), options), nullptr);
    Duration most_ahead = Duration::min();
    Duration least_ahead = Duration::max();
    Duration largest_charge[2] = {};
    bool over = false;
    size_t arrived = 0;
    simulation.observe([&](const Event& event, Instant now, const std::vector<Action>&) {
      const dispatch::Dispatcher& dispatcher = simulation.dispatcher();
      if (std::holds_alternative<dispatch::InvocationSubmitted>(event)) ++arrived;
      over = over || dispatcher.policy().conserving_dispatches() > 0;
      Duration times[2] = {};
      for (int i = 0; i < 2; ++i) {
        const scheduling::Flow& flow = dispatcher.flows()[pair[i].value];
        times[i] = dispatcher.status(pair[i], now).virtual_time;
        const Duration tau = flow.execution.mean_or(options.mqfq.over_run / 10);
        largest_charge[i] =
            std::max(largest_charge[i], from_seconds(to_seconds(tau) / flow.weight));
        over = over || (arrived >= 200 && flow.pending == 0);
      }
      if (arrived < 200 || over) return;
      most_ahead = std::max(most_ahead, times[0] - times[1]);
      least_ahead = std::min(least_ahead, times[0] - times[1]);
      ++checked;
      if (simulation.dispatcher().in_flight() > 1) ++checked_concurrent;
    });
    simulation.run(arrivals_from(arrivals));
    if (most_ahead < least_ahead) continue;
    const Duration difference = most_ahead - least_ahead;
    EXPECT_LE(difference,
              2 * most_over_run(GetParam(), seed) + largest_charge[0] + largest_charge[1]);
    if (difference > options.mqfq.over_run) ++put_to_the_test;
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 5'000u);
  EXPECT_GT(checked_concurrent, 2'000u);
  EXPECT_GT(put_to_the_test, 10u) << "hardly any world came near the bound";
}

// All tenants' virtual service, by their slots, with the largest charge that each may have had so
// far.
struct TenantTimes {
  std::vector<Duration> service;
  std::vector<Duration> largest_charge;

  void follow(const dispatch::Dispatcher& dispatcher, Duration first_estimate, Instant now) {
    service.clear();
    for (const dispatch::TenantStatus& tenant : dispatcher.tenant_status(now)) {
      service.push_back(tenant.virtual_service);
    }
    largest_charge.resize(service.size());
    for (const scheduling::Flow& flow : dispatcher.flows()) {
      if (!flow.registered || flow.device_memory.count == 0) continue;
      const double weight = dispatcher.tenants().weight(flow.tenant_slot);
      const Duration charge =
          from_seconds(to_seconds(flow.execution.mean_or(first_estimate)) / weight);
      Duration& largest = largest_charge[flow.tenant_slot];
      largest = std::max(largest, charge + Duration(1));
    }
  }
};

// The world's functions are those of one tenant; one more function, which has work throughout, is
// another's. Room for all, so that the one that is behind can always run.
RandomWorld one_against_many(uint64_t seed) {
  RandomWorld world = make_random_world(seed, false);
  dispatch::DispatchOptions& dispatch = world.options.dispatch;
  dispatch.fleet.most_sandboxes = 1000;
  for (auto& device : dispatch.fleet.devices) {
    device.contexts = 1000;
    device.memory = Bytes::gib(10'000);
  }
  FunctionModel lone = world.options.functions[0];
  lone.profile.id = FunctionId{static_cast<uint32_t>(world.options.functions.size() + 1)};
  world.options.functions.push_back(lone);
  for (FunctionModel& function : world.options.functions) {
    function.profile.max_concurrency = 1000;
    function.profile.device_memory = Bytes::gib(1);
    function.profile.has_cpu_variant = false;
    // The bound is of one charge each; a turn is charged for all that join it.
    function.profile.sandbox_concurrency = 0;
  }
  world.options.functions.back().profile.tenant = TenantId{2};
  SeededRandom random(seed);
  world.options.tenants = {{.tenant = TenantId{1}, .weight = 0.5 + 2 * random.uniform()},
                           {.tenant = TenantId{2}, .weight = 0.5 + 2 * random.uniform()}};
  // Those of the many come and go; the first of them always has work.
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 150; ++i) {
    arrivals.push_back({Instant(), FunctionId{1}});
    arrivals.push_back({Instant(), lone.profile.id});
  }
  arrivals.insert(arrivals.end(), world.arrivals.begin(), world.arrivals.end());
  world.arrivals = std::move(arrivals);
  return world;
}

struct TenantDifference {
  Duration difference{};  // the most by which what they were charged grew apart in any interval
  Duration charges{};     // one of each
  uint64_t checked = 0;
};

// While both have work waiting and no tenant or flow that is ahead was dispatched.
TenantDifference difference_in(const RandomWorld& world, std::string_view with,
                               const scheduling::PolicyOptions& options, bool stops_at_conserving) {
  Simulation simulation(world.options, policy(with, options), nullptr);
  TenantDifference result;
  Duration most = Duration::min();
  Duration least = Duration::max();
  TenantTimes times;
  bool over = false;
  size_t arrived = 0;
  simulation.observe([&](const Event& event, Instant now, const std::vector<Action>&) {
    const dispatch::Dispatcher& dispatcher = simulation.dispatcher();
    if (std::holds_alternative<dispatch::InvocationSubmitted>(event)) ++arrived;
    if (over) return;
    times.follow(dispatcher, options.mqfq.over_run / 10, now);
    if (arrived < 300) return;
    over = stops_at_conserving && dispatcher.policy().conserving_dispatches() > 0;
    over = over || dispatcher.flows()[1].pending == 0 || dispatcher.flows().back().pending == 0;
    if (over) return;
    most = std::max(most, times.service[0] - times.service[1]);
    least = std::min(least, times.service[0] - times.service[1]);
    ++result.checked;
  });
  simulation.run(arrivals_from(world.arrivals));
  if (most >= least) result.difference = most - least;
  result.charges = times.largest_charge[0] + times.largest_charge[1];
  return result;
}

TEST_P(EveryFairQueuing, ChargesTwoBackloggedTenantsTheSameWithinTwiceTheOverRunAndOneChargeEach) {
  uint64_t checked = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const scheduling::PolicyOptions options = some_options(seed);
    const TenantDifference found = difference_in(one_against_many(seed), GetParam(), options, true);
    EXPECT_LE(found.difference, 2 * options.mqfq.over_run + found.charges);
    checked += found.checked;
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 5'000u);
}

// On one device where nothing is waited for but its tokens.
TEST_P(EveryFairQueuing, ChargesTwoTenantsTheSameWithinOneChargeEachWhereBothAlwaysHaveAPlace) {
  if (GetParam() == kAdaptive) GTEST_SKIP() << "a place that costs others too much is none";
  uint64_t checked = 0;
  uint64_t put_to_the_test = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world = one_against_many(seed);
    scheduling::FleetOptions& fleet = world.options.dispatch.fleet;
    fleet.devices.resize(1);
    fleet.starts_outside_tokens = 0;
    fleet.second_grace_period = 0;
    fleet.move_grace_period = 0;
    const TenantDifference found = difference_in(world, GetParam(), some_options(seed), false);
    EXPECT_LE(found.difference, found.charges);
    checked += found.checked;
    if (found.difference > found.charges / 2) ++put_to_the_test;
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 5'000u);
  EXPECT_GT(put_to_the_test, 10u) << "hardly any world came near the bound";
}

// Each invocation that began, where, and what the policy's own accounts were at the end.
std::vector<std::tuple<Instant, InvocationId, uint64_t>> decisions_in(
    const RandomWorld& world, std::unique_ptr<scheduling::Policy> with) {
  std::vector<std::tuple<Instant, InvocationId, uint64_t>> decisions;
  Simulation simulation(world.options, std::move(with), nullptr);
  simulation.observe([&](const Event&, Instant now, const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      if (const auto* start = std::get_if<dispatch::StartInvocation>(&action)) {
        decisions.emplace_back(now, start->invocation, start->sandbox.value);
      }
    }
  });
  simulation.run(arrivals_from(world.arrivals));
  decisions.emplace_back(Instant(simulation.dispatcher().policy().global_virtual_time()),
                         InvocationId{}, simulation.dispatcher().policy().conserving_dispatches());
  return decisions;
}

TEST(MqfqSticky, DecidesExactlyAsThePlainScanDoes) {
  for (uint64_t seed = 1; seed <= 2 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world = make_random_world(seed, seed % 2 == 0);
    if (seed % 3 != 0) add_tenants(world, seed, seed % 3 == 1, true);
    const scheduling::MqfqOptions options = some_options(seed).mqfq;
    EXPECT_EQ(decisions_in(world, std::make_unique<scheduling::MqfqStickyPolicy>(options)),
              decisions_in(world, std::make_unique<ScanMqfq>(options)));
    if (HasFailure()) return;
  }
}

TEST(Density, DecidesExactlyAsThePlainScanDoes) {
  for (uint64_t seed = 1; seed <= 2 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world = make_random_world(seed, seed % 2 == 0);
    if (seed % 3 != 0) add_tenants(world, seed, seed % 3 == 1, true);
    scheduling::MqfqOptions fair_queuing = some_options(seed).mqfq;
    fair_queuing.memory_first = false;
    const scheduling::DensityOptions options = some_options(seed).density;
    EXPECT_EQ(decisions_in(world, std::make_unique<scheduling::DensityPolicy>(
                                      fair_queuing.fair_queuing(), options)),
              decisions_in(world, std::make_unique<ScanDensity>(fair_queuing, options)));
    if (HasFailure()) return;
  }
}

// What was started and stopped where, in a world whose devices fall silent and are lost.
std::vector<std::tuple<uint64_t, uint64_t, uint64_t>> acts_in_faulty_world(
    uint64_t seed, std::function<std::unique_ptr<scheduling::Policy>()> with) {
  std::vector<std::tuple<uint64_t, uint64_t, uint64_t>> acts;
  FaultyWorldOptions options{.seed = seed};
  options.policy = std::move(with);
  options.tell = [](InvariantOptions& told) { told = {.limits = told.limits, .may_idle = true}; };
  options.distort = [&](const Event&, std::vector<Action>& actions) {
    for (const Action& action : actions) {
      if (const auto* run = std::get_if<dispatch::StartInvocation>(&action)) {
        acts.emplace_back(run->sandbox.value, run->invocation.high, run->invocation.low);
      } else if (const auto* start = std::get_if<dispatch::StartSandbox>(&action)) {
        acts.emplace_back(start->sandbox.value, start->function.value, start->device.value);
      }
    }
  };
  const FaultyWorldResult result = run_faulty_world(options);
  EXPECT_FALSE(result.violation) << result.violation->what;
  return acts;
}

TEST(EveryScan, DecidesLikeItsPolicyWhenDevicesComeAndGo) {
  uint64_t acts = 0;
  for (uint64_t seed = 1; seed <= 2 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const scheduling::MqfqOptions mqfq = some_options(seed).mqfq;
    const auto indexed = acts_in_faulty_world(
        seed, [&] { return std::make_unique<scheduling::MqfqStickyPolicy>(mqfq); });
    EXPECT_EQ(indexed,
              acts_in_faulty_world(seed, [&] { return std::make_unique<ScanMqfq>(mqfq); }));
    acts += indexed.size();
    scheduling::MqfqOptions fair_queuing = mqfq;
    fair_queuing.memory_first = false;
    const scheduling::DensityOptions density = some_options(seed).density;
    EXPECT_EQ(acts_in_faulty_world(seed,
                                   [&] {
                                     return std::make_unique<scheduling::DensityPolicy>(
                                         fair_queuing.fair_queuing(), density);
                                   }),
              acts_in_faulty_world(
                  seed, [&] { return std::make_unique<ScanDensity>(fair_queuing, density); }));
    if (HasFailure()) return;
  }
  EXPECT_GT(acts, 5'000u);
}

TEST(CfsAffinity, DecidesExactlyAsThePlainScanDoes) {
  for (uint64_t seed = 1; seed <= 2 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world = make_random_world(seed, seed % 2 == 0);
    // It keeps no account of those that join.
    for (FunctionModel& each : world.options.functions) each.profile.sandbox_concurrency = 0;
    const scheduling::CfsOptions options{.penalty = seed % 3 == 0 ? 1.0 : 10.0};
    EXPECT_EQ(decisions_in(world, std::make_unique<scheduling::CfsAffinityPolicy>(options)),
              decisions_in(world, std::make_unique<ScanCfs>(options)));
    if (HasFailure()) return;
  }
}

// Nor one beside a stopped worker that still exists.
TEST(Exclusive, NeverRunsTwoFunctionsOnOneDevice) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomWorld world = make_random_world(seed, seed % 2 == 0);
    std::map<SandboxId, dispatch::StartSandbox> alive;
    Simulation simulation(world.options, policy("exclusive"), nullptr);
    simulation.observe([&](const Event& event, Instant, const std::vector<Action>& actions) {
      if (const auto* gone = std::get_if<dispatch::SandboxExited>(&event)) {
        alive.erase(gone->sandbox);
      }
      for (const Action& action : actions) {
        const auto* start = std::get_if<dispatch::StartSandbox>(&action);
        if (start == nullptr) continue;
        if (start->device == scheduling::kHostDevice) continue;
        for (const auto& [id, other] : alive) {
          EXPECT_NE(other.device, start->device) << "two workers on one device";
        }
        alive.emplace(start->sandbox, *start);
      }
    });
    simulation.run(arrivals_from(world.arrivals));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lambent::simulator
