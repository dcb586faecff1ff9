#include "gpu/executor/clients.h"

#include <utility>

namespace lambent::executor {

Clients::Clients(Dependencies dependencies, int ordinal, forward_server::ForwardOptions options,
                 std::function<void(const Error&)> on_hang)
    : with_(dependencies), ordinal_(ordinal), options_(options), on_hang_(std::move(on_hang)) {}

Result<void> Clients::serve() {
  if (server_ != nullptr) return {};
  ASSIGN_OR_RETURN(
      server_,
      forward_server::ForwardServer::create(
          with_.loop, {with_.driver, ordinal_, with_.shares.multiprocessors()}, with_.context,
          with_.links, options_,
          [this](forward_server::ProcessEnd how, const Error& error) { broke(how, error); }));
  return {};
}

void Clients::add(const protocol::AddClient& message, std::vector<OwnedFd> fds) {
  if (fds.empty() || !serve().ok()) return;
  OwnedFd ledger = fds.size() > 1 ? std::move(fds[1]) : OwnedFd();
  (void)server_
      ->add(message.client, message.memory, with_.shares.give(message.client, message.share),
            std::move(fds[0]), std::move(ledger))
      .ok();
}

void Clients::remove(SandboxId client) {
  if (server_ != nullptr) server_->remove(client);
  with_.shares.take_back(client);
}

bool Clients::has(SandboxId client) const { return server_ != nullptr && server_->has(client); }

void Clients::set_share(SandboxId client, uint32_t share) {
  server_->change_groups(client, with_.shares.give(client, share));
}

bool Clients::has_unfinished_kernels() const {
  return server_ != nullptr && server_->has_unfinished_kernels();
}

void Clients::look_for_faults() {
  if (server_ == nullptr) return;
  server_->expire_handles();
  if (!server_->has_processes()) return;
  const auto fault = with_.watch.fault();
  if (fault) with_.watch.end_if_broken(with_.driver.check(*fault, "a forwarded kernel").error());
}

void Clients::tell_broken(CUresult state) {
  if (server_ != nullptr) server_->tell_broken(state);
}

// The context is broken by a client, or by work of one that does not end.
void Clients::broke(forward_server::ProcessEnd how, const Error& error) {
  if (with_.watch.end_if_broken(error)) return;
  if (how == forward_server::ProcessEnd::kHangs) on_hang_(error);
}

}  // namespace lambent::executor
