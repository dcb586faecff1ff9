#include "decide/scheduling/infless_scaler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/random.h"

namespace lambent::scheduling {
namespace {

Instant at(Duration since_begin) { return Instant{} + since_begin; }

TEST(TheRatesOfAnInstance, AreWhatItServesWithinTheSlo) {
  const auto four = rates_of({.batch = 4, .execution = milliseconds(50)}, milliseconds(200));
  ASSERT_TRUE(four);
  EXPECT_DOUBLE_EQ(four->most, 80);
  EXPECT_NEAR(four->least, 4 / 0.15, 1e-9);
  const auto one = rates_of({.batch = 1, .execution = milliseconds(150)}, milliseconds(200));
  ASSERT_TRUE(one);
  EXPECT_EQ(one->least, 0);
  EXPECT_FALSE(rates_of({.batch = 2, .execution = milliseconds(101)}, milliseconds(200)));
  EXPECT_FALSE(rates_of({.batch = 1, .execution = milliseconds(201)}, milliseconds(200)));
  EXPECT_FALSE(rates_of({.batch = 1}, milliseconds(200)));
}

TEST(ARecentRate, ForgetsWhatIsOlderThanItsWindow) {
  RecentRate rate(seconds(10));
  for (int i = 0; i < 50; ++i) rate.count(at(milliseconds(100) * i));
  EXPECT_DOUBLE_EQ(rate.per_second(at(seconds(5))), 5);
  EXPECT_NEAR(rate.per_second(at(seconds(12))), 2, 0.01);
  EXPECT_EQ(rate.per_second(at(seconds(16))), 0);
  rate.count(at(seconds(100'000)));
  EXPECT_DOUBLE_EQ(rate.per_second(at(seconds(100'000))), 0.1);
}

TEST(AScaler, AsksOfNothingWhereNothingWasCalled) {
  InflessScaler scaler({{.execution = milliseconds(10)}}, {});
  scaler.idle(at(seconds(0)));
  const ScalerStep step = scaler.step({}, {}, at(seconds(1)));
  EXPECT_TRUE(step.starts.empty());
  EXPECT_EQ(step.unserved, 0);
}

TEST(AScaler, StartsNoMoreInOneStepThanItsLimit) {
  InflessScalerOptions options;
  options.rate_window = seconds(1);
  InflessScaler scaler({{.share = 0.001, .execution = milliseconds(100)}}, options);
  for (int i = 0; i < 5000; ++i) scaler.arrived(at(seconds(1)));
  const std::vector<ScalerDevice> devices = {
      {.share = 1, .free = Bytes::gib(1), .memory = Bytes::gib(1)}};
  const ScalerStep step = scaler.step({}, devices, at(seconds(1)));
  EXPECT_EQ(step.starts.size(), InflessScaler::kMostStarts);
  EXPECT_GT(step.unserved, 0);
}

// Whatever happens, it fits: and where there is room, the rate is served.
TEST(AScaler, GivesEachDeviceNoMoreThanItHasAndServesTheRateWhereThereIsRoom) {
  constexpr uint64_t kSeed = 71;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  SeededRandom random(kSeed);
  for (int world = 0; world < 50; ++world) {
    std::vector<InstanceShape> shapes;
    for (const uint32_t batch : {1u, 4u, 8u}) {
      for (const double share : {0.125, 0.5, 1.0}) {
        const double alone_s = 0.004 + 0.02 * random.uniform();
        shapes.push_back({.batch = batch,
                          .share = share,
                          .execution = from_seconds(alone_s * batch / std::min(1.0, 2 * share)),
                          .memory = Bytes::mib(256 + random.below(1024))});
      }
    }
    InflessScaler scaler(
        shapes,
        {.rate_window = seconds(1), .spare_for = seconds(5), .memory_weight = random.uniform()});
    std::vector<ScalerDevice> devices(4,
                                      {.share = 1, .free = Bytes::gib(8), .memory = Bytes::gib(8)});
    struct Placed {
      ScaledInstance instance;
      uint32_t device = 0;
    };
    std::vector<Placed> placed;
    uint64_t next = 1;
    Instant now = at(seconds(1));
    for (int turn = 0; turn < 100; ++turn) {
      now += milliseconds(100 + static_cast<int64_t>(random.below(400)));
      for (uint64_t calls = random.below(100); calls > 0; --calls) scaler.arrived(now);
      std::vector<ScaledInstance> instances;
      for (Placed& one : placed) {
        one.instance.busy = random.below(2) == 0;
        if (one.instance.busy) one.instance.idle_since = now;
        instances.push_back(one.instance);
      }
      const ScalerStep step = scaler.step(instances, devices, now);
      for (const ScalerStep::Start& start : step.starts) {
        const InstanceShape& shape = shapes[start.shape];
        ASSERT_TRUE(rates_of(shape, milliseconds(200)));
        ASSERT_GE(devices[start.device].share + 1e-6, shape.share);
        ASSERT_GE(devices[start.device].free, shape.memory);
        devices[start.device].share -= shape.share;
        devices[start.device].free -= shape.memory;
        placed.push_back({{.id = next++, .shape = start.shape, .idle_since = now}, start.device});
      }
      for (const uint64_t id : step.stops) {
        const auto found =
            std::ranges::find_if(placed, [id](const Placed& one) { return one.instance.id == id; });
        ASSERT_NE(found, placed.end());
        ASSERT_FALSE(found->instance.busy);
        devices[found->device].share += shapes[found->instance.shape].share;
        devices[found->device].free += shapes[found->instance.shape].memory;
        placed.erase(found);
      }
      ASSERT_FALSE(placed.empty());
      if (step.unserved == 0) continue;
      // The smallest that is of use at any rate fits nowhere.
      for (const ScalerDevice& device : devices) {
        for (const InstanceShape& shape : shapes) {
          if (shape.batch > 1 || !rates_of(shape, milliseconds(200))) continue;
          ASSERT_TRUE(device.share + 1e-9 < shape.share || device.free < shape.memory);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lambent::scheduling
