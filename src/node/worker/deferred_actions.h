// DeferredActions: has objects that lie on devices evicted for what dispatch decided on, and defers
// starts and moves into device memory until the executors have given that memory up. Used by
// DispatchDriver on the loop thread.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/loop/event_loop.h"
#include "decide/dispatch/action.h"
#include "decide/dispatch/dispatcher.h"
#include "node/worker/executor_host.h"

namespace lambent::worker {

class DeferredActions {
 public:
  // `perform` is called once for each deferred action that was not taken back. All outlive it.
  DeferredActions(loop::EventLoop& loop, const dispatch::Dispatcher& dispatcher,
                  ExecutorHost& executors, std::function<void(const dispatch::Action&)> perform)
      : loop_(loop), dispatcher_(dispatcher), executors_(executors), perform_(std::move(perform)) {}
  ~DeferredActions() { loop_.cancel(timer_); }
  DeferredActions(const DeferredActions&) = delete;
  DeferredActions& operator=(const DeferredActions&) = delete;

  // Dispatch has decided: tells executors how much of each device functions claim now. Before the
  // actions of that decision are performed.
  void evict_objects();
  // Whether a start of a sandbox, or a move of its memory into its devices, has to wait for objects
  // on any of them; then it is performed when all have given way.
  bool defer(SandboxId sandbox, std::vector<DeviceId> devices, const dispatch::Action& action);
  // The same for a move of memory into all devices that the sandbox is on.
  bool defer_move(const dispatch::MoveMemoryIn& action);
  // Takes back what is deferred for this sandbox.
  std::optional<dispatch::Action> take(SandboxId sandbox);

 private:
  struct Deferred {
    SandboxId sandbox;
    std::vector<DeviceId> devices;
    dispatch::Action action;
    Instant by{};  // performed then in any case
  };

  bool evicts_any(const std::vector<DeviceId>& devices) const;
  void look_soon();
  void perform_due();

  loop::EventLoop& loop_;
  const dispatch::Dispatcher& dispatcher_;
  ExecutorHost& executors_;
  const std::function<void(const dispatch::Action&)> perform_;
  std::vector<Deferred> deferred_;
  loop::TimerId timer_;
  bool timed_ = false;
};

}  // namespace lambent::worker
