// The headers by which a response tells what came of an invocation and where its time went. Free
// functions; any thread.
#pragma once

#include "core/domain/invocation.h"
#include "core/http/message.h"

namespace lambent::frontend {

// x-lambent-outcome, -start, -queue-us, -wait-reason, -sandbox-us, -init-us, -memory-us,
// -run-us, -device-memory-peak-bytes, -host-memory-peak-bytes, -revision; x-lambent-error-type and
// X-Amz-Function-Error if the function failed; x-amzn-RequestId.
void add_outcome(http::Headers& headers, const InvocationResult& result);

// When a refused request may be sent again: in whole seconds, at least one, and if that is known in
// milliseconds (retry-after-ms).
void add_retry_after(http::Headers& headers, Duration retry_after);

}  // namespace lambent::frontend
