#include "decide/kernel_graph/request.h"

#include <algorithm>
#include <utility>

#include "core/base/base64.h"
#include "core/base/check.h"
#include "core/base/document_place.h"
#include "core/base/log.h"
#include "core/domain/limits.h"
#include "core/domain/tensor_content.h"
#include "core/domain/tensor_limits.h"
#include "decide/kernel_graph/element.h"
#include "decide/kernel_graph/request_reader.h"

namespace lambent::kernel_graph {
namespace {

// Without parameters such as a charset.
std::string_view media_type(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (content_type.ends_with(' ')) content_type.remove_suffix(1);
  while (content_type.starts_with(' ')) content_type.remove_prefix(1);
  return content_type;
}

bool equals_ignoring_case(std::string_view a, std::string_view lower) {
  return a.size() == lower.size() &&
         std::equal(a.begin(), a.end(), lower.begin(), [](char left, char right) {
           return (left >= 'A' && left <= 'Z' ? left - 'A' + 'a' : left) == right;
         });
}

std::string json_head(std::string_view name, const TensorType& type) {
  std::string head = "{\"name\":\"" + json_escape(name) + "\",\"datatype\":\"" +
                     std::string(name_of(type.datatype)) + "\",\"shape\":[";
  for (size_t i = 0; i < type.shape.size(); ++i) {
    head += (i == 0 ? "" : ",") + std::to_string(type.shape[i]);
  }
  return head + "]";
}

Error too_large(uint64_t bytes, Bytes most) {
  return {ErrorCode::kOutOfRange,
          "outputs: " + std::to_string(bytes) + " bytes by value are more than the " +
              std::to_string(most.count) + " that an answer may have; ask for them as objects"};
}

}  // namespace

RequestCodec::RequestCodec(const KernelGraph& graph) : variants_(variants_of(graph)) {
  for (uint32_t i = 0; i < graph.buffers.size(); ++i) {
    const Buffer& buffer = graph.buffers[i];
    Tensor& tensor = tensors_.emplace_back(tensor_of(buffer));
    by_name_.emplace(buffer.name, i);
    if (is_input(buffer.role)) {
      tensor.input = static_cast<uint32_t>(inputs_.size());
      inputs_.push_back(i);
    }
    if (is_output(buffer.role)) {
      tensor.output = static_cast<uint32_t>(outputs_.size());
      tensor.json_head = json_head(buffer.name, buffer.type);
      outputs_.push_back(i);
    }
  }
}

RequestCodec::Tensor RequestCodec::tensor_of(const Buffer& buffer) {
  const auto size = byte_size(buffer.type);
  CHECK(size.ok(), "the tensors of a valid graph can be counted");
  Tensor tensor{.name = buffer.name, .role = buffer.role, .type = buffer.type};
  tensor.size_bytes = size->count;
  tensor.elements = size->count / lambent::size_of(buffer.type.datatype).count;
  return tensor;
}

RequestCodec::Tensor RequestCodec::with_elements(const Tensor& tensor, uint64_t elements) {
  Tensor part = tensor;
  const uint64_t whole = std::exchange(part.type.shape.front(), elements);
  part.size_bytes = tensor.size_bytes / whole * elements;
  part.elements = tensor.elements / whole * elements;
  if (is_output(tensor.role)) part.json_head = json_head(tensor.name, part.type);
  return part;
}

Bytes RequestCodec::size_of(uint32_t buffer, uint64_t elements) const {
  const uint64_t whole = tensors_[buffer].size_bytes;
  return Bytes(elements == 0 ? whole : whole / most_elements() * elements);
}

TensorType RequestCodec::type_of(uint32_t buffer, uint64_t elements) const {
  TensorType type = tensors_[buffer].type;
  if (elements != 0) type.shape.front() = elements;
  return type;
}

Bytes RequestCodec::offset_of(uint32_t buffer, uint64_t first) const {
  return first == 0 ? Bytes(0) : size_of(buffer, first);
}

void RequestCodec::choose_variant(Request& request) const {
  if (variants_.empty()) return;
  const auto smallest = std::ranges::lower_bound(variants_, request.elements);
  CHECK(smallest != variants_.end(), "what was read has at most the elements of the largest");
  request.variant = *smallest;
}

Result<Request> RequestCodec::decode(std::string_view content_type,
                                     std::string_view payload) const {
  const bool is_batch = equals_ignoring_case(media_type(content_type), kBatchContentType);
  Result<Request> request = is_batch ? decode_batch(payload) : decode_one(content_type, payload);
  if (!request.ok()) return request;
  choose_variant(*request);
  uint64_t by_value = 0;
  for (const RequestOutput& output : request->outputs) {
    if (!output.as_object) by_value += size_of(output.buffer, output.elements).count;
  }
  const bool is_tensors = content_type == kTensorContentType;
  const Bytes most = is_tensors ? limits::kTensorPayload : limits::kResponsePayload;
  if (by_value > most.count) return too_large(by_value, most);
  return request;
}

Result<Request> RequestCodec::decode_one(std::string_view content_type,
                                         std::string_view payload) const {
  const std::string_view type = media_type(content_type);
  Result<Request> request =
      Error{ErrorCode::kInvalidArgument, "content type '" + std::string(type.substr(0, 100)) +
                                             "' is not known; " + std::string(kJsonContentType) +
                                             " and " + std::string(kRawContentType) + " are"};
  if (type.empty() || equals_ignoring_case(type, kJsonContentType)) {
    // Without inputs there is nothing to say.
    const bool nothing = payload.empty() && inputs_.empty();
    request = RequestReader(*this, nothing ? "{}" : payload).read();
  } else if (equals_ignoring_case(type, kRawContentType) || content_type == kTensorContentType) {
    request = decode_raw(payload);
  }
  if (!request.ok() || variants_.empty()) return request;
  if (request->elements == 0) request->elements = most_elements();  // none of its shapes was said
  for (RequestInput& input : request->inputs) input.elements = request->elements;
  for (RequestOutput& output : request->outputs) output.elements = request->elements;
  return request;
}

Result<Request> RequestCodec::decode_batch(std::string_view payload) const {
  if (variants_.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the batch: requests run together only where there are variants for batch sizes"};
  }
  ASSIGN_OR_RETURN(const auto parts, split_batch(payload, most_elements()));
  Request batch;
  for (const BatchPart& part : parts) {
    const std::string place = item_place("batch", batch.parts.size());
    auto request = decode_one(part.content_type, part.payload);
    if (!request.ok()) return request.error().with_context(place);
    for (RequestInput& input : request->inputs) {
      input.first = batch.elements;
      batch.inputs.push_back(std::move(input));
    }
    for (RequestOutput& output : request->outputs) {
      output.first = batch.elements;
      batch.outputs.push_back(output);
    }
    for (auto& decoded : request->decoded) batch.decoded.push_back(std::move(decoded));
    batch.parts.push_back({std::move(request->id), request->raw, request->outputs.size()});
    batch.elements += request->elements;
    if (batch.elements <= most_elements()) continue;
    return Error{ErrorCode::kInvalidArgument,
                 place + ": with it the batch has " + std::to_string(batch.elements) +
                     " elements; the largest variant has " + std::to_string(most_elements())};
  }
  return batch;
}

Result<Request> RequestCodec::decode_raw(std::string_view payload) const {
  uint64_t expected = 0;
  for (const uint32_t buffer : inputs_) expected += tensors_[buffer].size_bytes;
  Request request;
  request.raw = true;
  std::string bytes = std::to_string(expected);
  bool fits = payload.size() == expected;
  if (!variants_.empty() && expected > 0) {
    const uint64_t one = expected / most_elements();
    request.elements = payload.size() / one;
    fits = payload.size() % one == 0 && request.elements > 0 && payload.size() <= expected;
    bytes = "1 to " + std::to_string(most_elements()) + " times " + std::to_string(one);
  }
  if (!fits) {
    return Error{ErrorCode::kInvalidArgument,
                 "the request: " + std::to_string(payload.size()) + " bytes are given, the " +
                     std::to_string(inputs_.size()) + " inputs have " + bytes};
  }
  for (const uint32_t buffer : inputs_) {
    const uint64_t size = size_of(buffer, request.elements).count;
    request.inputs.push_back({.buffer = buffer, .bytes = payload.substr(0, size)});
    payload.remove_prefix(size);
  }
  for (const uint32_t buffer : outputs_) request.outputs.push_back({.buffer = buffer});
  return request;
}

Result<std::string> RequestCodec::encode(const Request& request,
                                         std::span<const AnswerOutput> outputs) const {
  CHECK(outputs.size() == request.outputs.size(), "an answer has what was asked for");
  if (!request.is_batch()) {
    return encode_one({request.id, request.raw, outputs.size()}, request.outputs, outputs);
  }
  std::vector<std::string> answers;
  std::vector<BatchPart> parts;
  std::span<const RequestOutput> wanted = request.outputs;
  uint64_t size = 0;
  for (const RequestPart& part : request.parts) {
    ASSIGN_OR_RETURN(auto answer,
                     encode_one(part, wanted.first(part.outputs), outputs.first(part.outputs)));
    wanted = wanted.subspan(part.outputs);
    outputs = outputs.subspan(part.outputs);
    size += answer.size();
    if (size > limits::kResponsePayload.count) return too_large(size, limits::kResponsePayload);
    answers.push_back(std::move(answer));
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    parts.push_back({request.parts[i].raw ? kRawContentType : kJsonContentType, answers[i]});
  }
  return join_batch(parts);
}

Result<std::string> RequestCodec::encode_one(const RequestPart& part,
                                             std::span<const RequestOutput> wanted,
                                             std::span<const AnswerOutput> outputs) const {
  std::string text;
  if (part.raw) {
    for (const AnswerOutput& output : outputs) text += output.bytes;
    return text;
  }
  text = "{";
  if (!part.id.empty()) text += "\"id\":\"" + json_escape(part.id) + "\",";
  text += "\"outputs\":[";
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i > 0) text += ',';
    const Tensor& tensor = tensors_[wanted[i].buffer];
    if (wanted[i].elements == most_elements()) {
      append_output(tensor, wanted[i], outputs[i], text);
    } else {
      append_output(with_elements(tensor, wanted[i].elements), wanted[i], outputs[i], text);
    }
    if (text.size() > limits::kResponsePayload.count) {
      return too_large(text.size(), limits::kResponsePayload);
    }
  }
  text += "]}";
  return text;
}

void RequestCodec::append_output(const Tensor& tensor, const RequestOutput& wanted,
                                 const AnswerOutput& output, std::string& text) {
  text += tensor.json_head;
  if (wanted.as_object) {
    CHECK(output.object.has_value(), "what was wanted as an object became one");
    text += ",\"parameters\":{\"object\":\"" + to_string(*output.object) + "\"}}";
    return;
  }
  CHECK(output.bytes.size() == tensor.size_bytes, "an output has its buffer's size");
  if (wanted.base64 || !has_json_form(tensor.type.datatype)) {
    text += ",\"data\":\"" + base64_encode(output.bytes) + "\"}";
    return;
  }
  constexpr size_t kUsualNumber = 12;
  text.reserve(text.size() + tensor.elements * kUsualNumber);
  text += ",\"data\":[";
  const size_t size = lambent::size_of(tensor.type.datatype).count;
  for (size_t at = 0; at < output.bytes.size(); at += size) {
    if (at > 0) text += ',';
    append_element(tensor.type.datatype, output.bytes.data() + at, text);
  }
  text += "]}";
}

}  // namespace lambent::kernel_graph
