#include "edge/inference/infer_response.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_text.h"
#include "core/domain/version.h"

namespace lambent::inference {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
void append_number(std::string& text, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    // JSON knows no other.
    if (!std::isfinite(value)) {
      text += "null";
      return;
    }
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  text.append(digits, end);
}

template <typename T>
void append_numbers(std::string& text, std::string_view content) {
  for (size_t at = 0; at + sizeof(T) <= content.size(); at += sizeof(T)) {
    T value{};
    memcpy(&value, content.data() + at, sizeof value);
    if (at > 0) text += ',';
    append_number(text, value);
  }
}

Result<void> append_data(std::string& text, const Tensor& tensor) {
  const std::string_view content = tensor.content;
  switch (tensor.type) {
    case DataType::kBool:
      for (size_t i = 0; i < content.size(); ++i) {
        text += i > 0 ? "," : "";
        text += content[i] != 0 ? "true" : "false";
      }
      return {};
    case DataType::kUint8:
      append_numbers<uint8_t>(text, content);
      return {};
    case DataType::kUint16:
      append_numbers<uint16_t>(text, content);
      return {};
    case DataType::kUint32:
      append_numbers<uint32_t>(text, content);
      return {};
    case DataType::kUint64:
      append_numbers<uint64_t>(text, content);
      return {};
    case DataType::kInt8:
      append_numbers<int8_t>(text, content);
      return {};
    case DataType::kInt16:
      append_numbers<int16_t>(text, content);
      return {};
    case DataType::kInt32:
      append_numbers<int32_t>(text, content);
      return {};
    case DataType::kInt64:
      append_numbers<int64_t>(text, content);
      return {};
    case DataType::kFp32:
      append_numbers<float>(text, content);
      return {};
    case DataType::kFp64:
      append_numbers<double>(text, content);
      return {};
    case DataType::kBytes: {
      const auto count = element_count(tensor.shape);
      ASSIGN_OR_RETURN(const auto elements, bytes_elements(content, count.value_or(0)));
      for (size_t i = 0; i < elements.size(); ++i) {
        if (i > 0) text += ',';
        text += json_text(Json(std::string(elements[i])));
      }
      return {};
    }
    case DataType::kFp16:
    case DataType::kBf16:
      break;
  }
  return Error{ErrorCode::kInvalidArgument, "output '" + tensor.name + "' is " +
                                                std::string(name_of(tensor.type)) +
                                                ", which has no form in JSON; ask for binary data"};
}

Json json_of(const std::vector<TensorSpec>& specs) {
  Json list = Json::array();
  for (const TensorSpec& spec : specs) {
    list.push_back({{"name", spec.name}, {"datatype", name_of(spec.type)}, {"shape", spec.shape}});
  }
  return list;
}

// Triton's name of a type: TYPE_FP32, and TYPE_STRING.
std::string configured_type(DataType type) {
  if (type == DataType::kBytes) return "TYPE_STRING";
  return "TYPE_" + std::string(name_of(type));
}

// With `has_batches`, the first dimension is that of a batch, which is not told.
Json configuration_of(const std::vector<TensorSpec>& specs, bool has_batches) {
  Json list = Json::array();
  for (const TensorSpec& spec : specs) {
    Shape dims = spec.shape;
    if (has_batches && !dims.empty()) dims.erase(dims.begin());
    list.push_back(
        {{"name", spec.name}, {"data_type", configured_type(spec.type)}, {"dims", dims}});
  }
  return list;
}

}  // namespace

Result<http::Response> infer_response(const ModelIdentity& model, const InferRequest& request,
                                      std::span<const Tensor> tensors) {
  std::string json = "{\"model_name\":" + json_text(Json(model.name)) +
                     ",\"model_version\":" + json_text(Json(model.version));
  if (!request.id.empty()) json += ",\"id\":" + json_text(Json(request.id));
  json += ",\"outputs\":[";
  std::string binary;
  bool has_binary = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (i > 0) json += ',';
    json += "{\"name\":" + json_text(Json(tensor.name)) + ",\"datatype\":\"" +
            std::string(name_of(tensor.type)) + "\",\"shape\":" + lambent::to_string(tensor.shape);
    if (request.outputs[i].is_binary) {
      has_binary = true;
      json +=
          ",\"parameters\":{\"binary_data_size\":" + std::to_string(tensor.content.size()) + "}";
      binary.append(tensor.content);
    } else {
      json += ",\"data\":[";
      RETURN_IF_ERROR(append_data(json, tensor));
      json += ']';
    }
    json += '}';
  }
  json += "]}";
  http::Response response;
  if (has_binary) {
    response.headers.add("Content-Type", "application/octet-stream");
    response.headers.add("Inference-Header-Content-Length", std::to_string(json.size()));
  } else {
    response.headers.add("Content-Type", "application/json");
  }
  response.body = std::move(json);
  response.body += binary;
  return response;
}

ModelIdentity model_identity(std::string_view function, std::string_view versions) {
  const QualifiedName parts = split_qualifier(function);
  ModelIdentity identity{.name = parts.name};
  while (!versions.empty()) {
    const size_t end = std::min(versions.find(','), versions.size());
    identity.versions.emplace_back(versions.substr(0, end));
    versions.remove_prefix(std::min(end + 1, versions.size()));
  }
  if (!parts.qualifier.empty()) {
    identity.version = parts.qualifier;
  } else if (!identity.versions.empty()) {
    identity.version = kLatestVersion;
  }
  return identity;
}

std::string metadata_json(const ModelIdentity& model, const ModelDescription& description) {
  return json_text(Json{
      {"name", model.name},
      {"versions", model.versions.empty() ? Json::array({model.version}) : Json(model.versions)},
      {"platform", description.platform},
      {"inputs", json_of(description.inputs)},
      {"outputs", json_of(description.outputs)}});
}

std::string configuration_json(const ModelIdentity& model, const ModelDescription& description) {
  // Where it is 0, the dimensions are whole, batches included.
  const uint64_t most = description.most_elements;
  const bool is_onnxruntime = description.platform.starts_with("onnxruntime");
  Json json = {{"name", model.name},
               {"platform", description.platform},
               {"backend", is_onnxruntime ? "onnxruntime" : description.platform},
               {"max_batch_size", most},
               {"input", configuration_of(description.inputs, most > 0)},
               {"output", configuration_of(description.outputs, most > 0)}};
  if (description.batches) {
    json["dynamic_batching"] = {
        {"max_queue_delay_microseconds",
         std::chrono::duration_cast<microseconds>(description.batches->most_wait).count()}};
  }
  return json_text(json);
}

http::Response json_response(std::string text) {
  http::Response response;
  response.headers.add("Content-Type", "application/json");
  response.body = std::move(text);
  return response;
}

http::Response error_response(int status, const std::string& message) {
  http::Response response = json_response(json_text(Json{{"error", message}}));
  response.status = status;
  return response;
}

http::Response error_response(const Error& error) {
  return error_response(http_status_of(error.code), error.message);
}

}  // namespace lambent::inference
