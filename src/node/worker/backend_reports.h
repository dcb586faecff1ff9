// BackendReports: counts and logs what backends report, keeps what functions print, and passes the
// reports on to the module that started the sandbox. Used on the loop thread.
#pragma once

#include "core/base/log.h"
#include "core/base/time.h"
#include "core/metrics/worker_metrics.h"
#include "node/worker/backend.h"
#include "node/worker/log_store.h"

namespace lambent::worker {

class BackendReports final : public BackendObserver {
 public:
  // All outlive it.
  BackendReports(LogSink& log, metrics::WorkerMetrics& metrics, LogStore& logs, const Clock& clock,
                 BackendObserver& next)
      : log_(log), metrics_(metrics), logs_(logs), clock_(clock), next_(next) {}

  void on_ready(SandboxId sandbox, Duration sandbox_time, Duration init_time) override;
  void on_adopted(SandboxId sandbox, Duration sandbox_time, Duration init_time) override;
  void on_warm_up(const FunctionName& function, bool succeeded, Duration took) override;
  void on_answer(SandboxId sandbox, HandlerAnswer answer) override;
  void on_end(SandboxEnd end) override;
  void on_output(FunctionId function, std::string_view text) override;
  void on_memory_moved(SandboxId sandbox, const MemoryMove& move) override;
  void on_memory_wanted(SandboxId sandbox, Bytes bytes) override;

 private:
  LogSink& log_;
  metrics::WorkerMetrics& metrics_;
  LogStore& logs_;
  const Clock& clock_;
  BackendObserver& next_;
};

}  // namespace lambent::worker
