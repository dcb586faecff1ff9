// Several requests as one run of a model: their inputs joined along the first dimension, and the
// outputs taken apart again. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/domain/inference.h"
#include "edge/inference/infer_request.h"

namespace lambent::inference {

// Whether the first dimension of all the model's tensors is open, as that of batches has to be.
bool has_batches(const ModelDescription& model);

// The elements that a request would bring into a batch: the first dimension, which all of its
// inputs have in common. Nothing: it runs by itself.
std::optional<uint64_t> batch_elements(const InferRequest& request);
// Whether two such requests fit one batch: inputs of the same names and shapes but for the first
// dimension, and the same outputs.
bool fit_together(const InferRequest& a, const InferRequest& b);

// The inputs of such requests, one behind the other. There is at least one request.
std::vector<Tensor> join_inputs(std::span<const InferRequest* const> requests);
// What each of the requests gets of the outputs, by how many elements each brought.
// FAILED_PRECONDITION, naming the output, if one does not have that many.
Result<std::vector<std::vector<Tensor>>> split_outputs(std::span<const Tensor> outputs,
                                                       std::span<const uint64_t> elements);

}  // namespace lambent::inference
