// The answer to an InferRequest, and a model's metadata, as the Open Inference Protocol has them.
// Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/inference.h"
#include "core/domain/model_function.h"
#include "core/http/message.h"
#include "edge/inference/infer_request.h"

namespace lambent::inference {

struct ModelIdentity {
  std::string name;
  std::string version = std::string(kOnlyVersion);
  std::vector<std::string> versions = {};  // that there are; empty: this one
};
// Of "scores" or of its version "scores:3". `versions` is what the worker says of them
// (kModelVersionsHeader).
ModelIdentity model_identity(std::string_view function, std::string_view versions);

// `tensors` are those of the request's outputs, in their order. INVALID_ARGUMENT if one that has no
// form in JSON is not asked for as bytes.
Result<http::Response> infer_response(const ModelIdentity& model, const InferRequest& request,
                                      std::span<const Tensor> tensors);

// {"name", "versions", "platform", "inputs", "outputs"}
std::string metadata_json(const ModelIdentity& model, const ModelDescription& description);
// What of Triton's model configuration is known of a model.
std::string configuration_json(const ModelIdentity& model, const ModelDescription& description);

// {"error": "..."}
http::Response error_response(int status, const std::string& message);
http::Response error_response(const Error& error);
http::Response json_response(std::string text);

}  // namespace lambent::inference
