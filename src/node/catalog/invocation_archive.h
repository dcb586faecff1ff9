// Requests and results of asynchronous invocations as bytes, as the shared catalog keeps them.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/domain/invocation.h"

namespace lambent::catalog {

// 16 bytes, high half first, so that ids sort as they read.
std::string bytes_of_id(InvocationId id);
// The id zero of what is none.
InvocationId id_of_bytes(std::string_view bytes);

// Without its id, function, kind, key and objects.
std::string bytes_of_request(const InvocationRequest& request);
// DATA_LOSS.
Result<void> read_request(std::string_view bytes, InvocationRequest& request);

// Without its id.
std::string bytes_of_result(const InvocationResult& result);
// DATA_LOSS.
Result<InvocationResult> read_result(std::string_view bytes);

}  // namespace lambent::catalog
