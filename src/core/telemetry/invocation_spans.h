// An invocation that has its outcome, as spans: one for all of it, and below it one for each phase
// that took time. Pure; any thread.
#pragma once

#include <vector>

#include "core/domain/invocation.h"
#include "core/telemetry/otlp.h"

namespace lambent::telemetry {

// The request's payload, and the result's, are not looked at. `ended`: since the Unix epoch. None
// where the caller does not sample the trace.
std::vector<Span> spans_of(const InvocationRequest& request, const InvocationResult& result,
                           Duration ended);

}  // namespace lambent::telemetry
