// FunctionRules: which functions this worker can serve, and what dispatch is told of one. Pure;
// used by Deployments.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/domain/function.h"
#include "core/domain/slice.h"
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

// What the other nodes of a cluster have for functions that this one cannot run. A value.
struct OtherNodes {
  // Of each node, what each of its GPUs has for a function.
  std::vector<std::vector<Bytes>> gpus = {};
  // Likewise its slices, which pipelines have; as many as `gpus`, or none.
  std::vector<std::vector<SliceShape>> slices = {};
  // Not this node judges functions: it keeps copies of what another one took. Nor can it while one
  // has not said yet what it has.
  bool judged = false;

  bool could_run(Bytes memory, unsigned count) const;
  // What the largest GPU has; anything for a function that was judged.
  Bytes most() const;
};

// ClusterGpus: what GPUs have for functions, those of this node and of the others. Loop thread.
class ClusterGpus {
 public:
  explicit ClusterGpus(const FunctionRules& rules, const std::vector<Slice>& slices = {});

  // Of each GPU here on which functions take turns.
  const std::vector<Bytes>& own() const { return own_; }
  // Those that pipelines have here.
  const std::vector<SliceShape>& own_slices() const { return own_slices_; }
  // From now on others are asked for there.
  void regard_others(std::function<OtherNodes()> others) { others_ = std::move(others); }
  OtherNodes others() const { return others_ ? others_() : OtherNodes{}; }

 private:
  std::vector<Bytes> own_;
  std::vector<SliceShape> own_slices_;
  std::function<OtherNodes()> others_;  // empty: there are none
};

bool takes_turns_on_a_gpu(const FunctionSpec& spec);

// Whether this worker has what the function takes of GPUs, now or when they are free.
bool could_run_here(const FunctionSpec& spec, const FunctionRules& rules);

// The function as it is checked: a version and a kept graph have names that no function may have.
FunctionSpec as_function(FunctionSpec spec);

// INVALID_ARGUMENT, FAILED_PRECONDITION or UNIMPLEMENTED, saying what would have to change. One
// that needs other GPUs than those here is good if one of `others` has them.
// plan_deployed() judges the slices and the memory of a pipeline (pipeline_planning.h).
Result<void> check_function(const FunctionSpec& spec, const FunctionRules& rules,
                            const OtherNodes& others = {});

// What the largest device has for a function of this kind.
Bytes most_device_memory(FunctionKind kind, const FunctionRules& rules);

// `learnt`: null: nothing is known of it yet. `account`: of a version, its function.
dispatch::FunctionProfile profile_of(const FunctionSpec& spec, uint64_t sandbox_revision,
                                     Bytes context_memory,
                                     const catalog::FunctionStatistics* learnt,
                                     FunctionId account = {});

}  // namespace lambent::worker
