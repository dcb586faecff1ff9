#include "simulator/simulation.h"

#include <gtest/gtest.h>

#include "scheduling/make_policy.h"

namespace lambent::simulator {
namespace {

SimulationOptions one_function() {
  SimulationOptions options;
  options.dispatch.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16), .tokens = 2}};
  FunctionModel f;
  f.profile = {.id = FunctionId{1}, .tenant = TenantId{1}, .device_memory = Bytes::gib(1)};
  f.execution = seconds(1);
  f.sandbox_time = milliseconds(500);
  f.init_time = milliseconds(1500);
  options.functions = {f};
  return options;
}

std::vector<SimulatedInvocation> run(const SimulationOptions& options,
                                     const std::vector<Arrival>& arrivals,
                                     std::string_view policy = "mqfq-sticky") {
  std::vector<SimulatedInvocation> outcomes;
  Simulation simulation(options, std::move(scheduling::make_policy(policy)).value(),
                        [&](const SimulatedInvocation& one) { outcomes.push_back(one); });
  simulation.run(arrivals_from(arrivals));
  return outcomes;
}

TEST(Simulation, AColdInvocationTakesItsStartAndItsRunAndAWarmOneItsRun) {
  const auto outcomes =
      run(one_function(), {{Instant(), FunctionId{1}}, {Instant(seconds(10)), FunctionId{1}}});
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0].completed, Instant(seconds(3)));
  EXPECT_EQ(outcomes[0].outcome.start, StartClass::kCold);
  EXPECT_EQ(outcomes[0].outcome.phases.init, milliseconds(1500));
  EXPECT_EQ(outcomes[1].completed, Instant(seconds(11)));
  EXPECT_EQ(outcomes[1].outcome.start, StartClass::kWarm);
}

TEST(Simulation, MemoryThatWasMovedOffTakesTheLinkToComeBack) {
  SimulationOptions options = one_function();
  options.dispatch.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
  options.device.link_bytes_per_second = static_cast<double>(Bytes::gib(2).count);
  const auto outcomes =
      run(options, {{Instant(), FunctionId{1}}, {Instant(seconds(10)), FunctionId{1}}}, "fcfs");
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[1].outcome.start, StartClass::kGpuCold);
  EXPECT_EQ(outcomes[1].outcome.phases.memory, milliseconds(500));
  EXPECT_EQ(outcomes[1].outcome.phases.run, seconds(1));
}

TEST(Simulation, ARunThatHangsIsEndedByTheTimeoutAndTheNextOneSucceeds) {
  SimulationOptions options = one_function();
  options.functions[0].profile.timeout = seconds(3);
  options.faults.hangs = 1;
  const auto outcomes = run(options, {{Instant(), FunctionId{1}}});
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].outcome.error_type, "Sandbox.Timeout");
  EXPECT_EQ(outcomes[0].completed, Instant(seconds(5)));
}

}  // namespace
}  // namespace lambent::simulator
