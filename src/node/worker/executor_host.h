// ExecutorHost: the backend that runs kernel functions as instances in executors, and the shared
// runtimes of handlers whose CUDA calls are forwarded, as clients. To dispatch an instance is one
// of its sandboxes. Used on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/domain/invocation_service.h"
#include "core/loop/event_loop.h"
#include "core/protocol/executor_message.h"
#include "node/objects/object_store.h"
#include "node/sandbox/launcher.h"
#include "node/worker/backend.h"
#include "node/worker/executor_clients.h"
#include "node/worker/executor_memory_use.h"
#include "node/worker/executor_objects.h"
#include "node/worker/executor_supervisor.h"
#include "node/worker/kernel_instances.h"
#include "node/worker/payload_copies.h"

namespace lambent::worker {

class ExecutorHost final : public Backend {
 public:
  // Does work for the disk off the loop thread, and then its completion on it; false if it cannot
  // take more.
  using RunFiles =
      std::function<bool(std::function<void()> work, std::function<void()> completion)>;

  // What it stands on; all outlive it. Sockets lie in `run_folder`, which is there.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    sandbox::Launcher& launcher;
    objects::ObjectStore* objects = nullptr;  // null: there are no objects
    RunFiles run_files;
    DeviceLinks* links = nullptr;      // null: there are no turns on devices' links
    ExecutorMemory* memory = nullptr;  // null: functions leave room for all that executors take
    // As SandboxSetting has it; empty: functions mount nothing.
    std::function<Result<std::vector<std::string>>(const FunctionSpec&)> folders_of_mounts = {};
    PayloadCopies::Run run_copies = {};  // empty: payloads are copied on the loop thread
  };

  ExecutorHost(Dependencies dependencies, ExecutorSetting setting, std::string run_folder);
  ~ExecutorHost() override;
  ExecutorHost(const ExecutorHost&) = delete;
  ExecutorHost& operator=(const ExecutorHost&) = delete;

  // Keeps an executor for functions like this one ready on that device, from now on.
  void keep(const FunctionSpec& spec, DeviceId device);

  // No more, on any device: they end with their last instances.
  void drop(const FunctionSpec& spec);

  // Keeps none on that device from now on; those there end, once nothing uses them, and those that
  // start elsewhere do not see it.
  void leave(DeviceId device);

  bool has(SandboxId instance) const override { return instances_.contains(instance); }
  void start(BackendStart start, BackendObserver& observer) override;
  // To an idle instance. It may have to be delivered again; the executor keeps no time-out.
  void deliver(SandboxId instance, InvocationRequest& request, Duration timeout) override;
  // The function's instances have its share of the multiprocessors from their next request on, its
  // sandboxes that are clients from their next calls on.
  void change_share(const FunctionSpec& spec);
  void move_memory_out(SandboxId instance, protocol::MemoryMoveDepth) override {
    move_memory(instance, true);
  }
  void move_memory_in(SandboxId instance) override { move_memory(instance, false); }
  // Instances offload nothing while their memory is in.
  void grant_memory(SandboxId, Bytes) override {}
  // They share the context of their executor.
  bool has_own_contexts() const override { return false; }
  // The instance goes. If what it runs does not end very soon, its executor does, with all others
  // that run there: they start again.
  void stop(SandboxId instance, Error error, std::string error_type) override;
  RunReport partial_report(SandboxId instance, InvocationId) override;
  std::vector<SandboxStatus> status(Metering metering,
                                    std::optional<TenantId> tenant) const override;

  // What executors take of devices beside what functions were promised.
  ExecutorMemoryUse& memory_use() { return memory_use_; }

  // What dispatch has promised of a device: to functions of every kind, whether they run or not.
  struct DeviceClaim {
    DeviceId device;
    Bytes memory;
    Bytes claimed;
  };
  // How functions leave the devices, for the objects there; when objects().is_look_due().
  void look_at_objects(const std::vector<DeviceClaim>& claims,
                       const std::function<bool(FunctionId)>& has_queue);
  ExecutorObjects& objects() { return objects_; }
  const ExecutorObjects& objects() const { return objects_; }

  // Those that are ready, and how the others ended.
  std::vector<ExecutorKey> ready_executors() const { return supervisor_.ready_ones(); }
  const ExecutorEnds& executor_ends() const { return supervisor_.ends(); }

  // Sandboxes whose CUDA calls run in an executor.
  SharedRuntimes& runtimes() { return clients_; }

  // The launcher reports that a sandbox is gone; false if it was no executor.
  bool exited(SandboxId executor, const sandbox::Exit& exit) {
    return supervisor_.exited(executor, exit);
  }

 private:
  using Key = ExecutorKey;
  using Instance = KernelInstance;

  ExecutorSupervisor::Events supervisor_events(const Dependencies& dependencies);
  void executor_ready(const Key& key);
  void executor_ended(const Key& key, const ExecutorEnd& how);
  void heard(const Key& key, protocol::ExecutorMessage message, std::vector<OwnedFd> fds);
  void on(const Key& key, const protocol::InstanceReady& message);
  void on(const Key& key, const protocol::InstanceFailed& message);
  void on(const Key& key, const protocol::InstanceMoved& message);
  void finished(const Key& key, protocol::Finished message, std::vector<OwnedFd> fds);
  void answer_copied(SandboxId instance, const std::shared_ptr<AnswerCopy>& copy,
                     Result<std::string> payload);
  void answer(Instance& instance, const protocol::Finished& message, Result<std::string> payload);
  void printed(const Key& key, std::string_view text);

  void add_if_possible(Instance& instance);
  void request_copied(SandboxId instance, const std::shared_ptr<RequestCopy>& copy);
  void move_memory(SandboxId instance, bool out);
  // Sends what waits for this executor and may run there now.
  void send_waiting(const Key& key);
  void end_soon(SandboxId instance);
  void end(SandboxId instance, KernelInstanceEnd words, bool undelivered);
  void leave(const Instance& instance, KernelInstanceEnd words);

  loop::EventLoop& loop_;
  LogSink& log_;
  RunFiles run_files_;
  const PayloadCopies copies_;
  const std::function<Result<std::vector<std::string>>(const FunctionSpec&)> folders_of_mounts_;
  const std::string built_in_;
  DeviceLinks* const links_;
  KernelInstances instances_;
  ExecutorSupervisor supervisor_;
  ExecutorMemoryUse memory_use_;
  ExecutorClients clients_;
  ExecutorObjects objects_;
  // So that a late timer or answer of the disk finds this gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::worker
