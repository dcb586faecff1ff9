// ExecutorClients: handlers' sandboxes whose CUDA calls run in an executor (docs/decisions/0015).
// Tells executors of them, and their owners when an executor ends. Used by ExecutorHost on the loop
// thread.
#pragma once

#include <functional>
#include <map>

#include "core/base/fd.h"
#include "core/base/units.h"
#include "node/worker/backend.h"
#include "node/worker/executor_supervisor.h"

namespace lambent::worker {

struct ExecutorClient {
  SandboxId sandbox;
  FunctionId function;
  ExecutorKey key;
  Bytes memory;
  unsigned share = 100;
  OwnedFd listener;            // where its processes connect
  OwnedFd ledger;              // its memory is counted there
  Duration longest_wait = {};  // for its executor's room
  // Called at most once: the executor ended, and with it all that the sandbox had on the device.
  std::function<void(const Error&, const std::string& error_type)> on_lost;
};

class ExecutorClients final : public SharedRuntimes {
 public:
  // The supervisor outlives it.
  explicit ExecutorClients(ExecutorSupervisor& supervisor) : supervisor_(supervisor) {}

  void add_client(SandboxId sandbox, const FunctionSpec& spec, DeviceId device, OwnedFd listener,
                  OwnedFd ledger,
                  std::function<void(const Error&, const std::string&)> on_lost) override;
  // Nothing happens if it is none.
  void remove_client(SandboxId sandbox) override;
  // All sandboxes of the function have this share from their next calls on.
  void change_share(FunctionId function, unsigned share);

  // Whether the executor has clients, or will have once it is there.
  bool any_of(const ExecutorKey& key) const;
  // How many it was told of, until it ends.
  size_t added_to(const ExecutorKey& key) const;

  void executor_ready(const ExecutorKey& key);
  // Those that it had; what came since it was broken gets the next one.
  void lose(const ExecutorKey& key, const Error& cause);
  void executor_ended(const ExecutorKey& key, const ExecutorEnd& how);

 private:
  struct Entry {
    ExecutorClient client;
    bool added = false;
  };
  void add_if_ready(Entry& entry);
  void lose_if(const ExecutorKey& key, const Error& cause, const std::string& error_type,
               const std::function<bool(const Entry&)>& is_lost);

  ExecutorSupervisor& supervisor_;
  std::map<SandboxId, Entry> clients_;
  std::map<ExecutorKey, size_t> lost_;  // of executors that are broken and have not ended yet
};

}  // namespace lambent::worker
