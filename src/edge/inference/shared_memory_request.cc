#include "edge/inference/shared_memory_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/json_survey.h"
#include "core/base/json_text.h"
#include "edge/inference/infer_request.h"

namespace lambent::inference {
namespace {

using Json = nlohmann::json;

// All that a request brings; sums of more are not formed.
constexpr uint64_t kMostSize = uint64_t{1} << 40;

constexpr const char* kRegion = "shared_memory_region";
constexpr const char* kSize = "shared_memory_byte_size";
constexpr const char* kOffset = "shared_memory_offset";
constexpr const char* kBinarySize = "binary_data_size";
constexpr const char* kJsonLength = "Inference-Header-Content-Length";

Error no_answer(const std::string& why) {
  return {ErrorCode::kInternal,
          "the model's answer is none of the Open Inference Protocol: " + why};
}

std::string name_in(const Json& tensor) {
  const auto name = tensor.find("name");
  return name != tensor.end() && name->is_string() ? name->get<std::string>() : std::string();
}

// Null: there are none, or none that could be read.
Json* parameters_of(Json& tensor) {
  if (!tensor.is_object()) return nullptr;
  const auto found = tensor.find("parameters");
  return found != tensor.end() && found->is_object() ? &*found : nullptr;
}

// Takes what they say of shared memory out of the parameters; nothing: they say nothing of it.
Result<std::optional<SharedSlice>> take_slice(Json& parameters, const std::string& place) {
  const auto region = parameters.find(kRegion);
  if (region == parameters.end()) return std::optional<SharedSlice>();
  if (!region->is_string()) return refused(place + ": " + kRegion + " is not a text");
  SharedSlice slice{.region = region->get<std::string>()};
  const auto size = parameters.find(kSize);
  if (size == parameters.end() || !size->is_number_unsigned()) {
    return refused(place + ": " + kSize + " is a number of bytes, and has to be there");
  }
  slice.size = size->get<uint64_t>();
  if (const auto offset = parameters.find(kOffset); offset != parameters.end()) {
    if (!offset->is_number_unsigned())
      return refused(place + ": " + kOffset + " is a number of bytes");
    slice.offset = offset->get<uint64_t>();
  }
  if (slice.size > kMostSize) {
    return refused(place + ": " + kSize + " is more than a request may bring");
  }
  for (const char* key : {kRegion, kSize, kOffset}) parameters.erase(key);
  return std::optional(std::move(slice));
}

class RequestRewriter {
 public:
  RequestRewriter(Json document, std::string_view behind)
      : document_(std::move(document)), behind_(behind) {}

  Result<std::optional<SharedMemoryRequest>> rewrite() {
    RETURN_IF_ERROR(each("inputs", [this](Json& input) { return read_input(input); }));
    RETURN_IF_ERROR(each("outputs", [this](Json& output) { return read_output(output); }));
    if (!names_any_) return std::optional<SharedMemoryRequest>();
    // Bytes that belong to no input are refused by who knows the inputs.
    if (!behind_.empty()) request_.inputs.push_back({.own = behind_, .shared = std::nullopt});
    request_.json = json_text(document_);
    return std::optional(std::move(request_));
  }

 private:
  template <typename Read>
  Result<void> each(const char* list, Read read) {
    const auto found = document_.find(list);
    if (found == document_.end() || !found->is_array()) return {};
    if (found->size() > kMostTensors)
      return refused("the request has too many " + std::string(list));
    for (Json& tensor : *found) RETURN_IF_ERROR(read(tensor));
    return {};
  }

  Result<void> read_input(Json& input) {
    Json* parameters = parameters_of(input);
    if (parameters == nullptr) return {};
    const std::string place = "input '" + name_in(input) + "'";
    ASSIGN_OR_RETURN(auto slice, take_slice(*parameters, place));
    const auto size = parameters->find(kBinarySize);
    if (!slice) return size == parameters->end() ? Result<void>() : take_own(*size);
    if (size != parameters->end() || input.contains("data")) {
      return refused(place + " has data, and shared memory beside it");
    }
    names_any_ = true;
    (*parameters)[kBinarySize] = slice->size;
    request_.inputs.push_back({.own = {}, .shared = std::move(slice)});
    return {};
  }

  // A size that is wrong is told of by the server, once it has the bytes.
  Result<void> take_own(const Json& size) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > behind_.size()) return {};
    const auto count = size.get<size_t>();
    request_.inputs.push_back({.own = behind_.substr(0, count), .shared = std::nullopt});
    behind_.remove_prefix(count);
    return {};
  }

  Result<void> read_output(Json& output) {
    Json* parameters = parameters_of(output);
    if (parameters == nullptr) return {};
    const std::string name = name_in(output);
    const std::string place = "output '" + name + "'";
    ASSIGN_OR_RETURN(auto slice, take_slice(*parameters, place));
    if (!slice) return {};
    for (const SharedOutput& other : request_.outputs) {
      if (other.name == name) return refused(place + " is there twice");
    }
    names_any_ = true;
    (*parameters)["binary_data"] = true;
    request_.outputs.push_back({.name = name, .place = *std::move(slice)});
    return {};
  }

  Json document_;
  std::string_view behind_;
  SharedMemoryRequest request_;
  bool names_any_ = false;
};

// Reads the outputs of an answer one by one, and takes the shared ones out of its bytes.
class AnswerReader {
 public:
  AnswerReader(std::span<const SharedOutput> outputs, std::string_view behind)
      : outputs_(outputs), behind_(behind), found_(outputs.size(), false) {
    answer_.written.resize(outputs.size());
  }

