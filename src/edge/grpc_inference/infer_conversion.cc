#include "edge/grpc_inference/infer_conversion.h"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/json_text.h"
#include "core/domain/inference.h"
#include "core/domain/tensor_type.h"

namespace lambent::grpc_inference {
namespace {

using nlohmann::json;
using Input = ::inference::ModelInferRequest::InferInputTensor;
using Contents = ::inference::InferTensorContents;

constexpr const char* kJsonLength = "Inference-Header-Content-Length";
constexpr const char* kRegion = "shared_memory_region";

Error invalid(const std::string& message) { return {ErrorCode::kInvalidArgument, message}; }

template <typename Parameter>
json json_of(const Parameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case Parameter::kBoolParam:
      return parameter.bool_param();
    case Parameter::kInt64Param:
      return parameter.int64_param();
    case Parameter::kStringParam:
      return parameter.string_param();
    case Parameter::kDoubleParam:
      return parameter.double_param();
    case Parameter::kUint64Param:
      return parameter.uint64_param();
    case Parameter::PARAMETER_CHOICE_NOT_SET:
      break;
  }
  return nullptr;
}

// Which say in which form tensors are: that is this front's to say.
bool is_of_form(const std::string& name) {
  return name == "binary_data" || name == "binary_data_size" || name == "binary_data_output";
}

template <typename Parameters>
bool is_shared(const Parameters& parameters) {
  return parameters.count(kRegion) > 0;
}

template <typename Parameters>
json json_of_all(const Parameters& parameters) {
  json object = json::object();
  for (const auto& [name, parameter] : parameters) {
    if (!is_of_form(name)) object[name] = json_of(parameter);
  }
  return object;
}

// Elements as little-endian bytes; each must fit `Element`.
template <typename Element, typename List>
Result<std::string> bytes_of(const List& list, const std::string& input) {
  std::string bytes;
  bytes.reserve(static_cast<size_t>(list.size()) * sizeof(Element));
  for (const auto value : list) {
    if constexpr (std::integral<Element> && !std::same_as<Element, bool>) {
      if (!std::in_range<Element>(value)) {
        return invalid("input '" + input + "': " + std::to_string(value) +
                       " does not fit its datatype");
      }
    }
    const auto element = static_cast<Element>(value);
    char raw[sizeof(Element)];
    std::memcpy(raw, &element, sizeof raw);
    bytes.append(raw, sizeof raw);
  }
  return bytes;
}

Result<std::string> bytes_of(const Contents& contents, DataType type, const std::string& input) {
  switch (type) {
    case DataType::kBool:
      return bytes_of<bool>(contents.bool_contents(), input);
    case DataType::kUint8:
      return bytes_of<uint8_t>(contents.uint_contents(), input);
    case DataType::kUint16:
      return bytes_of<uint16_t>(contents.uint_contents(), input);
    case DataType::kUint32:
      return bytes_of<uint32_t>(contents.uint_contents(), input);
    case DataType::kUint64:
      return bytes_of<uint64_t>(contents.uint64_contents(), input);
    case DataType::kInt8:
      return bytes_of<int8_t>(contents.int_contents(), input);
    case DataType::kInt16:
      return bytes_of<int16_t>(contents.int_contents(), input);
    case DataType::kInt32:
      return bytes_of<int32_t>(contents.int_contents(), input);
    case DataType::kInt64:
      return bytes_of<int64_t>(contents.int64_contents(), input);
    case DataType::kFp32:
      return bytes_of<float>(contents.fp32_contents(), input);
    case DataType::kFp64:
      return bytes_of<double>(contents.fp64_contents(), input);
    case DataType::kBytes: {
      std::string bytes;
      for (const std::string& element : contents.bytes_contents()) {
        append_bytes_element(bytes, element);
      }
      return bytes;
    }
    case DataType::kFp16:
    case DataType::kBf16:
      break;
  }
  return invalid("input '" + input + "': " + std::string(name_of(type)) +
                 " has no typed contents; send raw_input_contents");
}

int elements_in(const Contents& contents) {
  return contents.bool_contents_size() + contents.int_contents_size() +
         contents.int64_contents_size() + contents.uint_contents_size() +
         contents.uint64_contents_size() + contents.fp32_contents_size() +
         contents.fp64_contents_size() + contents.bytes_contents_size();
}

// The bytes of an input that has typed contents.
Result<std::string> typed_bytes(const Input& input) {
  const auto type = data_type_from(input.datatype());
  if (!type) {
    return invalid("input '" + input.name() + "': there is no datatype '" + input.datatype() + "'");
  }
  ASSIGN_OR_RETURN(std::string bytes, bytes_of(input.contents(), *type, input.name()));
  // Elements in a field of another type would be lost.
  const uint64_t size = size_of(*type).count;
  const auto elements = static_cast<uint64_t>(elements_in(input.contents()));
  const bool all_taken =
      *type == DataType::kBytes
          ? elements == static_cast<uint64_t>(input.contents().bytes_contents_size())
          : bytes.size() == elements * size;
  if (!all_taken) {
    return invalid("input '" + input.name() + "': its contents are not those of " +
                   input.datatype());
  }
  return bytes;
}

struct Inputs {
  json list = json::array();
  std::string bytes;
};

Result<Inputs> inputs_of(const ::inference::ModelInferRequest& request) {
  const bool is_raw = request.raw_input_contents_size() > 0;
  const auto sent =
      std::count_if(request.inputs().begin(), request.inputs().end(),
                    [](const Input& input) { return !is_shared(input.parameters()); });
  if (is_raw && request.raw_input_contents_size() != sent) {
    return invalid("there are " + std::to_string(sent) +
                   " inputs that are not in shared memory, and " +
                   std::to_string(request.raw_input_contents_size()) +
                   " raw contents: all inputs are raw, or none is");
  }
  Inputs inputs;
  int next_raw = 0;
  for (int i = 0; i < request.inputs_size(); ++i) {
    const Input& input = request.inputs(i);
    const bool is_elsewhere = is_shared(input.parameters());
    if ((is_raw || is_elsewhere) && input.has_contents() && elements_in(input.contents()) > 0) {
      return invalid("input '" + input.name() + "' has contents and " +
                     (is_elsewhere ? "shared memory" : "raw contents"));
    }
    json parameters = json_of_all(input.parameters());
    const size_t before = inputs.bytes.size();
    if (is_elsewhere) {
      // The worker finds it there.
    } else if (is_raw) {
      inputs.bytes += request.raw_input_contents(next_raw++);
    } else {
      ASSIGN_OR_RETURN(const std::string bytes, typed_bytes(input));
      inputs.bytes += bytes;
    }
    if (!is_elsewhere) parameters["binary_data_size"] = inputs.bytes.size() - before;
    json shape = json::array();
    for (const int64_t size : input.shape()) shape.push_back(size);
    inputs.list.push_back({{"name", input.name()},
                           {"datatype", input.datatype()},
                           {"shape", std::move(shape)},
                           {"parameters", std::move(parameters)}});
  }
  return inputs;
}

Error no_answer(const std::string& why) {
  return {ErrorCode::kInternal,
          "the model's answer is none of the Open Inference Protocol: " + why};
}

template <typename Element>
bool append_number(const json& value, std::string& bytes) {
  Element element;
  if constexpr (std::integral<Element>) {
    if (value.is_number_unsigned()) {
      if (!std::in_range<Element>(value.get<uint64_t>())) return false;
      element = static_cast<Element>(value.get<uint64_t>());
    } else {
      if (!value.is_number_integer() || !std::in_range<Element>(value.get<int64_t>())) return false;
      element = static_cast<Element>(value.get<int64_t>());
    }
  } else {
    if (!value.is_number()) return false;
    element = static_cast<Element>(value.get<double>());
  }
  char raw[sizeof(Element)];
  std::memcpy(raw, &element, sizeof raw);
  bytes.append(raw, sizeof raw);
  return true;
}

bool append_element(const json& value, DataType type, std::string& bytes) {
  switch (type) {
    case DataType::kBool:
      if (!value.is_boolean()) return false;
      bytes += value.get<bool>() ? '\1' : '\0';
      return true;
    case DataType::kUint8:
      return append_number<uint8_t>(value, bytes);
    case DataType::kUint16:
      return append_number<uint16_t>(value, bytes);
    case DataType::kUint32:
      return append_number<uint32_t>(value, bytes);
    case DataType::kUint64:
      return append_number<uint64_t>(value, bytes);
    case DataType::kInt8:
      return append_number<int8_t>(value, bytes);
    case DataType::kInt16:
      return append_number<int16_t>(value, bytes);
    case DataType::kInt32:
      return append_number<int32_t>(value, bytes);
    case DataType::kInt64:
      return append_number<int64_t>(value, bytes);
    case DataType::kFp32:
      return append_number<float>(value, bytes);
    case DataType::kFp64:
      return append_number<double>(value, bytes);
    case DataType::kBytes:
      if (!value.is_string()) return false;
      append_bytes_element(bytes, value.get_ref<const std::string&>());
      return true;
    case DataType::kFp16:
    case DataType::kBf16:
      return false;
  }
  return false;
}

// Of an output in JSON, whose lists may be nested as its shape is.
Result<std::string> bytes_of_data(const json& data, DataType type) {
  std::string bytes;
  std::vector<const json*> left = {&data};
  while (!left.empty()) {
    const json& next = *left.back();
    left.pop_back();
    if (next.is_array()) {
      for (auto element = next.rbegin(); element != next.rend(); ++element) {
        left.push_back(&*element);
      }
    } else if (!append_element(next, type, bytes)) {
      return no_answer("an element is no " + std::string(name_of(type)));
    }
  }
  return bytes;
}

std::string string_in(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Takes the outputs of an answer one by one, and of those in bytes what is left behind the JSON.
class OutputReader {
 public:
  OutputReader(std::string_view behind, const ::inference::ModelInferRequest& request,
               ::inference::ModelInferResponse& into)
      : behind_(behind), request_(request), into_(into) {}

  Result<void> read(const json& output) {
    if (!output.is_object()) return no_answer("an output is no object");
    const auto type = data_type_from(string_in(output, "datatype"));
    if (!type) return no_answer("an output has no datatype");
    auto& message = *into_.add_outputs();
    message.set_name(string_in(output, "name"));
    message.set_datatype(string_in(output, "datatype"));
    const auto shape = output.find("shape");
    if (shape == output.end() || !shape->is_array()) return no_answer("an output has no shape");
    for (const json& size : *shape) {
      if (!size.is_number_integer()) return no_answer("a shape has other than whole numbers");
      message.add_shape(size.get<int64_t>());
    }
    std::string& content = *into_.add_raw_output_contents();
    for (const auto& wanted : request_.outputs()) {
      if (wanted.name() != message.name() || !is_shared(wanted.parameters())) continue;
      *message.mutable_parameters() = wanted.parameters();
      return {};
    }
    ASSIGN_OR_RETURN(content, content_of(output, *type));
    return {};
  }
  bool is_whole() const { return behind_.empty(); }

 private:
  Result<std::string> content_of(const json& output, DataType type) {
    const auto data = output.find("data");
    if (data != output.end()) return bytes_of_data(*data, type);
    const json parameters = output.value("parameters", json::object());
    const json size =
        parameters.is_object() ? parameters.value("binary_data_size", json()) : json();
    if (!size.is_number_unsigned() || size.get<uint64_t>() > behind_.size()) {
      return no_answer("an output has no contents");
    }
    std::string bytes(behind_.substr(0, size.get<size_t>()));
    behind_.remove_prefix(bytes.size());
    return bytes;
  }

  std::string_view behind_;
  const ::inference::ModelInferRequest& request_;
  ::inference::ModelInferResponse& into_;
};

std::string message_of(const http::Response& response) {
  const json body = json::parse(response.body, nullptr, false);
  if (body.is_object()) {
    const auto error = body.find("error");
    if (error != body.end() && error->is_string()) return error->get<std::string>();
    if (error != body.end() && error->is_object()) return string_in(*error, "message");
  }
  return "the answer has status " + std::to_string(response.status);
}

grpc::StatusCode code_of(int status) {
  switch (status) {
    case 401:
      return grpc::StatusCode::UNAUTHENTICATED;
    case 403:
      return grpc::StatusCode::PERMISSION_DENIED;
    case 404:
      return grpc::StatusCode::NOT_FOUND;
    case 409:
      return grpc::StatusCode::ABORTED;
    case 405:
    case 501:
      return grpc::StatusCode::UNIMPLEMENTED;
    case 412:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case 413:
    case 429:
    case 507:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case 502:  // the model's program failed
      return grpc::StatusCode::UNKNOWN;
    case 503:
      return grpc::StatusCode::UNAVAILABLE;
    case 408:
    case 504:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    default:
      return status >= 500 ? grpc::StatusCode::INTERNAL : grpc::StatusCode::INVALID_ARGUMENT;
  }
}

grpc::StatusCode code_of(ErrorCode code) {
  // Ours are those of gRPC, but for one more.
  if (code == ErrorCode::kStorageFull) return grpc::StatusCode::RESOURCE_EXHAUSTED;
  return static_cast<grpc::StatusCode>(code);
}

}  // namespace

Result<std::string> model_target(const std::string& name, const std::string& version,
                                 const std::string& rest) {
  if (name.empty()) return invalid("the request names no model");
  std::string target = "/v2/models/" + http::percent_encode(name);
  if (!version.empty()) target += "/versions/" + http::percent_encode(version);
  return target + rest;
}

std::string region_target(const std::string& kind, const std::string& name,
                          const std::string& verb) {
  std::string target = "/v2/" + kind + "sharedmemory/";
  if (!name.empty()) target += "region/" + http::percent_encode(name) + "/";
  return target + verb;
}

Result<http::Request> register_request(
    const ::inference::SystemSharedMemoryRegisterRequest& request) {
  if (request.name().empty()) return invalid("the request names no region");
  http::Request made{.method = "POST"};
  made.target = region_target("system", request.name(), "register");
  made.headers.add("Content-Type", "application/json");
  made.body = json_text(json{
      {"key", request.key()}, {"offset", request.offset()}, {"byte_size", request.byte_size()}});
  return made;
}

Result<std::string> regions_by_name(const std::string& list) {
  const json regions = json::parse(list, nullptr, false);
  const Error error{ErrorCode::kInternal, "the worker's answer is no list of regions"};
  if (!regions.is_array()) return error;
  json by_name = json::object();
  for (const json& region : regions) {
    const std::string name = region.is_object() ? string_in(region, "name") : "";
    if (name.empty()) return error;
    by_name[name] = region;
  }
  return json_text(json{{"regions", std::move(by_name)}});
}

Result<http::Request> infer_request(const ::inference::ModelInferRequest& request) {
  ASSIGN_OR_RETURN(Inputs inputs, inputs_of(request));
  json parameters = json_of_all(request.parameters());
  json outputs = json::array();
  for (const auto& output : request.outputs()) {
    json its = json_of_all(output.parameters());
    if (!is_shared(output.parameters())) its["binary_data"] = true;
    outputs.push_back({{"name", output.name()}, {"parameters", std::move(its)}});
  }
  parameters["binary_data_output"] = true;
  json head = {{"inputs", std::move(inputs.list)}, {"parameters", std::move(parameters)}};
  if (!request.id().empty()) head["id"] = request.id();
  if (!outputs.empty()) head["outputs"] = std::move(outputs);

  http::Request made{.method = "POST"};
  ASSIGN_OR_RETURN(made.target,
                   model_target(request.model_name(), request.model_version(), "/infer"));
  made.body = json_text(head);
  made.headers.add("Content-Type", "application/octet-stream");
  made.headers.add(kJsonLength, std::to_string(made.body.size()));
  made.body += inputs.bytes;
  return made;
}

Result<::inference::ModelInferResponse> infer_response(
    const http::Response& response, const ::inference::ModelInferRequest& request) {
  std::string_view head = response.body;
  std::string_view behind;
  if (const auto length = response.headers.get(kJsonLength); !length.empty()) {
    size_t size = 0;
    const auto [end, code] = std::from_chars(length.data(), length.data() + length.size(), size);
    if (code != std::errc() || end != length.data() + length.size() || size > head.size()) {
      return no_answer("the length of its JSON is wrong");
    }
    behind = head.substr(size);
    head = head.substr(0, size);
  }
  const json answer = json::parse(head, nullptr, false);
  if (!answer.is_object()) return no_answer("it is no JSON object");
  ::inference::ModelInferResponse message;
  message.set_model_name(string_in(answer, "model_name"));
  message.set_model_version(string_in(answer, "model_version"));
  message.set_id(string_in(answer, "id"));
  const auto outputs = answer.find("outputs");
  if (outputs == answer.end() || !outputs->is_array()) return no_answer("it has no outputs");
  OutputReader reader(behind, request, message);
  for (const json& output : *outputs) RETURN_IF_ERROR(reader.read(output));
  if (!reader.is_whole()) return no_answer("there are bytes behind the last output");
  return message;
}

grpc::Status status_of(const http::Response& response) {
  if (response.status < 300) return grpc::Status::OK;
  return {code_of(response.status), message_of(response)};
}

grpc::Status status_of(const Error& error) { return {code_of(error.code), error.message}; }

}  // namespace lambent::grpc_inference
