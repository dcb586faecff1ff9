// Device memory that more than one process may hold: counted once, until its last holder releases
// it. Plain values inside the node file, without clock or lock; the holder of the node's lock calls
// these.
//
// Every entry is valid on its own: a writer killed half-way leaves at most one entry without
// holders, which drop_holder() of anyone sweeps.
#pragma once

#include <cstdint>

namespace lambent::emulated_node {

constexpr int kMaxShared = 1024;
constexpr int kMaxHolders = 512;  // as many as there are rows for processes

struct SharedAllocation {
  uint64_t id;  // 0: free
  uint64_t bytes;
  int32_t device;
  uint32_t holders[kMaxHolders / 32];  // a bit for each process
};

struct SharedMemory {
  uint64_t next_id;
  uint32_t bound;  // entries in use lie below
  SharedAllocation entries[kMaxShared];
};

// What finds an entry again: its place and the id that it must still have.
struct SharedHandle {
  uint32_t index = 0;
  uint64_t id = 0;  // 0: none
};

// Counts `bytes` of `device`, held only by `process`; no id if the table is full.
SharedHandle share(SharedMemory& memory, int device, uint64_t bytes, uint32_t process);

// Adds a holder; false if the entry has gone.
bool hold(SharedMemory& memory, SharedHandle handle, uint32_t process);

// Takes a holder away, of one entry or of all; the last one to go frees the bytes.
void drop(SharedMemory& memory, SharedHandle handle, uint32_t process);
void drop_holder(SharedMemory& memory, uint32_t process);

uint64_t shared_bytes(const SharedMemory& memory, int device);
uint64_t shared_bytes_of(const SharedMemory& memory, int device, uint32_t process);

}  // namespace lambent::emulated_node
