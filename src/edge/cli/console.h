// Console: where a verb writes - its result to `out`, everything else to `err`. A value that refers
// to streams, made by main; verbs use it on one thread.
#pragma once

#include <ostream>
#include <string_view>

#include "core/base/error.h"

namespace lambent::cli {

struct Console {
  std::ostream& out;
  std::ostream& err;
  bool json = false;             // results as JSON on `out`, errors as JSON on `err`
  bool err_is_terminal = false;  // progress may rewrite its line
};

// The exit code of an invocation whose function reported an error; other errors have the codes of
// api/error_codes.inc, bad usage has 2.
constexpr int kExitFunctionError = 1;

// Says what went wrong; the exit code that belongs to it.
int fail(Console& console, const Error& error);

// "12.0 KiB" and "3.2 s", for people.
std::string human_seconds(double seconds);

}  // namespace lambent::cli
