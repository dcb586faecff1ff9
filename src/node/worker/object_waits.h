// ObjectWaits: invocations that wait for objects before they are queued, and the references that
// keep those objects until the invocations end. On the loop thread; owned by Worker.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/loop/event_loop.h"
#include "node/objects/object_store.h"

namespace lambent::worker {

// Waits form no cycle: an invocation may only need what exists or is expected already, and what it
// is to make itself is expected from a moment later on.
class ObjectWaits {
 public:
  struct Events {
    // All that it needs is there. Comes once, perhaps before begin() returns.
    std::function<void(InvocationId)> ready;
    // Or this comes, once: something that it needs will not be, or not in time.
    std::function<void(InvocationId, Error)> failed;
  };

  // The loop and the store outlive it.
  ObjectWaits(loop::EventLoop& loop, objects::ObjectStore& store, Events events);
  ~ObjectWaits();

  // Takes a reference to each of them, until end(). Errors name the object: NOT_FOUND and causes as
  // ObjectStore::hold() has them; RESOURCE_EXHAUSTED if too many invocations wait.
  Result<void> begin(InvocationId invocation, TenantId tenant, const std::vector<ObjectId>& needs);
  bool waiting(InvocationId invocation) const;
  // It ended or will not start: its references are given back, and nothing more is heard of it.
  void end(InvocationId invocation);
  // failed() for all that wait.
  void fail_all(const Error& error);
  size_t count() const { return waiting_count_; }

 private:
  struct Waiting {
    TenantId tenant;
    std::vector<ObjectId> held;
    std::vector<objects::WaitId> waits;
    size_t missing = 0;
    bool settled = false;  // ready or failed, or about to be
  };

  void there(InvocationId invocation, ObjectId object, const Result<TensorType>& type);
  void settle(InvocationId invocation, std::optional<Error> error);

  loop::EventLoop& loop_;
  objects::ObjectStore& store_;
  const Events events_;
  std::unordered_map<InvocationId, Waiting> invocations_;
  size_t waiting_count_ = 0;
  // One that fails makes those fail that wait for what it was to make: they take turns here, so
  // that a long chain of them is no deep recursion.
  std::deque<std::pair<InvocationId, std::optional<Error>>> settled_;
  bool settling_ = false;
};

}  // namespace lambent::worker
