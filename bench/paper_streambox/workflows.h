// The three workflows of Figure 11 of the StreamBox paper, as it tells of them in words: which
// networks, fed by which, how often. Values.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/paper_streambox/networks.h"
#include "core/base/random.h"

namespace lambent::paper_streambox {

constexpr int kRequest = -1;  // in place of a component: what the request brought

// How many calls one call of the parent leads to.
enum class Fan : uint8_t { kOne, kCars, kPeople };

struct Component {
  Network network{};
  int parent = kRequest;
  Fan fan = Fan::kOne;
  double input_bytes = 0;  // of a call
};
struct Workflow {
  const char* name = "";
  std::vector<Component> components;  // parents first
  double answer_bytes = 0;            // of a call that leads to no other
};

// "image", "traffic", "social".
const std::vector<Workflow>& workflows();

// How many calls; both kinds of objects have half of the mean, uniform from none to twice that.
uint64_t draw(Fan fan, double objects_mean, Random& random);

}  // namespace lambent::paper_streambox
