#include "sim/slice_simulator/machine.h"

#include <gtest/gtest.h>

#include "sim/slice_simulator/run.h"

namespace lambent::slice_simulator {
namespace {

using slice_scheduling::Action;
using slice_scheduling::Event;
using slice_scheduling::GiveJob;
using slice_scheduling::InstanceId;
using slice_scheduling::JobId;
using slice_scheduling::StartInstance;

const FunctionId kFunction(1);
constexpr InstanceId kInstance(1);

Slice slice_of(uint32_t id, const std::string& shape, unsigned multiprocessors, uint64_t mib,
               uint32_t gpu = 0) {
  Slice slice;
  slice.id = DeviceId(id);
  slice.gpu = gpu;
  slice.shape = {shape, multiprocessors, Bytes::mib(mib)};
  return slice;
}

// Two components in a chain: 100 ms and 50 ms on "1g", 120 MB of weights each, 12 MB handed over.
std::shared_ptr<pipeline::PipelineFunction> chain() {
  auto function = std::make_shared<pipeline::PipelineFunction>();
  function->id = kFunction;
  function->dag.inputs = {"image"};
  using Kind = pipeline::Source::Kind;
  function->dag.components = {{"first", {{Kind::kInput, 0}}, false},
                              {"second", {{Kind::kComponent, 0}}, false}};
  function->dag.outputs = {1};
  pipeline::ComponentProfile component;
  component.weights = Bytes(120'000'000);
  component.memory = Bytes(200'000'000);
  component.output = Bytes(12'000'000);
  component.time_by_shape["1g"] = milliseconds(100);
  function->profile.components.push_back(component);
  component.time_by_shape["1g"] = milliseconds(50);
  function->profile.components.push_back(component);
  function->profile.context = Bytes(400'000'000);
  function->profile.start = milliseconds(300);
  function->shapes = {{"1g", 14, Bytes::mib(1000)}};
  function->slo = milliseconds(500);
  return function;
}

pipeline::Placement on_slices(std::vector<std::vector<size_t>> stages) {
  pipeline::Placement placement;
  for (uint32_t i = 0; i < stages.size(); ++i) {
    placement.partition.stages.push_back({{{stages[i]}}});
    placement.slices.push_back(DeviceId(i + 1));
  }
  return placement;
}

Scene scene_of_two_slices() {
  Scene scene;
  scene.slices = {slice_of(1, "1g", 14, 1000), slice_of(2, "1g", 14, 1000)};
  scene.functions = {chain()};
  // 10 GB/s for a copy: 12 ms for the weights of a component, 1.2 ms for a value.
  scene.machine.copy_gb_per_s = 10;
  scene.machine.gpu_gb_per_s = 20;
  scene.machine.node_gb_per_s = 40;
  scene.machine.chunk = Bytes(1'000'000);
  scene.machine.handover = milliseconds(1);
  scene.machine.edge = milliseconds(2);
  return scene;
}

struct Told {
  Event event;
  double at_ms = 0;
};

// A machine that writes down what it tells.
struct Recorded {
  explicit Recorded(const Scene& scene)
      : machine(scene, [this](const Event& event, Instant now) {
          told.push_back({event, to_milliseconds(now.time_since_epoch())});
        }) {}
  template <typename E>
  std::vector<double> times_of() const {
    std::vector<double> times;
    for (const Told& one : told) {
      if (std::holds_alternative<E>(one.event)) times.push_back(one.at_ms);
    }
    return times;
  }
  std::vector<Told> told;
  Machine machine;
};

Instant at_ms(double ms) { return Instant(from_seconds(ms / 1e3)); }

TEST(Machine, StartsAProcessAndThenLoadsItsWeights) {
  const Scene scene = scene_of_two_slices();
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0, 1}})}, Instant{});
  recorded.machine.run_until(at_ms(1000));
  ASSERT_EQ(recorded.times_of<slice_scheduling::InstanceReady>().size(), 1u);
  // 300 ms for the process, 240 MB at 10 GB/s.
  EXPECT_NEAR(recorded.times_of<slice_scheduling::InstanceReady>()[0], 324, 1e-3);
  EXPECT_TRUE(recorded.machine.impossible().empty());
}

