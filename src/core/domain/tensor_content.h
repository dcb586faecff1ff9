// The content type of requests to kernel functions whose bare bytes may be limits::kTensorPayload:
// from the frontend of models to the executor, and never from a client.
#pragma once

#include <string_view>

namespace lambent {

constexpr std::string_view kTensorContentType = "application/x-lambent-tensors";

}  // namespace lambent
