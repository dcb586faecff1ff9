// Routes: asks the kernel where an address leads from this process's network. A resource, used from
// one thread.
#pragma once

#include "core/base/fd.h"
#include "core/base/result.h"
#include "node/network/gate.h"

namespace lambent::network {

class Routes {
 public:
  static Result<Routes> open();

  // Some microseconds. kNone also if the kernel does not say.
  Route of(const IpAddress& address);

 private:
  OwnedFd socket_;
  uint32_t sequence_ = 0;
};

}  // namespace lambent::network
