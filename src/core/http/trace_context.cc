#include "core/http/trace_context.h"

#include <algorithm>

#include "core/domain/trace_id.h"
#include "core/http/limits.h"

namespace lambent::http {
namespace {

constexpr size_t kTraceparentLength = 55;

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == '0'; });
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 127; });
}

// 00-<32 hex>-<16 hex>-<2 hex>; later versions may say more.
std::string from_traceparent(std::string_view text) {
  if (text.size() < kTraceparentLength) return "";
  if (text.size() > kTraceparentLength && text[kTraceparentLength] != '-') return "";
  if (text[2] != '-' || text[35] != '-' || text[52] != '-') return "";
  const std::string_view version = text.substr(0, 2);
  const std::string_view trace = text.substr(3, 32);
  const std::string_view parent = text.substr(36, 16);
  const std::string_view flags = text.substr(53, 2);
  if (!is_hex(version) || !is_hex(trace) || !is_hex(parent) || !is_hex(flags)) return "";
  if (version == "ff" || is_zero(trace) || is_zero(parent)) return "";
  const unsigned low =
      static_cast<unsigned>(flags[1] <= '9' ? flags[1] - '0' : flags[1] - 'a' + 10);
  return "Root=1-" + std::string(trace.substr(0, 8)) + "-" + std::string(trace.substr(8)) +
         ";Parent=" + std::string(parent) + ";Sampled=" + ((low & 1) != 0 ? "1" : "0");
}

Headers without(const Headers& headers, std::string_view name) {
  Headers left;
  for (const auto& [each, value] : headers.fields()) {
    if (!same_name(each, name)) left.add(each, value);
  }
  return left;
}

}  // namespace

std::string trace_id_of(const Headers& headers) {
  const std::string_view xray = headers.get("X-Amzn-Trace-Id");
  if (!xray.empty() && xray.size() <= limits::kTraceIdLength && is_printable(xray)) {
    return std::string(xray);
  }
  return from_traceparent(headers.get("traceparent"));
}

void set_trace_context(Headers& headers, std::string_view xray, InvocationId invocation) {
  const TracePlace place = trace_place_of(xray, invocation);
  const std::string theirs = from_traceparent(headers.get("traceparent"));
  const bool continues = !theirs.empty() && trace_place_of(theirs, invocation).trace == place.trace;
  if (!continues && headers.contains("tracestate")) headers = without(headers, "tracestate");
  headers.set("traceparent", traceparent_below(xray, invocation));
  if (headers.contains("X-Amzn-Trace-Id")) {
    headers.set("X-Amzn-Trace-Id", trace_id_below(xray, invocation));
  }
}

}  // namespace lambent::http
