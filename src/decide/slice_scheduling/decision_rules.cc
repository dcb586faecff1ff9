#include "decide/slice_scheduling/decision_rules.h"

#include <algorithm>
#include <set>
#include <string>
#include <type_traits>

#include "decide/pipeline/hand_over.h"

namespace lambent::slice_scheduling {
namespace {

Error broken(std::string message) { return {ErrorCode::kFailedPrecondition, std::move(message)}; }

std::string name(InstanceId id) { return "instance " + std::to_string(id.value); }
std::string name(FunctionId id) { return "function " + std::to_string(id.value); }
std::string name(DeviceId id) { return "slice " + std::to_string(id.value); }

// The instance, if it exists and is not on its way out.
Result<const Instance*> staying(const SliceWorld& world, InstanceId id) {
  const Instance* instance = world.find(id);
  if (instance == nullptr) return broken(name(id) + " does not exist");
  if (instance->retiring) return broken(name(id) + " is retiring");
  return instance;
}

// That no sharer of `slice` but `self` is on it.
Result<void> check_turn(const SliceWorld& world, DeviceId slice, InstanceId self) {
  for (const InstanceId other : world.slices.at(slice).sharing) {
    if (other != self && world.instances.at(other).on_slices) {
      return broken(name(other) + " is not unloaded from " + name(slice));
    }
  }
  return {};
}

Result<void> check_only_sharing_one(const SliceWorld& world, FunctionId id) {
  for (const InstanceId each : world.functions.at(id).instances) {
    const Instance& instance = world.instances.at(each);
    if (!instance.retiring && instance.allocation_mode == AllocationMode::kTimeSharing) {
      return broken(name(id) + " has a time-sharing instance already");
    }
  }
  return {};
}

Result<void> check(const SliceWorld& world, const Assign& assign) {
  ASSIGN_OR_RETURN(const Instance* instance, staying(world, assign.instance));
  if (!instance->is_open()) return broken(name(assign.instance) + " is not loaded");
  if (assign.requests.empty()) return broken("a job of no request");
  const auto& function = world.functions.at(instance->function).function;
  if (assign.requests.size() > std::max(1U, function->most_batch)) {
    return broken("a job of more requests than the function takes together");
  }
  for (size_t at = 0; at < assign.requests.size(); ++at) {
    const auto begin = assign.requests.begin();
    if (std::find(begin, begin + static_cast<ptrdiff_t>(at), assign.requests[at]) !=
        begin + static_cast<ptrdiff_t>(at)) {
      return broken("request " + to_string(assign.requests[at]) + " twice in a job");
    }
    const auto place = world.queued.find(assign.requests[at]);
    if (place == world.queued.end() || place->second.function != instance->function) {
      return broken("request " + to_string(assign.requests[at]) + " is not queued for " +
                    name(instance->function));
    }
  }
  return {};
}

Result<void> check(const SliceWorld& world, const Start& start) {
  const FunctionState* function = world.find(start.function);
  if (function == nullptr) return broken(name(start.function) + " does not exist");
  const auto& slices = start.placement.slices;
  if (slices.empty()) return broken("an instance on no slice");
  const auto& replicas = start.placement.replicas;
  const size_t stage_processes = start.placement.partition.stage_processes();
  if (!replicas.empty() && replicas.size() != stage_processes) {
    return broken("another number of replicas than of stage processes");
  }
  if (std::find(replicas.begin(), replicas.end(), 0U) != replicas.end()) {
    return broken("a stage process that no instance has");
  }
  const auto processes = pipeline::processes_of(start.placement);
  if (slices.size() != processes.size()) {
    return broken("another number of slices than of stage processes");
  }
  if (std::set<DeviceId>(slices.begin(), slices.end()).size() != slices.size()) {
    return broken("two stage processes on one slice");
  }
  const bool shares = start.allocation_mode == AllocationMode::kTimeSharing;
  if (shares && slices.size() > 1) return broken("a pipeline cannot share its slices");
  if (shares) RETURN_IF_ERROR(check_only_sharing_one(world, start.function));
  for (const DeviceId id : slices) {
    const auto found = world.slices.find(id);
    if (found == world.slices.end() || found->second.lost) {
      return broken(name(id) + " does not exist");
    }
    if (found->second.exclusive) {
      return broken(name(id) + " belongs to " + name(*found->second.exclusive));
    }
    if (!shares && !found->second.sharing.empty()) return broken(name(id) + " is shared");
    if (shares) RETURN_IF_ERROR(check_turn(world, id, InstanceId{}));
  }
  for (size_t at = 0; at < slices.size(); ++at) {
    const DeviceId first = slices[at - processes[at].replica];
    if (!(world.slices.at(slices[at]).slice.shape == world.slices.at(first).slice.shape)) {
      return broken("replicas of one stage process on slices of different shapes");
    }
  }
  return {};
}

Result<void> check(const SliceWorld& world, const Retire& retire) {
  ASSIGN_OR_RETURN([[maybe_unused]] const Instance* instance, staying(world, retire.instance));
  return {};
}

Result<void> check(const SliceWorld& world, const ChangeAllocationMode& change) {
  ASSIGN_OR_RETURN(const Instance* instance, staying(world, change.instance));
  if (instance->allocation_mode == change.allocation_mode)
    return broken(name(change.instance) + " is that already");
  if (change.allocation_mode == AllocationMode::kTimeSharing) {
    if (instance->is_pipeline()) return broken("a pipeline cannot share its slices");
    return check_only_sharing_one(world, instance->function);
  }
  if (!instance->is_open()) return broken(name(change.instance) + " is not loaded");
  if (world.slices.at(instance->placement.slices.front()).sharing.size() > 1) {
    return broken("others share the slice of " + name(change.instance));
  }
  return {};
}

Result<void> check(const SliceWorld& world, const Unload& unload) {
  ASSIGN_OR_RETURN(const Instance* instance, staying(world, unload.instance));
  if (!instance->is_open()) return broken(name(unload.instance) + " is not loaded");
  if (instance->allocation_mode != AllocationMode::kTimeSharing) {
    return broken(name(unload.instance) + " shares its slice with no other instance");
  }
  if (instance->jobs > 0) return broken(name(unload.instance) + " is not idle");
  return {};
}

Result<void> check(const SliceWorld& world, const Load& load) {
  ASSIGN_OR_RETURN(const Instance* instance, staying(world, load.instance));
  if (instance->load_state != LoadState::kUnloaded) {
    return broken(name(load.instance) + " is not unloaded");
  }
  return check_turn(world, instance->placement.slices.front(), load.instance);
}

Result<void> check(const SliceWorld& world, const Refuse& refuse) {
  if (world.queued.contains(refuse.request)) return {};
  return broken("request " + to_string(refuse.request) + " is not queued");
}

Result<void> check(const SliceWorld&, const AskAgain&) { return {}; }

}  // namespace

Result<void> validate(const SliceWorld& world, const Decision& decision) {
  return std::visit([&](const auto& each) { return check(world, each); }, decision);
}

std::string to_string(const Decision& decision) {
  return std::visit(
      [](const auto& each) -> std::string {
        using Kind = std::decay_t<decltype(each)>;
        if constexpr (std::is_same_v<Kind, Assign>) {
          return "give " + std::to_string(each.requests.size()) + " requests to " +
                 name(each.instance);
        } else if constexpr (std::is_same_v<Kind, Start>) {
          std::string text = "start " + name(each.function) + " on slices";
          for (const DeviceId id : each.placement.slices) text += " " + std::to_string(id.value);
          return text + (each.allocation_mode == AllocationMode::kExclusive ? ", exclusive"
                                                                            : ", time sharing");
        } else if constexpr (std::is_same_v<Kind, Retire>) {
          return "retire " + name(each.instance);
        } else if constexpr (std::is_same_v<Kind, ChangeAllocationMode>) {
          return "make " + name(each.instance) +
                 (each.allocation_mode == AllocationMode::kExclusive ? " exclusive"
                                                                     : " time sharing");
        } else if constexpr (std::is_same_v<Kind, Unload>) {
          return "unload " + name(each.instance);
        } else if constexpr (std::is_same_v<Kind, Load>) {
          return "load " + name(each.instance);
        } else if constexpr (std::is_same_v<Kind, Refuse>) {
          return "refuse request " + to_string(each.request);
        } else {
          return "ask again";
        }
      },
      decision);
}

}  // namespace lambent::slice_scheduling
