#include "node/worker/isolation_choice.h"

#include <algorithm>
#include <utility>

#include "decide/pipeline/placing.h"

namespace lambent::worker {

IsolationStatus choose_isolation(const PipelineFunctions::Function& function,
                                 const slice_scheduling::SliceWorld& world,
                                 const PipelineSetting& setting, Instant now) {
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
  const auto may_share = check_shared(setting.shared, function.spec);
  if (!may_share.ok()) wish.why_not_shared = may_share.error().message;
  if (function.status) wish.current = function.status->isolation;

  // Those that it has are free for it.
  std::vector<Slice> free = world.free_slices();
  for (const auto& [id, instance] : world.instances) {
    if (instance.function != function.spec.id) continue;
    if (instance.allocation_mode != slice_scheduling::AllocationMode::kExclusive) continue;
    for (const DeviceId device : instance.placement.slices) {
      const auto state = world.slices.find(device);
      const bool stays = state != world.slices.end() && !state->second.lost;
      if (stays) free.push_back(*setting.slice(device));
    }
  }
  std::optional<pipeline::SharedDevice> device;
  if (setting.shared.shape.memory > Bytes(0)) {
    // Its process there may have what the manifest asks for, and a context, which was measured too.
    const Bytes context = std::max(setting.shared.context, function.planned->profile.context);
    device = {.shape = setting.shared.shape,
              .free = std::min(setting.shared.shape.memory, function.spec.gpu.memory + context)};
    if (setting.shared.utilisation) device->utilisation = setting.shared.utilisation();
    // NVML does not tell it of a whole device: no less than the largest slice that is known of.
    for (const SliceShape& shape : function.planned->shapes) {
      if (setting.shared.shape.multiprocessors > 0) break;
      device->shape.multiprocessors =
          std::max(device->shape.multiprocessors, shape.multiprocessors);
    }
  }
  auto choice =
      pipeline::choose_isolation(*function.planned, wish, free, device, setting.planner.costs);
  if (choice.ok()) {
    status.isolation = choice->isolation;
    status.reasons = std::move(choice->reasons);
  } else {
    // On slices they wait for what is not free just now, or are told what they need. Where no slice
    // will ever do, what was measured may be too much and a try is all that is left.
    const auto& costs = setting.planner.costs;
    const bool tries =
        may_share.ok() && !pipeline::first_that_fits(*function.planned, setting.slices, costs);
    const bool shares = rule == pipeline::IsolationRule::kShared || tries;
    status.isolation = shares ? pipeline::Isolation::kShared : pipeline::Isolation::kSlices;
    status.reasons = {choice.error().message};
  }
  return status;
}

}  // namespace lambent::worker