TEST(Machine, StartsProcessesSlowerBesideOthersThatStart) {
  Scene scene = scene_of_two_slices();
  scene.machine.start_beside = milliseconds(60);
  Recorded recorded(scene);
  pipeline::Placement second = on_slices({{0, 1}});
  second.slices = {DeviceId(2)};
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0, 1}})}, Instant{});
  // The first has half of its 300 ms left: each is slowed by half of what all of it would add.
  recorded.machine.run_until(Instant(milliseconds(150)));
  recorded.machine.perform(StartInstance{InstanceId(2), kFunction, second},
                           Instant(milliseconds(150)));
  recorded.machine.run_until(Instant(seconds(1)));
  // 24 ms for the weights of both components.
  EXPECT_EQ(recorded.machine.coming_of(kInstance)->there, Instant(milliseconds(300 + 30 + 24)));
  EXPECT_EQ(recorded.machine.coming_of(InstanceId(2))->there,
            Instant(milliseconds(150 + 300 + 30 + 24)));
}

TEST(Machine, StartsTheStageProcessesOfAnInstanceBesideEachOther) {
  Scene scene = scene_of_two_slices();
  scene.machine.start_beside = milliseconds(60);
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0}, {1}})}, Instant{});
  recorded.machine.run_until(Instant(seconds(1)));
  EXPECT_EQ(recorded.machine.coming_of(kInstance)->there, Instant(milliseconds(300 + 60 + 12)));
}

TEST(Machine, GivesCopiesToOneGpuEqualSharesOfItsLink) {
  Scene scene = scene_of_two_slices();
  scene.machine.gpu_gb_per_s = 10;
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0}, {1}})}, Instant{});
  recorded.machine.run_until(at_ms(1000));
  // Both stage processes' 120 MB come at 5 GB/s.
  EXPECT_NEAR(recorded.times_of<slice_scheduling::InstanceReady>().at(0), 324, 1e-3);
}

TEST(Machine, ExecutesOneJobAfterTheOtherWithTheInputOfTheNextMeanwhile) {
  const Scene scene = scene_of_two_slices();
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0, 1}})}, Instant{});
  recorded.machine.run_until(at_ms(1000));
  recorded.machine.perform(GiveJob{JobId(1), kInstance, {request_id(0)}}, at_ms(1000));
  recorded.machine.perform(GiveJob{JobId(2), kInstance, {request_id(1)}}, at_ms(1000));
  recorded.machine.run_until(at_ms(2000));
  const auto done = recorded.times_of<slice_scheduling::JobFinished>();
  ASSERT_EQ(done.size(), 2u);
  // 1 for the input, 150, 1 for the result; of the second, 150 and the result's after the first.
  EXPECT_NEAR(done[0], 1152, 1e-3);
  EXPECT_NEAR(done[1], 1302, 1e-3);
  EXPECT_NEAR(to_milliseconds(recorded.machine.slice_use(at_ms(2000)).at(DeviceId(1)).busy), 302,
              1e-3);
}

TEST(Machine, WorksOnNothingBesideAJobThatIsAlone) {
  const Scene scene = scene_of_two_slices();
  for (const uint64_t alone : {1U, 2U}) {
    Recorded recorded(scene);
    recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0, 1}})}, Instant{});
    recorded.machine.run_until(at_ms(1000));
    for (uint64_t job = 1; job <= 2; ++job) {
      recorded.machine.perform(GiveJob{JobId(job), kInstance, {request_id(job)}, job == alone},
                               at_ms(1000));
    }
    recorded.machine.run_until(at_ms(2000));
    const auto done = recorded.times_of<slice_scheduling::JobFinished>();
    ASSERT_EQ(done.size(), 2u);
    EXPECT_NEAR(done[1], 1304, 1e-3);
  }
}

