// HostMemoryWatch: lets sandboxes without a GPU leave when together they hold more of the host's
// memory than they may: of those at rest the ones that are worth least (scheduling/host_victims.h).
// Used by DispatchDriver on the loop thread.
#pragma once

#include "core/base/log.h"
#include "core/base/units.h"
#include "core/loop/event_loop.h"
#include "decide/dispatch/dispatcher.h"
#include "node/worker/backend.h"

namespace lambent::worker {

class DispatchDriver;

class HostMemoryWatch {
 public:
  // All outlive it; the constructor uses none. Zero: there is no limit, and nothing is measured.
  HostMemoryWatch(loop::EventLoop& loop, LogSink& log, const dispatch::Dispatcher& dispatcher,
                  const Backend& sandboxes, DispatchDriver& driver, Bytes limit)
      : loop_(loop),
        log_(log),
        dispatcher_(dispatcher),
        sandboxes_(sandboxes),
        driver_(driver),
        limit_(limit) {}
  ~HostMemoryWatch() { loop_.cancel(timer_); }
  HostMemoryWatch(const HostMemoryWatch&) = delete;
  HostMemoryWatch& operator=(const HostMemoryWatch&) = delete;

  // A sandbox became ready, or has answered: it may hold more than before. Looks soon, once for all
  // that happens until then.
  void note();

 private:
  void look();

  loop::EventLoop& loop_;
  LogSink& log_;
  const dispatch::Dispatcher& dispatcher_;
  const Backend& sandboxes_;
  DispatchDriver& driver_;
  const Bytes limit_;
  bool is_to_look_ = false;
  loop::TimerId timer_;
  Instant warned_{};  // that nothing can leave
};

}  // namespace lambent::worker
