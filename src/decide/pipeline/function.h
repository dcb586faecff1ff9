// PipelineFunction: a pipeline function as schedulers know it: its DAG, what was measured of it,
// what it promises, and its partitions in the order in which they are to be tried. A value that is
// never changed; a new profile makes a new one.
#pragma once

#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "decide/pipeline/dag.h"
#include "decide/pipeline/partition.h"
#include "decide/pipeline/profile.h"

namespace lambent::pipeline {

struct PipelineFunction {
  FunctionId id;
  Dag dag;
  PipelineProfile profile;
  std::vector<SliceShape> shapes;  // that the profile speaks of
  Bytes declared_memory;           // what its manifest asks for, for all that was not measured
  Duration slo{};                  // from submission to result; zero: none was given
  // How many requests that wait together may run as one job. It takes as long as they do one after
  // the other, where its components were not measured on several together.
  unsigned most_batch = 1;
  // Best first (planner.h): made once, when the function or its profile changes.
  std::vector<Partition> ranked;
};

}  // namespace lambent::pipeline
