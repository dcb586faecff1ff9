// Executor: runs kernel functions for one tenant on one device, as the worker says over its socket:
// adds and removes instances, moves their memory, runs their requests, several at a time. All of it
// on the loop thread, which never waits for the device.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "core/domain/executor_pool.h"
#include "decide/scheduling/pool_scaling.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/driver.h"
#include "gpu/executor/connection.h"
#include "gpu/executor/contents.h"
#include "gpu/executor/context_watch.h"
#include "gpu/executor/device_thread.h"
#include "gpu/executor/exports.h"
#include "gpu/executor/instance_loader.h"
#include "gpu/executor/layered_memory.h"
#include "gpu/executor/memory_trimmer.h"
#include "gpu/executor/multiprocessor_shares.h"
#include "gpu/executor/request.h"
#include "gpu/executor/reservation.h"
#include "gpu/forward_server/forward_server.h"

namespace lambent::executor {

struct ExecutorOptions {
  TransferEngine::Options transfers;
  // An instance is ready, and its first request begins, before all constants are there: kernels
  // begin when theirs have arrived.
  bool pipelined = true;
  // Loops with a flag are done by the device, where its driver can.
  bool device_loops = true;
  // Where cuBLAS may be, the first that works: built-in linear algebra is done by it. None: by our
  // own kernels.
  std::vector<std::string> blas_libraries = {};
  // When instances' own buffers have memory. Where it goes to the device between requests, it goes
  // when their instance has had none for `pool_hold`.
  ExecutorPool pool = ExecutorPool::kResilient;
  Duration pool_hold = seconds(1);
  // How far ahead the pool of the layered rules looks; none: as long as the driver takes for 200
  // MB.
  std::optional<Duration> pool_interval = std::nullopt;
  // Of sandboxes whose CUDA calls run here.
  forward_server::ForwardOptions forwarding = {};
};

class Executor {
 public:
  // The context, that of the device `ordinal`, is current on this thread, which is the loop's.
  // `on_end` is called once, with what the process should exit with: when the worker is gone (0),
  // or the context is broken (1), after the worker was told. Driver, context, loop and clock
  // outlive the executor.
  static Result<std::unique_ptr<Executor>> create(loop::EventLoop& loop, const cuda::Driver& driver,
                                                  const cuda::Context& context, OwnedFd socket,
                                                  int ordinal, ExecutorOptions options,
                                                  std::function<void(int)> on_end);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void say_hello(Duration context_time);

 private:
  struct Instance {
    SandboxId id;
    Bytes memory;  // that it may take; at least what its buffers count with
    bool is_in = true;
    bool is_usable = false;                  // requests may come
    bool is_removed = false;                 // goes when its request has ended
    std::unique_ptr<LoadedInstance> loaded;  // null while it is loaded
    std::unique_ptr<RequestUnderWay> request;
    Instant last_request;  // when it ended
    std::unique_ptr<Reservation> reserved;
    // Per cent of the multiprocessors: what it may use, and what it was loaded for; and where it
    // runs from its next request on, if that is elsewhere.
    uint32_t share = 100, loaded_share = 100;
    std::unique_ptr<Placement> next_placement;
    // Its constants are being brought, pinned until all are there, for InstanceReady or
    // InstanceMoved.
    bool is_arriving = false, was_added = false;
    bool goes_out = false;  // as soon as they are there
    Instant arrival_began;
    Bytes arrival_moved;
    std::vector<DeviceName> arriving;
  };

  Executor(loop::EventLoop& loop, const cuda::Driver& driver, const cuda::Context& context,
           OwnedFd socket, int ordinal, ExecutorOptions options, std::function<void(int)> on_end);
  Result<void> start();

  void handle(protocol::ExecutorMessage message, std::vector<OwnedFd> fds);
  // executor_instances.cc
  void handle(protocol::AddInstance message, std::vector<OwnedFd> fds);
  void handle(protocol::RemoveInstance message, std::vector<OwnedFd> fds);
  void handle(protocol::MoveInstance message, std::vector<OwnedFd> fds);
  void instance_loaded(SandboxId id, Result<std::unique_ptr<LoadedInstance>> loaded);
  void begin_arrival(Instance& instance);
  void arrive(Instance& instance);
  void end_arrival(Instance& instance);
  void say_arrived(Instance& instance);
  void arrival_failed(Instance& instance, const Error& error);
  void move_out(Instance& instance);
  void say_moved_out(SandboxId id, Bytes moved);
  Bytes drop_memory_of(Instance& instance);
  Bytes memory_of(const Instance& instance);
  void remove(SandboxId id);
  void discard(std::unique_ptr<LoadedInstance> loaded);
  Bytes counted(const LoadedInstance& loaded) const;
  void set_limit();
  void progress();

  // executor_memory.cc
  scheduling::PoolRule rule() const;  // of what has no layers
  void grow_ahead(Instance& instance);
  bool is_idle(SandboxId id);

  // executor_layers.cc
  Result<void> use_layers();
  // Whether its temporaries have their memory layer by layer.
  bool has_layers(const Instance& instance) const;
  Bytes window_of(const Instance& instance) const;
  Result<bool> begin_layer(Instance& instance, uint32_t layer);
  void layer_ended(SandboxId id, uint64_t request, CUresult result);
  void layer_came(SandboxId id);

