#include "edge/inference/infer_request.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_survey.h"
#include "core/base/json_text.h"
#include "edge/inference/compression.h"

namespace lambent::inference {
namespace {

using Json = nlohmann::json;

Error refused_input(const std::string& name, const std::string& message) {
  return refused("input '" + name + "': " + message);
}

const TensorSpec* find_spec(const std::vector<TensorSpec>& specs, const std::string& name) {
  const auto found =
      std::find_if(specs.begin(), specs.end(), [&](const auto& spec) { return spec.name == name; });
  return found == specs.end() ? nullptr : &*found;
}

std::string names_of(const std::vector<TensorSpec>& specs) {
  std::string names;
  for (const TensorSpec& spec : specs) names += (names.empty() ? "" : ", ") + spec.name;
  return names;
}

bool fits(const Shape& shape, const Shape& model) {
  if (shape.size() != model.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (model[i] >= 0 && model[i] != shape[i]) return false;
  }
  return true;
}

Result<std::string> text_member(const Json& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end()) return refused(place + " has no " + key);
  if (!found->is_string()) return refused(place + ": " + key + " is not a text");
  return found->get<std::string>();
}

// A parameter of a request, an input or an output; nothing if there is none.
Result<const Json*> parameter(const Json& object, const char* key, const std::string& place) {
  const auto parameters = object.find("parameters");
  if (parameters == object.end() || parameters->is_null()) return nullptr;
  if (!parameters->is_object()) return refused(place + ": parameters is not an object");
  const auto found = parameters->find(key);
  return found == parameters->end() ? nullptr : &*found;
}

Result<std::optional<bool>> flag_parameter(const Json& object, const char* key,
                                           const std::string& place) {
  ASSIGN_OR_RETURN(const Json* found, parameter(object, key, place));
  if (found == nullptr) return std::optional<bool>();
  if (!found->is_boolean()) return refused(place + ": " + key + " is true or false");
  return std::optional(found->get<bool>());
}

Result<std::optional<size_t>> size_parameter(const Json& object, const char* key,
                                             const std::string& place) {
  ASSIGN_OR_RETURN(const Json* found, parameter(object, key, place));
  if (found == nullptr) return std::optional<size_t>();
  if (!found->is_number_unsigned()) return refused(place + ": " + key + " is a number of bytes");
  return std::optional(found->get<size_t>());
}

// Whatever of the protocol is not offered is said, because the answer would be another one.
Result<void> refuse_parameters(const Json& object, const std::string& place) {
  ASSIGN_OR_RETURN(const Json* region, parameter(object, "shared_memory_region", place));
  if (region != nullptr) {
    const std::string name = region->is_string() ? region->get<std::string>().substr(0, 255) : "";
    return Error{ErrorCode::kNotFound,
                 place + ": no shared memory region '" + name +
                     "' can be used: none is registered, or the request's body is longer than 6 "
                     "MiB or does not say how long it is"};
  }
  ASSIGN_OR_RETURN(const Json* classes, parameter(object, "classification", place));
  if (classes != nullptr) {
    return refused(place + ": classification is not offered; the tensor itself is");
  }
  return {};
}

Result<Shape> shape_of(const Json& input, const std::string& name) {
  const auto found = input.find("shape");
  if (found == input.end() || !found->is_array()) {
    return refused_input(name, "shape is a list of sizes");
  }
  Shape shape;
  for (const Json& size : *found) {
    const bool is_size =
        size.is_number_unsigned() &&
        size.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!is_size) return refused_input(name, "a size of its shape is no whole number from 0 on");
    shape.push_back(size.get<int64_t>());
  }
  return shape;
}

// Elements out of JSON, one after the other.
class ElementWriter {
 public:
  ElementWriter(DataType type, uint64_t count) : type_(type), count_(count) {
    content_.reserve(std::min<uint64_t>(count, 1 << 24) * size_of(type).count);
  }

  // Lists in lists are read in order, whichever way they are nested.
  Result<void> add(const Json& value) {
    if (value.is_array()) {
      for (const Json& inner : value) RETURN_IF_ERROR(add(inner));
      return {};
    }
    if (written_ == count_) return refused("data has more elements than the shape");
    ++written_;
    return add_element(value);
  }
  Result<std::string> finish() && {
    if (written_ != count_) {
      return refused("data has " + std::to_string(written_) + " elements, the shape " +
                     std::to_string(count_));
    }
    return std::move(content_);
  }

