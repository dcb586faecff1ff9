// Trace ids: X-Ray's form, in which invocations carry them, against the ids of OpenTelemetry. Pure
// functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/base/ids.h"

namespace lambent {

struct TracePlace {
  std::string trace;   // 32 hex digits
  std::string parent;  // a span's 16; empty: none is known
  bool sampled = true;
};

// Of "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1". What is
// missing or malformed is made of the invocation: its trace is then one of its own.
TracePlace trace_place_of(std::string_view xray, InvocationId invocation);
// The span that stands for an invocation: 16 hex digits.
std::string span_id_of(InvocationId invocation);
// What a call that `invocation` makes carries, in X-Ray's form.
std::string trace_id_below(std::string_view xray, InvocationId invocation);
// The same as W3C's traceparent: "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01".
std::string traceparent_below(std::string_view xray, InvocationId invocation);

}  // namespace lambent
