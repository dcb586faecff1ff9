#include "decide/slice_scheduling/batch_size.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "decide/pipeline/hand_over.h"
#include "decide/pipeline/stage_process_cost.h"

namespace lambent::slice_scheduling {
namespace {

// What is as good, but for rounding.
constexpr double kAsGood = 0.999;

double per_second(size_t requests, Duration each) {
  return static_cast<double>(requests) / std::max(1e-6, to_seconds(each));
}

}  // namespace

size_t batch_size(const Instance& instance, const Batchable& batch, Instant now) {
  const size_t most = std::min<size_t>(batch.waiting, std::max(1U, batch.most));
  size_t best = 1;
  double best_per_s = per_second(1, instance.bottleneck());
  const bool can_be_in_time = instance.finish_of(1, now) <= batch.due;
  const auto consider = [&](size_t requests) {
    const Duration bottleneck = instance.bottleneck_of(requests);
    if (!pipeline::keeps_slo(batch.slo, instance.latency_of(requests), bottleneck)) return;
    if (can_be_in_time && instance.finish_of(requests, now) > batch.due) return;
    const double its_per_s = per_second(requests, bottleneck);
    if (its_per_s < best_per_s * kAsGood) return;
    best = requests;
    best_per_s = std::max(best_per_s, its_per_s);
  };
  for (const pipeline::BatchTiming& each : instance.placement.batches) {
    if (each.requests < most) consider(each.requests);
  }
  if (most > 1) consider(most);
  return best;
}

double capacity_of(const FunctionState& function, const Instance& instance) {
  return pipeline::capacity_of(instance.placement, function.function->slo, instance.pace).per_s();
}

void learn_batches(Instance& instance, const pipeline::PipelineFunction& function,
                   const SliceWorld& world) {
  pipeline::Placement& placement = instance.placement;
  std::vector<const SliceShape*> shapes;  // by stage process
  const std::vector<pipeline::Process> processes = pipeline::processes_of(placement);
  for (size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].replica > 0) continue;
    const auto slice = world.slices.find(placement.slices[i]);
    if (slice == world.slices.end()) return;
    shapes.push_back(&slice->second.slice.shape);
  }
  const pipeline::TransferCosts costs;
  const auto over = [](Duration own, Duration batch, Duration alone) {
    const double factor = to_seconds(batch) / std::max(1e-9, to_seconds(alone));
    return Duration(std::llround(static_cast<double>(own.count()) * factor));
  };
  placement.batches =
      pipeline::batch_timings(function, placement.partition, shapes, placement.replicas, costs);
  if (placement.batches.empty()) return;
  const pipeline::BatchTiming alone =
      pipeline::job_timing(function, placement.partition, shapes, placement.replicas, costs, 1);
  for (pipeline::BatchTiming& each : placement.batches) {
    each.latency = over(placement.latency, each.latency, alone.latency);
    each.bottleneck = over(placement.bottleneck, each.bottleneck, alone.bottleneck);
  }
}

}  // namespace lambent::slice_scheduling
