// Every slice policy in the simulator: with faults and without, nothing is lost and nothing is
// wanted that no machine can do.
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "decide/slice_scheduling/make_policy.h"
#include "decide/slice_scheduling/testing/testing.h"
#include "sim/slice_simulator/run.h"

namespace lambent::slice_simulator {
namespace {

using slice_scheduling::testing::function_of;
using slice_scheduling::testing::slice_of;

Instant at_ms(double ms) { return Instant(from_seconds(ms / 1e3)); }

// Two nodes of two GPUs, three functions of which one fits small slices only in pieces, and more
// requests now and then than can be served in time.
Scene busy_scene(uint64_t seed) {
  Scene scene;
  for (uint32_t gpu = 0; gpu < 4; ++gpu) {
    for (const unsigned compute : {4U, 2U, 1U}) {
      scene.slices.push_back(
          slice_of(static_cast<uint32_t>(scene.slices.size() + 1), compute, gpu % 2, gpu / 2));
    }
  }
  scene.functions = {function_of(1, {{40, 3'000}, {60, 3'000}}, milliseconds(300)),
                     function_of(2, {{120, 9'000}, {90, 9'000}, {60, 9'000}}, milliseconds(600)),
                     function_of(3, {{20, 2'000}}, milliseconds(100))};
  SeededRandom random(seed);
  for (double ms = 0; ms < 30'000;) {
    const bool burst = static_cast<int>(ms / 5'000) % 2 == 1;
    ms += (burst ? 8 : 40) * 2 * random.uniform();
    scene.arrivals.push_back({at_ms(ms), FunctionId(static_cast<uint32_t>(1 + random.below(3)))});
  }
  scene.machine.spread = 0.2;
  scene.seed = seed;
  return scene;
}

RunResult run_with(const Scene& scene, std::string_view name) {
  auto policy = slice_scheduling::make_slice_policy(name);
  EXPECT_TRUE(policy.ok());
  return run(scene, std::move(*policy), {});
}

TEST(RunPolicy, EveryPolicyAnswersEverythingAndWantsNothingImpossible) {
  for (const std::string_view name : slice_scheduling::slice_policy_names()) {
    SCOPED_TRACE(name);
    const Scene scene = busy_scene(3);
    const RunResult result = run_with(scene, name);
    EXPECT_TRUE(result.impossible.empty()) << result.impossible.front();
    for (const RequestOutcome& request : result.requests) {
      ASSERT_TRUE(request.succeeded());
      EXPECT_EQ(request.latency(),
                request.queue + request.load + request.execution + request.transfer);
    }
    // One that works holds its slice.
    for (const auto& [id, use] : result.slices) EXPECT_LE(use.busy, use.held);
  }
}

TEST(RunPolicy, EveryPolicyOutlivesFaults) {
  for (const std::string_view name : slice_scheduling::slice_policy_names()) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed));
      Scene scene = busy_scene(seed);
      scene.machine.failed_starts = 0.1;
      scene.machine.slowdown = {{FunctionId(1), 1.7}};  // its profile lies
      SeededRandom random(seed + 100);
      for (int i = 0; i < 12; ++i) {
        const auto slice = DeviceId(static_cast<uint32_t>(1 + random.below(scene.slices.size())));
        const Instant at = at_ms(30'000 * random.uniform());
        if (i % 3 == 0) {
          scene.faults.push_back({at, Fault::Kind::kSliceLost, slice});
          scene.faults.push_back({at + seconds(5), Fault::Kind::kSliceBack, slice});
        } else {
          scene.faults.push_back({at, Fault::Kind::kInstanceDeath, slice});
        }
      }
      const RunResult result = run_with(scene, name);
      EXPECT_TRUE(result.impossible.empty()) << result.impossible.front();
      size_t failed = 0;
      for (const RequestOutcome& request : result.requests) {
        ASSERT_NE(request.completed, kNever);
        failed += request.error ? 1 : 0;
      }
      // Three instances have to end under a request before it fails.
      EXPECT_LT(failed, result.requests.size() / 20);
    }
  }
}

}  // namespace
}  // namespace lambent::slice_simulator
