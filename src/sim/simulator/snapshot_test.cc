// A dispatcher that was restored from a snapshot goes on as the one that was saved: whatever the
// world, the policy and the moment.
#include <gtest/gtest.h>

#include "decide/scheduling/make_policy.h"
#include "sim/simulator/testing/random_world.h"

namespace lambent::simulator {
namespace {

using dispatch::Action;
using dispatch::Dispatcher;
using dispatch::Event;

// As it ships; "density" is without what it adapts.
constexpr std::string_view kAdaptive = "density-adapts";
// As it was in state version 22.
constexpr std::string_view kBeforeReturns = "density-before-returns";

std::vector<std::string_view> all_policies() {
  std::vector<std::string_view> all(scheduling::policy_names().begin(),
                                    scheduling::policy_names().end());
  all.push_back(kAdaptive);
  all.push_back(kBeforeReturns);
  return all;
}

class Snapshots : public testing::TestWithParam<std::string_view> {
 public:
  static std::unique_ptr<scheduling::Policy> policy() {
    scheduling::PolicyOptions options;
    options.density.adapts = GetParam() == kAdaptive || GetParam() == kBeforeReturns;
    options.density.weighs_queue = options.density.adapts;
    options.density.weighs_returns = GetParam() != kBeforeReturns;
    return std::move(
               scheduling::make_policy(options.density.adapts ? "density" : GetParam(), options))
        .value();
  }
  static RandomWorld world_of(uint64_t seed, bool with_faults) {
    RandomWorld world = make_random_world(seed, with_faults);
    world.options.dispatch.tells_longest_wait = GetParam() != kBeforeReturns;
    return world;
  }
};

TEST_P(Snapshots, GoOnAsTheOriginalDoesFromAnyMoment) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world = world_of(seed, seed % 2 == 0);
    if (seed % 3 != 0) add_tenants(world, seed, seed % 3 == 1, true);
    if (seed % 4 < 2) add_instances(world, seed);
    if (seed % 5 == 0) add_gangs(world, seed);
    Simulation simulation(world.options, policy(), nullptr);
    // Restored again from a snapshot after every seventh event, and fed with all the others.
    auto twin = std::make_unique<Dispatcher>(world.options.dispatch, policy());
    std::vector<Action> ignored;
    for (const dispatch::TenantChanged& tenant : world.options.tenants) {
      twin->handle(tenant, Instant{}, ignored);
    }
    for (const FunctionModel& function : world.options.functions) {
      twin->handle(dispatch::FunctionRegistered{function.profile}, Instant{}, ignored);
    }
    uint64_t events = 0;
    simulation.observe([&](const Event& event, Instant now, const std::vector<Action>&) {
      std::vector<Action> actions;
      twin->handle(event, now, actions);
      ASSERT_EQ(twin->log_hash(), simulation.dispatcher().log_hash()) << "event " << events;
      if (++events % 7 != 0) return;
      const std::string bytes = twin->snapshot();
      twin = std::make_unique<Dispatcher>(world.options.dispatch, policy());
      ASSERT_TRUE(twin->restore(bytes));
      ASSERT_EQ(twin->snapshot().size(), bytes.size());
    });
    simulation.run(arrivals_from(world.arrivals));
    EXPECT_GT(events, 100u);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Snapshots, ThatAreCutShortAreRefused) {
  RandomWorld world = world_of(4, true);
  add_tenants(world, 4, true);
  Dispatcher original(world.options.dispatch, policy());
  std::vector<Action> actions;
  for (const dispatch::TenantChanged& tenant : world.options.tenants) {
    original.handle(tenant, Instant{}, actions);
  }
  for (const FunctionModel& function : world.options.functions) {
    original.handle(dispatch::FunctionRegistered{function.profile}, Instant{}, actions);
  }
  for (uint64_t i = 1; i <= 20; ++i) {
    const FunctionId function{static_cast<uint32_t>(1 + i % world.options.functions.size())};
    original.handle(dispatch::InvocationSubmitted{{0, i}, function}, Instant(seconds(i)), actions);
  }
  const std::string bytes = original.snapshot();
  for (size_t size = 0; size < bytes.size(); ++size) {
    Dispatcher restored(world.options.dispatch, policy());
    EXPECT_FALSE(restored.restore(std::string_view(bytes).substr(0, size)))
        << size << " of " << bytes.size() << " bytes";
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, Snapshots, testing::ValuesIn(all_policies()),
                         [](const auto& info) {
                           std::string name(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lambent::simulator
