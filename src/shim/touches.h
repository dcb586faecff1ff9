// What the program's calls name of its memory, noted while it passes the gate: for the working set
// that comes in first. A kernel that names memory which lies aside waits here until that was
// fetched. Any thread that holds a Passage; nothing is noted before the agent says so.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "shim/passed_types.h"

namespace lambent::shim {

class Residency;

// Whether LAMBENT_SHIM_WORKING_SET says touched; read once.
bool working_set_is_wanted();

// The memory of which touches are noted; null: of none.
[[gnu::visibility("hidden")]] extern Residency* memory_of_touches;
inline bool notes_touches() { return __atomic_load_n(&memory_of_touches, __ATOMIC_ACQUIRE) != nullptr; }
void note_touches_of(Residency* memory);

// A copy or a fill names this address, or all that stand in a description of `bytes`.
void touch(Address address);
void touch_described(const void* description, size_t bytes);
// A call of which it is not known what it reaches.
void touch_anything();
// The program copies this into device memory: there may be addresses in it.
void touch_written(Address to, const void* from, size_t bytes);
// A stream stores this value there.
void touch_stored(Address to, Address value);
// A kernel is launched with these parameters, in either form. Perhaps waits.
void touch_launched(Handle function, void** parameters, void** extra);

// Code goes with its context: what is known of its kernels is forgotten, before the driver can give
// their handles to others.
void forget_code();

}  // namespace lambent::shim
