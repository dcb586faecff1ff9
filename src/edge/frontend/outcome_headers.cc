#include "edge/frontend/outcome_headers.h"

#include <algorithm>

#include "core/domain/slice.h"

namespace lambent::frontend {
namespace {

void add_microseconds(http::Headers& headers, const char* name, Duration duration) {
  headers.add(name, std::to_string(std::chrono::duration_cast<microseconds>(duration).count()));
}

// What a function named its error may be anything; a header may not.
std::string header_text(std::string_view text) {
  std::string safe;
  for (const char c : text.substr(0, 256)) safe += c >= ' ' && c < 127 ? c : '?';
  return safe;
}

}  // namespace

void add_outcome(http::Headers& headers, const InvocationResult& result) {
  headers.set("x-amzn-RequestId", to_string(result.id));
  headers.add("x-lambent-outcome", std::string(name_of(result.outcome)));
  if (result.in_time) headers.add("x-lambent-slo", *result.in_time ? "in_time" : "late");
  if (result.runs > 0) headers.add("x-lambent-runs", std::to_string(result.runs));
  if (!result.destination.empty()) {
    headers.add("x-lambent-destination", header_text(result.destination));
  }
  if (result.outcome == Outcome::kRejected) return;
  if (!result.version.empty()) headers.add("X-Amz-Executed-Version", result.version);
  if (result.outcome == Outcome::kFunctionError) {
    headers.add("X-Amz-Function-Error", "Unhandled");
    headers.add("x-lambent-error-type", header_text(result.error_type));
    if (result.error) headers.add("x-lambent-code", std::string(name_of(result.error->code)));
  }
  headers.add("x-lambent-start", std::string(name_of(result.start)));
  if (result.device) headers.add("x-lambent-device", place_names(*result.device, result.beside));
  add_microseconds(headers, "x-lambent-queue-us", result.phases.queue);
  if (!result.wait_reason.empty()) headers.add("x-lambent-wait-reason", result.wait_reason);
  add_microseconds(headers, "x-lambent-sandbox-us", result.phases.sandbox);
  add_microseconds(headers, "x-lambent-init-us", result.phases.init);
  add_microseconds(headers, "x-lambent-memory-us", result.phases.memory);
  add_microseconds(headers, "x-lambent-run-us", result.phases.run);
  headers.add("x-lambent-device-memory-peak-bytes",
              std::to_string(result.device_memory_peak.count));
  headers.add("x-lambent-host-memory-peak-bytes", std::to_string(result.host_memory_peak.count));
  headers.add("x-lambent-revision", std::to_string(result.revision));
}

void add_retry_after(http::Headers& headers, Duration retry_after) {
  const auto whole = std::chrono::ceil<std::chrono::seconds>(retry_after).count();
  headers.add("Retry-After", std::to_string(std::max<int64_t>(1, whole)));
  if (retry_after <= Duration(0)) return;
  const auto exact = std::chrono::ceil<std::chrono::milliseconds>(retry_after).count();
  headers.add("retry-after-ms", std::to_string(exact));
}

}  // namespace lambent::frontend
