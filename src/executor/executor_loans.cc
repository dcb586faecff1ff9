// What the executor lends others: objects that lie in its part of the device.
#include <utility>

#include "executor/executor.h"

namespace lambent::executor {

void Executor::handle(protocol::LendObject message, std::vector<OwnedFd>) {
  const DeviceName name = DeviceName::of(message.object);
  const auto* entry = store_->find(name);
  protocol::ObjectLent answer;
  answer.object = message.object;
  if (entry == nullptr || !entry->filled) {
    answer.error = Error{ErrorCode::kNotFound, "it does not lie on the device"};
    return connection_.send(std::move(answer));
  }
  auto shared = pool_->share(entry->address);
  if (!shared.ok()) {
    answer.error = shared.error();
    return connection_.send(std::move(answer));
  }
  // Pinned, for what takes its place would show through.
  store_->pin(name);
  ++lent_[message.object];
  answer.lent = shared->size;
  std::vector<OwnedFd> fds;
  fds.push_back(std::move(shared->memory));
  connection_.send(std::move(answer), std::move(fds));
}

void Executor::handle(protocol::LoanEnded message, std::vector<OwnedFd>) {
  const auto lent = lent_.find(message.object);
  if (lent == lent_.end()) return;
  store_->unpin(DeviceName::of(message.object));
  if (--lent->second == 0) lent_.erase(lent);
}

}  // namespace lambent::executor
