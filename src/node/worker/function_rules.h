// FunctionRules: which functions this worker can serve, and what dispatch is told of one. Pure;
// used by Deployments.
#pragma once

#include "core/domain/function.h"
#include "decide/dispatch/event.h"
#include "node/catalog/catalog.h"

namespace lambent::worker {

struct FunctionRules {
  Bytes device_memory;         // of the largest device that dispatch has
  std::vector<Bytes> devices;  // the memory of each
  // Why no function takes several of them; empty: some may.
  std::string no_gangs = {};
  Bytes context_memory;  // of a CUDA context
  Bytes call_workspace;  // that kernel functions need beside their memory; 0: none
  bool shared_runtimes = false;
  bool has_slices = false;             // for pipelines
  bool gpu_serves_one_tenant = false;  // functions of no other use it (gpu_tenancy.h)
  bool host_overflow = false;          // functions with a CPU variant run on the host as well
  NetworkBounds network = {};
  std::string network_reason = {};  // why sandboxes have none here; empty: they may
  Duration longest_gpu_run{};       // the longest timeout of a function that takes turns on a GPU
};

bool takes_turns_on_a_gpu(const FunctionSpec& spec);

// INVALID_ARGUMENT, FAILED_PRECONDITION or UNIMPLEMENTED, saying what would have to change.
// PipelineHost::check() judges the slices and the memory of a pipeline.
Result<void> check_function(const FunctionSpec& spec, const FunctionRules& rules);

// What the largest device has for a function of this kind.
Bytes most_device_memory(FunctionKind kind, const FunctionRules& rules);

// `learnt`: null: nothing is known of it yet. `account`: of a version, its function.
dispatch::FunctionProfile profile_of(const FunctionSpec& spec, uint64_t sandbox_revision,
                                     Bytes context_memory,
                                     const catalog::FunctionStatistics* learnt,
                                     FunctionId account = {});

}  // namespace lambent::worker
