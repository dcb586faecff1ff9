// Worlds that go on at random under any slice policy, from a seed: events in any order, late, twice
// or about nothing, while all that is promised is held to after each; and in the end nothing waits.
// For the tests of every module that has a policy.
#pragma once

#include <functional>

#include "decide/slice_scheduling/testing/virtual_host.h"

namespace lambent::slice_scheduling::testing {

using PolicyFactory = std::function<std::unique_ptr<SlicePolicy>()>;

class RandomWorld {
 public:
  RandomWorld(uint64_t seed, const PolicyFactory& factory)
      : random_(seed), host_(factory(), options_for(seed), seed) {
    host_.chances() = {.start_fails = chance(0.1),
                       .job_kills = chance(0.02),
                       .least_pace = 0.5 + random_.uniform(),
                       .most_pace = 1.5 + random_.uniform()};
    const size_t slices = 1 + random_.below(10);
    for (size_t at = 0; at < slices; ++at) add_slice();
    functions_ = static_cast<uint32_t>(1 + random_.below(6));
    for (uint32_t id = 1; id <= functions_; ++id) put(FunctionId{id}, true);
    // From worlds that are nearly idle to ones that cannot keep up.
    pause_ms_ = 1 + random_.below(random_.below(2) == 0 ? 40 : 2000);
  }

  void step() {
    host_.run_for(milliseconds(random_.below(pause_ms_ + 1)));
    const uint64_t kind = random_.below(200);
    if (kind < 150) {
      host_.submit(FunctionId{static_cast<uint32_t>(
          random_.below(20) == 0 ? random_.below(functions_ + 2) : 1 + random_.below(functions_))});
    } else if (kind < 160) {
      burst();
    } else if (kind < 170) {
      host_.give(RequestCancelled{some_request()});
    } else if (kind < 174) {
      host_.run_for(seconds(static_cast<int64_t>(1 + random_.below(30))));
    } else if (kind < 176) {
      host_.run_for(seconds(700));
    } else if (kind < 180) {
      put(some_function(), random_.below(2) == 0);
    } else if (kind < 182) {
      host_.give(FunctionRemoved{some_function()});
    } else if (kind < 186) {
      lose_slice();
    } else if (kind < 190) {
      add_slice();
    } else if (kind < 194) {
      kill();
    } else {
      give_nonsense();
    }
  }

