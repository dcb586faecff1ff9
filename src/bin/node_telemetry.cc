#include "bin/node_telemetry.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/http/client.h"
#include "core/tls/context.h"

namespace lambent {
namespace {

constexpr size_t kMostWaiting = 8 * 1024 * 1024;
constexpr Duration kFlushEvery = milliseconds(200);

// "http://collector:4318/prefix" as the endpoint and what stands before /v1/traces.
Result<telemetry::ExporterOptions> options_of(const std::string& url) {
  telemetry::ExporterOptions options;
  std::string address = url;
  const size_t scheme = url.find("://");
  if (const size_t path = url.find('/', scheme == std::string::npos ? 0 : scheme + 3);
      scheme != std::string::npos && path != std::string::npos) {
    options.path_prefix = url.substr(path);
    address = url.substr(0, path);
    while (options.path_prefix.ends_with('/')) options.path_prefix.pop_back();
  }
  auto endpoint = http::parse_endpoint(address);
  if (!endpoint.ok()) {
    return Error{endpoint.error().code, "--otlp-endpoint " + url +
                                            " is no address of a collector, such as "
                                            "http://127.0.0.1:4318: " +
                                            endpoint.error().message};
  }
  if (endpoint->encrypted) {
    ASSIGN_OR_RETURN(const tls::Credentials credentials, tls::read_credentials({}));
    ASSIGN_OR_RETURN(const tls::ClientContext context, tls::ClientContext::make(credentials));
    endpoint->encrypt = context.connector();
  }
  options.endpoint = *std::move(endpoint);
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  options.resource = {{"service.name", "lambent"},
                      {"service.version", LAMBENT_VERSION},
                      {"host.name", std::string(host)}};
  return options;
}

}  // namespace

Result<std::unique_ptr<NodeTelemetry>> NodeTelemetry::open(const WorkerConfig& config,
                                                           const Clock& clock) {
  std::unique_ptr<NodeTelemetry> made(new NodeTelemetry(config, clock));
  if (config.otlp_endpoint.empty()) return made;
  ASSIGN_OR_RETURN(telemetry::ExporterOptions options, options_of(config.otlp_endpoint));
  made->exporter_ = std::make_unique<telemetry::Exporter>(std::move(options));
  made->exporting_ = std::make_unique<telemetry::ExportingLog>(made->log_, *made->exporter_, clock,
                                                               LogLevel::kInfo);
  return made;
}

std::function<void(const InvocationRequest&, const InvocationResult&)> NodeTelemetry::observer() {
  if (exporter_ == nullptr) return {};
  return [this](const InvocationRequest& request, const InvocationResult& result) {
    exporter_->add(request, result, clock_.wall_now());
  };
}

// A record for each piece as it came, which is mostly a line.
std::function<void(const FunctionName&, std::string_view)> NodeTelemetry::listener() {
  if (exporter_ == nullptr) return {};
  return [this](const FunctionName& function, std::string_view text) {
    while (text.ends_with('\n')) text.remove_suffix(1);
    if (text.empty()) return;
    exporter_->add(telemetry::LogRecord{
        .at = clock_.wall_now(),
        .event = std::string(text),
        .attributes = {{"faas.name", function.name},
                       {"lambent.tenant", static_cast<int64_t>(function.tenant.value)}}});
  };
}

Result<std::unique_ptr<AccessLogFile>> AccessLogFile::open(const WorkerConfig& config,
                                                           loop::EventLoop& loop, LogSink& log) {
  if (config.access_log.empty()) return std::unique_ptr<AccessLogFile>();
  const bool is_output = config.access_log == "-";
  OwnedFd file(is_output ? dup(STDOUT_FILENO)
                         : ::open(config.access_log.c_str(),
                                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  if (!file.valid()) return error_from_errno("open the access log " + config.access_log, errno);
  return std::unique_ptr<AccessLogFile>(
      new AccessLogFile(loop, log, std::move(file), config.access_log_format));
}

AccessLogFile::~AccessLogFile() {
  if (timer_) loop_.cancel(*timer_);
  flush();
}

http::Server::Handler AccessLogFile::wrap(AccessLogFile* file, http::Server::Handler handler) {
  if (file == nullptr) return handler;
  return frontend::with_access_log(
      std::move(handler), file->loop_.clock(),
      [file](const frontend::AccessRecord& record) { file->add(record); });
}

void AccessLogFile::add(const frontend::AccessRecord& record) {
  if (waiting_.size() > kMostWaiting) {
    ++dropped_;
  } else {
    waiting_ += frontend::line_of(record, format_);
  }
  if (timer_) return;
  timer_ = loop_.call_after(kFlushEvery, [this] {
    timer_.reset();
    flush();
  });
}

void AccessLogFile::flush() {
  if (waiting_.empty()) return;
  // Shared by what writes it and what looks how that went.
  auto written = std::make_shared<Result<void>>();
  auto lines = std::make_shared<std::string>(std::exchange(waiting_, {}));
  const bool is_queued = thread_.run(
      [fd = file_.get(), lines, written] { *written = write_all(fd, *lines); },
      [&log = log_, written] {
        if (!written->ok()) {
          log.warning("access_log_not_written", {{"error", to_string(written->error())}});
        }
      });
  if (!is_queued) waiting_ = std::move(*lines);
  if (const uint64_t dropped = std::exchange(dropped_, 0); dropped > 0) {
    log_.warning("access_log_dropped", {{"lines", static_cast<int64_t>(dropped)}});
  }
}

}  // namespace lambent