 private:
  template <typename T>
  void append(T value) {
    content_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  Error wrong(const Json& value) const {
    std::string text = json_text(value);
    if (text.size() > 40) text = text.substr(0, 40) + "...";
    return refused("element " + std::to_string(written_ - 1) + " of data, " + text + ", is no " +
                   std::string(name_of(type_)));
  }
  template <typename T>
  Result<void> add_integer(const Json& value) {
    using Limits = std::numeric_limits<T>;
    if (value.is_number_unsigned()) {
      const uint64_t number = value.get<uint64_t>();
      if (number > static_cast<uint64_t>(Limits::max())) return wrong(value);
      append(static_cast<T>(number));
      return {};
    }
    if (!value.is_number_integer()) return wrong(value);
    const int64_t number = value.get<int64_t>();  // below zero: others are unsigned
    if (std::is_unsigned_v<T> || number < static_cast<int64_t>(Limits::min())) return wrong(value);
    append(static_cast<T>(number));
    return {};
  }
  Result<void> add_element(const Json& value) {
    switch (type_) {
      case DataType::kBool:
        if (value.is_boolean()) {
          append<uint8_t>(value.get<bool>() ? 1 : 0);
        } else if (value == 0 || value == 1) {
          append<uint8_t>(value == 1 ? 1 : 0);
        } else {
          return wrong(value);
        }
        return {};
      case DataType::kUint8:
        return add_integer<uint8_t>(value);
      case DataType::kUint16:
        return add_integer<uint16_t>(value);
      case DataType::kUint32:
        return add_integer<uint32_t>(value);
      case DataType::kUint64:
        return add_integer<uint64_t>(value);
      case DataType::kInt8:
        return add_integer<int8_t>(value);
      case DataType::kInt16:
        return add_integer<int16_t>(value);
      case DataType::kInt32:
        return add_integer<int32_t>(value);
      case DataType::kInt64:
        return add_integer<int64_t>(value);
      case DataType::kFp32:
        if (!value.is_number()) return wrong(value);
        append(value.get<float>());
        return {};
      case DataType::kFp64:
        if (!value.is_number()) return wrong(value);
        append(value.get<double>());
        return {};
      case DataType::kBytes:
        if (!value.is_string()) return wrong(value);
        append_bytes_element(content_, value.get_ref<const std::string&>());
        return {};
      case DataType::kFp16:
      case DataType::kBf16:
        break;
    }
    return refused(std::string(name_of(type_)) + " has no form in JSON; send it as binary data");
  }

  const DataType type_;
  const uint64_t count_;
  uint64_t written_ = 0;
  std::string content_;
};

// Reads one request; what is left of the bytes behind the JSON moves along.
class RequestReader {
 public:
  RequestReader(const ModelDescription& model, std::string_view binary)
      : model_(model), binary_(binary) {}

  Result<InferRequest> read(const Json& document) {
    if (!document.is_object()) return refused("the request is no JSON object");
    if (const auto id = document.find("id"); id != document.end()) {
      if (!id->is_string()) return refused("id is not a text");
      request_.id = id->get<std::string>();
    }
    RETURN_IF_ERROR(read_inputs(document));
    RETURN_IF_ERROR(read_outputs(document));
    return std::move(request_);
  }

 private:
  Result<void> read_inputs(const Json& document) {
    const auto inputs = document.find("inputs");
    if (inputs == document.end() || !inputs->is_array()) {
      return refused("the request has no list of inputs");
    }
    if (inputs->size() > kMostTensors) return refused("the request has too many inputs");
    for (const Json& input : *inputs) RETURN_IF_ERROR(read_input(input));
    for (const TensorSpec& spec : model_.inputs) {
      const bool is_there =
          std::any_of(request_.inputs.begin(), request_.inputs.end(),
                      [&](const Tensor& tensor) { return tensor.name == spec.name; });
      if (!is_there) {
        return refused("input '" + spec.name + "' is missing; it is " +
                       std::string(name_of(spec.type)) + to_string(spec.shape));
      }
    }
    if (!binary_.empty()) {
      return refused(std::to_string(binary_.size()) + " bytes behind the JSON belong to no input");
    }
    return {};
  }