  // Nothing more goes wrong, and every shape is there: all that waits is served.
  void settle() {
    const double fails = host_.chances().start_fails;
    host_.chances() = {};
    host_.chances().least_pace = 0.8;
    host_.chances().most_pace = 1.2;
    if (fails > 0) host_.run_for(seconds(30));
    const auto slices = host_.world().slices;
    for (const auto& [id, state] : slices) {
      if (state.returns) host_.give(SliceAdded{state.slice});
    }
    for (const unsigned compute : {1U, 2U, 4U}) host_.give(SliceAdded{next_slice(compute)});
    const size_t before = host_.events();
    host_.run_for(std::chrono::hours(2));
    EXPECT_LT(host_.events() - before, 200'000U) << "there is no end to it";
    EXPECT_EQ(host_.world().queued.size(), 0U) << "something waits for ever:\n"
                                               << describe(host_.world());
    EXPECT_EQ(host_.outcomes().size(), host_.submitted().size());
  }
  // The worker goes away in the middle of it.
  void drain() {
    host_.give(DrainStarted{});
    EXPECT_TRUE(host_.world().queued.empty());
    host_.chances() = {};
    host_.submit(FunctionId{1});
    host_.run_for(std::chrono::hours(1));
    EXPECT_TRUE(host_.world().instances.empty());
    EXPECT_EQ(host_.outcomes().size(), host_.submitted().size());
  }

  VirtualHost& host() { return host_; }

 private:
  static SliceDispatcherOptions options_for(uint64_t seed) {
    return {.window = seconds(1), .most_attempts = 3, .most_queued = seed % 4 == 0 ? 5U : 1000U};
  }
  double chance(double most) { return random_.below(2) == 0 ? 0 : random_.uniform() * most; }

  Slice next_slice(unsigned compute) {
    ++last_slice_;
    return slice_of(last_slice_, compute, last_slice_ / 4);
  }
  void add_slice() {
    // Now and then one that was there before.
    if (random_.below(4) == 0 && !gone_.empty()) {
      host_.give(SliceAdded{gone_.back()});
      return gone_.pop_back();
    }
    constexpr unsigned kComputes[] = {1, 1, 1, 2, 2, 3, 4, 7};
    host_.give(SliceAdded{next_slice(kComputes[random_.below(std::size(kComputes))])});
  }
  void lose_slice() {
    const auto& slices = host_.world().slices;
    if (slices.empty()) return;
    auto one = slices.begin();
    std::advance(one, static_cast<ptrdiff_t>(random_.below(slices.size())));
    gone_.push_back(one->second.slice);
    host_.give(SliceLost{.slice = one->first, .returns = random_.below(2) == 0});
  }
  void put(FunctionId id, bool replaced) {
    std::vector<ComponentOf> components;
    const size_t count = 1 + random_.below(4);
    for (size_t at = 0; at < count; ++at) {
      components.push_back({static_cast<int64_t>(5 + random_.below(200)),
                            500 + random_.below(random_.below(10) == 0 ? 50'000 : 9'000)});
    }
    auto function = function_of(id.value, components, milliseconds(random_.below(3) * 300));
    function->most_batch = static_cast<unsigned>(1 + random_.below(4));
    // Code of the same shape, measured again: its instances stay.
    if (const FunctionState* there = host_.world().find(id); there != nullptr && !replaced) {
      *function = *there->function;
      for (auto& component : function->profile.components) {
        for (auto& [shape, time] : component.time_by_shape) time += time / 3;
      }
    }
    host_.give(FunctionPut{function, replaced});
  }
  void burst() {
    const FunctionId function = some_function();
    for (uint64_t left = 1 + random_.below(30); left > 0; --left) host_.submit(function);
  }
  void kill() {
    const auto& instances = host_.world().instances;
    if (instances.empty()) return;
    auto one = instances.begin();
    std::advance(one, static_cast<ptrdiff_t>(random_.below(instances.size())));
    if (random_.below(2) == 0) return host_.kill_slowly(one->first);
    host_.kill(one->first);
  }
  void give_nonsense() {
    const uint64_t any = 1'000'000 + random_.below(100);
    switch (random_.below(6)) {
      case 0:
        return host_.give(InstanceReady{InstanceId{any}});
      case 1:
        return host_.give(InstanceEnded{InstanceId{any}, {ErrorCode::kUnknown, "nobody"}});
      case 2:
        return host_.give(JobFinished{JobId{any}, milliseconds(1)});
      case 3:
        return host_.give(SliceLost{DeviceId{static_cast<uint32_t>(any)}});
      case 4:
        return host_.give(TimerFired{});
      default: {
        // One that is still under way is submitted again: it stays one request.
        const InvocationId request = some_request();
        if (host_.outcomes().contains(request) || !host_.submitted().contains(request)) return;
        return host_.give(RequestSubmitted{request, host_.submitted().at(request)});
      }
    }
  }
  FunctionId some_function() {
    return FunctionId{static_cast<uint32_t>(1 + random_.below(functions_))};
  }
  InvocationId some_request() {
    const size_t count = host_.submitted().size();
    return {1, count == 0 ? 1 : 1 + count - std::min(count, random_.below(20) + 1)};
  }

  SeededRandom random_;
  VirtualHost host_;
  uint32_t functions_ = 1;
  uint32_t last_slice_ = 0;
  uint64_t pause_ms_ = 1;
  std::vector<Slice> gone_;
};

// `worlds` worlds of `steps` steps each. A failure names its seed. Returns in how many of them an
// instance with replicas was started.
inline uint64_t expect_survives_random_worlds(const PolicyFactory& factory, uint64_t first_seed,
                                              uint64_t worlds, int steps = 300) {
  uint64_t with_replicas = 0;
  for (uint64_t seed = first_seed; seed < first_seed + worlds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world(seed, factory);
    for (int step = 0; step < steps; ++step) {
      world.step();
      if (::testing::Test::HasFailure()) return with_replicas;
    }
    if (seed % 5 == 0) {
      world.drain();
    } else {
      world.settle();
    }
    if (::testing::Test::HasFailure()) return with_replicas;
    with_replicas += world.host().starts_with_replicas() > 0;
  }
  return with_replicas;
}

}  // namespace lambent::slice_scheduling::testing
