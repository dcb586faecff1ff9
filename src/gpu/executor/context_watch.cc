#include "gpu/executor/context_watch.h"

namespace lambent::executor {

std::optional<CUresult> ContextWatch::fault() const {
  const CUresult state = state_();
  if (state == CUDA_SUCCESS || state == CUDA_ERROR_NOT_READY) return std::nullopt;
  return state;
}

bool ContextWatch::end_if_broken(const Error& error, std::optional<SandboxId> suspect) {
  if (has_ended_) return true;
  const auto state = fault();
  if (!state) return false;
  on_broken_({*state, error, suspect});
  has_ended_ = true;
  return true;
}

}  // namespace lambent::executor
