// ForwardServer: the executor's side of forwarded CUDA: listens for the processes of its clients,
// greets them, and gives each a thread that calls the driver for it. All of it on the loop thread.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <unordered_map>

#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/loop/event_loop.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/greeting.h"
#include "gpu/forward_server/served_process.h"

namespace lambent::forward_server {

struct ForwardOptions {
  // Work that a process left behind may go on for so long; then it counts as one that never ends.
  Duration drain = seconds(10);
  // So long may a call go on that the driver is in when its process has gone: a module may be
  // compiled in it, but a kernel that never ends may be what it waits for.
  Duration last_call = seconds(60);
  // Memory that was handed on waits so long to be opened.
  Duration hold = seconds(60);
};

class ForwardServer {
 public:
  // Called with kBroken when a client's call found the context broken, with kHangs when work that
  // it left, or a call, does not come to an end.
  using OnBroken = std::function<void(ProcessEnd, const Error&)>;

  // Loop, driver, multiprocessors, context and links outlive the server.
  static Result<std::unique_ptr<ForwardServer>> create(loop::EventLoop& loop,
                                                       const Splitting& splitting,
                                                       const cuda::Context& context,
                                                       CopyLinks links, ForwardOptions options,
                                                       OnBroken on_broken);
  // Waits for the threads of all processes; their work on the device ends first.
  ~ForwardServer();
  ForwardServer(const ForwardServer&) = delete;
  ForwardServer& operator=(const ForwardServer&) = delete;

  // Its processes may connect to `listening`, a SOCK_SEQPACKET socket, from now on; together they
  // hold at most `memory`, and their kernels keep to these groups of multiprocessors (none: to
  // nothing). `ledger` may be missing. INVALID_ARGUMENT if the socket cannot be used,
  // ALREADY_EXISTS if the client is there.
  Result<void> add(SandboxId client, Bytes memory, std::vector<uint32_t> groups, OwnedFd listening,
                   OwnedFd ledger);
  bool has(SandboxId client) const { return clients_.count(client) != 0; }
  // From its streams' next use on. Nothing happens if it is none.
  void change_groups(SandboxId client, std::vector<uint32_t> groups);
  // Its processes are hung up on, their work ends and all is freed, a little later.
  void remove(SandboxId client);

  // Every call of every process fails with this from now on.
  void tell_broken(CUresult why);
  bool has_processes() const { return processes_ > 0; }
  // Now and then: gives up memory that was handed on and not opened in time.
  void expire_handles() { handles_.expire(); }
  // Whether kernels of a client may be running. True for a moment longer than they do.
  bool has_unfinished_kernels() const;

 private:
  struct Connection {
    OwnedFd socket;
    ServedProcess::Pointer process;  // null until it has said hello
    bool ending = false;
    Instant told_to_end;
    loop::Watch watch;  // before the socket closes
  };
  struct Client {
    SandboxId id;
    ClientParts parts;
    OwnedFd listening;
    bool removed = false;
    std::list<Connection> connections;
    loop::Watch watch;
  };

  ForwardServer(loop::EventLoop& loop, const Splitting& splitting, const cuda::Context& context,
                CopyLinks links, ForwardOptions options, OnBroken on_broken);
  Result<void> describe_device();
  void accept(Client& client);
  void read(Client& client, Connection& connection);
  bool greet(Client& client, Connection& connection);
  bool serve(Client& client, Connection& connection,
             std::shared_ptr<forward_ring::SharedMemory> shared);
  void hang_up(Client& client, std::list<Connection>::iterator connection);
  void ended(SandboxId client, uint64_t number, ProcessEnd how, CUresult result);
  void forget_if_empty(SandboxId client);
  void watch_ends();
  void look_at_ends();

  loop::EventLoop& loop_;
  const ForwardOptions options_;
  const Splitting splitting_;
  MemoryHandles handles_;
  ServerContext server_context_;
  OnBroken on_broken_;
  forward_ring::Welcome welcome_;  // but for the client's limit
  std::unordered_map<SandboxId, std::unique_ptr<Client>> clients_;
  size_t processes_ = 0;
  bool watches_ends_ = false;
  // Posted tasks that find this false do nothing.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::forward_server
