// PipelineSetting: what the worker gives to pipelines: slices, memory for channels, how they are
// planned. A value; used by PipelineHost and its parts.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/domain/slice.h"
#include "decide/pipeline/planner.h"
#include "node/worker/pipeline_isolation.h"

namespace lambent::worker {

struct PipelineSetting {
  std::string node = {};  // what this one is called in its cluster; empty: it is in none
  std::vector<Slice> slices;
  // What a process has of a slice beside what its function allocates.
  Bytes context_memory;
  std::string channel_folder;  // in memory, if it can be; emptied at start
  pipeline::PlannerOptions planner;
  SharedDevices shared;
  // The largest value of a job that goes from one stage to the next.
  Bytes largest_value = Bytes::gib(1);
  // Runs work elsewhere, and then the completion on the loop thread; false: not now. Planning a
  // large function takes long. Empty: it is done at once.
  std::function<bool(std::function<void()> work, std::function<void()> completion)> background;

  // Null: it is none of them.
  const Slice* slice(DeviceId device) const {
    const auto found = std::ranges::find(slices, device, &Slice::id);
    return found != slices.end() ? &*found : nullptr;
  }
};

}  // namespace lambent::worker
