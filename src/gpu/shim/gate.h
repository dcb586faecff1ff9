// The gate before the driver: shut while the memory of this process is being moved, so that no call
// can hand the driver work on memory that is on its way. Hooks pass it on any thread; only the
// thread that moves memory shuts and opens it.
#pragma once

#include <stdint.h>

namespace lambent::shim {

// Held by every call that hands the driver work, or that allocates, frees or maps. Waits until the
// gate is open; a call made inside another, by the same thread, passes freely.
class GateScope {
 public:
  GateScope();
  ~GateScope();
  GateScope(const GateScope&) = delete;
  GateScope& operator=(const GateScope&) = delete;
};

// Lets the calling thread out of the one GateScope that it holds, so that others may have it wait
// for them; false, and nothing has happened, if it holds none, several, or a GateBypass.
bool leave_gate_scope();
// Back into it; waits until the gate is open.
void return_to_gate_scope();

// While one lives, its thread passes whether the gate is open or not, and no thread waits for it.
class GateBypass {
 public:
  GateBypass();
  ~GateBypass();
  GateBypass(const GateBypass&) = delete;
  GateBypass& operator=(const GateBypass&) = delete;
};

// From now on no call enters; one that is inside stays until the call returns. Who waited when the
// gate was last opened is inside by then. Shutting a shut gate, and opening an open one, changes
// nothing.
void shut_gate();
// With the gate shut: true once no call is inside, false if one still is after the timeout.
bool wait_until_nobody_inside(uint64_t timeout_ns);
void open_gate();

// For how long calls of this process have waited so far, the present wait included. Time in which
// several wait counts once: it is what the program lost, not what its threads did.
uint64_t gated_ns();

}  // namespace lambent::shim
