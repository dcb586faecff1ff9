// MemoryHandles: how the processes of an executor hand device memory to each other by its address
// (cuIpcGetMemHandle and its fellows). Any thread, with the device's context current.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "gpu/forward_server/exported_memory.h"

namespace lambent::forward_server {

class MemoryHandles {
 public:
  using Share = std::shared_ptr<ExportedMemory>;

  // What was handed out waits for `hold` to be opened. Driver and clock outlive this.
  MemoryHandles(const cuda::Driver& driver, const Clock& clock, Duration hold)
      : driver_(driver), clock_(clock), hold_(hold) {}
  // All shares have ended, or never will.
  ~MemoryHandles();
  MemoryHandles(const MemoryHandles&) = delete;
  MemoryHandles& operator=(const MemoryHandles&) = delete;

  // Allocated memory can have more holders from now on. Null if the client has exported as much as
  // it may, or no stream can be made.
  Share share(ExportedMemory::Owner owner, ExportedMemory::Place place);
  // The memory's handle. One more opening of it is expected: until then, or until the hold is over,
  // the memory stays, even without its owner's process.
  MemoryHandle hand_out(const Share& share);
  // The memory goes by this name for as long as anybody has it. False if other memory does, or if
  // it has another name.
  bool give_name(const Share& share, MemoryHandle name);
  // One more holder. Null if no memory has the handle, or the memory has no holder any more.
  Share open(MemoryHandle handle);

  // Waits no longer for what was not opened in time. Cheap; to be called now and then.
  void expire();
  // The client has gone, and what was not opened with it.
  void forget_client(uint64_t client);
  size_t size() const;

 private:
  struct Entry {
    std::weak_ptr<ExportedMemory> memory;
    Share held;             // while openings are expected
    uint64_t expected = 0;  // openings
    Instant until;          // so long it is held
  };

  const cuda::Driver& driver_;
  const Clock& clock_;
  const Duration hold_;
  mutable Mutex mutex_;
  SystemRandom random_ GUARDED_BY(mutex_);
  CUstream stream_ GUARDED_BY(mutex_) = nullptr;  // for frees
  std::map<MemoryHandle, Entry> entries_ GUARDED_BY(mutex_);
};

}  // namespace lambent::forward_server
