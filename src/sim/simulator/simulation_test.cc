#include "sim/simulator/simulation.h"

#include <gtest/gtest.h>

#include "decide/scheduling/make_policy.h"

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

TEST(Simulation, WhatARunTakesBeyondItsExecutionHoldsItsTokenAndSlowsNobodyDown) {
  SimulationOptions options = one_function();
  options.device.run_overhead = milliseconds(100);
  options.device.slowdown = 1;  // two take twice as long
  FunctionModel other = options.functions[0];
  other.profile.id = FunctionId{2};
  options.functions.push_back(other);
  options.dispatch.fleet.devices[0].tokens = 2;
  const auto outcomes = run(options, {{Instant(), FunctionId{1}},
                                      {Instant(), FunctionId{2}},
                                      {Instant(seconds(10)), FunctionId{1}},
                                      {Instant(seconds(10)), FunctionId{2}},
                                      {Instant(seconds(10)), FunctionId{1}}});
  ASSERT_EQ(outcomes.size(), 5u);
  // Side by side: two seconds of work each, and then their answers.
  EXPECT_EQ(outcomes[2].completed, Instant(milliseconds(12'100)));
  EXPECT_EQ(outcomes[2].outcome.phases.run, milliseconds(2100));
  EXPECT_EQ(outcomes[3].completed, Instant(milliseconds(12'100)));
  // The next one waited for the answer, and had the device to itself.
  EXPECT_EQ(outcomes[4].outcome.phases.queue, milliseconds(2100));
  EXPECT_EQ(outcomes[4].completed, Instant(milliseconds(13'200)));
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

TEST(Simulation, TheFirstMoveOffTheDeviceMakesMemoryOfTheHost) {
  SimulationOptions options = one_function();
  options.dispatch.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
  options.device.link_bytes_per_second = static_cast<double>(Bytes::gib(1).count);
  options.device.link_out_bytes_per_second = static_cast<double>(Bytes::gib(1).count);
  options.device.first_out_seconds_per_gib = 4;
  // FCFS moves it out after each run: from 3 s to 8 s, and from 10 s to 11 s.
  const auto outcomes = run(options,
                            {{Instant(), FunctionId{1}},
                             {Instant(seconds(4)), FunctionId{1}},
                             {Instant(milliseconds(10'500)), FunctionId{1}}},
                            "fcfs");
  ASSERT_EQ(outcomes.size(), 3u);
  EXPECT_EQ(outcomes[1].outcome.phases.memory, seconds(5));
  EXPECT_EQ(outcomes[1].completed, Instant(seconds(10)));
  EXPECT_EQ(outcomes[2].outcome.phases.memory, milliseconds(1500));
}

// What the memory of each invocation took, in the order of outcomes.
std::vector<Duration> memory_times(const SimulationOptions& options,
                                   const std::vector<Arrival>& arrivals) {
  std::vector<Duration> times;
  for (const SimulatedInvocation& one : run(options, arrivals, "fcfs")) {
    times.push_back(one.outcome.phases.memory);
  }
  return times;
}

TEST(Simulation, TheFirstMoveOffSeveralDevicesMakesMemoryForAllOfThemInTurn) {
  SimulationOptions options = one_function();
  options.dispatch.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
  options.dispatch.fleet.devices.push_back({.id = DeviceId{2}, .memory = Bytes::gib(16)});
  options.functions[0].profile.gpu_count = 2;
  options.device.link_bytes_per_second = static_cast<double>(Bytes::gib(1).count);
  options.device.link_out_bytes_per_second = static_cast<double>(Bytes::gib(1).count);
  options.device.first_out_seconds_per_gib = 4;
  // Out from 3 s to 12 s: two GiB are leased one after the other, then both links copy at once.
  EXPECT_EQ(
      memory_times(options, {{Instant(), FunctionId{1}}, {Instant(seconds(4)), FunctionId{1}}}),
      (std::vector<Duration>{Duration(0), seconds(9)}));
}

TEST(Simulation, MemoryThatMovesTheSameWaySharesTheLink) {
  SimulationOptions options = one_function();
  options.dispatch.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
  options.device.link_bytes_per_second = static_cast<double>(Bytes::gib(1).count);
  FunctionModel other = options.functions[0];
  other.profile.id = FunctionId{2};
  options.functions.push_back(other);
  const Arrival first{Instant(), FunctionId{1}}, second{Instant(), FunctionId{2}};
  const auto again = [](double at_s, uint32_t function) {
    return Arrival{Instant(from_seconds(at_s)), FunctionId{function}};
  };
  // FCFS has moved both out by then. Each takes 1 s by itself, and 2 s beside the other. Where one
  // begins half a second later, each has the link to itself for half of its bytes.
  EXPECT_EQ(memory_times(options, {first, second, again(20, 1), again(40, 2)}),
            (std::vector{Duration(0), Duration(0), Duration(seconds(1)), Duration(seconds(1))}));
  EXPECT_EQ(memory_times(options, {first, second, again(20, 1), again(20, 2)}),
            (std::vector{Duration(0), Duration(0), Duration(seconds(2)), Duration(seconds(2))}));
  EXPECT_EQ(
      memory_times(options, {first, second, again(20, 1), again(20.5, 2)}),
      (std::vector<Duration>{Duration(0), Duration(0), milliseconds(1500), milliseconds(1500)}));
}

TEST(Simulation, WhatNeedsNoDeviceGoesOnWhileMemoryMoves) {
  SimulationOptions options = one_function();
  options.dispatch.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
  options.device.link_bytes_per_second = static_cast<double>(Bytes::gib(2).count);
  for (const auto& [share, run_takes] :
       {std::pair(0.0, milliseconds(1000)), std::pair(0.2, milliseconds(800)),
        std::pair(0.5, milliseconds(500)), std::pair(0.8, milliseconds(500))}) {
    options.device.host_share = share;
    const auto outcomes =
        run(options, {{Instant(), FunctionId{1}}, {Instant(seconds(10)), FunctionId{1}}}, "fcfs");
    ASSERT_EQ(outcomes.size(), 2u);
    EXPECT_EQ(outcomes[1].outcome.phases.memory, milliseconds(500));
    EXPECT_EQ(outcomes[1].outcome.phases.run, run_takes) << share;
  }
}

TEST(Simulation, WhatAMoveLeavesBehindIsNotMovedBack) {
  SimulationOptions options = one_function();
  options.dispatch.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
  options.device.stays = Bytes::mib(512);
  options.device.link_bytes_per_second = static_cast<double>(Bytes::gib(1).count);
  EXPECT_EQ(
      memory_times(options, {{Instant(), FunctionId{1}}, {Instant(seconds(9)), FunctionId{1}}}),
      (std::vector<Duration>{Duration(0), milliseconds(500)}));
}

TEST(Simulation, OfWhatMovedOutOnlyWhatIsUsedComesBack) {
  SimulationOptions options = one_function();
  options.dispatch.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
  options.device.stays = Bytes::mib(512);
  options.device.touched = 0.25;
  options.device.link_bytes_per_second = static_cast<double>(Bytes::gib(1).count);
  const std::vector<Arrival> arrivals = {{Instant(), FunctionId{1}},
                                         {Instant(seconds(9)), FunctionId{1}},
                                         {Instant(seconds(18)), FunctionId{1}}};
  EXPECT_EQ(memory_times(options, arrivals),
            (std::vector<Duration>{Duration(0), milliseconds(125), milliseconds(125)}));
}

TEST(Simulation, AStartBringsItsConstantsOverTheLink) {
  SimulationOptions options = one_function();
  options.device.link_bytes_per_second = static_cast<double>(Bytes::gib(1).count);
  const auto before = run(options, {{Instant(), FunctionId{1}}});
  options.functions[0].constants = Bytes::gib(1);
  FunctionModel other = options.functions[0];
  other.profile.id = FunctionId{2};
  options.functions.push_back(other);
  const auto alone = run(options, {{Instant(), FunctionId{1}}});
  EXPECT_EQ(alone[0].completed - before[0].completed, seconds(1));
  // Two at once share it.
  const auto both = run(options, {{Instant(), FunctionId{1}}, {Instant(), FunctionId{2}}});
  EXPECT_EQ(both[0].outcome.phases.sandbox + both[0].outcome.phases.init -
                (before[0].outcome.phases.sandbox + before[0].outcome.phases.init),
            seconds(2));
}

// It reports ready while it is being stopped, and is gone before its constants are there.
TEST(Simulation, TheConstantsOfOneThatIsStoppedMakeNoOtherReady) {
  SimulationOptions options = one_function();
  options.device.link_bytes_per_second = static_cast<double>(Bytes::gib(1).count);
  options.device.stop_time = milliseconds(200);
  options.functions[0].constants = Bytes::gib(1);
  options.functions[0].profile.timeout = milliseconds(1950);
  options.dispatch.init_timeout = milliseconds(1950);
  Simulation simulation(options, std::move(scheduling::make_policy("fcfs")).value(), nullptr);
  int starts = 0, ready = 0, exits = 0;
  simulation.observe([&](const dispatch::Event& event, Instant, const auto& actions) {
    ready += std::holds_alternative<dispatch::SandboxReady>(event) ? 1 : 0;
    exits += std::holds_alternative<dispatch::SandboxExited>(event) ? 1 : 0;
    for (const dispatch::Action& action : actions) {
      starts += std::holds_alternative<dispatch::StartSandbox>(action) ? 1 : 0;
    }
  });
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 20; ++i) arrivals.push_back({Instant(seconds(i)), FunctionId{1}});
  simulation.run(arrivals_from(arrivals));
  EXPECT_GT(starts, 2);
  EXPECT_GT(exits, 2);
  EXPECT_EQ(ready, 0);
}

TEST(Simulation, AKernelFunctionLeavesAtOnceAndComesBackWithItsConstantsAlone) {
  SimulationOptions options = one_function();
  options.dispatch.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
  options.device.link_bytes_per_second = static_cast<double>(Bytes::gib(1).count);
  options.device.link_out_bytes_per_second = static_cast<double>(Bytes::mib(1).count);
  options.device.stays = Bytes::mib(512);
  options.functions[0].is_kernel = true;
  options.functions[0].constants = Bytes::mib(256);
  EXPECT_EQ(
      memory_times(options, {{Instant(), FunctionId{1}}, {Instant(seconds(30)), FunctionId{1}}}),
      (std::vector<Duration>{Duration(0), milliseconds(250)}));
}

TEST(Simulation, AClientMaySendTheNextOneWhenItHasItsAnswer) {
  SimulationOptions options = one_function();
  std::vector<Instant> submitted;
  Simulation* running = nullptr;
  Simulation simulation(options, std::move(scheduling::make_policy("fcfs")).value(),
                        [&](const SimulatedInvocation& one) {
                          submitted.push_back(one.submitted);
                          if (submitted.size() < 3) {
                            running->submit_after(milliseconds(7), one.function);
                          }
                        });
  running = &simulation;
  std::vector<Instant> completed;
  simulation.observe([&](const dispatch::Event& event, Instant now, const auto&) {
    if (std::holds_alternative<dispatch::InvocationFinished>(event)) completed.push_back(now);
  });
  const std::vector<Arrival> first{{Instant(), FunctionId{1}}};
  simulation.run(arrivals_from(first));
  ASSERT_EQ(submitted.size(), 3u);
  EXPECT_EQ(submitted[1], completed[0] + milliseconds(7));
  EXPECT_EQ(submitted[2], completed[1] + milliseconds(7));
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
