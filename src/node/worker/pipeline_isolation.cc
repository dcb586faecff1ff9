#include "node/worker/pipeline_isolation.h"

#include <algorithm>
#include <utility>

#include "decide/pipeline/placing.h"
#include "node/worker/pipeline_host.h"

namespace lambent::worker {
namespace {

// A change costs a start, and what it is judged by is what came in a minute.
constexpr Duration kChoiceStands = seconds(30);

}  // namespace

Result<void> check_shared(const SharedDevices& devices, const FunctionSpec& spec) {
  const Bytes memory = devices.shape.memory;
  if (memory == Bytes(0)) {
    return Error{ErrorCode::kFailedPrecondition,
                 "no device is shared here: this worker has none, or keeps all of them for "
                 "pipelines (--pipeline-slices)"};
  }
  if (spec.gpu.memory == Bytes(0)) {
    return Error{ErrorCode::kInvalidArgument,
                 "to share a device it has to say how much memory it needs: gpu.memory"};
  }
  if (spec.gpu.memory + devices.context > memory) {
    return Error{ErrorCode::kInvalidArgument,
                 "it asks for " + to_string(spec.gpu.memory) +
                     " of device memory; the largest device that functions share has " +
                     to_string(memory - std::min(memory, devices.context)) + " for one"};
  }
  if (spec.timeout > devices.longest_run) {
    return Error{ErrorCode::kInvalidArgument,
                 "its timeout is longer than the " +
                     std::to_string(devices.longest_run / seconds(1)) +
                     " s that a function may run on a shared device (--longest-gpu-run)"};
  }
  return {};
}

void ArrivalRate::add(Instant now) {
  if (!first_) first_ = now;
  arrivals_.push_back(now);
  while (arrivals_.size() > kMost || arrivals_.front() + kMemory < now) arrivals_.pop_front();
}

double ArrivalRate::per_s(Instant now) const {
  if (!first_ || now - *first_ < kLeast) return 0;
  const auto recent = std::lower_bound(arrivals_.begin(), arrivals_.end(), now - kMemory);
  const auto count = static_cast<double>(arrivals_.end() - recent);
  const bool is_whole = arrivals_.size() < kMost;
  const Duration span = is_whole ? std::min(kMemory, now - *first_) : now - arrivals_.front();
  return count / std::max(1e-3, to_seconds(span));
}

// The part of PipelineHost that chooses.

IsolationStatus PipelineHost::choose(const Function& function) const {
  const Instant now = loop_.clock().now();
  const pipeline::IsolationRule rule = function.package->definition.isolation;
  IsolationStatus status{.made = now, .arrivals_per_s = function.arrivals.per_s(now)};
  if (rule == pipeline::IsolationRule::kSlices) {
    status.reasons = {"its pipeline.json says so, or nothing of it"};
    return status;
  }
  pipeline::IsolationWish wish{.arrivals_per_s = status.arrivals_per_s};
  if (rule == pipeline::IsolationRule::kShared) {
    wish.why_not_slices = "its pipeline.json says isolation = shared";
  }
  const auto may_share = check_shared(setting_.shared, function.spec);
  if (!may_share.ok()) wish.why_not_shared = may_share.error().message;
  if (function.status) wish.current = function.status->isolation;

  // Those that it has are free for it.
  std::vector<Slice> free = dispatcher_->world().free_slices();
  for (const auto& [id, instance] : dispatcher_->world().instances) {
    if (instance.function != function.spec.id) continue;
    if (instance.allocation_mode != slice_scheduling::AllocationMode::kExclusive) continue;
    for (const DeviceId device : instance.placement.slices) {
      const auto state = dispatcher_->world().slices.find(device);
      const bool stays = state != dispatcher_->world().slices.end() && !state->second.lost;
      if (stays) free.push_back(*slice_of(device));
    }
  }
  std::optional<pipeline::SharedDevice> device;
  if (setting_.shared.shape.memory > Bytes(0)) {
    // Its process there may have what the manifest asks for, and a context, which was measured too.
    const Bytes context = std::max(setting_.shared.context, function.planned->profile.context);
    device = {.shape = setting_.shared.shape,
              .free = std::min(setting_.shared.shape.memory, function.spec.gpu.memory + context)};
    if (setting_.shared.utilisation) device->utilisation = setting_.shared.utilisation();
    // NVML does not tell it of a whole device: no less than the largest slice that is known of.
    for (const SliceShape& shape : function.planned->shapes) {
      if (setting_.shared.shape.multiprocessors > 0) break;
      device->shape.multiprocessors =
          std::max(device->shape.multiprocessors, shape.multiprocessors);
    }
  }
  auto choice =
      pipeline::choose_isolation(*function.planned, wish, free, device, setting_.planner.costs);
  if (choice.ok()) {
    status.isolation = choice->isolation;
    status.reasons = std::move(choice->reasons);
  } else {
    // On slices they wait for what is not free just now, or are told what they need. Where no slice
    // will ever do, what was measured may be too much and a try is all that is left.
    const auto& costs = setting_.planner.costs;
    const bool tries =
        may_share.ok() && !pipeline::first_that_fits(*function.planned, setting_.slices, costs);
    const bool shares = rule == pipeline::IsolationRule::kShared || tries;
    status.isolation = shares ? pipeline::Isolation::kShared : pipeline::Isolation::kSlices;
    status.reasons = {choice.error().message};
  }
  return status;
}

pipeline::Isolation PipelineHost::isolation_of_next(FunctionId id) {
  const auto found = functions_.find(id);
  if (found == functions_.end()) return pipeline::Isolation::kSlices;
  Function& function = found->second;
  if (function.package->definition.isolation == pipeline::IsolationRule::kSlices) {
    return pipeline::Isolation::kSlices;
  }
  const Instant now = loop_.clock().now();
  function.arrivals.add(now);
  if (!function.status || now - function.status->made >= kChoiceStands) {
    IsolationStatus made = choose(function);
    if (!function.status || function.status->isolation != made.isolation) {
      log_.info("pipeline_isolation",
                {{"function", function.spec.name.name},
                 {"isolation", std::string(pipeline::name_of(made.isolation))},
                 {"reason", made.reasons.empty() ? "" : made.reasons.back()}});
    }
    function.status = std::move(made);
  }
  return function.status->isolation;
}

std::optional<FunctionSpec> PipelineHost::whole(FunctionId id) const {
  const auto found = functions_.find(id);
  if (found == functions_.end() || found->second.spec.gpu.memory == Bytes(0)) return std::nullopt;
  FunctionSpec spec = found->second.spec;
  spec.kind = FunctionKind::kHandler;
  spec.handler = found->second.package->definition.handler;
  return spec;
}

std::optional<bool> PipelineHost::ended_whole(FunctionId id, Outcome outcome, Duration took) {
  const auto found = functions_.find(id);
  if (found == functions_.end()) return std::nullopt;
  return count(found->second, outcome, took);
}

// Whether it was in time, if it has an SLO.
std::optional<bool> PipelineHost::count(Function& function, Outcome outcome, Duration took) {
  if (outcome != Outcome::kRejected) ++function.counts.completed;
  const Duration slo = function.planned->slo;
  if (slo <= Duration(0)) return std::nullopt;
  const bool in_time = outcome == Outcome::kSucceeded && took <= slo;
  ++(in_time ? function.counts.in_time : function.counts.late);
  return in_time;
}

}  // namespace lambent::worker
