#include "edge/inference/batch.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace lambent::inference {
namespace {

bool same_but_first(const Shape& a, const Shape& b) {
  return a.size() == b.size() && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

const Tensor* find(const std::vector<Tensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const Tensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

// How many bytes the first `count` elements have.
size_t bytes_of(const Tensor& tensor, std::string_view content, uint64_t count) {
  if (tensor.type != DataType::kBytes) return count * size_of(tensor.type).count;
  size_t at = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t length = 0;
    std::memcpy(&length, content.data() + at, sizeof length);
    at += sizeof length + length;
  }
  return at;
}

// The tensor's content is what its shape says.
Result<void> check_whole(const Tensor& tensor, uint64_t elements) {
  const auto count = element_count(tensor.shape);
  const Error error{ErrorCode::kFailedPrecondition,
                    "output '" + tensor.name + "' has the shape " + to_string(tensor.shape) +
                        " for a batch of " + std::to_string(elements) +
                        ": the model makes no batches"};
  if (!count || tensor.shape.empty() || std::cmp_not_equal(tensor.shape.front(), elements)) {
    return error;
  }
  if (tensor.type == DataType::kBytes) {
    RETURN_IF_ERROR(bytes_elements(tensor.content, *count));
  } else if (tensor.content.size() != *count * size_of(tensor.type).count) {
    return error;
  }
  return {};
}

}  // namespace

bool has_batches(const ModelDescription& model) {
  const auto is_open = [](const TensorSpec& spec) {
    return !spec.shape.empty() && spec.shape.front() < 0;
  };
  return !model.inputs.empty() && std::all_of(model.inputs.begin(), model.inputs.end(), is_open) &&
         std::all_of(model.outputs.begin(), model.outputs.end(), is_open);
}

std::optional<uint64_t> batch_elements(const InferRequest& request) {
  if (request.inputs.empty() || request.inputs.front().shape.empty()) return std::nullopt;
  const int64_t first = request.inputs.front().shape.front();
  for (const Tensor& input : request.inputs) {
    if (input.shape.empty() || input.shape.front() != first) return std::nullopt;
  }
  if (first < 1) return std::nullopt;
  return static_cast<uint64_t>(first);
}

bool fit_together(const InferRequest& a, const InferRequest& b) {
  if (a.inputs.size() != b.inputs.size() || a.outputs.size() != b.outputs.size()) return false;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if (a.outputs[i].name != b.outputs[i].name) return false;
  }
  return std::all_of(a.inputs.begin(), a.inputs.end(), [&](const Tensor& input) {
    const Tensor* other = find(b.inputs, input.name);
    return other != nullptr && same_but_first(input.shape, other->shape);
  });
}

std::vector<Tensor> join_inputs(std::span<const InferRequest* const> requests) {
  std::vector<Tensor> joined;
  for (const Tensor& input : requests.front()->inputs) {
    Tensor whole;
    whole.name = input.name;
    whole.type = input.type;
    whole.shape = input.shape;
    whole.shape.front() = 0;
    std::string content;
    for (const InferRequest* request : requests) {
      const Tensor& part = *find(request->inputs, input.name);
      whole.shape.front() += part.shape.front();
      content += part.content;
    }
    whole.own(std::move(content));
    joined.push_back(std::move(whole));
  }
  return joined;
}

Result<std::vector<std::vector<Tensor>>> split_outputs(std::span<const Tensor> outputs,
                                                       std::span<const uint64_t> elements) {
  const uint64_t all = std::accumulate(elements.begin(), elements.end(), uint64_t{0});
  std::vector<std::vector<Tensor>> split(elements.size());
  for (const Tensor& output : outputs) {
    RETURN_IF_ERROR(check_whole(output, all));
    const uint64_t in_one = *element_count(output.shape) / all;
    std::string_view left = output.content;
    for (size_t i = 0; i < elements.size(); ++i) {
      Tensor part;
      part.name = output.name;
      part.type = output.type;
      part.shape = output.shape;
      part.shape.front() = static_cast<int64_t>(elements[i]);
      const size_t bytes = bytes_of(output, left, elements[i] * in_one);
      part.own(std::string(left.substr(0, bytes)));
      left.remove_prefix(bytes);
      split[i].push_back(std::move(part));
    }
  }
  return split;
}

}  // namespace lambent::inference
