// CallsElsewhere: how a run of a workflow calls functions that this node of a cluster cannot run.
// Given by main; used by WorkflowHost on the loop thread.
#pragma once

#include <functional>

#include "core/base/ids.h"
#include "core/domain/function.h"
#include "core/domain/invocation.h"

namespace lambent::worker {

// Without its functions, all is called here.
struct CallsElsewhere {
  // Whether a call of that function is another node's; empty: none is.
  std::function<bool(const FunctionSpec&)> takes = {};
  // Whether a function that is not known here may come soon from the node that keeps them; empty:
  // it may not.
  std::function<bool()> may_come = {};
  // The callback comes once, perhaps before this returns; the id in the result is the other node's.
  std::function<void(InvocationRequest, std::function<void(Result<InvocationResult>)>)> submit = {};
  // Nothing waits for the call any more; its callback comes all the same.
  std::function<void(InvocationId)> forget = {};
  // What such a call made is of no more use.
  std::function<void(TenantId, ObjectId)> remove_object = {};
};

inline const CallsElsewhere kNoCallsElsewhere = {};

}  // namespace lambent::worker
