// Executor: the sandboxes whose CUDA calls run here.
#include <utility>

#include "gpu/executor/executor.h"

namespace lambent::executor {

// If it cannot be served its processes find nobody at their socket, for its last descriptor goes.
void Executor::handle(protocol::AddClient message, std::vector<OwnedFd> fds) {
  if (fds.empty()) return;
  if (forward_ == nullptr) {
    auto made = forward_server::ForwardServer::create(
        loop_, {driver_, ordinal_, shares_.multiprocessors()}, context_, options_.forwarding,
        [this](forward_server::ProcessEnd how, const Error& error) { client_broke(how, error); });
    if (!made.ok()) return;
    forward_ = std::move(*made);
  }
  OwnedFd ledger = fds.size() > 1 ? std::move(fds[1]) : OwnedFd();
  (void)forward_
      ->add(message.client, message.memory, shares_.give(message.client, message.share),
            std::move(fds[0]), std::move(ledger))
      .ok();
}

void Executor::handle(protocol::RemoveClient message, std::vector<OwnedFd>) {
  if (forward_ != nullptr) forward_->remove(message.client);
  shares_.take_back(message.client);
}

void Executor::look_after_clients() {
  if (forward_ == nullptr || !forward_->has_processes()) return;
  const auto fault = watch_.fault();
  if (fault) watch_.end_if_broken(driver_.check(*fault, "a forwarded kernel").error());
}

void Executor::client_broke(forward_server::ProcessEnd how, const Error& error) {
  if (watch_.end_if_broken(error)) return;
  if (how != forward_server::ProcessEnd::kHangs) return;
  // The context still works, but somebody's kernel runs in it for ever.
  watch_.end();
  connection_.send(protocol::Broken{error});
  connection_.flush();
  forward_->tell_broken(CUDA_ERROR_LAUNCH_TIMEOUT);
  on_end_(1);
}

}  // namespace lambent::executor
