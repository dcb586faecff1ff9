// What a FaultyWorld is made of before anything goes wrong: limits, devices, functions, a policy
// and arrivals that no one would think of, from a seed. Used by FaultyWorld only.
#pragma once

#include <string>
#include <vector>

#include "core/base/random.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/scheduling/make_policy.h"

namespace lambent::simulator {

struct FaultyScene {
  dispatch::DispatchOptions dispatch;
  std::string policy;
  scheduling::PolicyOptions policy_options;
  struct Function {
    dispatch::FunctionProfile profile;
    Duration execution{}, start{};
  };
  std::vector<Function> functions;
  struct Arrival {
    Instant at{};
    FunctionId function;
    bool asynchronous = false;
  };
  std::vector<Arrival> arrivals;

  Function& function(FunctionId id) { return functions[id.value - 1]; }
  Function& any_function(Random& random) { return functions[random.below(functions.size())]; }
};

FaultyScene make_faulty_scene(uint64_t seed);
// What a function asks for and may do; drawn again when it is redeployed.
void draw_profile(Random& random, dispatch::FunctionProfile& profile);

// Both ends included.
inline uint64_t between(Random& random, uint64_t low, uint64_t high) {
  return low + random.below(high - low + 1);
}
// Uniform in [0, most).
inline Duration up_to(Random& random, Duration most) {
  return Duration(static_cast<int64_t>(random.uniform() * static_cast<double>(most.count())));
}

}  // namespace lambent::simulator
