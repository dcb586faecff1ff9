// Exit: how a sandbox ended. A value; made by lambent-launcher, read by the worker; any thread.
#pragma once

#include <string>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::sandbox {

// Everything that ran inside is gone when this is told.
struct Exit {
  int exit_code = 0;  // of the program, if no signal ended it
  int signal = 0;     // 0: it exited by itself
  bool out_of_memory = false;
  bool killed = false;          // by Launcher::kill
  bool launcher_ended = false;  // with lambent-launcher, which says nothing of it any more
  Bytes memory_peak;            // zero where it cannot be measured
  Duration cpu{};

  bool operator==(const Exit&) const = default;
};

// "exit code 1", "signal 11 (Segmentation fault)", "out of memory (peak 64.0 MiB)", "killed"
std::string to_string(const Exit& exit);

}  // namespace lambent::sandbox