  // executor_clients.cc
  void handle(protocol::AddClient message, std::vector<OwnedFd> fds);
  void handle(protocol::RemoveClient message, std::vector<OwnedFd> fds);
  // The context is broken by a client, or by work of one that does not end.
  void client_broke(forward_server::ProcessEnd how, const Error& error);
  // A kernel's fault that no call of a client has met yet.
  void look_after_clients();

  // executor_shares.cc
  void handle(protocol::SetShare message, std::vector<OwnedFd> fds);
  void change_share(Instance& instance);
  void settle_in(Instance& instance);
  // executor_requests.cc
  void handle(protocol::Run message, std::vector<OwnedFd> fds);
  void handle(protocol::ObjectOpened message, std::vector<OwnedFd> fds);
  void decode(Instance& instance);
  Result<void> check_outputs(const kernel_graph::Request& request) const;
  void gather(Instance& instance);
  Result<bool> gather_contents(Instance& instance);
  Result<void> place_buffers(Instance& instance);
  Result<void> place_own(Instance& instance, uint32_t buffer, Bytes size, bool is_overwritten,
                         CUdeviceptr* address);
  bool has_share_for(const Instance& instance, const DeviceName& name, Bytes size);
  Result<std::vector<TransferPiece>> queue_inputs(Instance& instance);
  void copy_in(Instance& instance, std::vector<TransferPiece> pieces);
  void copied_in(Instance& instance);
  // Queues what the device can do without the host, and a call back when it has.
  void advance(Instance& instance);
  Result<bool> step(Instance& instance);
  Result<void> queue_outputs(Instance& instance);
  Result<void> call_back(Instance& instance);
  void device_answered(SandboxId id, uint64_t request, CUresult result);
  // executor_exports.cc
  void handle(protocol::ShareObject message, std::vector<OwnedFd> fds);
  void handle(protocol::ExportEnded message, std::vector<OwnedFd> fds);
  void handle(protocol::TakeObject message, std::vector<OwnedFd> fds);
  void handle(protocol::DropObject message, std::vector<OwnedFd> fds);
  void handle(protocol::NeedObject message, std::vector<OwnedFd> fds);
  void handle(protocol::SetObjectRoom message, std::vector<OwnedFd> fds);
  bool await_room(Instance& instance, const Error& error);
  // executor_cold.cc
  void note_coming(Instance& instance);
  Result<bool> launch(Instance& instance, const Instruction& now);
  void tell_of_apart(const Instance& instance);
  Result<bool> launch_apart(Instance& instance, const Instruction& now);
  Result<bool> launch_loop(Instance& instance, const Instruction& now);
  Result<bool> launch_kernels(Instance& instance, const Instruction& now);
  Result<bool> await_constants_of(Instance& instance, uint32_t graph);
  Result<bool> await_constants(Instance& instance, uint32_t kernel);
  // executor_answers.cc
  void copy_out(Instance& instance);
  protocol::Finished begin_finished(const Instance& instance) const;
  void seal_objects(Instance& instance);
  void answer(Instance& instance);
  void finish(Instance& instance, protocol::Finished finished, std::vector<OwnedFd> fds);
  Error explain(const Instance& instance, const Error& error) const;
  void fail(Instance& instance, Error error);
  void release(Instance& instance);
  // executor_early.cc
  void prepare_early(Instance& instance);
  // What could not be sent of the answer; none: the loop has to answer.
  std::optional<std::string> answer_early(SandboxId instance, RequestUnderWay& request);
  void answered_early(std::string unsent);
  void settle_answered();
  void context_broke(const ContextWatch::Fault& fault);
  // Contexts that break where nobody is called back.
  void look_after_requests();

  // The rest is handled nowhere: the worker does not say it.
  template <typename Message>
  void handle(Message, std::vector<OwnedFd>) {}

  Instance* find(SandboxId id);
  Instance* find_request(SandboxId id, uint64_t request);

  loop::EventLoop& loop_;
  const cuda::Driver& driver_;
  const cuda::Context& context_;
  const int ordinal_;
  const ExecutorOptions options_;
  std::function<void(int)> on_end_;
  ContextWatch watch_;

  // Instances whose requests the driver's thread has answered. Before all that such a request uses,
  // for that thread may be here until the last of them is gone.
  Mutex answered_mutex_;
  std::vector<SandboxId> answered_ GUARDED_BY(answered_mutex_);
  Connection connection_;
  std::unique_ptr<MemoryPool> pool_;
  std::unique_ptr<DeviceStore> store_;
  std::optional<Exports> exports_;
  std::unique_ptr<Contents> contents_;
  std::unique_ptr<Importer> importer_;
  std::unique_ptr<LayeredMemory> layers_;  // if there is any
  MultiprocessorShares shares_;
  bool has_told_of_apart_ = false;
  std::unique_ptr<InstanceLoader> loader_;
  std::unordered_map<SandboxId, std::unique_ptr<Instance>> instances_;
  uint32_t pages_asked_ = 0;  // for the device, and not there yet
  Bytes object_room_;         // beside what the instances may take
  uint64_t requests_ = 0;
  std::unique_ptr<forward_server::ForwardServer> forward_;  // once there is a client
  // Last: they end before what their work uses goes.
  std::unique_ptr<MemoryTrimmer> trimmer_;
  std::unique_ptr<DeviceThread> loads_, decodes_, answers_;
  std::unique_ptr<TransferEngine> to_device_, to_host_;
};

}  // namespace lambent::executor
