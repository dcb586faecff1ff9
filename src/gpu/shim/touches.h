// What the program's calls name of its memory, noted while it passes the gate: for the working set
// that comes in first. A kernel that names memory which is offloaded waits here until that was
// fetched. Any thread that holds a GateScope; nothing is noted before the agent says so.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "gpu/shim/passed_types.h"

namespace lambent::shim {

class Residency;

// Whether LAMBENT_SHIM_WORKING_SET says touched; read once.
bool working_set_is_wanted();

// The memory of which touches are noted; null: of none.
[[gnu::visibility("hidden")]] extern Residency* memory_of_touches;
inline bool notes_touches() {
  return __atomic_load_n(&memory_of_touches, __ATOMIC_ACQUIRE) != nullptr;
}
void note_touches_of(Residency* memory);

// A copy or a fill names this address, or all that stand in a description of `bytes`.
void touch(Address address);
void touch_described(const void* description, size_t bytes);
// The same where the driver looks on which side the memory lies: what is offloaded is fetched
// first.
void note_access(const void* description, size_t bytes);
// All memory, where it is not known what will be named.
void place_everything();
// A call of which it is not known what it reaches.
void touch_anything();
// The program copies this into device memory: there may be addresses in it.
void touch_written(Address to, const void* from, size_t bytes);
// A stream stores this value there.
void touch_stored(Address to, Address value);
// A kernel is launched with these parameters, in either form. Perhaps waits.
void touch_launched(Handle function, void** parameters, void** extra);

// What is larger than this is data and no table of addresses, and reading it through would take
// longer than the copy.
constexpr size_t kMostWrittenBytes = size_t{64} << 10;

// What stands here is written into device memory: whatever is there by then is reached through it.
// Nothing if it cannot be read, or is too large for a table.
void note_written_references(Residency& memory, const void* from, size_t bytes);
// Some of what was touched is offloaded and is wanted. The calling thread's GateScope is given up
// meanwhile: memory is fetched while no call is inside.
void wait_until_fetched();

// Has memory fetched, with many attempts: they may be refused for as long as others need the
// memory, and fail for as long as work does not end. The thread's GateScope is given up meanwhile.
class FetchRetry {
 public:
  explicit FetchRetry(Residency& memory) : memory_(memory) {}
  // Of what was touched, some still is offloaded. False: it stays there.
  bool try_again();

 private:
  Residency& memory_;
  uint64_t since_ns_ = 0;
};
// True if nothing is offloaded in the end of what `any_offloaded` touches.
template <typename AnyOffloaded>
bool fetch_all(Residency& memory, AnyOffloaded any_offloaded) {
  FetchRetry fetch_retry(memory);
  while (any_offloaded()) {
    if (!fetch_retry.try_again()) return false;
  }
  return true;
}

}  // namespace lambent::shim