TEST(Machine, ReplicasOfAStageProcessTakeJobsInTurn) {
  Scene scene = scene_of_two_slices();
  scene.slices.push_back(slice_of(3, "1g", 14, 1000));
  Recorded recorded(scene);
  pipeline::Placement placement = on_slices({{0}, {1}});
  placement.replicas = {2, 1};
  placement.slices.push_back(DeviceId(3));
  recorded.machine.perform(StartInstance{kInstance, kFunction, placement}, Instant{});
  recorded.machine.run_until(at_ms(1000));
  for (uint64_t i = 0; i < 4; ++i) {
    recorded.machine.perform(GiveJob{JobId(i + 1), kInstance, {request_id(i)}}, at_ms(1000));
  }
  recorded.machine.run_until(at_ms(3000));
  const auto done = recorded.times_of<slice_scheduling::JobFinished>();
  ASSERT_EQ(done.size(), 4u);
  // As of one stage process, but for the copies of the two at a time to the GPU's host, which have
  // 10 GB/s each; then the short stage process, which works all the time.
  EXPECT_NEAR(done[0], 1154.3, 1e-3);
  EXPECT_NEAR(done[1], done[0] + 50, 1e-3);
  EXPECT_NEAR(done[3], done[0] + 150, 1e-3)
      << "the long stage process would take 100 ms for each by itself";
  EXPECT_TRUE(recorded.machine.impossible().empty());
  for (const uint32_t id : {1U, 2U}) {
    const auto busy = recorded.machine.slice_use(at_ms(3000)).at(DeviceId(id)).busy;
    EXPECT_NEAR(to_milliseconds(busy), 1 + 2 * 100 + 1 + 1.2, 1e-3) << "two jobs each";
  }
  const auto& last = std::get<slice_scheduling::JobFinished>(recorded.told.back().event);
  EXPECT_EQ(last.job, JobId(4)) << "in the order in which they were given";
}

TEST(Machine, HandsAValueOverWithTheTwoCopiesOverlapped) {
  const Scene scene = scene_of_two_slices();
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0}, {1}})}, Instant{});
  recorded.machine.run_until(at_ms(1000));
  recorded.machine.perform(GiveJob{JobId(1), kInstance, {request_id(0)}}, at_ms(1000));
  recorded.machine.run_until(at_ms(2000));
  // 2 + 100, 1 for the hand-over, 1.2 of both copies and 0.1 for the last piece, 50.
  EXPECT_NEAR(recorded.times_of<slice_scheduling::JobFinished>().at(0), 1154.3, 1e-3);
}

TEST(Machine, WorksOnJobsInSeveralStagesAtOnce) {
  const Scene scene = scene_of_two_slices();
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0}, {1}})}, Instant{});
  recorded.machine.run_until(at_ms(1000));
  for (uint64_t job = 1; job <= 10; ++job) {
    recorded.machine.perform(GiveJob{JobId(job), kInstance, {request_id(job)}}, at_ms(1000));
  }
  recorded.machine.run_until(at_ms(5000));
  const auto done = recorded.times_of<slice_scheduling::JobFinished>();
  ASSERT_EQ(done.size(), 10u);
  // The first stage is the slower one; it hands one over while it works on the next.
  for (size_t i = 1; i < done.size(); ++i) EXPECT_NEAR(done[i] - done[i - 1], 100, 1e-3);
}

