// Each constant of the model with its source, and how to make it smaller or larger. Values.
#pragma once

#include <span>
#include <string>

#include "bench/paper_streambox/constants.h"

namespace lambent::paper_streambox {

struct Input {
  const char* name;
  double Constants::*value;
  double unit;  // the value is printed divided by it
  const char* source;
  bool guess;
};
std::span<const Input> inputs();

}  // namespace lambent::paper_streambox
