// Worlds made from a seed for property tests: functions, devices, limits, faults and arrivals that
// no one would think of. Used by the tests of this room only.
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/random.h"
#include "sim/simulator/simulation.h"

namespace lambent::simulator {

struct RandomWorld {
  SimulationOptions options;
  std::vector<Arrival> arrivals;
};

inline RandomWorld make_random_world(uint64_t seed, bool with_faults) {
  SeededRandom random(seed);
  const auto between = [&](uint64_t low, uint64_t high) {
    return low + random.below(high - low + 1);
  };
  RandomWorld world;
  world.options.seed = seed;
  dispatch::DispatchOptions& dispatch = world.options.dispatch;
  // Some worlds have more functions than a decision looks past, and room for them.
  const bool is_wide = seed % 4 == 1;
  const uint64_t devices = is_wide ? between(2, 3) : between(1, 3);
  for (uint64_t i = 0; i < devices; ++i) {
    dispatch.fleet.devices.push_back(
        {.id = DeviceId{static_cast<uint32_t>(i + 1)},
         .memory = Bytes::gib(between(8, 16)),
         .tokens = static_cast<unsigned>(between(1, 4)),
         .contexts = static_cast<unsigned>(is_wide ? between(20, 40) : between(4, 12))});
    if (random.below(4) == 0) {
      dispatch.fleet.devices.back().by_utilisation =
          scheduling::UtilisationOptions{0.5 + random.uniform() / 2, 3};
    }
  }
  dispatch.fleet.most_sandboxes = static_cast<unsigned>(is_wide ? between(20, 60) : between(4, 16));
  dispatch.fleet.memory_rule = random.below(2) == 0 ? scheduling::MemoryRule::kEverySandbox
                                                    : scheduling::MemoryRule::kMoveIdle;
  dispatch.fleet.eviction = random.below(2) == 0 ? scheduling::EvictionRule::kCostAware
                                                 : scheduling::EvictionRule::kLeastRecentlyUsed;
  if (random.below(2) == 0) {
    dispatch.fleet.starts_outside_tokens = static_cast<unsigned>(between(1, 2));
  }
  dispatch.fleet.prefetch = random.below(4) != 0;
  if (random.below(3) == 0) dispatch.fleet.host_memory = Bytes::mib(between(1000, 30'000));
  world.options.device.stays = Bytes::mib(random.below(600));
  world.options.device.host_share = random.uniform() / 2;
  dispatch.host_concurrency = static_cast<unsigned>(between(1, 4));
  dispatch.host_sandboxes = static_cast<unsigned>(between(4, 8));
  dispatch.keep_alive = seconds(between(5, 100));
  constexpr scheduling::HybridRule kRules[] = {
      scheduling::HybridRule::kQueueing, scheduling::HybridRule::kTopShare,
      scheduling::HybridRule::kQueueing, scheduling::HybridRule::kOff};
  dispatch.hybrid.rule = kRules[seed % 4];
  dispatch.longest_wait = seconds(with_faults ? between(20, 200) : 100'000);
  if (with_faults) {
    dispatch.queued_per_function = between(3, 50);
    dispatch.queued_invocations = between(20, 200);
    if (seed % 3 == 0) dispatch.queued_synchronous = dispatch.queued_invocations / 2;
    if (seed % 2 == 0) dispatch.queue_wait = seconds(2);
    if (seed % 4 == 1) dispatch.max_queue_time = scheduling::kLearntQueueTime;
    if (seed % 8 == 3) dispatch.max_queue_time = seconds(3);
    world.options.faults = {.start_fails = 0.05,
                            .init_crashes = 0.05,
                            .start_hangs = 0.02,
                            .crashes = 0.05,
                            .hangs = 0.02,
                            .handler_errors = 0.1};
  }
  const uint64_t functions = is_wide ? between(20, 40) : between(1, 20);
  for (uint64_t i = 0; i < functions; ++i) {
    FunctionModel function;
    function.profile.id = FunctionId{static_cast<uint32_t>(i + 1)};
    function.profile.tenant = TenantId{1};
    function.profile.weight = random.below(3) == 0 ? 0.5 + 2 * random.uniform() : 1;
    function.profile.max_concurrency =
        random.below(4) == 0 ? static_cast<unsigned>(between(2, 4)) : 1;
    if (random.below(8) != 0) function.profile.device_memory = Bytes::mib(between(100, 8000));
    function.profile.memory_moves = random.below(6) != 0;
    function.profile.checkpoints = random.below(3) == 0;
    function.profile.timeout = seconds(with_faults ? between(2, 10) : 1000);
    if (i % 4 == 1) function.profile.sandbox_concurrency = 2 + static_cast<unsigned>(i % 3);
    function.execution = milliseconds(between(5, 3000));
    function.spread = random.uniform() / 2;
    function.sandbox_time = milliseconds(between(5, 500));
    function.init_time = milliseconds(between(5, 4000));
    if (function.profile.device_memory > Bytes(0) && i % 3 == 0) {
      const double speedup = 1.5 + static_cast<double>(i);
      function.profile.has_cpu_variant = true;
      function.profile.gpu_speedup = i % 2 == 0 ? speedup : 0;
      function.host_execution = from_seconds(to_seconds(function.execution) * speedup);
      function.host_init_time = function.init_time / 2;
    }
    world.options.functions.push_back(function);
  }
  const uint64_t arrivals = between(50, 300);
  Instant at{};
  for (uint64_t i = 0; i < arrivals; ++i) {
    // Bursts at one instant, and gaps.
    if (random.below(3) != 0) at += milliseconds(random.below(600));
    const uint64_t a = between(1, functions);
    const uint64_t b = between(1, functions);
    world.arrivals.push_back(
        {at, FunctionId{static_cast<uint32_t>(std::min(a, b))}, random.below(10) == 0});
  }
  return world;
}

// About a third of the world's functions that use a GPU take two or three together, where there are
// as many.
inline void add_gangs(RandomWorld& world, uint64_t seed) {
  SeededRandom random(seed ^ 0x6a46);
  const size_t devices = world.options.dispatch.fleet.devices.size();
  for (FunctionModel& function : world.options.functions) {
    if (devices < 2 || function.profile.device_memory == Bytes(0) || random.below(3) != 0) continue;
    function.profile.gpu_count = static_cast<unsigned>(2 + random.below(devices - 1));
    function.profile.has_cpu_variant = false;
  }
}

// Some of the world's functions are to have instances that are ready, more than there is room for.
inline void add_instances(RandomWorld& world, uint64_t seed) {
  SeededRandom random(seed ^ 0x1257);
  for (FunctionModel& function : world.options.functions) {
    if (random.below(2) == 0) {
      function.profile.min_instances = static_cast<unsigned>(1 + random.below(3));
    }
    if (random.below(4) == 0) function.profile.keep_alive = seconds(1 + random.below(30));
  }
}

// Makes several tenants of the world's functions, with weights, and some with quotas that are hard
// to keep; `changes`: and that change, to less than is in use, or to nothing.
inline void add_tenants(RandomWorld& world, uint64_t seed, bool with_quotas, bool changes = false) {
  SeededRandom random(seed ^ 0x7e4a47);
  // What waits for GPU time waits for an hour, and utilisation would be read all the while.
  for (auto& device : world.options.dispatch.fleet.devices) device.by_utilisation.reset();
  const auto count = static_cast<uint32_t>(2 + random.below(3));
  for (uint32_t i = 1; i <= count; ++i) {
    dispatch::TenantChanged tenant{.tenant = TenantId{i}};
    if (random.below(2) == 0) tenant.weight = 0.25 + 4 * random.uniform();
    if (with_quotas && i > 1) {
      if (random.below(2) == 0) tenant.concurrency = 1 + random.below(4);
      if (random.below(2) == 0) tenant.gpu_memory = Bytes::mib(8000 + random.below(8000));
      if (random.below(2) == 0) tenant.host_memory = Bytes::mib(4000 + random.below(4000));
      if (random.below(3) == 0) tenant.gpu_time_per_hour = seconds(1 + random.below(60));
    }
    // Some are known by their functions only.
    if (with_quotas || random.below(3) != 0) world.options.tenants.push_back(tenant);
  }
  // From here on told while the world goes on, of some of which nothing was told before.
  for (uint64_t i = 0; with_quotas && changes && i < 4; ++i) {
    dispatch::TenantChanged changed{
        .tenant = TenantId{static_cast<uint32_t>(1 + random.below(count + 1))},
        .weight = 0.5 + random.uniform()};
    if (random.below(2) == 0) changed.concurrency = random.below(4);
    if (random.below(2) == 0) changed.gpu_memory = Bytes::mib(random.below(9000));
    if (random.below(2) == 0) changed.host_memory = Bytes::mib(random.below(9000));
    if (random.below(2) == 0) changed.gpu_time_per_hour = seconds(random.below(30));
    world.options.tenant_changes.emplace_back(seconds(random.below(120)), changed);
  }
  for (FunctionModel& function : world.options.functions) {
    function.profile.tenant = TenantId{static_cast<uint32_t>(1 + random.below(count))};
    function.profile.host_memory = Bytes::mib(random.below(4000));
  }
}

}  // namespace lambent::simulator
