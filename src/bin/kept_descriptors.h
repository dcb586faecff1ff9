// Sandboxes that stay through the exec by which a worker becomes another program: their record and
// their descriptors, left open for it and named by an environment variable. Used by the worker's
// main.
#pragma once

#include <sys/types.h>

#include <string>

#include "core/base/result.h"
#include "node/worker/kept_sandboxes.h"

namespace lambent {

// Of the process: "PID FIRST COUNT": the record, and after it the descriptors that it names.
constexpr const char* kKeptVariable = "LAMBENT_KEPT_SANDBOXES";

// What the program before this one, `self` too, left by this variable; null: nothing. An error, as
// decode_kept has it, leaves no descriptor open, so that what was kept ends.
Result<worker::KeptSandboxes> inherit_kept(const char* variable, pid_t self);

// Moves its descriptors to numbers from `least` on, so that those below can be overwritten.
Result<void> move_kept(worker::KeptSandboxes& kept, int least);

// Leaves them at descriptors from `first` on, whatever is there, and returns the variable's value.
// Nothing may be done after it but exec.
Result<std::string> leave_kept(worker::KeptSandboxes kept, pid_t self, int first);

}  // namespace lambent
