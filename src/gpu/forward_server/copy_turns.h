// CopyTurns: whose copy goes over the device's link in one direction next, among all clients of an
// executor and its kernel functions. Implemented by the executor's transfer engine; any thread.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/units.h"

namespace lambent::forward_server {

class CopyTurns {
 public:
  struct Turn {
    uint64_t copy = 0;    // for end(); above 0
    bool may_go = false;  // at once; else `go` is called later
  };
  virtual ~CopyTurns() = default;

  // A copy of `client` that nothing but its turn holds up. `go` is called at most once, on another
  // thread, and not after end(): it may neither wait nor call the driver.
  virtual Turn begin(uint64_t client, Bytes size, std::function<void()> go) = 0;
  // The copy is over, or needs no turn any more. Again changes nothing; also on a thread of the
  // driver's.
  virtual void end(uint64_t copy) = 0;
  // Nothing waits for its turn.
  virtual bool is_quiet() const = 0;
};

// Both directions of a link. Null: copies go as they come.
struct CopyLinks {
  CopyTurns* to_device = nullptr;
  CopyTurns* to_host = nullptr;
};

}  // namespace lambent::forward_server
