// Device memory of other processes that this one has opened through interprocess handles. Locks for
// itself; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/memory.h"

namespace lambent::emulated_cuda {

// What an interprocess handle holds: whose memory it is, and which descriptor of that process leads
// to its pages. It is found through /proc, so both have to see the same processes.
struct MemoryTicket {
  uint64_t magic;       // changed by the node, so that another node's handle is none
  uint64_t generation;  // of the process
  uint64_t file;        // the inode behind the descriptor
  uint64_t offset, bytes, backing_bytes;
  int32_t pid, descriptor;
  int32_t device;
  uint32_t reserved;
};
static_assert(sizeof(MemoryTicket) == 64);

class OpenedMemory {
 public:
  // Maps the memory and enters it, or counts one more opening; empty if its owner or the memory has
  // gone.
  std::optional<uintptr_t> open(const MemoryTicket& ticket, void* context, Memory& memory);
  // False if nothing was opened at the address. The last closing unmaps it.
  bool close(uintptr_t address, Memory& memory);

 private:
  struct Opened {
    uintptr_t address;
    int count;
  };
  using Key = std::pair<uint64_t, uint64_t>;  // file and offset
  Mutex mutex_;
  std::map<Key, Opened> opened_ GUARDED_BY(mutex_);
};

}  // namespace lambent::emulated_cuda
