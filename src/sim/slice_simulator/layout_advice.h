// Which MIG layout would serve given functions best, by simulation, and when it could be changed.
// Pure; used by `lambent slices advise` and its tests.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "decide/pipeline/stage_process_cost.h"
#include "sim/slice_simulator/run.h"

namespace lambent::slice_simulator {

// The slices of one GPU.
using GpuLayout = std::vector<SliceShape>;

struct AdviceOptions {
  std::vector<GpuLayout> layouts;  // that a GPU can have
  unsigned gpus = 1;               // of one node
  std::vector<std::shared_ptr<const pipeline::PipelineFunction>> functions;
  std::vector<Arrival> arrivals;  // ascending
  MachineModel machine;
  pipeline::TransferCosts costs;
  std::string policy = "slo";
  uint64_t seed = 1;
  // So many are simulated: those with the highest bounds, half of them with all GPUs alike.
  size_t most_simulated = 24;
  // A layout is changed only while there is no request for so long.
  Duration change_takes = std::chrono::minutes(5);
  // No more arrivals than that are simulated, of each part the first.
  size_t most_arrivals = 50'000;
};

struct JudgedLayout {
  std::vector<GpuLayout> gpus;  // one for each GPU, the larger slices first
  // How many times the arrivals' mean rate the slices could serve at most.
  double most_times = 0;
  double hit_share = 0;  // of requests within their SLO; of functions without one: answered
  double answered_share = 0;
  double mean_s = 0, p95_s = 0;

  // "2 x 3g.40gb + 4g.40gb", the number of GPUs first where it is above one.
  std::string name() const;
};

// Between two idle times, or the whole.
struct AdvisedPart {
  Instant from{}, to{};
  std::vector<JudgedLayout> layouts;  // best first
};

struct Advice {
  AdvisedPart whole;
  // The times in which there is no request for change_takes or longer.
  struct Idle {
    Instant from{}, to{};
  };
  std::vector<Idle> idle;
  // If there are idle times: the best of each part between them.
  std::vector<AdvisedPart> parts;
};

// INVALID_ARGUMENT without layouts, functions or arrivals; FAILED_PRECONDITION if a function was
// not measured; RESOURCE_EXHAUSTED if no layout can hold all functions.
Result<Advice> advise(const AdviceOptions& options);

}  // namespace lambent::slice_simulator
