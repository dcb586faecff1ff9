// KernelInstance: a kernel function that is loaded in an executor, or is being loaded: what it may
// have of the device, and what it has. A value of Instances; of the loop thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/executor/instance_loader.h"
#include "gpu/executor/reservation.h"

namespace lambent::executor {

// Constants on their way to the device, for InstanceReady or InstanceMoved.
struct Arrival {
  bool is_under_way = false;
  bool awaits_writes = false;  // of kept objects, whose memory its constants may have then
  bool was_added = false;      // for InstanceReady
  bool goes_out = false;       // the instance is moved out as soon as they are there
  Instant began;
  Bytes moved;
  std::vector<DeviceName> constants;  // pinned until all are there
};

struct KernelInstance {
  KernelInstance(SandboxId the_id, Bytes the_memory, uint32_t the_share, MemoryPool& pool)
      : id(the_id), memory(the_memory), reserved(pool), share(the_share), loaded_share(the_share) {}

  const SandboxId id;
  Bytes memory;  // that it may take; at least what its buffers count with
  bool is_in = true;
  bool is_usable = false;                  // requests may come
  bool is_removed = false;                 // goes when its request has ended
  std::unique_ptr<LoadedInstance> loaded;  // null while it is loaded
  Instant last_request;                    // when it ended
  Reservation reserved;                    // for its first request
  // Per cent of the multiprocessors: what it may use, and what it was loaded for; and where it
  // runs from its next request on, if that is elsewhere.
  uint32_t share, loaded_share;
  std::unique_ptr<Placement> next_placement;
  Arrival arrival;

  // What counts against the store's limit: the window of layers has a pool of its own.
  Bytes counted_memory() const {
    return loaded == nullptr ? memory : memory - loaded->window_size();
  }
  bool has_constant(const DeviceName& name) const;
  // The names of its own buffers in the store, whether they lie there or not.
  std::vector<DeviceName> own_buffers() const;
};

}  // namespace lambent::executor
