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

}  // namespace lambent::simulator