TEST(Machine, LetsAFastSenderWaitUntilItsChannelHasRoom) {
  Scene scene = scene_of_two_slices();
  auto function = chain();
  function->profile.components[0].time_by_shape["1g"] = milliseconds(10);
  scene.functions = {function};
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0}, {1}})}, Instant{});
  recorded.machine.run_until(at_ms(1000));
  for (uint64_t job = 1; job <= 20; ++job) {
    recorded.machine.perform(GiveJob{JobId(job), kInstance, {request_id(job)}}, at_ms(1000));
  }
  // The second stage computes the second job and has the value of the third, the channel holds
  // three more; the first stage waits with the two that it has in flight.
  for (const double at : {1090.0, 1110.0}) {
    recorded.machine.run_until(at_ms(at));
    const Duration busy = recorded.machine.slice_use(at_ms(at)).at(DeviceId(1)).busy;
    EXPECT_NEAR(to_milliseconds(busy), 1 + 8 * 10, 1e-3);
  }
  recorded.machine.run_until(at_ms(5000));
  const auto done = recorded.times_of<slice_scheduling::JobFinished>();
  ASSERT_EQ(done.size(), 20u);
  // What lies ready for the second stage is copied while it computes.
  EXPECT_NEAR(done[19] - done[18], 50, 1e-3);
}

TEST(Machine, RunsStageProcessesOfOneStageSideBySide) {
  Scene scene = scene_of_two_slices();
  scene.slices.push_back(slice_of(3, "1g", 14, 1000));
  auto function = chain();
  using Kind = pipeline::Source::Kind;
  // Both need the input; a third needs both.
  function->dag.components = {{"left", {{Kind::kInput, 0}}, false},
                              {"right", {{Kind::kInput, 0}}, false},
                              {"both", {{Kind::kComponent, 0}, {Kind::kComponent, 1}}, false}};
  function->dag.outputs = {2};
  function->profile.components.push_back(function->profile.components[1]);
  scene.functions = {function};
  pipeline::Placement placement;
  placement.partition.stages = {{{{{0}}, {{1}}}}, {{{{2}}}}};
  placement.slices = {DeviceId(1), DeviceId(2), DeviceId(3)};
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, placement}, Instant{});
  recorded.machine.run_until(at_ms(1000));
  recorded.machine.perform(GiveJob{JobId(1), kInstance, {request_id(0)}}, at_ms(1000));
  recorded.machine.run_until(at_ms(2000));
  // The slower of both, 102; its value, 1 + 1.3; 50. The faster one's value came in the meantime,
  // but is copied to the third after that of "left", for which it waited first.
  EXPECT_NEAR(recorded.times_of<slice_scheduling::JobFinished>().at(0), 1155.5, 1e-3);
}

TEST(Machine, DrawsOptionalComponentsByTheirProbability) {
  Scene scene = scene_of_two_slices();
  auto function = chain();
  function->dag.components[1].optional = true;
  function->profile.components[1].probability = 0.25;
  scene.functions = {function};
  scene.machine.edge = {};
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0, 1}})}, Instant{});
  recorded.machine.run_until(at_ms(1000));
  for (uint64_t job = 1; job <= 1000; ++job) {
    recorded.machine.perform(GiveJob{JobId(job), kInstance, {request_id(job)}}, at_ms(1000));
  }
  recorded.machine.run_until(at_ms(1e6));
  const double passed = recorded.times_of<slice_scheduling::JobFinished>().back() - 1000;
  EXPECT_NEAR((passed / 1000 - 100) / 50, 0.25, 0.05);
}

TEST(Machine, UnloadsAndLoadsWeights) {
  const Scene scene = scene_of_two_slices();
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0, 1}})}, Instant{});
  recorded.machine.run_until(at_ms(1000));
  recorded.machine.perform(slice_scheduling::UnloadInstance{kInstance}, at_ms(1000));
  recorded.machine.run_until(at_ms(2000));
  recorded.machine.perform(slice_scheduling::LoadInstance{kInstance}, at_ms(2000));
  recorded.machine.run_until(at_ms(3000));
  EXPECT_NEAR(recorded.times_of<slice_scheduling::InstanceUnloaded>().at(0), 1024, 1e-3);
  EXPECT_NEAR(recorded.times_of<slice_scheduling::InstanceReady>().at(1), 2024, 1e-3);
  EXPECT_EQ(recorded.machine.copied(), Bytes(3 * 240'000'000));
}