  Result<void> read_input(const Json& input) {
    if (!input.is_object()) return refused("an input is no object");
    Tensor tensor;
    ASSIGN_OR_RETURN(tensor.name, text_member(input, "name", "an input"));
    const TensorSpec* spec = find_spec(model_.inputs, tensor.name);
    if (spec == nullptr) {
      return refused_input(tensor.name,
                           "the model has no such input; it has " + names_of(model_.inputs));
    }
    for (const Tensor& other : request_.inputs) {
      if (other.name == tensor.name) return refused_input(tensor.name, "it is there twice");
    }
    const std::string place = "input '" + tensor.name + "'";
    ASSIGN_OR_RETURN(const std::string type, text_member(input, "datatype", place));
    if (type != name_of(spec->type)) {
      return refused_input(tensor.name, "datatype is " + type + ", the model's is " +
                                            std::string(name_of(spec->type)));
    }
    tensor.type = spec->type;
    ASSIGN_OR_RETURN(tensor.shape, shape_of(input, tensor.name));
    const auto count = element_count(tensor.shape);
    if (!count || !fits(tensor.shape, spec->shape)) {
      return refused_input(tensor.name, "shape is " + to_string(tensor.shape) +
                                            ", the model's is " + to_string(spec->shape));
    }
    RETURN_IF_ERROR(refuse_parameters(input, place));
    ASSIGN_OR_RETURN(const auto size, size_parameter(input, "binary_data_size", place));
    auto read = size ? read_binary(*size, *count, tensor) : read_json(input, *count, tensor);
    if (!read.ok()) return refused_input(tensor.name, read.error().message);
    request_.inputs.push_back(std::move(tensor));
    return {};
  }

  Result<void> read_binary(size_t size, uint64_t count, Tensor& tensor) {
    if (size > binary_.size()) {
      return refused("binary_data_size is " + std::to_string(size) + "; " +
                     std::to_string(binary_.size()) + " bytes are left behind the JSON");
    }
    tensor.content = binary_.substr(0, size);
    binary_.remove_prefix(size);
    return check_binary(tensor, count);
  }

  static Result<void> check_binary(const Tensor& tensor, uint64_t count) {
    if (tensor.type == DataType::kBytes) {
      const auto elements = bytes_elements(tensor.content, count);
      if (!elements.ok()) return elements.error();
      return {};
    }
    const size_t each = size_of(tensor.type).count;
    if (count > std::numeric_limits<uint64_t>::max() / each ||
        count * each != tensor.content.size()) {
      return refused("it has " + std::to_string(tensor.content.size()) + " bytes; " +
                     std::string(name_of(tensor.type)) + to_string(tensor.shape) + " has " +
                     std::to_string(count) + " elements of " + std::to_string(each));
    }
    return {};
  }

  static Result<void> read_json(const Json& input, uint64_t count, Tensor& tensor) {
    const auto data = input.find("data");
    if (data == input.end()) return refused("it has neither data nor binary_data_size");
    if (!data->is_array()) return refused("data is no list");
    ElementWriter writer(tensor.type, count);
    RETURN_IF_ERROR(writer.add(*data));
    ASSIGN_OR_RETURN(std::string content, std::move(writer).finish());
    tensor.own(std::move(content));
    return {};
  }

  Result<void> read_outputs(const Json& document) {
    ASSIGN_OR_RETURN(const auto all_binary,
                     flag_parameter(document, "binary_data_output", "the request"));
    const auto outputs = document.find("outputs");
    if (outputs == document.end() || (outputs->is_array() && outputs->empty())) {
      for (const TensorSpec& spec : model_.outputs) {
        request_.outputs.push_back({spec.name, all_binary.value_or(false)});
      }
      return {};
    }
    if (!outputs->is_array()) return refused("outputs is no list");
    if (outputs->size() > kMostTensors) return refused("the request has too many outputs");
    for (const Json& output : *outputs) {
      RETURN_IF_ERROR(read_output(output, all_binary.value_or(false)));
    }
    return {};
  }

