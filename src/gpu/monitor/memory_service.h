// MemoryService: what lambent-device does for the shims of this node's functions: gives them their
// turn on a device's link, and leases them host memory for what they move off a device. Lives on
// one event loop; trusts the worker's socket and no byte of a shim's.
#pragma once

#include <functional>
#include <memory>

#include "core/base/fd.h"
#include "core/base/units.h"
#include "core/loop/event_loop.h"
#include "gpu/monitor/link_arbiter.h"

namespace lambent::monitor {

struct MemoryServiceOptions {
  Bytes budget;         // of host memory, all leases together
  bool sparse = false;  // a lease's pages come when they are written, and count for the writer
  LinkOptions link;
};

class MemoryService {
 public:
  // `control` is our end of a SOCK_SEQPACKET socket on which the worker names sandboxes;
  // `control_gone` is called when the worker hung up or went mad. `loop` outlives the service.
  MemoryService(loop::EventLoop& loop, OwnedFd control, MemoryServiceOptions options,
                std::function<void()> control_gone);
  // Waits for a lease that is being made.
  ~MemoryService();
  MemoryService(const MemoryService&) = delete;
  MemoryService& operator=(const MemoryService&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lambent::monitor
