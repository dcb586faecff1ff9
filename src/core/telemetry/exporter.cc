#include "core/telemetry/exporter.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/telemetry/invocation_spans.h"

namespace lambent::telemetry {
namespace {

int severity_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return 5;
    case LogLevel::kInfo:
      return 9;
    case LogLevel::kWarning:
      return 13;
    case LogLevel::kError:
      return 17;
  }
  return 9;
}

// Up to `most` of the first ones.
template <typename Item>
std::vector<Item> first_of(std::vector<Item>& items, size_t most) {
  const auto end = items.begin() + static_cast<std::ptrdiff_t>(std::min(most, items.size()));
  std::vector<Item> taken(std::make_move_iterator(items.begin()), std::make_move_iterator(end));
  items.erase(items.begin(), end);
  return taken;
}

std::string counter(std::string_view name, std::string_view help, uint64_t spans,
                    uint64_t records) {
  std::string text = "# HELP " + std::string(name) + " " + std::string(help) + "\n# TYPE " +
                     std::string(name) + " counter\n";
  for (const auto& [signal, value] : {std::pair("traces", spans), std::pair("logs", records)}) {
    text += std::string(name) + "{signal=\"" + signal + "\"} " + std::to_string(value) + "\n";
  }
  return text;
}

}  // namespace

Exporter::Exporter(ExporterOptions options)
    : options_(std::move(options)), client_(options_.endpoint), thread_([this] { serve(); }) {}

Exporter::~Exporter() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Exporter::add(const InvocationRequest& request, const InvocationResult& result,
                   Duration ended) {
  std::vector<Span> spans = spans_of(request, result, ended);
  bool is_due_now = false;
  {
    const MutexLock lock(mutex_);
    if (waiting_.spans.size() + spans.size() > options_.most_waiting) {
      spans_.dropped += spans.size();
      return;
    }
    std::move(spans.begin(), spans.end(), std::back_inserter(waiting_.spans));
    is_due_now = is_due();
  }
  if (is_due_now) wake_.notify_one();
}

void Exporter::add(LogRecord record) {
  const MutexLock lock(mutex_);
  if (waiting_.records.size() >= options_.most_waiting) {
    ++records_.dropped;
    return;
  }
  waiting_.records.push_back(std::move(record));
}

bool Exporter::is_due() const {
  return waiting_.spans.size() >= options_.most_at_once ||
         waiting_.records.size() >= options_.most_at_once;
}

Exporter::Batch Exporter::take() {
  return {first_of(waiting_.spans, options_.most_at_once),
          first_of(waiting_.records, options_.most_at_once)};
}

void Exporter::serve() {
  // Signals are for the thread that asks for them, which may block them after this one began.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (;;) {
    Batch batch;
    bool is_last = false;
    {
      MutexLock lock(mutex_);
      if (!stopping_ && !is_due()) wake_.wait_for(lock, options_.every);
      batch = take();
      is_last = stopping_;
    }
    const bool is_empty = batch.spans.empty() && batch.records.empty();
    if ((!send(batch) || is_empty) && is_last) return;
  }
}

bool Exporter::send(const Batch& batch) {
  bool is_taken = true;
  if (!batch.spans.empty()) {
    is_taken = post("/v1/traces", traces_request(options_.resource, batch.spans),
                    batch.spans.size(), spans_);
  }
  if (!batch.records.empty()) {
    is_taken = post("/v1/logs", logs_request(options_.resource, batch.records),
                    batch.records.size(), records_) &&
               is_taken;
  }
  return is_taken;
}

// Once: a collector that is away, or slow, costs what it would have got.
bool Exporter::post(const std::string& path, std::string body, size_t items, Counts& counts) {
  http::Request request{.method = "POST", .target = options_.path_prefix + path};
  request.headers.add("Content-Type", "application/x-protobuf");
  request.body = std::move(body);
  const auto answer = client_.send(request, options_.timeout);
  const bool is_taken = answer.ok() && answer->status >= 200 && answer->status < 300;
  (is_taken ? counts.sent : counts.dropped) += items;
  return is_taken;
}

std::string Exporter::metrics() const {
  return counter("lambent_otlp_exported_total",
                 "Spans and log records that the OpenTelemetry collector took.", spans_.sent,
                 records_.sent) +
         counter("lambent_otlp_dropped_total",
                 "Those that were dropped: too many waited, or the collector did not take them.",
                 spans_.dropped, records_.dropped);
}

void ExportingLog::write(LogLevel level, std::string_view event,
                         std::initializer_list<LogField> fields) {
  log_.write(level, event, fields);
  if (level < least_) return;
  LogRecord record{
      .at = clock_.wall_now(), .severity = severity_of(level), .event = std::string(event)};
  for (const LogField& field : fields) record.attributes.emplace_back(field.key, field.value);
  exporter_.add(std::move(record));
}

}  // namespace lambent::telemetry
