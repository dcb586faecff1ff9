// What one call of a workflow's run says in the words of invocations: its payload, how it ended,
// and its line in the workflow's log. Pure functions; used by WorkflowHost.
#pragma once

#include <string>
#include <vector>

#include "domain/invocation.h"
#include "workflow/run.h"

namespace lambent::worker {

// The types of errors that workflows have of their own (docs/workflows.md).
constexpr const char* kCallRejected = "Workflow.CallRejected";
constexpr const char* kBadAnswer = "Workflow.BadValue";

// What the function of that kind is to be sent. INVALID_ARGUMENT: it is no input for a kernel
// function.
Result<std::string> payload_of(const workflow::Call& call, FunctionKind kind,
                               const workflow::Component& component);

// How it ended, as the run is to hear of it.
workflow::CallEnd end_of(const Result<InvocationResult>& result, FunctionKind kind);

// What one call took, for people: "faces[3]  at 12.0 ms, took 8.1 ms (queue 0.2, run 7.9)  warm
// gpu 0  ID", and why it failed if it did.
struct CallTrace {
  std::string label;
  unsigned attempt = 1;
  InvocationId invocation;
  Duration began{};  // after the start of the run
  Duration took{};
};
std::string trace_line(const CallTrace& trace, const Result<InvocationResult>& result,
                       const workflow::CallEnd& end);

}  // namespace lambent::worker
