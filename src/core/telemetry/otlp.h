// OTLP: spans and log records as OpenTelemetry's collectors take them over HTTP, in the protobuf
// form of opentelemetry-proto 1. Values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/time.h"

namespace lambent::telemetry {

using Attribute = std::pair<std::string, std::variant<std::string, int64_t, double, bool>>;
using Attributes = std::vector<Attribute>;

enum class SpanKind { kInternal = 1, kServer = 2 };

struct Span {
  std::string trace;   // 32 hex digits
  std::string id;      // 16
  std::string parent;  // 16, or empty
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  Duration begin{}, end{};  // since the Unix epoch
  Attributes attributes;
  bool failed = false;
  std::string message;  // of a failure
};

struct LogRecord {
  Duration at{};     // since the Unix epoch
  int severity = 9;  // OpenTelemetry's number: 5 debug, 9 info, 13 warning, 17 error
  std::string event;
  Attributes attributes;
};

// The bodies of requests to /v1/traces and /v1/logs. `resource`: what made all of them.
std::string traces_request(const Attributes& resource, const std::vector<Span>& spans);
std::string logs_request(const Attributes& resource, const std::vector<LogRecord>& records);

}  // namespace lambent::telemetry
