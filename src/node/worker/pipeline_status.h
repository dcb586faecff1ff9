// PipelineStatus: what PipelineHost shows: slices and who has them, functions and how they do.
// Changes nothing. Owned by PipelineHost, on the loop thread.
#pragma once

#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/domain/slice.h"
#include "decide/slice_scheduling/slice_dispatcher.h"
#include "node/worker/pipeline_functions.h"
#include "node/worker/pipeline_instances.h"
#include "node/worker/pipeline_setting.h"

namespace lambent::worker {

// A slice, and who has it.
struct SliceStatus {
  Slice slice;
  bool lost = false;
  struct Holder {
    FunctionId function;
    uint64_t instance = 0;
    size_t stage = 0;
    size_t stages = 1;
    size_t replica = 0;           // of its stage process
    size_t replicas = 1;          // that its stage process has
    std::string allocation_mode;  // "exclusive", "time_sharing"
    std::string load_state;       // "starting", "loaded", "unloaded", ...
    double utilisation = 0;
  };
  std::vector<Holder> holders;
  Duration busy{};  // since the worker started: time in which components ran on it
};

class PipelineStatus {
 public:
  struct Counts : PipelineFunctions::Counts {
    uint64_t queued = 0;
    uint64_t running = 0;
  };

  // All outlive it; the constructor uses none.
  PipelineStatus(const Clock& clock, const PipelineSetting& setting,
                 const slice_scheduling::SliceDispatcher& dispatcher,
                 const PipelineFunctions& functions, const PipelineInstances& instances)
      : clock_(clock),
        setting_(setting),
        dispatcher_(dispatcher),
        functions_(functions),
        instances_(instances) {}

  std::vector<SliceStatus> slices() const;
  // Of each GPU with slices here: since the worker began, time in which components ran on any slice
  // of it.
  std::map<uint32_t, Duration> gpu_time() const { return instances_.gpu_time(); }
  // The same for one tenant, as JSON: functions of others have no names there.
  std::string slices_json(TenantId tenant) const;
  Counts counts(FunctionId function) const;
  size_t queued() const { return dispatcher_.world().queued.size(); }  // of all functions
  // How often one of the queue of this function has its turn: zero if that is not known.
  Duration turn(FunctionId function) const;
  // The functions that could run here if all slices that are not lost were free; or, once those
  // that are lost are back.
  std::vector<FunctionName> served() const;
  std::vector<FunctionName> served_later() const;
  // As served(). False of one that is not there.
  bool serves(FunctionId function) const;
  // Its definition, profile and instances, as JSON. NOT_FOUND.
  Result<std::string> describe(FunctionId function) const;

 private:
  const Clock& clock_;
  const PipelineSetting& setting_;
  const slice_scheduling::SliceDispatcher& dispatcher_;
  const PipelineFunctions& functions_;
  const PipelineInstances& instances_;
};

}  // namespace lambent::worker
