// Clients: the sandboxes whose CUDA calls run in an executor, and what serves them, from the first
// one on. Of the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/protocol/executor_message.h"
#include "gpu/executor/context_watch.h"
#include "gpu/executor/multiprocessor_shares.h"
#include "gpu/forward_server/forward_server.h"

namespace lambent::executor {

class Clients {
 public:
  // All outlive the clients.
  struct Dependencies {
    loop::EventLoop& loop;
    const cuda::Driver& driver;
    const cuda::Context& context;
    ContextWatch& watch;
    MultiprocessorShares& shares;
    forward_server::CopyLinks links;
  };
  // `on_hang` is called when the context works, but work of a client that has gone does not end.
  Clients(Dependencies dependencies, int ordinal, forward_server::ForwardOptions options,
          std::function<void(const Error&)> on_hang);
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  // Its processes connect to the first descriptor; the second, if there is one, is its ledger. The
  // descriptors of a client that cannot be served are closed, which its processes see.
  void add(const protocol::AddClient& message, std::vector<OwnedFd> fds);
  void remove(SandboxId client);
  bool has(SandboxId client) const;
  void set_share(SandboxId client, uint32_t share);

  // Whether kernels of a client may be running.
  bool has_unfinished_kernels() const;
  // Looks for a kernel's fault that no call of a client has met yet, which ends the executor; and
  // for memory that was handed on and not taken.
  void look_for_faults();
  // Every call of every client fails with this from now on.
  void tell_broken(CUresult state);

 private:
  Result<void> serve();
  void broke(forward_server::ProcessEnd how, const Error& error);

  const Dependencies with_;
  const int ordinal_;
  const forward_server::ForwardOptions options_;
  const std::function<void(const Error&)> on_hang_;
  std::unique_ptr<forward_server::ForwardServer> server_;  // once there is a client
};

}  // namespace lambent::executor
