// Instances: the kernel instances of an executor: loads, moves and removes them as the worker asks,
// and has their constants brought. Owns the instances and the limit of the store that follows from
// them. All on the loop thread; what is slow is done on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "gpu/executor/connection.h"
#include "gpu/executor/context_watch.h"
#include "gpu/executor/device_thread.h"
#include "gpu/executor/instance_loader.h"
#include "gpu/executor/kept_objects.h"
#include "gpu/executor/kernel_instance.h"
#include "gpu/executor/memory_trimmer.h"
#include "gpu/executor/multiprocessor_shares.h"
#include "gpu/executor/requests.h"

namespace lambent::executor {

class Instances {
 public:
  // All outlive the instances. The store lies in the pool.
  struct Dependencies {
    loop::EventLoop& loop;
    const cuda::Context& context;
    ContextWatch& watch;
    Connection& connection;
    MemoryPool& pool;
    DeviceStore& store;
    Contents& contents;
    LayeredMemory* layers;  // if there is any
    MemoryTrimmer& trimmer;
    MultiprocessorShares& shares;
    Requests& requests;
    KeptObjects& kept;
  };
  struct Options {
    bool pipelined = true;  // an instance is ready before all constants are there
    bool reserves = false;  // buffers have memory before the first request
  };
  Instances(Dependencies dependencies, std::unique_ptr<InstanceLoader> loader, Options options);
  Instances(const Instances&) = delete;
  Instances& operator=(const Instances&) = delete;

  // Answered by InstanceReady or InstanceFailed.
  void add(protocol::AddInstance message, std::vector<OwnedFd> files);
  // Answered by InstanceMoved.
  void move(const protocol::MoveInstance& message);
  // Its request, if it has one, ends first.
  void remove(SandboxId id);
  // From its next request on. Nothing happens if there is no such instance.
  void set_share(SandboxId id, uint32_t share);
  // What objects may take beside what the instances may.
  void set_object_room(Bytes room);

  // For a request. NOT_FOUND if there is no such instance, FAILED_PRECONDITION if it cannot run one
  // now.
  Result<RequestedInstance> find_usable(SandboxId id);
  // The instance's request is over.
  void request_ended(SandboxId id);
  // Whether it has had no request for so long; true if there is no such instance.
  bool is_idle(SandboxId id, Duration hold) const;
  bool has(SandboxId id) const { return instances_.contains(id); }

  // A content came nearer, or failed: instances whose constants arrive look again.
  void progress();

  // Waits for the work of the other thread. Nothing follows.
  void stop();

 private:
  KernelInstance* find(SandboxId id);
  void loading_ended(SandboxId id, Result<std::unique_ptr<LoadedInstance>> loaded);
  void reserve(KernelInstance& instance);
  void change_share(KernelInstance& instance);
  void share_changed(SandboxId id, uint32_t share, Result<std::unique_ptr<Placement>> placement);
  void settle_in(KernelInstance& instance);
  void finish_removal(SandboxId id);
  void discard(std::unique_ptr<LoadedInstance> loaded);
  Bytes allowed() const;
  void set_limit();

  // Where their memory is (instance_moves.cc).
  void begin_arrival(KernelInstance& instance);
  bool await_writes(KernelInstance& instance, const Error& error);
  void look_for_arrival(KernelInstance& instance);
  void end_arrival(KernelInstance& instance);
  void report_arrival(KernelInstance& instance);
  void arrival_failed(KernelInstance& instance, const Error& error);
  void move_out(KernelInstance& instance);
  void report_moved_out(SandboxId id, Bytes moved);
  void drop_memory_of(KernelInstance& instance);
  Bytes memory_of(const KernelInstance& instance);

  const Dependencies with_;
  const Options options_;
  const std::unique_ptr<InstanceLoader> loader_;  // of the thread
  std::unordered_map<SandboxId, std::unique_ptr<KernelInstance>> instances_;
  Bytes object_room_;
  std::unique_ptr<DeviceThread> thread_;
};

}  // namespace lambent::executor
