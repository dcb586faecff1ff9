// PendingDeployments: changes of functions that wait for their Python packages, and those that
// failed after they were answered. Used by Deployments on the loop thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/domain/invocation_service.h"
#include "node/environments/store.h"

namespace lambent::worker {

class PendingDeployments {
 public:
  static constexpr size_t kMostFailed = 1000;  // that are remembered

  // `environments` tells what happens, and outlives this; null: nothing is told.
  explicit PendingDeployments(const environments::EnvironmentStore* environments)
      : environments_(environments) {}

  // `code` names its package there.
  void begin(const FunctionSpec& spec, bool creates, const std::string& code);
  // From now on its failure is remembered.
  void answered(const FunctionName& name);
  void end(const FunctionName& name, const Result<FunctionSpec>& result);
  // Whether there was something to forget.
  bool forget(const FunctionName& name) { return changes_.erase(name) > 0; }
  // One of an earlier worker, which failed.
  void restore(DeploymentStatus status);

  std::optional<DeploymentStatus> find(const FunctionName& name) const;
  // The function that is being created, or could not be.
  std::optional<FunctionSpec> created(const FunctionName& name) const;
  // Why such a function serves nothing yet. ABORTED: it is being created. FAILED_PRECONDITION: it
  // could not be.
  std::optional<Error> refuse(const FunctionName& name) const;

 private:
  struct Change {
    DeploymentStatus status;
    std::string code;
    bool answered = false;
  };
  size_t failed() const;

  const environments::EnvironmentStore* environments_;
  std::map<FunctionName, Change> changes_;
};

}  // namespace lambent::worker
