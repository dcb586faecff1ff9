// Runs a program to its end with limits on time and memory, and gathers what it prints.
// Blocks the calling thread; used by the builder.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::bundle {

struct ChildLimits {
  Duration wall_time = seconds(60);
  Bytes memory = Bytes::mib(4096);    // of address space
  Bytes output = Bytes::kib(256);     // further output is read and dropped
  Bytes file_size = Bytes::mib(512);  // of any file that it writes
  Instant end = kNever;               // it is stopped then, whatever the wall time
  // In a process group of its own, which is killed on a time-out. Otherwise it stays in this
  // process's, and what it has started is left to those that end that group.
  bool in_own_group = true;
};

struct ChildOutcome {
  int exit_code = 0;  // 128 + signal number if a signal ended it
  bool timed_out = false;
  std::string standard_output;
  std::string standard_error;
};

// Sets those limits that the system enforces, for good; calls nothing that is unsafe after a fork.
void bound_this_process(const ChildLimits& limits);

// The program is looked up in PATH. UNAVAILABLE if it cannot be started; a program that fails is
// not an error of this function. It is killed if the calling thread ends.
Result<ChildOutcome> run_child(const std::vector<std::string>& command, const ChildLimits& limits);

}  // namespace lambent::bundle
