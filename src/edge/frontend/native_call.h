// The calls of our own /v1 API and the probes, decoded from HTTP. Values; decode_native_call is a
// pure function and the only reader of such requests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "core/domain/function.h"
#include "core/domain/invocation.h"
#include "core/http/message.h"
#include "edge/frontend/caller.h"
#include "edge/frontend/log_merge.h"
#include "edge/frontend/log_view.h"

namespace lambent::frontend {

constexpr size_t kFunctionStatusPerPage = 250;

struct ListFunctionStatus {
  TenantId tenant;
  std::string after;  // a name; empty: from the start
  size_t limit = kFunctionStatusPerPage;
  bool only_here = false;  // figures of this node, not of all nodes of a cluster
};
struct ListSandboxStatus {
  TenantId tenant;
  bool only_here = false;
  size_t limit = SIZE_MAX;
};
struct ReadLog {
  FunctionName function;
  NodeCursor from;
  bool at_end = false;  // instead
  LogForm form;
  bool follow = false;
  bool only_here = false;  // of a cluster's nodes only this one
};
struct ReadResult {
  TenantId tenant;
  InvocationId invocation;
};
// What the run of a workflow did.
struct ReadTrace {
  TenantId tenant;
  InvocationId invocation;
};
// Ends an invocation that has no outcome yet.
struct CancelInvocation {
  TenantId tenant;
  InvocationId invocation;
};
// The devices that serve pipelines, and who has them.
struct ListSlices {
  TenantId tenant;
};
// When functions of the tenant are invoked by themselves.
struct ListSchedules {
  TenantId tenant;
  bool only_here = false;
};
// All devices, and how they are.
struct ListDevices {
  TenantId tenant;
  bool only_here = false;
};
// Takes a device out of service, or back.
struct ChangeDevice {
  std::string gpu;
  bool drain = true;
  std::string reason;  // of a drain, in the operator's words
};
// A pipeline function: its definition, profile and instances.
struct DescribePipeline {
  FunctionName function;
};
// Measures a pipeline function with the request's body as its event.
struct MeasurePipeline {
  FunctionName function;
  unsigned repeat = 10;
  std::string event = {};  // stays in the HTTP request at first
};
// Runs a function; what it makes are objects, named at once.
struct SubmitInvocation {
  InvocationRequest request;  // without an id; the payload stays in the HTTP request
};
struct GetVersion {};
struct GetSettings {};
struct Livez {};
struct Readyz {
  bool verbose = false;  // with a line for each thing that has to be well
};
// Those of one tenant's functions, or all.
struct GetMetrics {
  std::optional<TenantId> tenant;
  bool openmetrics = false;  // in that form
};

// A request that is no good call is the response that answers it.
using NativeCall =
    std::variant<http::Response, ListFunctionStatus, ListSandboxStatus, ReadLog, ReadResult,
                 ReadTrace, CancelInvocation, ListSlices, ListSchedules, ListDevices, ChangeDevice,
                 DescribePipeline, MeasurePipeline, SubmitInvocation, GetVersion, GetSettings,
                 Livez, Readyz, GetMetrics>;

NativeCall decode_native_call(const http::Request& request, const Caller& caller);

}  // namespace lambent::frontend
