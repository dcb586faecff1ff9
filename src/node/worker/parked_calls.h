// ParkedCalls: calls of acknowledged workflows that wait until there is room for them, without
// their payloads: per function, first come, first served. They are tried again when something
// ended, and once in a while. Owned by WorkflowHost, on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "core/base/ids.h"
#include "core/domain/function.h"
#include "core/loop/event_loop.h"

namespace lambent::worker {

class ParkedCalls {
 public:
  // `try_call` submits the call, which removes it from here, or returns false: there is no room for
  // its function. The loop outlives it.
  ParkedCalls(loop::EventLoop& loop, std::function<bool(InvocationId)> try_call)
      : loop_(loop), try_call_(std::move(try_call)) {}
  ~ParkedCalls();
  ParkedCalls(const ParkedCalls&) = delete;
  ParkedCalls& operator=(const ParkedCalls&) = delete;

  // Its number in here, from 1.
  uint64_t park(const FunctionName& function, InvocationId call);
  void remove(const FunctionName& function, uint64_t number);
  bool any_of(const FunctionName& function) const { return parked_.contains(function); }
  size_t count() const;
  // Something ended: they are tried again, soon.
  void try_soon();

 private:
  void try_at(Instant when);
  void try_all();
  bool try_first(const FunctionName& function);

  loop::EventLoop& loop_;
  const std::function<bool(InvocationId)> try_call_;
  std::map<FunctionName, std::map<uint64_t, InvocationId>> parked_;  // the oldest first
  uint64_t numbers_ = 0;
  std::optional<loop::TimerId> timer_;
  Instant timer_at_{};
  Instant tried_at_{};
  FunctionName last_tried_;
};

}  // namespace lambent::worker
