#include "core/domain/trace_id.h"

#include <algorithm>

namespace lambent {
namespace {

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Without printf: three times for each invocation.
std::string hex(uint64_t number) {
  std::string text(16, '0');
  for (auto digit = text.rbegin(); number != 0; number >>= 4)
    *digit++ = "0123456789abcdef"[number & 15];
  return text;
}

// The value of `key` among "Key=value;Key=value".
std::string_view value_of(std::string_view xray, std::string_view key) {
  while (!xray.empty()) {
    const size_t end = std::min(xray.find(';'), xray.size());
    const std::string_view part = xray.substr(0, end);
    xray.remove_prefix(std::min(end + 1, xray.size()));
    const size_t equals = part.find('=');
    if (equals != std::string_view::npos && part.substr(0, equals) == key) {
      return part.substr(equals + 1);
    }
  }
  return {};
}

// The 32 digits of "1-5759e988-bd862e3fe1be46a994272793"; empty if it is none.
std::string trace_in(std::string_view root) {
  if (root.size() != 35 || !root.starts_with("1-") || root[10] != '-') return "";
  std::string trace = std::string(root.substr(2, 8)) + std::string(root.substr(11));
  return is_hex(trace, 32) ? trace : "";
}

}  // namespace

TracePlace trace_place_of(std::string_view xray, InvocationId invocation) {
  TracePlace place{.trace = trace_in(value_of(xray, "Root"))};
  if (place.trace.empty()) {
    place.trace = hex(invocation.high) + hex(invocation.low);
    return place;
  }
  const std::string_view parent = value_of(xray, "Parent");
  if (is_hex(parent, 16)) place.parent = parent;
  place.sampled = value_of(xray, "Sampled") != "0";
  return place;
}

std::string span_id_of(InvocationId invocation) { return hex(invocation.low); }

std::string trace_id_below(std::string_view xray, InvocationId invocation) {
  const TracePlace place = trace_place_of(xray, invocation);
  return "Root=1-" + place.trace.substr(0, 8) + "-" + place.trace.substr(8) +
         ";Parent=" + span_id_of(invocation) + ";Sampled=" + (place.sampled ? "1" : "0");
}

std::string traceparent_below(std::string_view xray, InvocationId invocation) {
  const TracePlace place = trace_place_of(xray, invocation);
  return "00-" + place.trace + "-" + span_id_of(invocation) + (place.sampled ? "-01" : "-00");
}

}  // namespace lambent
