#include "node/worker/payload_copies.h"

#include <algorithm>

#include "core/base/sealed_memory.h"
#include "core/domain/tensor_limits.h"

namespace lambent::worker {

void RequestCopy::make() { memory_ = sealed_memory(bytes_); }

Result<OwnedFd> RequestCopy::take_memory() {
  is_made_ = true;
  return std::move(memory_);
}

Result<void> AnswerCopy::take(std::vector<OwnedFd>& fds) {
  if (message_.error) return *message_.error;
  const size_t first_object = message_.payload_attached ? 1 : 0;
  const auto kept = std::ranges::count_if(message_.objects, &protocol::OutputObject::kept);
  if (fds.size() + static_cast<size_t>(kept) != first_object + message_.objects.size()) {
    return Error{ErrorCode::kInternal, "lambent-executor sent an answer without its objects"};
  }
  if (!message_.payload_attached) return {};
  memory_ = std::move(fds.front());
  fds.erase(fds.begin());
  ASSIGN_OR_RETURN(size_, check_sealed(memory_.get()));
  if (size_ <= limits::kTensorPayload) return {};
  // The executor holds what is no tensor of a model to less (kernel_graph::RequestCodec).
  return Error{ErrorCode::kOutOfRange, "the answer has " + std::to_string(size_.count) +
                                           " bytes; at most " +
                                           std::to_string(limits::kTensorPayload.count) +
                                           " fit. Ask for large outputs as objects"};
}

Result<std::string> AnswerCopy::read() {
  if (!memory_.valid()) return std::move(message_.payload);
  return read_memory(memory_.get(), Bytes(0), size_);
}

void PayloadCopies::start(Bytes size, std::function<void()> work,
                          std::function<void()> completion) const {
  if (size > kAtOnce && run_ && run_(work, completion)) return;
  work();
  completion();
}

}  // namespace lambent::worker
