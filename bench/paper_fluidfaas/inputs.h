// Each constant of the model with its source, and how to make it smaller or larger. Values.
#pragma once

#include <span>

#include "bench/paper_fluidfaas/constants.h"

namespace lambent::paper_fluidfaas {

struct Input {
  const char* name;
  double Constants::*value;
  double unit;  // the value is printed divided by it
  const char* source;
  bool guess;
  double most = 1e300;  // what doubling may not go beyond
};
std::span<const Input> inputs();

}  // namespace lambent::paper_fluidfaas