  Result<void> read(Json& output) {
    if (!output.is_object()) return no_answer("an output is no object");
    const std::string name = name_in(output);
    ASSIGN_OR_RETURN(const auto bytes, take_bytes(output));
    const auto shared = std::find_if(outputs_.begin(), outputs_.end(),
                                     [&](const SharedOutput& each) { return each.name == name; });
    if (shared == outputs_.end()) {
      has_own_ = has_own_ || bytes.has_value();
      own_ += bytes.value_or(std::string_view());
      return {};
    }
    const auto number = static_cast<size_t>(shared - outputs_.begin());
    if (!bytes || found_[number]) return no_answer("output '" + name + "' is not there as bytes");
    found_[number] = true;
    const SharedSlice& place = shared->place;
    if (bytes->size() > place.size) {
      return refused("output '" + name + "' has " + std::to_string(bytes->size()) +
                     " bytes, and its place in shared memory region '" + place.region + "' " +
                     std::to_string(place.size));
    }
    answer_.written[number] = *bytes;
    // Of its place nothing is said: clients in C++ take parameters for those of bytes in the body.
    Json& parameters = output["parameters"];
    parameters.erase(kBinarySize);
    if (parameters.empty()) output.erase("parameters");
    return {};
  }

  Result<SharedMemoryAnswer> finish(const Json& document, const http::Headers& headers) && {
    if (!behind_.empty()) return no_answer("there are bytes behind the last output");
    for (size_t i = 0; i < found_.size(); ++i) {
      if (!found_[i]) return no_answer("output '" + outputs_[i].name + "' is not there");
    }
    http::Response& response = answer_.response;
    response.body = json_text(document);
    for (const auto& [name, value] : headers.fields()) {
      const bool is_of_body = http::same_name(name, "Content-Length") ||
                              http::same_name(name, "Content-Type") ||
                              http::same_name(name, kJsonLength);
      if (!is_of_body) response.headers.add(name, value);
    }
    response.headers.add("Content-Type",
                         has_own_ ? "application/octet-stream" : "application/json");
    if (has_own_) response.headers.add(kJsonLength, std::to_string(response.body.size()));
    response.body += own_;
    return std::move(answer_);
  }

 private:
  Result<std::optional<std::string_view>> take_bytes(Json& output) {
    const Json* parameters = parameters_of(output);
    if (parameters == nullptr) return std::optional<std::string_view>();
    const auto size = parameters->find(kBinarySize);
    if (size == parameters->end()) return std::optional<std::string_view>();
    if (!size->is_number_unsigned() || size->get<uint64_t>() > behind_.size()) {
      return no_answer("an output has fewer bytes than it says");
    }
    const std::string_view bytes = behind_.substr(0, size->get<size_t>());
    behind_.remove_prefix(bytes.size());
    return std::optional(bytes);
  }

  const std::span<const SharedOutput> outputs_;
  std::string_view behind_;
  std::vector<bool> found_;
  std::string own_;  // of outputs that stay in the answer
  bool has_own_ = false;
  SharedMemoryAnswer answer_;
};

}  // namespace

Result<RegionSpec> parse_registration(std::string name, std::string_view body) {
  if (!json_nests_at_most(body, kMostDepth)) return refused("the JSON is nested too deep");
  const Json document = Json::parse(body, nullptr, false);
  if (!document.is_object()) return refused("a region is a JSON object with key and byte_size");
  RegionSpec region{.name = std::move(name)};
  const auto key = document.find("key");
  if (key == document.end() || !key->is_string()) return refused("a region has a key, a text");
  region.key = key->get<std::string>();
  const auto size = document.find("byte_size");
  if (size == document.end() || !size->is_number_unsigned()) {
    return refused("a region has byte_size, a number of bytes");
  }
  region.byte_size = size->get<uint64_t>();
  if (const auto offset = document.find("offset"); offset != document.end()) {
    if (!offset->is_number_unsigned()) return refused("offset is a number of bytes");
    region.offset = offset->get<uint64_t>();
  }
  return region;
}

uint64_t SharedMemoryRequest::shared_input_bytes() const {
  uint64_t sum = 0;
  for (const InputBytes& input : inputs) sum += input.shared ? input.shared->size : 0;
  return sum;
}

Result<std::optional<SharedMemoryRequest>> parse_shared_memory_request(
    std::string_view body, std::optional<size_t> json_length) {
  const auto not_ours = std::optional<SharedMemoryRequest>();
  if (json_length && (*json_length > body.size() || *json_length == 0)) return not_ours;
  const std::string_view text = body.substr(0, json_length.value_or(body.size()));
  // Most requests are told apart without a look at their elements.
  if (text.find(kRegion) == std::string_view::npos) return not_ours;
  if (!json_nests_at_most(text, kMostDepth)) return not_ours;
  Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) return not_ours;
  return RequestRewriter(std::move(document), body.substr(text.size())).rewrite();
}

Result<SharedMemoryAnswer> take_shared_outputs(const http::Response& whole,
                                               std::span<const SharedOutput> outputs) {
  const auto length = parse_json_length(whole.headers.get(kJsonLength));
  if (!length.ok() || length->value_or(0) > whole.body.size()) {
    return no_answer("the length of its JSON is wrong");
  }
  const std::string_view body = whole.body;
  const std::string_view text = body.substr(0, length->value_or(body.size()));
  if (!json_nests_at_most(text, kMostDepth)) return no_answer("its JSON is nested too deep");
  Json document = Json::parse(text, nullptr, false);
  const auto list = document.is_object() ? document.find("outputs") : document.end();
  if (!document.is_object() || list == document.end() || !list->is_array()) {
    return no_answer("it has no outputs");
  }
  AnswerReader reader(outputs, body.substr(text.size()));
  for (Json& output : *list) RETURN_IF_ERROR(reader.read(output));
  return std::move(reader).finish(document, whole.headers);
}

}  // namespace lambent::inference
