#include "bench/warm_functions.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/scheduling/fcfs.h"

namespace lambent::bench {
namespace {

using dispatch::Action;
using dispatch::Event;

// A function counts with what comes in once it was out: it takes some rounds until all have been.
// In another order each time, for in one and the same those that move would be the same for ever.
constexpr int kMostRounds = 200;

// Performs at once whatever dispatch wants.
class World {
 public:
  World(const WarmFunctions& what, uint32_t functions)
      : what_(what),
        dispatcher_(options(what), std::make_unique<scheduling::FcfsPolicy>(
                                       scheduling::FcfsOptions{.moves_off_after_run = false})) {
    for (uint32_t id = 1; id <= functions; ++id) {
      give(dispatch::FunctionRegistered{
          {.id = FunctionId{id}, .tenant = TenantId{1}, .device_memory = what.function}});
    }
  }

  void run(uint32_t function) {
    give(dispatch::InvocationSubmitted{{1, ++invocations_}, FunctionId{function}});
    now_ += milliseconds(1);
  }
  uint64_t moves() const {
    return dispatcher_.counters().moves_in + dispatcher_.counters().moves_out;
  }
  int warm() const {
    const scheduling::Fleet& fleet = dispatcher_.fleet();
    return static_cast<int>(std::ranges::count_if(fleet.all(), [&](scheduling::SandboxSlot slot) {
      return fleet.sandbox(slot).memory_state == scheduling::MemoryState::kIn;
    }));
  }

 private:
  static dispatch::DispatchOptions options(const WarmFunctions& what) {
    dispatch::DispatchOptions options;
    options.fleet.devices = {
        {.id = DeviceId{1}, .memory = what.device, .tokens = 1, .contexts = 100'000}};
    options.fleet.most_sandboxes = 100'000;
    options.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
    return options;
  }
  void give(const Event& event) {
    events_.push_back(event);
    while (!events_.empty()) {
      const Event next = events_.front();
      events_.pop_front();
      std::vector<Action> actions;
      dispatcher_.handle(next, now_, actions);
      for (const Action& action : actions) perform(action);
    }
  }
  void perform(const Action& action) {
    if (const auto* start = std::get_if<dispatch::StartSandbox>(&action)) {
      events_.push_back(dispatch::SandboxReady{.sandbox = start->sandbox});
    } else if (const auto* run = std::get_if<dispatch::StartInvocation>(&action)) {
      events_.push_back(dispatch::InvocationFinished{.invocation = run->invocation});
    } else if (const auto* in = std::get_if<dispatch::MoveMemoryIn>(&action)) {
      events_.push_back(dispatch::MemoryMoved{.sandbox = in->sandbox});
    } else if (const auto* out = std::get_if<dispatch::MoveMemoryOut>(&action)) {
      events_.push_back(dispatch::MemoryMoved{.sandbox = out->sandbox,
                                              .direction = dispatch::MoveDirection::kOut,
                                              .left = what_.context,
                                              .offloaded = what_.offloaded});
    } else if (const auto* stop = std::get_if<dispatch::StopSandbox>(&action)) {
      events_.push_back(dispatch::SandboxExited{.sandbox = stop->sandbox});
    }
  }

  const WarmFunctions what_;
  dispatch::Dispatcher dispatcher_;
  std::deque<Event> events_;
  uint64_t invocations_ = 0;
  Instant now_{};
};

// How many of so many functions end up with their memory in.
int warm_of(const WarmFunctions& what, uint32_t functions) {
  World world(what, functions);
  SeededRandom random(1);
  std::vector<uint32_t> order(functions);
  std::iota(order.begin(), order.end(), 1);
  for (int round = 0; round < kMostRounds; ++round) {
    const uint64_t moves_before = world.moves();
    for (uint32_t i = functions; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (const uint32_t function : order) world.run(function);
    if (round > 0 && world.moves() == moves_before) break;
  }
  return world.warm();
}

bool all_stay_warm(const WarmFunctions& what, uint32_t functions) {
  return warm_of(what, functions) == static_cast<int>(functions);
}

}  // namespace

// With one more than stay warm, one has to move at every turn.
int warm_functions(const WarmFunctions& what) {
  uint32_t too_many = 1;
  while (all_stay_warm(what, too_many)) too_many *= 2;
  uint32_t most = too_many / 2;
  while (most + 1 < too_many) {
    const uint32_t between = (most + too_many) / 2;
    (all_stay_warm(what, between) ? most : too_many) = between;
  }
  return static_cast<int>(most);
}

}  // namespace lambent::bench
