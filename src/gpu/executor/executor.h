// Executor: runs kernel functions and forwarded CUDA calls for one tenant on one device, as the
// worker asks over its socket. Builds the parts that do so, hands each its messages, and ends when
// the worker is gone or the context is broken. All of it on the loop thread, which never waits for
// the device.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/domain/executor_pool.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/driver.h"
#include "gpu/executor/clients.h"
#include "gpu/executor/connection.h"
#include "gpu/executor/contents.h"
#include "gpu/executor/context_watch.h"
#include "gpu/executor/exports.h"
#include "gpu/executor/instances.h"
#include "gpu/executor/kept_objects.h"
#include "gpu/executor/layered_memory.h"
#include "gpu/executor/memory_trimmer.h"
#include "gpu/executor/multiprocessor_shares.h"
#include "gpu/executor/requests.h"
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
  Executor(loop::EventLoop& loop, const cuda::Driver& driver, const cuda::Context& context,
           OwnedFd socket, int ordinal, ExecutorOptions options, std::function<void(int)> on_end);
  Result<void> start();
  Result<void> start_memory();
  void start_kept_objects();
  Result<void> start_layers();
  void start_requests();
  Result<void> start_instances();

  // A content came nearer, or failed, or memory was freed: what waits for some looks again.
  void progress();
  void room_came();
  // Contexts that break where nothing is called back.
  void watch_for_faults();
  void context_broke(const ContextWatch::Fault& fault);
  void end_broken(CUresult state, const Error& error);

  // executor_messages.cc
  void handle(protocol::ExecutorMessage message, std::vector<OwnedFd> fds);
  void handle(protocol::AddInstance message, std::vector<OwnedFd> fds);
  void handle(protocol::RemoveInstance message, std::vector<OwnedFd> fds);
  void handle(protocol::MoveInstance message, std::vector<OwnedFd> fds);
  void handle(protocol::SetShare message, std::vector<OwnedFd> fds);
  void handle(protocol::AddClient message, std::vector<OwnedFd> fds);
  void handle(protocol::RemoveClient message, std::vector<OwnedFd> fds);
  void handle(protocol::Run message, std::vector<OwnedFd> fds);
  void handle(protocol::ObjectOpened message, std::vector<OwnedFd> fds);
  void handle(protocol::ShareObject message, std::vector<OwnedFd> fds);
  void handle(protocol::ExportEnded message, std::vector<OwnedFd> fds);
  void handle(protocol::TakeObject message, std::vector<OwnedFd> fds);
  void handle(protocol::DropObject message, std::vector<OwnedFd> fds);
  void drop(const protocol::DropObject& message);
  void handle(protocol::WriteObject message, std::vector<OwnedFd> fds);
  void handle(protocol::ObjectWritten message, std::vector<OwnedFd> fds);
  void handle(protocol::NeedObject message, std::vector<OwnedFd> fds);
  void handle(protocol::SetObjectRoom message, std::vector<OwnedFd> fds);
  // The rest is handled nowhere: the worker does not send it.
  template <typename Message>
  void handle(Message, std::vector<OwnedFd>) {}

  loop::EventLoop& loop_;
  const cuda::Driver& driver_;
  const cuda::Context& context_;
  const int ordinal_;
  const ExecutorOptions options_;
  const std::function<void(int)> on_end_;
  ContextWatch watch_;
  Connection connection_;
  MultiprocessorShares shares_;
  std::unique_ptr<MemoryPool> pool_;
  std::unique_ptr<DeviceStore> store_;
  std::optional<Exports> exports_;
  std::unique_ptr<Importer> importer_;
  std::unique_ptr<Contents> contents_;
  std::unique_ptr<LayeredMemory> layers_;  // if there is any
  std::unique_ptr<MemoryTrimmer> trimmer_;
  std::unique_ptr<TransferEngine> to_device_, to_host_;
  std::unique_ptr<KeptObjects> kept_;
  std::unique_ptr<Requests> requests_;
  std::unique_ptr<Instances> instances_;
  std::optional<Clients> clients_;
};

}  // namespace lambent::executor
