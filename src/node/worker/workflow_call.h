// What one call of a workflow's run says in the words of invocations: its payload, and how it
// ended. Pure functions; used by WorkflowHost.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/domain/invocation.h"
#include "decide/workflow/kernel_call.h"
#include "decide/workflow/run.h"

namespace lambent::worker {

// The types of errors that workflows have of their own (docs/guides/workflows.md).
constexpr const char* kCallRejected = "Workflow.CallRejected";
constexpr const char* kBadAnswer = "Workflow.BadValue";
// Of a kernel function whose input is gone, or never came to be.
constexpr const char* kObjectFailed = "Object.Failed";

// What the function of that kind is to be sent; `outputs` are those of a kernel function.
// INVALID_ARGUMENT: it is no input for one.
Result<std::string> payload_of(const workflow::Call& call, FunctionKind kind,
                               workflow::KernelOutputs outputs);

// What names mean to the tenant of a workflow.
struct Callees {
  TenantId tenant;
  // Null: it is not there, or has none.
  const std::function<const FunctionSpec*(const FunctionName&)>& find;
  const std::function<const workflow::Workflow*(const FunctionSpec&)>& graph_of;
};

struct ComponentOutputs {
  workflow::KernelOutputs become = workflow::KernelOutputs::kObjects;
  // They stay on the device, and others read them on the host.
  bool also_on_host = false;
};

// What the outputs of a component become that calls `spec` (null: it is not there). What kernel
// functions of the same executors read, those of inner workflows too, stays on the device; if no
// other reads it, it need not come to the host. An executor that breaks takes it along, and then
// what made it is called again.
ComponentOutputs outputs_of(const workflow::Workflow& graph, uint32_t component,
                            const FunctionSpec* spec, const Callees& callees);

// Whether a call of that kind has no effects but its outputs, so that it may be made again: a
// kernel function, or a workflow of such only.
bool may_repeat(FunctionKind kind, const std::string& function, const Callees& callees);

// What a call of a kernel function that failed for want of its input has lost: calls of its run, by
// the objects in `makers`, whose objects are gone. Where none of these is gone, they have been made
// again meanwhile, and the call may be. Nothing is to be done about objects of others.
void find_lost(const workflow::Value& input, const std::map<ObjectId, workflow::CallKey>& makers,
               const std::function<bool(ObjectId)>& is_gone, workflow::Failure& failure);

// How it ended, as the run is to hear of it.
workflow::CallEnd end_of(const Result<InvocationResult>& result, FunctionKind kind);

}  // namespace lambent::worker
