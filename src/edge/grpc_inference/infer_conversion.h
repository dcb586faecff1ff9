// One inference by gRPC as one by REST: its messages become the request that a worker takes, and
// the answer becomes a message. Pure; fuzzed; any thread.
#pragma once

#include <grpcpp/support/status.h>
#include <inference.pb.h>

#include <string>

#include "core/base/result.h"
#include "core/http/message.h"

namespace lambent::grpc_inference {

// "/v2/models/NAME[/versions/VERSION]" and `rest`. INVALID_ARGUMENT for a model without a name.
Result<std::string> model_target(const std::string& name, const std::string& version,
                                 const std::string& rest = "");

// "/v2/systemsharedmemory/region/NAME/VERB", or without a name of all; `kind` is system or cuda.
std::string region_target(const std::string& kind, const std::string& name,
                          const std::string& verb);
// INVALID_ARGUMENT for a region without a name.
Result<http::Request> register_request(
    const ::inference::SystemSharedMemoryRegisterRequest& request);
// {"regions": {NAME: ...}} of the worker's list of regions. INTERNAL if it is none.
Result<std::string> regions_by_name(const std::string& list);

// Tensors go as bytes behind the JSON, and are asked for as bytes, but for those in shared memory.
// INVALID_ARGUMENT, naming the input, for contents that do not fit its datatype, and for raw
// contents of some inputs only; those in shared memory have none.
Result<http::Request> infer_request(const ::inference::ModelInferRequest& request);

// All outputs are raw, in their order. Of those that `request` wanted in shared memory, the answer
// has no bytes, and the message has what the request says of their places. INTERNAL if it is no
// answer of the protocol.
Result<::inference::ModelInferResponse> infer_response(
    const http::Response& response, const ::inference::ModelInferRequest& request);

// What gRPC says of an answer that is no success, with the text under "error"; OK below 300. A 409
// is ABORTED, after which the same again may do; who asks to make something knows that it is there.
grpc::Status status_of(const http::Response& response);
grpc::Status status_of(const Error& error);

}  // namespace lambent::grpc_inference
