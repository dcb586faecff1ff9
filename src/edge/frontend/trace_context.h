// Trace ids as the platform keeps them (X-Ray's form), from either header that clients send. Free
// functions; any thread.
#pragma once

#include <string>

#include "core/http/message.h"

namespace lambent::frontend {

// From X-Amzn-Trace-Id as it is, else from a W3C traceparent, else empty. What is malformed or too
// long is as if it were not there.
std::string trace_id_of(const http::Headers& headers);

}  // namespace lambent::frontend