  Result<void> read_output(const Json& output, bool is_binary) {
    if (!output.is_object()) return refused("an output is no object");
    ASSIGN_OR_RETURN(const std::string name, text_member(output, "name", "an output"));
    const std::string place = "output '" + name + "'";
    if (find_spec(model_.outputs, name) == nullptr) {
      return refused(place + ": the model has no such output; it has " + names_of(model_.outputs));
    }
    for (const RequestedOutput& other : request_.outputs) {
      if (other.name == name) return refused(place + " is there twice");
    }
    RETURN_IF_ERROR(refuse_parameters(output, place));
    ASSIGN_OR_RETURN(const auto flag, flag_parameter(output, "binary_data", place));
    request_.outputs.push_back({name, flag.value_or(is_binary)});
    return {};
  }

  const ModelDescription& model_;
  std::string_view binary_;
  InferRequest request_;
};

// A body that is nothing but the bytes of the one input, whose one open dimension follows.
Result<InferRequest> raw_request(std::string_view body, const ModelDescription& model) {
  if (model.inputs.size() != 1) {
    return refused("a body without JSON is for models with one input; this one has " +
                   std::to_string(model.inputs.size()));
  }
  const TensorSpec& spec = model.inputs.front();
  Tensor tensor;
  tensor.name = spec.name;
  tensor.type = spec.type;
  tensor.shape = spec.shape;
  const auto open = std::count(spec.shape.begin(), spec.shape.end(), -1);
  Shape rest = spec.shape;
  std::replace(rest.begin(), rest.end(), int64_t{-1}, int64_t{1});
  const auto count = element_count(rest);
  if (open > 1 || !count || *count == 0) {
    return refused_input(spec.name, "its shape " + to_string(spec.shape) +
                                        " does not follow from a number of bytes; send JSON");
  }
  if (spec.type == DataType::kBytes) {
    if (*count != 1) return refused_input(spec.name, "a body without JSON is one element");
    std::replace(tensor.shape.begin(), tensor.shape.end(), int64_t{-1}, int64_t{1});
    std::string content;
    append_bytes_element(content, body);
    tensor.own(std::move(content));
  } else {
    const uint64_t each = *count * size_of(spec.type).count;
    if (body.size() % each != 0 || (open == 0 && body.size() != each)) {
      return refused_input(spec.name, std::to_string(body.size()) + " bytes are no " +
                                          std::string(name_of(spec.type)) + to_string(spec.shape));
    }
    std::replace(tensor.shape.begin(), tensor.shape.end(), int64_t{-1},
                 static_cast<int64_t>(body.size() / each));
    tensor.content = body;
  }
  InferRequest request;
  request.inputs.push_back(std::move(tensor));
  for (const TensorSpec& output : model.outputs) request.outputs.push_back({output.name, true});
  return request;
}

}  // namespace

Result<std::optional<size_t>> parse_json_length(std::string_view header) {
  if (header.empty()) return std::optional<size_t>();
  size_t length = 0;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), length);
  if (error != std::errc() || end != header.data() + header.size()) {
    return refused("Inference-Header-Content-Length is a number of bytes, not '" +
                   std::string(header.substr(0, 40)) + "'");
  }
  return std::optional(length);
}

Result<InferRequest> parse_infer_request(std::string_view body, std::optional<size_t> json_length,
                                         const ModelDescription& model) {
  if (json_length && *json_length > body.size()) {
    return refused("Inference-Header-Content-Length is " + std::to_string(*json_length) +
                   ", the body has " + std::to_string(body.size()) + " bytes");
  }
  if (json_length && *json_length == 0) return raw_request(body, model);
  const std::string_view text = body.substr(0, json_length.value_or(body.size()));
  if (!json_nests_at_most(text, kMostDepth)) {
    return refused("the request's JSON is nested more than " + std::to_string(kMostDepth) +
                   " deep");
  }
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return refused("the request is no valid JSON");
  return RequestReader(model, body.substr(text.size())).read(document);
}

Result<InferRequest> read_infer_request(http::Request& request, const ModelDescription& model,
                                        Bytes most, const DecompressedBodies& bodies,
                                        DecompressedBodies::Part& part) {
  const std::string_view coding = request.headers.get("Content-Encoding");
  if (!coding.empty()) {
    ASSIGN_OR_RETURN(request.body, decompress(request.body, coding, most, bodies, part));
  }
  ASSIGN_OR_RETURN(const auto length,
                   parse_json_length(request.headers.get("Inference-Header-Content-Length")));
  return parse_infer_request(request.body, length, model);
}

}  // namespace lambent::inference
