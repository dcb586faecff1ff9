// Backends: which backend runs the sandboxes of a function. Used by DispatchDriver and WorkerStatus
// on the loop thread.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "core/domain/function.h"
#include "node/worker/backend.h"

namespace lambent::worker {

class Backends {
 public:
  // Both outlive it.
  Backends(Backend& sandboxes, Backend& executors) : sandboxes_(sandboxes), executors_(executors) {}

  Backend& of_kind(FunctionKind kind) {
    return kind == FunctionKind::kKernel ? executors_ : sandboxes_;
  }
  // The one that runs this sandbox; one that has ended is in none, and any backend ignores it.
  Backend& of(SandboxId sandbox) { return executors_.has(sandbox) ? executors_ : sandboxes_; }

  std::vector<SandboxStatus> status(Metering metering,
                                    std::optional<TenantId> tenant = std::nullopt) const {
    std::vector<SandboxStatus> all = sandboxes_.status(metering, tenant);
    std::vector<SandboxStatus> instances = executors_.status(metering, tenant);
    std::ranges::move(instances, std::back_inserter(all));
    return all;
  }

 private:
  Backend& sandboxes_;
  Backend& executors_;
};

}  // namespace lambent::worker
