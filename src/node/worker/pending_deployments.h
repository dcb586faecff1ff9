// PendingDeployments: changes of functions that wait for their Python packages or their image, and
// those that failed after they were answered. Used by Deployments on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/domain/invocation_service.h"

namespace lambent::worker {

class PendingDeployments {
 public:
  static constexpr size_t kMostFailed = 1000;  // that are remembered

  // Tells what is done right now for what a change waits for. May be empty: then nothing is told.
  using Progress = std::function<std::string(const std::string& awaited)>;
  explicit PendingDeployments(Progress progress) : progress_(std::move(progress)) {}

  // `awaited` names that: the package whose environment is built, or the image.
  void begin(const FunctionSpec& spec, bool creates, const std::string& awaited);
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
    std::string awaited;
    bool answered = false;
  };
  size_t failed() const;

  const Progress progress_;
  std::map<FunctionName, Change> changes_;
};

}  // namespace lambent::worker
