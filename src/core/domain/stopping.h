// How a worker that stops refuses an invocation, and how the refusal of one of which nothing has
// begun is told from all others: another worker may run that. Free functions, any thread.
#pragma once

#include <string_view>

#include "core/base/error.h"

namespace lambent {

// `within_run`: it is a step of a workflow's run, of which others may have run.
inline Error stopping_error(bool within_run) {
  return {ErrorCode::kUnavailable,
          within_run ? "the worker is stopping"
                     : "the worker is stopping and has not begun this; try again elsewhere"};
}

inline bool has_not_begun(ErrorCode code, std::string_view message) {
  const Error error = stopping_error(false);
  return code == error.code && message == error.message;
}

}  // namespace lambent
