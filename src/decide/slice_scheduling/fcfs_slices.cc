#include "decide/slice_scheduling/fcfs_slices.h"

#include <algorithm>

namespace lambent::slice_scheduling {
namespace {

// The instance of `function` that stays, if there is one.
const Instance* instance_of(const SliceWorld& world, const FunctionState& function) {
  for (const InstanceId id : function.instances) {
    const Instance& instance = world.instances.at(id);
    if (!instance.retiring) return &instance;
  }
  return nullptr;
}

// Functions with something queued, that of the oldest request first.
std::vector<const FunctionState*> by_oldest_request(const SliceWorld& world) {
  std::vector<const FunctionState*> waiting;
  for (const auto& [id, function] : world.functions) {
    if (!function.queue.empty()) waiting.push_back(&function);
  }
  std::sort(waiting.begin(), waiting.end(), [](const FunctionState* a, const FunctionState* b) {
    return a->queue.front().sequence < b->queue.front().sequence;
  });
  return waiting;
}

void assign_oldest(const FunctionState& function, const Instance& instance,
                   std::vector<Decision>& decisions) {
  size_t next = 0;
  for (size_t jobs = instance.jobs; jobs < instance.most_jobs(); ++jobs) {
    Assign assign{.requests = {}, .instance = instance.id};
    while (next < function.queue.size() && assign.requests.size() < function.function->most_batch) {
      assign.requests.push_back(function.queue[next++].id);
    }
    if (assign.requests.empty()) return;
    decisions.push_back(std::move(assign));
  }
}

// Idle, nothing queued for it, used least recently.
const Instance* least_recently_used(const SliceWorld& world) {
  const Instance* best = nullptr;
  for (const auto& [id, instance] : world.instances) {
    if (!instance.is_open() || instance.jobs > 0) continue;
    if (!world.functions.at(instance.function).queue.empty()) continue;
    if (best == nullptr || instance.last_used < best->last_used) best = &instance;
  }
  return best;
}

bool anything_retires(const SliceWorld& world) {
  return std::any_of(world.instances.begin(), world.instances.end(),
                     [](const auto& each) { return each.second.retiring; });
}

}  // namespace

void FcfsSlicesPolicy::decide(const SliceWorld& world, Instant now,
                              std::vector<Decision>& decisions) {
  for (const auto& [id, function] : world.functions) {
    const Instance* instance = instance_of(world, function);
    if (instance != nullptr && instance->is_open()) assign_oldest(function, *instance, decisions);
  }
  if (!decisions.empty()) return;
  if (start_one(world, now, decisions)) return;
  for (const auto& [id, instance] : world.instances) {
    if (!instance.is_open() || instance.jobs > 0) continue;
    const Instant until = instance.last_used + options_.keep_alive;
    if (until <= now) {
      decisions.push_back(Retire{id});
    } else {
      decisions.push_back(AskAgain{until});
    }
  }
}

// The first function that lacks an instance gets one, or room is made for it, or it is told that
// there will never be any. Whether something was decided that changes the world.
bool FcfsSlicesPolicy::start_one(const SliceWorld& world, Instant now,
                                 std::vector<Decision>& decisions) {
  for (const FunctionState* function : by_oldest_request(world)) {
    if (instance_of(world, *function) != nullptr) continue;
    if (function->start_again_at > now) {
      decisions.push_back(AskAgain{function->start_again_at});
      continue;
    }
    if (auto placement = placer_.place(world, *function)) {
      decisions.push_back(Start{function->function->id, std::move(*placement)});
      return true;
    }
    if (!placer_.fits_empty(world, *function)) {
      for (const QueuedRequest& request : function->queue) {
        decisions.push_back(Refuse{request.id, fits_nowhere(world, *function->function)});
      }
      return true;
    }
    if (anything_retires(world)) continue;
    if (const Instance* victim = least_recently_used(world)) {
      decisions.push_back(Retire{victim->id});
      return true;
    }
  }
  return false;
}

}  // namespace lambent::slice_scheduling
