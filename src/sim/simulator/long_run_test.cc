// What one long function can do to the others, as a bound that holds in every world:
// docs/reference/scheduling.md states it.
#include <gtest/gtest.h>

#include <map>

#include "core/base/random.h"
#include "decide/scheduling/make_policy.h"
#include "sim/simulator/simulation.h"

namespace lambent::simulator {
namespace {

constexpr Duration kOverRun = seconds(5);

struct World {
  SimulationOptions options;
  std::vector<Arrival> arrivals;
  Duration longest{};
  size_t warm_up = 0;  // so many arrivals at first, one of each function
};

// One device with room for all; starts take next to nothing; one function takes far longer than the
// others. Each is called once at first, so that what it takes is known.
World make_world(uint64_t seed) {
  SeededRandom random(seed);
  World world;
  world.options.seed = seed;
  world.options.device.slowdown = 0;
  dispatch::DispatchOptions& dispatch = world.options.dispatch;
  dispatch.fleet.devices = {{.id = DeviceId{1},
                             .memory = Bytes::gib(1000),
                             .tokens = static_cast<unsigned>(1 + random.below(3)),
                             .contexts = 100}};
  dispatch.fleet.most_sandboxes = 100;
  dispatch.keep_alive = seconds(1'000'000);
  dispatch.longest_wait = seconds(1'000'000);
  const uint32_t functions = 2 + static_cast<uint32_t>(random.below(8));
  Instant at{};
  for (uint32_t i = 1; i <= functions; ++i) {
    FunctionModel function;
    function.profile.id = FunctionId{i};
    function.profile.tenant = TenantId{1};
    function.profile.device_memory = Bytes::gib(1);
    function.profile.timeout = seconds(1000);
    function.execution =
        milliseconds(i == 1 ? 20'000 + random.below(60'000) : 5 + random.below(2000));
    world.longest = std::max(world.longest, function.execution);
    world.options.functions.push_back(function);
    world.arrivals.push_back({at, FunctionId{i}});
    at += seconds(200);
  }
  world.warm_up = world.arrivals.size();
  for (int i = 0; i < 200; ++i) {
    if (random.below(3) != 0) at += milliseconds(random.below(4000));
    const uint32_t function =
        random.below(20) == 0 ? 1 : 2 + static_cast<uint32_t>(random.below(functions - 1));
    world.arrivals.push_back({at, FunctionId{function}});
  }
  return world;
}

class LongRuns : public testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Policies, LongRuns, testing::Values("density", "mqfq-sticky"),
                         [](const auto& info) {
                           return std::string(info.param == "density" ? "density" : "mqfq_sticky");
                         });

// An invocation whose function has nothing else, and whose function's virtual time is `lead` (at
// most T) above the global one. While it waits global virtual time cannot pass its function's, so
// each other function is charged `lead` + T and one charge more at most; all D tokens are busy, and
// what they ran when it came is over after the longest run.
TEST_P(LongRuns, KeepOthersWaitingForTheLongestRunBeyondTheirShareAtMost) {
  uint64_t checked = 0;
  uint64_t waited_for_a_long_one = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const World world = make_world(seed);
    scheduling::PolicyOptions options;
    options.mqfq.over_run = kOverRun;
    std::map<InvocationId, Duration> bounds;
    Simulation simulation(world.options,
                          std::move(scheduling::make_policy(GetParam(), options)).value(),
                          [&](const SimulatedInvocation& invocation) {
                            const auto bound = bounds.find(invocation.outcome.invocation);
                            if (bound == bounds.end()) return;
                            const Duration waited = invocation.outcome.phases.queue;
                            EXPECT_LE(waited, bound->second);
                            ++checked;
                            if (waited > world.longest / 2) ++waited_for_a_long_one;
                          });
    size_t arrived = 0;
    simulation.observe(
        [&](const dispatch::Event& event, Instant now, const std::vector<dispatch::Action>&) {
          const auto* submitted = std::get_if<dispatch::InvocationSubmitted>(&event);
          if (submitted == nullptr || ++arrived <= world.warm_up) return;
          const dispatch::Dispatcher& dispatcher = simulation.dispatcher();
          const scheduling::Flow& own = dispatcher.flows()[submitted->function.value];
          if (own.pending != 1 || own.in_flight != 0)
            return;  // behind its own, or dispatched at once
          const Duration lead = dispatcher.status(submitted->function, now).virtual_time -
                                dispatcher.policy().global_virtual_time();
          if (lead > kOverRun) return;
          Duration share{};
          for (const FunctionModel& other : world.options.functions) {
            if (other.profile.id != submitted->function) share += lead + kOverRun + other.execution;
          }
          bounds[submitted->invocation] =
              share / world.options.dispatch.fleet.devices[0].tokens + world.longest + seconds(1);
        });
    simulation.run(arrivals_from(world.arrivals));
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 1000u);
  EXPECT_GT(waited_for_a_long_one, 50u) << "hardly anybody waited for the long one";
}

// The dispatcher says beforehand how long that can be: no holder of a token holds it for
// longer.
TEST_P(LongRuns, WhoHoldsATokenIsGoneWhenTheDispatcherSaidAtTheLatest) {
  uint64_t checked = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world = make_world(seed);
    // Some of the long ones end by their timeout.
    world.options.functions[0].profile.timeout = seconds(30);
    std::map<InvocationId, Instant> latest;
    Simulation simulation(world.options, std::move(scheduling::make_policy(GetParam())).value(),
                          [&](const SimulatedInvocation& invocation) {
                            const auto told = latest.find(invocation.outcome.invocation);
                            if (told == latest.end()) return;
                            EXPECT_LE(invocation.completed, told->second);
                            ++checked;
                          });
    simulation.observe(
        [&](const dispatch::Event&, Instant now, const std::vector<dispatch::Action>&) {
          for (const dispatch::TokenHolder& holder : simulation.dispatcher().token_holders(now)) {
            if (holder.invocation == InvocationId{}) continue;
            ASSERT_TRUE(holder.most_left.has_value());
            EXPECT_GE(holder.held, Duration(0));
            latest.try_emplace(holder.invocation, now + *holder.most_left);
          }
        });
    simulation.run(arrivals_from(world.arrivals));
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 1000u);
}

}  // namespace
}  // namespace lambent::simulator
