// What one call of a workflow's run says in the words of invocations: its payload, and how it
// ended. Pure functions; used by WorkflowHost.
#pragma once

#include <string>

#include "core/domain/invocation.h"
#include "decide/workflow/run.h"

namespace lambent::worker {

// The types of errors that workflows have of their own (docs/guides/workflows.md).
constexpr const char* kCallRejected = "Workflow.CallRejected";
constexpr const char* kBadAnswer = "Workflow.BadValue";

// What the function of that kind is to be sent. INVALID_ARGUMENT: it is no input for a kernel
// function.
Result<std::string> payload_of(const workflow::Call& call, FunctionKind kind,
                               const workflow::Component& component);

// How it ended, as the run is to hear of it.
workflow::CallEnd end_of(const Result<InvocationResult>& result, FunctionKind kind);

}  // namespace lambent::worker
