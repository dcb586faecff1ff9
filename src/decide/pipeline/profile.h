// PipelineProfile: what was measured of a pipeline function's components, by the shape of the slice
// they ran on. A value; made by `lambent profile` and by production runs, read by planners.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/slice.h"

namespace lambent::pipeline {

struct ComponentProfile {
  Bytes weights;           // what is loaded onto the device before it can run
  Bytes memory;            // on the device while it runs, weights included; of one request
  Bytes output;            // handed on to those that need it; of one request
  double probability = 1;  // that it runs (an optional one need not)
  // By itself on a slice of that shape, one request, data already there.
  std::map<std::string, Duration> time_by_shape;
  // Of so many requests together, by their number: of a component that takes batches. Only of
  // shapes with a time of one request.
  std::map<std::string, std::map<unsigned, Duration>> batch_times_by_shape;

  bool operator==(const ComponentProfile&) const = default;
};

struct PipelineProfile {
  std::vector<ComponentProfile> components;  // as in Dag::components
  // What a process has on the device beside its components: the CUDA context.
  Bytes context;
  // From starting a stage's process until it takes its first request, loading its weights
  // excluded.
  Duration start{};

  bool operator==(const PipelineProfile&) const = default;
};

// The measured time; where that shape was not measured, that of the measured shape whose number of
// multiprocessors is nearest, in inverse proportion to their numbers, limits::kTime at most. None
// if nothing was measured or `shapes` does not know those that were.
std::optional<Duration> time_on(const ComponentProfile& profile, const SliceShape& shape,
                                const std::vector<SliceShape>& shapes);

// How many times as long as one request so many take together: between sizes that were measured in
// proportion, beyond the largest as that for each request. Where no batch was measured on that
// shape, as on the nearest one on which some were; else as many times as there are requests.
double batch_factor(const ComponentProfile& profile, const SliceShape& shape,
                    const std::vector<SliceShape>& shapes, size_t requests);

}  // namespace lambent::pipeline
