// NodeTelemetry: what leaves this worker for those who watch it: its log, spans and log records for
// an OpenTelemetry collector, and the access log. Each is off unless it is asked for. Made by the
// worker's main before all that logs.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bin/worker_config.h"
#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "core/loop/event_loop.h"
#include "core/loop/work_thread.h"
#include "core/telemetry/exporter.h"
#include "edge/frontend/access_log.h"

namespace lambent {

class NodeTelemetry {
 public:
  // The clock outlives it. INVALID_ARGUMENT: --otlp-endpoint is none.
  static Result<std::unique_ptr<NodeTelemetry>> open(const WorkerConfig& config,
                                                     const Clock& clock);

  // What all others log to.
  LogSink& log() { return exporting_ ? static_cast<LogSink&>(*exporting_) : log_; }
  // Told of every invocation that has its outcome; empty: exports are off.
  std::function<void(const InvocationRequest&, const InvocationResult&)> observer();
  // Told of what functions print; empty: exports are off.
  std::function<void(const FunctionName&, std::string_view)> listener();
  // Its own metrics, in Prometheus' text.
  std::string metrics() const { return exporter_ ? exporter_->metrics() : std::string(); }

 private:
  NodeTelemetry(const WorkerConfig& config, const Clock& clock)
      : log_(config.log_format, config.log_level), clock_(clock) {}

  SpdlogSink log_;
  const Clock& clock_;
  std::unique_ptr<telemetry::Exporter> exporter_;
  std::unique_ptr<telemetry::ExportingLog> exporting_;
};

// The file of --access-log: lines wait in memory and are written off the loop thread, several at
// once. Lines that find too much waiting are dropped, and the log says how many. On the loop
// thread; the loop and `log` outlive it.
class AccessLogFile {
 public:
  // Null: none is asked for. What open() says.
  static Result<std::unique_ptr<AccessLogFile>> open(const WorkerConfig& config,
                                                     loop::EventLoop& loop, LogSink& log);
  ~AccessLogFile();

  // `handler`, with its requests logged; of no file the handler itself.
  static http::Server::Handler wrap(AccessLogFile* file, http::Server::Handler handler);

 private:
  AccessLogFile(loop::EventLoop& loop, LogSink& log, OwnedFd file, frontend::AccessLogFormat format)
      : loop_(loop), log_(log), file_(std::move(file)), format_(format), thread_(loop) {}

  void add(const frontend::AccessRecord& record);
  void flush();

  loop::EventLoop& loop_;
  LogSink& log_;
  const OwnedFd file_;
  const frontend::AccessLogFormat format_;
  std::string waiting_;
  uint64_t dropped_ = 0;
  std::optional<loop::TimerId> timer_;
  loop::WorkThread thread_;  // the last: it writes what was given before it ends
};

}  // namespace lambent
