// Series: how a DAG is built: what comes after what, and where it forks. A value; the
// enumeration of partitions cuts along it.
#pragma once

#include <cstddef>
#include <vector>

#include "decide/pipeline/dag.h"

namespace lambent::pipeline {

struct Part;
// Parts of which each needs to come after all of the one before it.
struct Series {
  std::vector<Part> parts;
};
// One component, or branches of which none needs anything of another: two at least.
struct Part {
  size_t component = 0;  // if there are no branches
  std::vector<Series> branches;
};

// Of a DAG of at most 64 components. Where parts of it are neither in series nor parallel (an N, a
// butterfly), the components that are as many steps from the beginning are taken to be one fork:
// no two of them need each other either.
Series structure_of(const Dag& dag);

// A fork in the order of order_of(): branch i has the components from bounds[i] to bounds[i + 1].
struct Fork {
  std::vector<size_t> bounds;  // ascending; one more than branches
};
struct LinearOrder {
  std::vector<size_t> components;  // each after all that it needs; branches one after the other
  std::vector<Fork> forks;
};
LinearOrder order_of(const Series& series);

}  // namespace lambent::pipeline
