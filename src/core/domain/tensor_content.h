// The content types of requests to kernel functions that the worker makes itself, and takes from no
// client. Free constants.
#pragma once

#include <string_view>

namespace lambent {

// From the frontend of models: the bare bytes of tensors, which may be limits::kTensorPayload.
constexpr std::string_view kTensorContentType = "application/x-lambent-tensors";
// Several requests that run together (kernel_graph/batch_payload.h).
constexpr std::string_view kBatchContentType = "application/vnd.lambent.batch";

}  // namespace lambent
