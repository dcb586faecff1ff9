// Which streams are being captured into a graph: while one is, a call that waits for a whole
// context would spoil the capture. Any thread.
#pragma once

#include "gpu/shim/abi.h"

namespace lambent::shim {

// Whether a stream of this process is being captured, as far as the driver knows.
bool is_anything_captured();
// Waits for all work of the context, which may be null: then for nothing. Do not call it while
// something is captured.
Status wait_for_context(Handle context);
// The same, but not for longer than that: kNotReady if there is still work. A driver that cannot
// tell without waiting (before CUDA 12.5) is waited for.
Status wait_for_context(Handle context, uint64_t grace_period_ns);

// Makes a context current for as long as it lives; null changes nothing.
class InContext {
 public:
  explicit InContext(Handle context);
  ~InContext();
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace lambent::shim
