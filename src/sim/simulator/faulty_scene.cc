#include "sim/simulator/faulty_scene.h"

#include <algorithm>

namespace lambent::simulator {
namespace {

scheduling::FleetOptions make_fleet(Random& random) {
  scheduling::FleetOptions fleet;
  const uint64_t devices = between(random, 1, 4);
  for (uint32_t i = 1; i <= devices; ++i) {
    fleet.devices.push_back({.id = DeviceId{i},
                             .memory = Bytes::gib(between(random, 8, 16)),
                             .tokens = static_cast<unsigned>(between(random, 1, 4)),
                             .contexts = static_cast<unsigned>(between(random, 2, 12)),
                             .memory_moves = random.below(8) != 0});
    if (random.below(4) == 0) {
      fleet.devices.back().by_utilisation =
          scheduling::UtilisationOptions{0.5 + random.uniform() / 2, 3};
    }
  }
  fleet.most_sandboxes = static_cast<unsigned>(between(random, 2, 16));
  if (random.below(2) == 0) {
    fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
    // Memory is what is short, mostly.
    if (random.below(4) != 0) {
      fleet.most_sandboxes += 20;
      for (scheduling::DeviceOptions& device : fleet.devices) device.contexts += 8;
    }
  }
  fleet.prefetch = random.below(4) != 0;
  if (random.below(2) == 0) fleet.host_memory = Bytes::mib(between(random, 0, 30'000));
  fleet.eviction = random.below(2) == 0 ? scheduling::EvictionRule::kCostAware
                                        : scheduling::EvictionRule::kLeastRecentlyUsed;
  if (random.below(2) == 0) {
    fleet.starts_outside_tokens = static_cast<unsigned>(between(random, 1, 2));
  }
  return fleet;
}

}  // namespace

void draw_profile(Random& random, dispatch::FunctionProfile& profile) {
  profile.weight = random.below(3) == 0 ? 0.5 + 2 * random.uniform() : 1;
  profile.max_concurrency = random.below(3) == 0 ? static_cast<unsigned>(between(random, 2, 4)) : 1;
  // Some use no GPU, a few want more than any has, or than most have.
  const uint64_t kind = random.below(20);
  profile.device_memory = kind < 3   ? Bytes(0)
                          : kind < 4 ? Bytes::gib(20)
                          : kind < 6 ? Bytes::mib(between(random, 8000, 15'000))
                                     : Bytes::mib(between(random, 100, 8000));
  profile.timeout = milliseconds(between(random, 1000, 20'000));
  profile.memory_moves = random.below(8) != 0;
  profile.checkpoints = random.below(3) == 0;
  // Of the others drawn before, so that worlds without variants stay what they were.
  const int64_t drawn = profile.timeout / milliseconds(1);
  profile.has_cpu_variant = profile.device_memory > Bytes(0) && drawn % 3 == 0;
  if (drawn % 5 == 0) profile.sandbox_concurrency = 1 + static_cast<unsigned>(drawn / 5 % 4);
  profile.gpu_speedup = profile.has_cpu_variant ? static_cast<double>(drawn / 3 % 4) : 0;
  profile.min_instances = drawn % 5 == 0 ? static_cast<unsigned>(1 + drawn / 5 % 2) : 0;
  if (drawn % 9 == 4) profile.gpu_count = static_cast<unsigned>(2 + drawn / 9 % 2);
  profile.keep_alive = drawn % 7 == 0 ? seconds(drawn / 7 % 9) : Duration(0);
}

FaultyScene make_faulty_scene(uint64_t seed) {
  SeededRandom random(seed);
  FaultyScene scene;
  dispatch::DispatchOptions& dispatch = scene.dispatch;
  dispatch.fleet = make_fleet(random);
  dispatch.host_concurrency = static_cast<unsigned>(between(random, 1, 4));
  dispatch.host_sandboxes = static_cast<unsigned>(between(random, 1, 8));
  dispatch.queued_per_function = between(random, 3, 60);
  dispatch.queued_invocations = between(random, 10, 200);
  dispatch.longest_wait = seconds(between(random, 5, 200));
  dispatch.init_timeout = seconds(between(random, 2, 20));
  dispatch.keep_alive = seconds(between(random, 3, 100));
  dispatch.stop_timeout = seconds(between(random, 1, 40));
  dispatch.move_timeout = seconds(between(random, 1, 20));
  dispatch.start_retries = static_cast<unsigned>(random.below(3));
  if (seed % 3 == 0) dispatch.fleet.foresight = {.starts_ahead = true, .look_again = seconds(1)};
  if (seed % 5 < 2) dispatch.fleet.eviction = scheduling::EvictionRule::kForeseen;
  if (seed % 10 == 2) dispatch.fleet.eviction = scheduling::EvictionRule::kCostAwareGrace;
  const bool moves_memory = scheduling::moves_idle(dispatch.fleet.memory_rule);
  if (seed % 4 == 3 && moves_memory) {
    dispatch.fleet.memory_rule = scheduling::MemoryRule::kMoveEarly;
  }
  // Half of all worlds leave the GPUs their whole load.
  constexpr scheduling::HybridRule kRules[] = {
      scheduling::HybridRule::kQueueing, scheduling::HybridRule::kOff,
      scheduling::HybridRule::kTopShare, scheduling::HybridRule::kOff};
  dispatch.hybrid = {.rule = kRules[seed / 2 % 4], .others = static_cast<double>(seed % 3)};

  const auto policies = scheduling::policy_names();
  // Half of all worlds have the policy that people use.
  scene.policy =
      random.below(2) == 0 ? scheduling::kDefaultPolicy : policies[random.below(policies.size())];
  scheduling::MqfqOptions& mqfq = scene.policy_options.mqfq;
  mqfq.over_run = seconds(between(random, 1, 20));
  mqfq.order = random.below(2) == 0 ? scheduling::CandidateOrder::kInFlightFirst
                                    : scheduling::CandidateOrder::kLengthFirst;
  mqfq.duplicates_last = random.below(4) != 0;
  mqfq.memory_first = seed % 4 == 1;
  scene.policy_options.density.grace_period = milliseconds(100 + seed * 7919 % 40'000);
  scene.policy_options.density.adapts = seed % 2 == 0;
  scene.policy_options.density.weighs_queue = seed % 4 == 0;
  // Half of these as in state version 22.
  scene.policy_options.density.weighs_returns = seed % 8 != 4;
  dispatch.tells_longest_wait = seed % 8 != 4;
  // Some as in state version 23.
  dispatch.fleet.moves_gangs = seed % 8 != 4;
  scene.policy_options.fcfs_moves_off_after_run = random.below(2) == 0;

  // Where memory moves, sandboxes have to live to see it: more of them get through.
  const bool moves = scheduling::moves_idle(dispatch.fleet.memory_rule);
  const int64_t hurry = moves ? 8 : 1;
  const uint64_t functions = between(random, 1, 14);
  for (uint32_t i = 1; i <= functions; ++i) {
    FaultyScene::Function function;
    function.profile.id = FunctionId{i};
    function.profile.tenant = TenantId{1};
    draw_profile(random, function.profile);
    function.execution = milliseconds(between(random, 5, 3000)) / hurry;
    function.start = milliseconds(between(random, 5, 3000)) / hurry;
    scene.functions.push_back(function);
  }
  const uint64_t arrivals = between(random, 30, 300);
  const Duration most_gap = milliseconds(between(random, 50, 3000));
  Instant at{};
  for (uint64_t i = 0; i < arrivals; ++i) {
    // Bursts at one instant, and gaps.
    if (random.below(3) != 0) at += up_to(random, most_gap);
    const uint64_t function =
        std::min(between(random, 1, functions), between(random, 1, functions));
    scene.arrivals.push_back(
        {at, FunctionId{static_cast<uint32_t>(function)}, random.below(6) == 0});
  }
  return scene;
}

}  // namespace lambent::simulator
