// The answers of our own API in JSON, with the keys that api/openapi.yaml promises. Free functions;
// any thread.
#pragma once

#include <string>
#include <vector>

#include "core/domain/invocation_service.h"

namespace lambent::frontend {

// {"functions": [...]}
// `next`: what the next page comes after; empty: this is the last.
std::string function_list(const std::vector<FunctionStatus>& functions, const std::string& next);
// {"sandboxes": [...], "all": 3}: at most `limit` of them, and how many there are.
std::string sandbox_list(std::vector<SandboxStatus> sandboxes, size_t limit);

}  // namespace lambent::frontend
