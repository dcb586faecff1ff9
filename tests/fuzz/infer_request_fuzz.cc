// A request for inference: two bytes of the JSON's length, a byte that says whether it counts, and
// the body. What is read has the model's inputs with contents of their sizes, and can be answered.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/base/check.h"
#include "edge/inference/infer_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  if (size < 3) return 0;
  static const ModelDescription kModel = {
      .platform = "fuzz",
      .inputs = {{"x", DataType::kFp32, {-1, 2}}, {"t", DataType::kBytes, {-1}}},
      .outputs = {{"y", DataType::kInt64, {-1}}}};
  static const ModelDescription kOneInput = {
      .platform = "fuzz", .inputs = {kModel.inputs[0]}, .outputs = kModel.outputs};
  uint16_t length = 0;
  memcpy(&length, data, sizeof length);
  const std::string_view body(reinterpret_cast<const char*>(data) + 3, size - 3);
  const auto json_length = (data[2] & 1) != 0 ? std::optional<size_t>(length) : std::nullopt;
  const ModelDescription& model = (data[2] & 2) != 0 ? kOneInput : kModel;
  const auto request = inference::parse_infer_request(body, json_length, model);
  if (!request.ok()) {
    const ErrorCode code = request.error().code;
    CHECK(code == ErrorCode::kInvalidArgument || code == ErrorCode::kNotFound,
          "the client is to blame");
    return 0;
  }
  CHECK(request->inputs.size() == model.inputs.size(), "every input is there");
  for (const Tensor& tensor : request->inputs) {
    const auto count = element_count(tensor.shape);
    CHECK(count.has_value(), "a shape that can be counted");
    if (tensor.type == DataType::kBytes) {
      CHECK(bytes_elements(tensor.content, *count).ok(), "its elements are there");
    } else {
      CHECK(tensor.content.size() == *count * size_of(tensor.type).count, "its bytes are there");
    }
  }
  return 0;
}
