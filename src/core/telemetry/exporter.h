// Exporter: sends spans and log records to an OpenTelemetry collector over HTTP, from a thread of
// its own. What is added waits in queues of fixed length; what finds one full, or what the
// collector does not take, is dropped and counted. No caller waits for it. ExportingLog: a log
// whose records go there as well.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/time.h"
#include "core/domain/invocation.h"
#include "core/http/client.h"
#include "core/telemetry/otlp.h"

namespace lambent::telemetry {

struct ExporterOptions {
  http::Endpoint endpoint;
  std::string path_prefix;  // before /v1/traces
  Attributes resource;
  size_t most_waiting = 8'192;  // spans; as many records
  size_t most_at_once = 512;    // in one request
  Duration every = seconds(1);  // unless there is enough for a request
  Duration timeout = seconds(10);
};

class Exporter {
 public:
  explicit Exporter(ExporterOptions options);
  // Sends what waits, until a request fails.
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // An invocation has its outcome. Any thread.
  void add(const InvocationRequest& request, const InvocationResult& result, Duration ended);
  void add(LogRecord record);

  // Its own metrics, in Prometheus' text. Any thread.
  std::string metrics() const;

 private:
  struct Batch {
    std::vector<Span> spans;
    std::vector<LogRecord> records;
  };
  struct Counts {
    std::atomic<uint64_t> sent = 0, dropped = 0;
  };

  void serve();
  bool is_due() const REQUIRES(mutex_);
  Batch take() REQUIRES(mutex_);
  // Whether the collector took all of it.
  bool send(const Batch& batch);
  bool post(const std::string& path, std::string body, size_t items, Counts& counts);

  const ExporterOptions options_;
  http::BlockingClient client_;  // the thread's
  Counts spans_, records_;
  Mutex mutex_;
  Condition wake_;
  Batch waiting_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class ExportingLog final : public LogSink {
 public:
  // Both outlive it. Records below `least` stay here.
  ExportingLog(LogSink& log, Exporter& exporter, const Clock& clock, LogLevel least)
      : log_(log), exporter_(exporter), clock_(clock), least_(least) {}

  void write(LogLevel level, std::string_view event,
             std::initializer_list<LogField> fields) override;
  bool wants(LogLevel level) const override { return log_.wants(level); }

 private:
  LogSink& log_;
  Exporter& exporter_;
  const Clock& clock_;
  const LogLevel least_;
};

}  // namespace lambent::telemetry
