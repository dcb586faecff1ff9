// What models take and give: typed tensors, and an engine that runs a model. Values, and the
// interface between those who speak a protocol of inference (edge/inference) and those who run
// models (node/onnx_runtime).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/domain/tensor_type.h"

namespace lambent {

// Sizes of dimensions; of a model's own tensors -1 is any size.
using Shape = std::vector<int64_t>;
std::string to_string(const Shape& shape);  // "[1,3,224,224]"
// How many elements it has. Nothing if a size is negative, or the product is above 2^62.
std::optional<uint64_t> element_count(const Shape& shape);

struct TensorSpec {
  std::string name;
  DataType type = DataType::kFp32;
  Shape shape;

  bool operator==(const TensorSpec&) const = default;
};

// A tensor with its content: elements as DataType says; of kBytes, texts or other bytes, each has
// its length before it, in four bytes.
struct Tensor {
  std::string name;
  DataType type = DataType::kFp32;
  Shape shape;
  // Either what `owned` holds, or bytes that another keeps as long as this lives.
  std::string_view content;
  std::string owned;

  void own(std::string bytes) {
    owned = std::move(bytes);
    content = owned;
  }
  Tensor() = default;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  Tensor(Tensor&& other) noexcept { *this = std::move(other); }
  Tensor& operator=(Tensor&& other) noexcept;
};

// Appends one element of a kBytes tensor.
void append_bytes_element(std::string& content, std::string_view element);
// The elements of a kBytes tensor. INVALID_ARGUMENT if it does not hold exactly `count`.
Result<std::vector<std::string_view>> bytes_elements(std::string_view content, uint64_t count);

// Elements of the first dimension that a model takes at most, where that is open.
constexpr uint64_t kMostBatchSize = 65'536;
// Of a model as kernels: batch sizes that there are kernels for.
constexpr size_t kMostVariants = 32;

// How requests to a model are put together (decide/batching/batch_policy.h).
struct BatchTimes {
  Duration most_wait{};  // for others, while the model is idle
  Duration slo{};        // zero: none

  bool operator==(const BatchTimes&) const = default;
};

struct ModelDescription {
  std::string platform;  // "onnxruntime_onnx"
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  // Of the first dimension, where that is open: a request has at most so many; 0: any.
  uint64_t most_elements = 0;
  // Of a model whose requests the worker puts together; none: it runs each by itself.
  std::optional<BatchTimes> batches = std::nullopt;
};

class ModelEngine {
 public:
  virtual ~ModelEngine() = default;
  virtual const ModelDescription& description() const = 0;
  // `inputs` are all of the description's, in any order, of its types and of shapes that it allows.
  // Gives the outputs of these names, in their order. INVALID_ARGUMENT if the model refuses what it
  // got. Blocks; one call at a time.
  virtual Result<std::vector<Tensor>> run(std::span<const Tensor> inputs,
                                          std::span<const std::string> outputs) = 0;
};

}  // namespace lambent
