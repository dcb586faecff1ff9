#include "node/worker/deferred_actions.h"

#include <algorithm>
#include <utility>

#include "node/worker/flow_of.h"

namespace lambent::worker {
namespace {

// An executor that hangs delays no action for longer than this.
constexpr Duration kLongestDeferred = seconds(5);
constexpr Duration kPeriod = milliseconds(2);

}  // namespace

void DeferredActions::evict_objects() {
  if (!executors_.objects().is_look_due()) return;
  std::vector<ExecutorHost::DeviceClaim> claims;
  for (const scheduling::Device& device : dispatcher_.fleet().devices()) {
    if (device.options.id == scheduling::kHostDevice) continue;
    const bool moves = dispatcher_.fleet().memory().moves_idle();
    claims.push_back({.device = device.options.id,
                      .memory = device.options.memory,
                      .claimed = moves ? device.resident + device.promised
                                       : std::max(device.committed, device.occupied)});
  }
  executors_.look_at_objects(claims, [this](FunctionId function) {
    const scheduling::Flow* flow = flow_of(dispatcher_, function);
    return flow != nullptr && flow->pending > 0;
  });
}

bool DeferredActions::evicts_any(const std::vector<DeviceId>& devices) const {
  return std::ranges::any_of(
      devices, [this](DeviceId device) { return executors_.objects().evicts(device); });
}

bool DeferredActions::defer(SandboxId sandbox, std::vector<DeviceId> devices,
                            const dispatch::Action& action) {
  if (!evicts_any(devices)) return false;
  const Instant by = loop_.clock().now() + kLongestDeferred;
  deferred_.push_back({sandbox, std::move(devices), action, by});
  look_soon();
  return true;
}

bool DeferredActions::defer_move(const dispatch::MoveMemoryIn& action) {
  const scheduling::Fleet& fleet = dispatcher_.fleet();
  const auto slot = fleet.find(action.sandbox);
  if (!slot) return false;
  std::vector<DeviceId> devices;
  fleet.sandbox(*slot).for_each_device(
      [&](uint32_t index) { devices.push_back(fleet.devices()[index].options.id); });
  return defer(action.sandbox, std::move(devices), action);
}

std::optional<dispatch::Action> DeferredActions::take(SandboxId sandbox) {
  const auto found = std::ranges::find(deferred_, sandbox, &Deferred::sandbox);
  if (found == deferred_.end()) return std::nullopt;
  dispatch::Action action = std::move(found->action);
  deferred_.erase(found);
  return action;
}

void DeferredActions::look_soon() {
  if (std::exchange(timed_, true)) return;
  timer_ = loop_.call_after(kPeriod, [this] { perform_due(); });
}

// One by one, because performing one may stop the sandbox of another.
void DeferredActions::perform_due() {
  timed_ = false;
  const Instant now = loop_.clock().now();
  const auto is_due = [&](const Deferred& each) {
    return now >= each.by || !evicts_any(each.devices);
  };
  for (auto due = std::ranges::find_if(deferred_, is_due); due != deferred_.end();
       due = std::ranges::find_if(deferred_, is_due)) {
    const dispatch::Action action = std::move(due->action);
    deferred_.erase(due);
    perform_(action);
  }
  if (!deferred_.empty()) look_soon();
}

}  // namespace lambent::worker
