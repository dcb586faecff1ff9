// How much of paper-fluidfaas is run, and what is offered at each of its points. Values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/paper_fluidfaas/experiments.h"

namespace lambent::paper_fluidfaas {

inline constexpr const char* kOurs = "ours";

struct Point {
  enum class Of { kTrace, kWhole, kCut };
  const char* name;
  Of of;          // of the trace's own rate, or of what whole functions, or pieces, can take
  double factor;  // times that
};
// At the trace's rate; where whole functions are just overloaded, which is where the paper's heavy
// load stands; and with everything overloaded, where throughput shows.
inline constexpr Point kPoints[] = {{"trace", Point::Of::kTrace, 1},
                                    {"full", Point::Of::kWhole, 1.1},
                                    {"saturated", Point::Of::kCut, 1.3}};

struct Plan {
  bool quick = false;
  std::string traces;
  uint64_t seeds = 1;
  std::vector<std::string> layouts;
  std::vector<Size> sizes;
  std::vector<double> factors;  // of the surface
  double seconds_of_small = 12, seconds_of_medium = 60, seconds_of_large = 60;
  double warm_s = 30;
  Constants constants;
  std::map<Size, Load> loads;  // of the traces; generated for each seed where there is none
};
// INVALID_ARGUMENT or NOT_FOUND if `traces` is a folder without the arrivals.
Result<Plan> plan_for(bool quick, const std::string& traces);

struct Bounds {
  // Requests a second of the load's mix; `replicated`: placed on up to as many slices as `slo`
  // does.
  double whole = 0, placed = 0, replicated = 0, cut = 0;
  double times_trace = 0;  // what is offered, over the trace's own rate
};
struct Prepared {
  Setting setting;
  Load load;
  Bounds bounds;
};
// 24 functions of App 0 to 2, small, on the six slices of two GPUs of P1.
struct CrowdedPlan {
  static constexpr size_t kFunctions = 24;
  double length_s = 300;
  std::vector<double> gaps_s = {240, 120, 60, 30};
};
Setting crowded_setting(const Plan& plan, uint64_t seed);
Prepared prepare(const Plan& plan, const std::string& layout, Size size, const Point& point,
                 uint64_t seed);

}  // namespace lambent::paper_fluidfaas
