// Traces in the headers of requests: W3C's traceparent and X-Ray's X-Amzn-Trace-Id, read as what
// invocations carry (domain/trace_id.h) and written for programs. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/http/message.h"

namespace lambent::http {

// From X-Amzn-Trace-Id as it is, else from a W3C traceparent, else empty. What is malformed or too
// long is ignored.
std::string trace_id_of(const Headers& headers);

// Puts a program that gets these headers below the span of its invocation, whose trace is `xray`:
// traceparent is set, and X-Amzn-Trace-Id where there is one. A tracestate stays if the
// traceparent that it came with is of the same trace.
void set_trace_context(Headers& headers, std::string_view xray, InvocationId invocation);

}  // namespace lambent::http
