// How many invocations of a function may be in one of its sandboxes at once.
#pragma once

#include <algorithm>

#include "core/domain/function.h"

namespace lambent {

// Of handlers: each has a thread, a connection to the Runtime API, and a part of the sandbox's 256
// processes and threads.
constexpr unsigned kMostHandlerConcurrency = 100;

constexpr unsigned sandbox_concurrency(const FunctionSpec& spec) {
  const bool has_program = spec.kind == FunctionKind::kHttp || spec.kind == FunctionKind::kHandler;
  return has_program ? std::max(spec.http.concurrency, 1U) : 1;
}

}  // namespace lambent
