#include "node/worker/pending_deployments.h"

#include <algorithm>

#include "core/domain/image_function.h"

namespace lambent::worker {

void PendingDeployments::begin(const FunctionSpec& spec, bool creates, const std::string& awaited) {
  changes_[spec.name] = {
      .status = {.spec = spec, .creates = creates, .progress = "", .failure = {}},
      .awaited = awaited};
}

void PendingDeployments::answered(const FunctionName& name) {
  if (const auto found = changes_.find(name); found != changes_.end()) {
    found->second.answered = true;
  }
}

void PendingDeployments::end(const FunctionName& name, const Result<FunctionSpec>& result) {
  const auto found = changes_.find(name);
  if (found == changes_.end()) return;
  // Who was not answered gets the failure as the answer.
  if (result.ok() || !found->second.answered || failed() >= kMostFailed) {
    changes_.erase(found);
    return;
  }
  found->second.status.failure = result.error();
}

void PendingDeployments::restore(DeploymentStatus status) {
  if (changes_.size() >= kMostFailed) return;
  const FunctionName name = status.spec.name;
  changes_[name] = {.status = std::move(status), .awaited = "", .answered = true};
}

size_t PendingDeployments::failed() const {
  return static_cast<size_t>(std::ranges::count_if(
      changes_, [](const auto& one) { return one.second.status.failure.has_value(); }));
}

std::optional<DeploymentStatus> PendingDeployments::find(const FunctionName& name) const {
  const auto found = changes_.find(name);
  if (found == changes_.end() || !found->second.answered) return std::nullopt;
  DeploymentStatus status = found->second.status;
  if (progress_) status.progress = progress_(found->second.awaited);
  return status;
}

std::optional<FunctionSpec> PendingDeployments::created(const FunctionName& name) const {
  const auto found = changes_.find(name);
  if (found == changes_.end() || !found->second.answered || !found->second.status.creates) {
    return std::nullopt;
  }
  return found->second.status.spec;
}

std::optional<Error> PendingDeployments::refuse(const FunctionName& name) const {
  if (!created(name)) return std::nullopt;
  const DeploymentStatus& status = changes_.at(name).status;
  if (!status.failure) {
    const char* what =
        runs_image(status.spec) ? "image is pulled" : "Python packages are installed";
    return Error{ErrorCode::kAborted, "function '" + name.name + "' is being created: its " + what};
  }
  return Error{ErrorCode::kFailedPrecondition,
               "function '" + name.name + "' could not be created: " + status.failure->message};
}

}  // namespace lambent::worker
