// CancelledInvocation: what became of an invocation that a client had ended. A value.
#pragma once

#include <string>

namespace lambent {

struct CancelledInvocation {
  std::string was;     // "queued", "starting", "running"; "waiting": to be tried again
  bool ended = false;  // it has its outcome; else it gets it soon
};

}  // namespace lambent
