// Unloads: clients have said that models are to leave memory; their sandboxes end as soon as they
// rest. Used by Worker and DispatchDriver on the loop thread.
#pragma once

#include <unordered_set>

#include "core/base/ids.h"
#include "decide/dispatch/dispatcher.h"

namespace lambent::worker {

class DispatchDriver;

class Unloads {
 public:
  // Both outlive it; the constructor uses none.
  Unloads(const dispatch::Dispatcher& dispatcher, DispatchDriver& driver)
      : dispatcher_(dispatcher), driver_(driver) {}
  Unloads(const Unloads&) = delete;
  Unloads& operator=(const Unloads&) = delete;

  // Those sandboxes of it that rest end now, and those at work once they rest. One that starts
  // stays, for the call that it starts for.
  void unload(FunctionId function);

  // A call of it has ended, in whatever way, so it may rest; it is gone.
  void answered(SandboxId sandbox);
  void ended(SandboxId sandbox) { at_work_.erase(sandbox); }

 private:
  const dispatch::Dispatcher& dispatcher_;
  DispatchDriver& driver_;
  std::unordered_set<SandboxId> at_work_;  // that end once they rest
};

}  // namespace lambent::worker
