#include "node/worker/pipeline_isolation.h"

#include <algorithm>
#include <utility>

namespace lambent::worker {

Result<void> check_memory_is_named(const FunctionSpec& spec) {
  if (spec.gpu.memory > Bytes(0)) return {};
  return Error{ErrorCode::kInvalidArgument,
               "to share a device it has to say how much memory it needs: gpu.memory"};
}

Result<void> check_shared(const SharedDevices& devices, const FunctionSpec& spec) {
  const Bytes memory = devices.shape.memory;
  if (memory == Bytes(0)) {
    return Error{ErrorCode::kFailedPrecondition,
                 "no device is shared here: this worker has none, or keeps all of them for "
                 "pipelines (--pipeline-slices)"};
  }
  RETURN_IF_ERROR(check_memory_is_named(spec));
  if (spec.gpu.memory + devices.context > memory) {
    return Error{ErrorCode::kInvalidArgument,
                 "it asks for " + to_string(spec.gpu.memory) +
                     " of device memory; the largest device that functions share has " +
                     to_string(memory - std::min(memory, devices.context)) + " for one"};
  }
  if (spec.timeout > devices.longest_run) {
    return Error{ErrorCode::kInvalidArgument,
                 "its timeout is longer than the " +
                     std::to_string(devices.longest_run / seconds(1)) +
                     " s that a function may run on a shared device (--longest-gpu-run)"};
  }
  return {};
}

void ArrivalRate::add(Instant now) {
  if (!first_) first_ = now;
  arrivals_.push_back(now);
  while (arrivals_.size() > kMost || arrivals_.front() + kMemory < now) arrivals_.pop_front();
}

double ArrivalRate::per_s(Instant now) const {
  if (!first_ || now - *first_ < kLeast) return 0;
  const auto recent = std::lower_bound(arrivals_.begin(), arrivals_.end(), now - kMemory);
  const auto count = static_cast<double>(arrivals_.end() - recent);
  const bool is_whole = arrivals_.size() < kMost;
  const Duration span = is_whole ? std::min(kMemory, now - *first_) : now - arrivals_.front();
  return count / std::max(1e-3, to_seconds(span));
}

}  // namespace lambent::worker
