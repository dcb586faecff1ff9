// TimeOrder: sorts arrivals that lie more or less evenly in their time, in a few passes instead of
// by comparing. Owned by an arrival source, for its arrays; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/workload/trace.h"

namespace lambent::workload {

class TimeOrder {
 public:
  // In the order of Arrival, whatever their times; fastest where these are even.
  void sort(std::vector<Arrival>& arrivals);

 private:
  std::vector<Arrival> sorted_;
  std::vector<uint32_t> ends_;
};

}  // namespace lambent::workload
