#include "node/worker/unloads.h"

#include <vector>

#include "node/worker/dispatch_driver.h"

namespace lambent::worker {

using scheduling::SandboxState;

void Unloads::unload(FunctionId function) {
  std::vector<SandboxId> resting;
  for (const scheduling::Fleet* fleet : {&dispatcher_.fleet(), &dispatcher_.host_fleet()}) {
    for (const scheduling::SandboxSlot slot : fleet->all()) {
      const scheduling::Sandbox& sandbox = fleet->sandbox(slot);
      if (sandbox.function != function) continue;
      if (sandbox.state == SandboxState::kIdle) resting.push_back(sandbox.id);
      if (sandbox.state == SandboxState::kBusy) at_work_.insert(sandbox.id);
    }
  }
  for (const SandboxId id : resting) driver_.handle(dispatch::SandboxCrowdedOut{id});
}

void Unloads::answered(SandboxId sandbox) {
  if (!at_work_.contains(sandbox)) return;
  for (const scheduling::Fleet* fleet : {&dispatcher_.fleet(), &dispatcher_.host_fleet()}) {
    const auto slot = fleet->find(sandbox);
    if (slot && fleet->sandbox(*slot).state == SandboxState::kBusy) return;
  }
  at_work_.erase(sandbox);
  driver_.handle(dispatch::SandboxCrowdedOut{sandbox});
}

}  // namespace lambent::worker
