// RoutedCalls: calls that this node makes itself, such as those of schedules and of workflows, as
// requests that the cluster routes: any node may run them. Made by main; loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "core/domain/access_service.h"
#include "core/domain/invocation_service.h"
#include "core/http/forward_service.h"
#include "core/loop/event_loop.h"

namespace lambent::frontend {

class RoutedCalls {
 public:
  using Done = std::function<void(Result<InvocationResult>)>;

  // All outlive it.
  struct Uses {
    loop::EventLoop& loop;
    http::ForwardService& nodes;
    InvocationService& here;
    const AccessService& access;
  };
  explicit RoutedCalls(Uses uses) : uses_(uses) {}
  ~RoutedCalls();
  RoutedCalls(const RoutedCalls&) = delete;
  RoutedCalls& operator=(const RoutedCalls&) = delete;

  // As InvocationService::submit(), on the node that the cluster chooses. The id in the result is
  // that of the node which ran it. One that was promised (`acknowledged`) waits here while there is
  // no room for it. Where a node was lost while it had a synchronous one, the result is a failure
  // of its place (Sandbox.Failure): it may have run there.
  void submit(InvocationRequest request, Done done);
  // Nothing waits for that call any more, which was submitted with this id.
  void forget(InvocationId id);
  // As InvocationService::async_result(), from the node that has it.
  void async_result(TenantId tenant, InvocationId id,
                    std::function<void(Result<std::optional<InvocationResult>>)> done);
  // Removes an object from all nodes, as far as they answer.
  void remove_object(TenantId tenant, ObjectId object);

 private:
  class Exchange;
  struct Call;
  using CallPtr = std::shared_ptr<Call>;

  http::ForwardCall call_of(const std::shared_ptr<Exchange>& exchange, TenantId tenant,
                            std::string method, std::string target) const;
  void route(const CallPtr& call);
  void answered(const CallPtr& call, Result<InvocationResult> result);

  const Uses uses_;
  // Synchronous ones that have no result yet.
  std::unordered_map<InvocationId, CallPtr> calls_;
  // Gone with this: what comes later finds nothing.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::frontend
