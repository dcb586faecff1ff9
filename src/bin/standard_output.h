// The last word of a program that prints results: whether they arrived. Used by mains.
#pragma once

#include <cerrno>
#include <cstring>
#include <iostream>

#include "core/base/error.h"

namespace lambent::bin {

// The exit code, unless standard output took less than all of it (a full disk): a part of a table
// must not pass for the whole.
inline int after_output(int code) {
  errno = 0;
  std::cout.flush();
  if (std::cout || code != 0) return code;
  std::cerr << "lambent: DATA_LOSS: could not write all of the standard output"
            << (errno != 0 ? std::string(": ") + std::strerror(errno) : "") << "\n";
  return exit_code_of(ErrorCode::kDataLoss);
}

}  // namespace lambent::bin
