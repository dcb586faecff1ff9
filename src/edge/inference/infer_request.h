// InferRequest: what a client of the Open Inference Protocol (v2, REST) asks of a model: JSON,
// perhaps with tensors as bytes behind it (Triton's extension binary_tensor_data). Pure; fuzzed;
// any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/domain/inference.h"
#include "core/http/message.h"
#include "edge/inference/compression.h"

namespace lambent::inference {

// Of a request's JSON: lists of a tensor of this rank, in the list of inputs, in the request.
constexpr size_t kMostDepth = 20;
constexpr size_t kMostTensors = 1'000;
// INVALID_ARGUMENT.
inline Error refused(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

struct RequestedOutput {
  std::string name;
  bool is_binary = false;
};

struct InferRequest {
  std::string id;  // of the client's; empty: it gave none
  std::vector<Tensor> inputs;
  std::vector<RequestedOutput> outputs;
};

// `json_length`: the header Inference-Header-Content-Length; without it the whole body is JSON, and
// 0 says that the body is the one input, as bytes. Contents of inputs may point into `body`.
// INVALID_ARGUMENT, naming the tensor and what it should be, for all that the model cannot take;
// NOT_FOUND for a region of shared memory: others have put its bytes into the body before.
Result<InferRequest> parse_infer_request(std::string_view body, std::optional<size_t> json_length,
                                         const ModelDescription& model);

// The same of a whole request: its body is decompressed in place first, to at most `most`, as a
// part of `bodies`, which lives as long as the body. RESOURCE_EXHAUSTED: others leave it no room.
Result<InferRequest> read_infer_request(http::Request& request, const ModelDescription& model,
                                        Bytes most, const DecompressedBodies& bodies,
                                        DecompressedBodies::Part& part);

// The value of that header. INVALID_ARGUMENT if it is no number.
Result<std::optional<size_t>> parse_json_length(std::string_view header);

}  // namespace lambent::inference
