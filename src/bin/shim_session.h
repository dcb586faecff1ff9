// ShimSession: what a program under the shim needs around it, without a worker: a ledger with its
// limit, a sender that tells it to move its memory, turns on the link and leases of host memory.
// For mains and benchmarks; used on the thread of its loop.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/domain/function.h"
#include "core/loop/event_loop.h"
#include "gpu/ledger/ledger.h"
#include "gpu/monitor/memory_service.h"
#include "node/worker/memory_channel.h"

namespace lambent {

struct ShimSessionOptions {
  std::string shim_folder;
  std::string driver;  // path of the real or emulated libcuda.so.1
  std::string nvml;    // path of libnvidia-ml.so.1; empty: beside the driver
  Bytes limit;         // of the program's device memory; zero: counted, but not limited
  MemoryMode mode = MemoryMode::kVmm;
  WorkingSet working_set = WorkingSet::kWhole;
  std::string managed_memory = "prefetch";  // how it comes in, in mode kUvm
  Bytes host_memory = Bytes::gib(16);       // for memory that is moved out
  bool emulated = false;
};

class ShimSession {
 public:
  // Its sockets and its ledger lie in a new folder of its own.
  static Result<std::unique_ptr<ShimSession>> open(loop::EventLoop& loop,
                                                   ShimSessionOptions options);
  ~ShimSession();
  ShimSession(const ShimSession&) = delete;
  ShimSession& operator=(const ShimSession&) = delete;

  // For the program's environment.
  std::vector<std::string> variables() const;

  // Each answered by one call of on_moved.
  void move_out() { channel_->move_out(protocol::MemoryMoveDepth::kMemory); }
  void move_in() { channel_->move_in(); }
  std::function<void(const worker::MemoryMove&)> on_moved;
  // Processes that use the driver now.
  size_t processes() const { return channel_->processes(); }
  Result<ledger::LedgerReadings> readings() { return ledger_->read(); }
  // What went wrong inside the shim, as it logged it.
  std::string log_text() const;

 private:
  ShimSession(loop::EventLoop& loop, ShimSessionOptions options, std::filesystem::path folder);
  Result<void> start();

  struct NoLog final : LogSink {
    void write(LogLevel, std::string_view, std::initializer_list<LogField>) override {}
  };

  loop::EventLoop& loop_;
  ShimSessionOptions options_;
  std::filesystem::path folder_;
  NoLog log_;
  std::optional<ledger::LedgerReader> ledger_;
  OwnedFd control_;
  std::unique_ptr<monitor::MemoryService> service_;
  std::unique_ptr<worker::MemoryChannel> channel_;
};

}  // namespace lambent