TEST(Machine, MovesAllMemoryButTheContextWhereThatIsWhatMovesTake) {
  Scene scene = scene_of_two_slices();
  scene.machine.moved_share = 0.5;
  scene.machine.moves_take_all = true;
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0, 1}})}, at_ms(0));
  recorded.machine.run_until(at_ms(1000));
  // Half of 240 MB after the start; later 240 MB, the 80 MB that one of them works with, and the 12
  // of a result that goes out meanwhile.
  EXPECT_NEAR(recorded.times_of<slice_scheduling::InstanceReady>().at(0), 312, 1e-3);
  recorded.machine.perform(slice_scheduling::UnloadInstance{kInstance}, at_ms(1000));
  recorded.machine.run_until(at_ms(1500));
  EXPECT_NEAR(recorded.times_of<slice_scheduling::InstanceUnloaded>().at(0), 1033.2, 1e-3);
}

TEST(Machine, EndsInstancesOfALostSliceAndBringsTheSliceBack) {
  Scene scene = scene_of_two_slices();
  scene.faults = {{at_ms(1050), Fault::Kind::kSliceLost, DeviceId(2)},
                  {at_ms(1500), Fault::Kind::kSliceBack, DeviceId(2)}};
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0}, {1}})}, Instant{});
  recorded.machine.run_until(at_ms(1000));
  recorded.machine.perform(GiveJob{JobId(1), kInstance, {request_id(0)}}, at_ms(1000));
  recorded.machine.run_until(at_ms(2000));
  ASSERT_EQ(recorded.told.size(), 4u);
  EXPECT_TRUE(std::holds_alternative<slice_scheduling::SliceLost>(recorded.told[1].event));
  EXPECT_TRUE(std::holds_alternative<slice_scheduling::InstanceEnded>(recorded.told[2].event));
  EXPECT_TRUE(std::holds_alternative<slice_scheduling::SliceAdded>(recorded.told[3].event));
  // What it did until then was work.
  EXPECT_NEAR(to_milliseconds(recorded.machine.slice_use(at_ms(2000)).at(DeviceId(1)).busy), 50,
              1e-3);
}

TEST(Machine, TellsAtOnceWhatFollowsFromAFaultThatIsInjected) {
  const Scene scene = scene_of_two_slices();
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0, 1}})}, Instant{});
  recorded.machine.run_until(at_ms(1000));
  recorded.told.clear();
  recorded.machine.inject({at_ms(1000), Fault::Kind::kSliceLost, DeviceId(1)}, at_ms(1000));
  ASSERT_EQ(recorded.told.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<slice_scheduling::SliceLost>(recorded.told[0].event));
  EXPECT_TRUE(std::holds_alternative<slice_scheduling::InstanceEnded>(recorded.told[1].event));
  EXPECT_EQ(recorded.told[1].at_ms, 1000);
  recorded.machine.inject({at_ms(1100), Fault::Kind::kSliceBack, DeviceId(1)}, at_ms(1100));
  ASSERT_EQ(recorded.told.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<slice_scheduling::SliceAdded>(recorded.told[2].event));
}

TEST(Machine, SaysWhatIsWantedThatCannotBe) {
  Scene scene = scene_of_two_slices();
  scene.slices[0].shape.memory = Bytes::mib(500);
  Recorded recorded(scene);
  recorded.machine.perform(StartInstance{kInstance, kFunction, on_slices({{0, 1}})}, Instant{});
  ASSERT_EQ(recorded.machine.impossible().size(), 1u);
  recorded.machine.perform(GiveJob{JobId(1), kInstance, {request_id(0)}}, at_ms(1));
  EXPECT_EQ(recorded.machine.impossible().size(), 2u);
}

