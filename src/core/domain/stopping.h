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

// What a part of the worker that knows of no runs refuses with stopping_error(true), told of an
// invocation that has not begun; any other error as it is.
inline Error stopping_error_of(Error error, bool within_run) {
  return error == stopping_error(true) ? stopping_error(within_run) : error;
}

inline bool has_not_begun(ErrorCode code, std::string_view message) {
  const Error error = stopping_error(false);
  return code == error.code && message == error.message;
}

}  // namespace lambent
