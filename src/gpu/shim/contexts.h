// The contexts of this process, for who must wait for all of its work: memory of a pool, or that a
// peer reaches, is used in other contexts than the one that it was allocated in. Any thread.
#pragma once

#include <stdint.h>

#include "gpu/shim/abi.h"
#include "gpu/shim/pending_frees.h"

namespace lambent::shim {

void context_is_made(Handle context);
// Before its handle can be another's. False: it was not known.
bool context_is_ended(Handle context);
// A green context: its work is its own, and waiting for the primary context does not cover it.
void context_is_made_that_nobody_waits_for();

// The primary context of a device if it is active, else null. Programs get at it by ways that are
// not hooked, so it is asked for when it matters.
Handle active_primary_context(Device device);

// The context of the stream; null: the current one, or the driver does not say.
Handle context_of(const Stream& stream);

// Whether the next function waits for all work that this process can have.
bool knows_all_contexts();
// Waits for the work of the known contexts and the active primary ones, for each at most so long:
// kNotReady if there is still some.
Status wait_for_known_contexts(uint64_t grace_period_ns);

// Waits for the work of all but this context that may use the device's memory: the current one, the
// device's others and those of devices that were let in. One that is broken or gone has none. Do
// not call it while something is captured.
void wait_for_other_users(Device device, Handle except);

}  // namespace lambent::shim