// Starts one instance and gives it every request as it comes, at once or when it is ready.
struct OneInstance {
  pipeline::Placement placement;
  bool ready = false;
  uint64_t jobs = 0;
  std::vector<InvocationId> waiting;
  std::map<JobId, InvocationId> given;
  void operator()(const Event& event, Instant, std::vector<Action>& actions) {
    const auto give = [&](InvocationId request) {
      given[JobId(++jobs)] = request;
      actions.push_back(GiveJob{JobId(jobs), kInstance, {request}});
    };
    if (std::holds_alternative<slice_scheduling::FunctionPut>(event)) {
      actions.push_back(StartInstance{kInstance, kFunction, placement});
    } else if (const auto* request = std::get_if<slice_scheduling::RequestSubmitted>(&event)) {
      if (ready) give(request->request);
      if (!ready) waiting.push_back(request->request);
    } else if (std::holds_alternative<slice_scheduling::InstanceReady>(event)) {
      ready = true;
      for (const InvocationId request : waiting) give(request);
    } else if (const auto* done = std::get_if<slice_scheduling::JobFinished>(&event)) {
      actions.push_back(slice_scheduling::CompleteRequest{given[done->job], std::nullopt});
    }
  }
};

TEST(Run, TellsWhereTheTimeOfARequestWent) {
  Scene scene = scene_of_two_slices();
  scene.arrivals = {{at_ms(10), kFunction}, {at_ms(2000), kFunction}, {at_ms(2050), kFunction}};
  OneInstance decider{on_slices({{0}, {1}})};
  const RunResult result = run(scene, std::ref(decider));
  ASSERT_EQ(result.requests.size(), 3u);
  const RequestOutcome& cold = result.requests[0];
  EXPECT_NEAR(to_milliseconds(cold.load), 302, 1e-3);  // 300 + 12, of which it was there for 302
  EXPECT_NEAR(to_milliseconds(cold.latency()), 302 + 154.3, 1e-3);
  EXPECT_TRUE(cold.hit());
  const RequestOutcome& warm = result.requests[1];
  EXPECT_NEAR(to_milliseconds(warm.execution), 150, 1e-3);
  EXPECT_NEAR(to_milliseconds(warm.transfer), 4.3, 1e-3);
  EXPECT_NEAR(to_milliseconds(warm.queue), 0, 1e-3);
  const RequestOutcome& behind = result.requests[2];
  EXPECT_NEAR(to_milliseconds(behind.queue), 50, 1e-3);  // its input came meanwhile
  EXPECT_EQ(behind.latency(), behind.queue + behind.load + behind.execution + behind.transfer);
  EXPECT_TRUE(result.impossible.empty());
  EXPECT_EQ(result.pipeline_jobs, 3u);
}

TEST(Run, IsTheSameTwice) {
  Scene scene = scene_of_two_slices();
  scene.machine.spread = 0.2;
  for (int i = 0; i < 100; ++i) scene.arrivals.push_back({at_ms(400 + 90 * i), kFunction});
  std::vector<Duration> latencies[2];
  for (auto& latency : latencies) {
    OneInstance decider{on_slices({{0}, {1}})};
    for (const auto& request : run(scene, std::ref(decider)).requests) {
      latency.push_back(request.latency());
    }
  }
  EXPECT_EQ(latencies[0], latencies[1]);
  EXPECT_NE(latencies[0][10], latencies[0][20]);
}

TEST(Run, EndsThoughRequestsAreNotComplete) {
  Scene scene = scene_of_two_slices();
  scene.arrivals = {{at_ms(10), kFunction}};
  scene.drain = seconds(5);
  const RunResult result = run(scene, [](const Event&, Instant, std::vector<Action>&) {});
  EXPECT_FALSE(result.requests[0].succeeded());
  EXPECT_EQ(result.ended, at_ms(5010));
}

}  // namespace
}  // namespace lambent::slice_simulator
