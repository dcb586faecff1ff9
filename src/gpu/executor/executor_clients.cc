// Executor: the sandboxes whose CUDA calls run here.
#include <utility>

#include "gpu/executor/executor.h"

namespace lambent::executor {

// If it cannot be served its processes find nobody at their socket, for its last descriptor goes.
void Executor::handle(protocol::AddClient message, std::vector<OwnedFd> fds) {
  if (fds.empty()) return;
  if (forward_ == nullptr) {
    auto made = forward_server::ForwardServer::create(
        loop_, {driver_, ordinal_, multiprocessors_ ? &*multiprocessors_ : nullptr}, context_,
        options_.forwarding,
        [this](forward_server::ProcessEnd how, const Error& error) { client_broke(how, error); });
    if (!made.ok()) return;
    forward_ = std::move(*made);
  }
  OwnedFd ledger = fds.size() > 1 ? std::move(fds[1]) : OwnedFd();
  (void)forward_
      ->add(message.client, message.memory, groups_for(message.client, message.share),
            std::move(fds[0]), std::move(ledger))
      .ok();
}

void Executor::handle(protocol::RemoveClient message, std::vector<OwnedFd>) {
  if (forward_ != nullptr) forward_->remove(message.client);
  if (shares_) shares_->take_back(user_of(message.client));
}

void Executor::look_after_clients() {
  if (forward_ == nullptr || !forward_->has_processes()) return;
  const CUresult state = driver_->stream_query(nullptr);
  if (state == CUDA_SUCCESS || state == CUDA_ERROR_NOT_READY) return;
  const auto error = driver_.check(state, "a forwarded kernel");
  end_if_broken(nullptr, error.error());
}

void Executor::client_broke(forward_server::ProcessEnd how, const Error& error) {
  if (end_if_broken(nullptr, error)) return;
  if (how != forward_server::ProcessEnd::kHangs) return;
  // The context still works, but somebody's kernel runs in it for ever.
  ended_ = true;
  connection_.send(protocol::Broken{error});
  connection_.flush();
  forward_->tell_broken(CUDA_ERROR_LAUNCH_TIMEOUT);
  on_end_(1);
}

}  // namespace lambent::executor
