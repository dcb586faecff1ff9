#include "decide/kernel_graph/request_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/base64.h"
#include "core/base/document_place.h"
#include "core/base/spelling.h"
#include "core/domain/limits.h"
#include "decide/kernel_graph/element.h"
#include "decide/kernel_graph/limits.h"

namespace lambent::kernel_graph {
namespace {

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::string no_such_key(std::string_view key, std::span<const std::string_view> known) {
  return "there is no " + quoted(key.substr(0, limits::kGraphNameLength)) + " here" +
         did_you_mean(key, known);
}

enum RequestKey : size_t { kInputs, kOutputs, kId, kRequestParameters };
constexpr std::array<std::string_view, 4> kRequestKeys{"inputs", "outputs", "id", "parameters"};
enum InputKey : size_t { kName, kDatatype, kShape, kParameters, kData };
constexpr std::array<std::string_view, 5> kInputKeys{"name", "datatype", "shape", "parameters",
                                                     "data"};
constexpr std::array<std::string_view, 1> kInputParameters{"object"};
constexpr std::array<std::string_view, 2> kOutputKeys{"name", "parameters"};
enum OutputParameter : size_t { kObject, kBase64, kKeep };
constexpr std::array<std::string_view, 3> kOutputParameters{"object", "base64", "keep"};

}  // namespace

Result<Request> RequestReader::read() {
  given_.resize(codec_.inputs_.size());
  wanted_.resize(codec_.outputs_.size());
  request_.inputs.resize(codec_.inputs_.size());
  if (!json_.enter('{')) return problem("the request", "an object is expected");
  bool first = true;
  uint32_t seen = 0;
  RequestOutput unsaid;  // what the outputs become that the request does not name
  std::string_view key;
  while (json_.next_key(first, key)) {
    ASSIGN_OR_RETURN(const size_t known, find_key(key, kRequestKeys, seen, "the request"));
    if (known == kInputs) {
      RETURN_IF_ERROR(read_inputs());
    } else if (known == kOutputs) {
      RETURN_IF_ERROR(read_outputs());
    } else if (known == kRequestParameters) {
      RETURN_IF_ERROR(read_output_parameters("parameters", unsaid));
    } else {
      std::string_view id;
      if (!json_.string(id)) return problem("id", "text is expected");
      request_.id = id;
    }
  }
  if (!json_.at_end()) return problem("the request", "something follows its end");
  for (size_t i = 0; i < given_.size(); ++i) {
    if (!given_[i]) {
      return problem("inputs", quoted(codec_.tensors_[codec_.inputs_[i]].name) + " is missing");
    }
  }
  if (!request_.outputs.empty()) {
    if ((seen >> kRequestParameters & 1) == 0) return std::move(request_);
    return problem("parameters",
                   "they are for requests without 'outputs'; each of those has its own");
  }
  for (const uint32_t buffer : codec_.outputs_) {
    request_.outputs.push_back(unsaid);
    request_.outputs.back().buffer = buffer;
  }
  return std::move(request_);
}

Result<size_t> RequestReader::find_key(std::string_view key,
                                       std::span<const std::string_view> known, uint32_t& seen,
                                       const std::string& place) const {
  const size_t index = std::find(known.begin(), known.end(), key) - known.begin();
  if (index == known.size()) return problem(place, no_such_key(key, known));
  if ((seen >> index & 1) != 0) return problem(place, quoted(key) + " stands there twice");
  seen |= uint32_t{1} << index;
  return index;
}

Result<void> RequestReader::read_inputs() {
  if (!json_.enter('[')) return problem("inputs", "a list is expected");
  bool first = true;
  for (size_t i = 0; json_.next_element(first); ++i) RETURN_IF_ERROR(read_input(i));
  return json_.failed() ? Result<void>(problem("inputs", "")) : Result<void>();
}

Result<void> RequestReader::read_input(size_t number) {
  Entry entry{.number = number};
  if (!json_.enter('{')) return problem(input_place(entry, ""), "an object is expected");
  bool first = true;
  std::string_view key;
  while (json_.next_key(first, key)) RETURN_IF_ERROR(read_input_key(key, entry));
  if (json_.failed()) return problem(input_place(entry, ""), "");
  return finish_input(entry);
}

Result<void> RequestReader::read_input_key(std::string_view key, Entry& entry) {
  ASSIGN_OR_RETURN(const size_t known,
                   find_key(key, kInputKeys, entry.seen, input_place(entry, "")));
  key = kInputKeys[known];  // what was given is valid until more is read
  std::string_view text;
  switch (known) {
    case kName: {
      if (!json_.string(text)) return problem(input_place(entry, key), "text is expected");
      ASSIGN_OR_RETURN(entry.tensor,
                       find_tensor(text, true, input_place(entry, "name"), entry.buffer));
      return {};
    }
    case kDatatype:
      if (!json_.string(text)) return problem(input_place(entry, key), "text is expected");
      entry.datatype = text;
      return {};
    case kShape: {
      ASSIGN_OR_RETURN(entry.shape, read_shape(input_place(entry, key)));
      return {};
    }
    case kParameters:
      return read_object_reference(entry);
    default:
      break;
  }
  entry.has_data = true;
  // How many elements there are to be is known with the shape.
  const bool can_read = entry.tensor != nullptr && codec_.variants_.empty();
  if (can_read) return read_data(entry);
  json_.next_kind();  // reads over white space
  entry.data_at = json_.position();
  return json_.skip() ? Result<void>() : Result<void>(problem(input_place(entry, "data"), ""));
}

Result<void> RequestReader::read_object_reference(Entry& entry) {
  const auto place = [&] { return input_place(entry, "parameters"); };
  if (!json_.enter('{')) return problem(place(), "an object is expected");
  bool first = true;
  uint32_t seen = 0;
  std::string_view key;
  while (json_.next_key(first, key)) {
    RETURN_IF_ERROR(find_key(key, kInputParameters, seen, place()));
    std::string_view id;
    if (!json_.string(id)) return problem(place() + ".object", "an object's id is expected");
    entry.object = object_id_from_string(id);
    if (!entry.object) return problem(place() + ".object", quoted(id) + " is no object's id");
  }
  return json_.failed() ? Result<void>(problem(place(), "")) : Result<void>();
}

Result<void> RequestReader::finish_input(Entry& entry) {
  const std::string place = input_place(entry, "");
  if (entry.tensor == nullptr) return problem(place, "'name' is missing");
  if (!codec_.variants_.empty()) RETURN_IF_ERROR(take_elements(entry));
  const Tensor& tensor = *entry.tensor;
  if (given_[tensor.input]) return problem(place, quoted(tensor.name) + " stands there twice");
  given_[tensor.input] = true;
  if (!entry.datatype.empty() && entry.datatype != name_of(tensor.type.datatype)) {
    return problem(input_place(entry, "datatype"), quoted(entry.datatype) + " is given, " +
                                                       quoted(tensor.name) + " is " +
                                                       to_string(tensor.type));
  }
  if (entry.shape && *entry.shape != tensor.type.shape) {
    return problem(input_place(entry, "shape"), shape_text(*entry.shape) + " is given, " +
                                                    quoted(tensor.name) + " is " +
                                                    to_string(tensor.type));
  }
  if (entry.data_at) {
    const size_t end = json_.position();
    json_.return_to(*entry.data_at);
    RETURN_IF_ERROR(read_data(entry));
    json_.return_to(end);
  }
  if (entry.has_data == entry.object.has_value()) {
    return problem(place, quoted(tensor.name) + " has " +
                              (entry.has_data ? "both 'data' and" : "neither 'data' nor") +
                              " an object; one of the two is expected");
  }
  request_.inputs[tensor.input] = {.buffer = entry.buffer,
                                   .object = entry.object,
                                   .bytes = entry.bytes,
                                   .number = static_cast<uint32_t>(entry.number)};
  return {};
}

Result<void> RequestReader::take_elements(Entry& entry) {
  const uint64_t most = codec_.most_elements();
  const bool is_said = entry.shape && !entry.shape->empty();
  const uint64_t elements = is_said ? entry.shape->front() : most;
  if (elements < 1 || elements > most) {
    return problem(item_place(input_place(entry, "shape"), 0),
                   std::to_string(elements) + " is given; a request has 1 to " +
                       std::to_string(most) + " elements");
  }
  if (std::exchange(request_.elements, elements) != elements && has_elements_) {
    return problem(input_place(entry, ""), quoted(entry.tensor->name) + " brings " +
                                               std::to_string(elements) +
                                               " elements, and another input does not");
  }
  has_elements_ = true;
  entry.part = std::make_unique<Tensor>(RequestCodec::with_elements(*entry.tensor, elements));
  entry.tensor = entry.part.get();
  return {};
}

Result<void> RequestReader::read_outputs() {
  if (!json_.enter('[')) return problem("outputs", "a list is expected");
  bool first = true;
  for (size_t i = 0; json_.next_element(first); ++i) RETURN_IF_ERROR(read_output(i));
  return json_.failed() ? Result<void>(problem("outputs", "")) : Result<void>();
}

Result<void> RequestReader::read_output(size_t number) {
  const std::string place = item_place("outputs", number);
  if (!json_.enter('{')) return problem(place, "an object is expected");
  RequestOutput output;
  const Tensor* tensor = nullptr;
  bool first = true;
  uint32_t seen = 0;
  std::string_view key;
  while (json_.next_key(first, key)) {
    ASSIGN_OR_RETURN(const size_t known, find_key(key, kOutputKeys, seen, place));
    if (known == 0) {
      std::string_view name;
      if (!json_.string(name)) return problem(place + ".name", "text is expected");
      ASSIGN_OR_RETURN(tensor, find_tensor(name, false, place + ".name", output.buffer));
    } else {
      RETURN_IF_ERROR(read_output_parameters(place + ".parameters", output));
    }
  }
  if (json_.failed()) return problem(place, "");
  if (tensor == nullptr) return problem(place, "'name' is missing");
  if (wanted_[tensor->output]) return problem(place, quoted(tensor->name) + " stands there twice");
  wanted_[tensor->output] = true;
  request_.outputs.push_back(output);
  return {};
}

Result<void> RequestReader::read_output_parameters(const std::string& place,
                                                   RequestOutput& output) {
  if (!json_.enter('{')) return problem(place, "an object is expected");
  bool first = true;
  uint32_t seen = 0;
  std::string_view key;
  while (json_.next_key(first, key)) {
    ASSIGN_OR_RETURN(const size_t known, find_key(key, kOutputParameters, seen, place));
    if (known == kKeep) {
      std::string_view place_name;
      const bool is_text =
          json_.next_kind() == JsonReader::Kind::kString && json_.string(place_name);
      if (!is_text || (place_name != "device" && place_name != "host")) {
        return problem(place + ".keep", "'device' or 'host' is expected");
      }
      output.on_device = place_name == "device";
      continue;
    }
    bool& choice = known == kObject ? output.as_object : output.base64;
    const std::string_view word = json_.scalar();
    if (word != "true" && word != "false") return problem(place, "true or false is expected");
    choice = word == "true";
  }
  if (json_.failed()) return problem(place, "");
  if (output.on_device && !output.as_object) {
    return problem(place + ".keep", "it is for outputs that become objects ('object': true)");
  }
  return {};
}

Result<const RequestReader::Tensor*> RequestReader::find_tensor(std::string_view name, bool input,
                                                                const std::string& place,
                                                                uint32_t& buffer) const {
  const char* kind = input ? "input" : "output";
  const auto fits = [input](const Tensor& tensor) {
    return input ? is_input(tensor.role) : is_output(tensor.role);
  };
  const auto found = codec_.by_name_.find(name);
  if (found != codec_.by_name_.end() && fits(codec_.tensors_[found->second])) {
    buffer = found->second;
    return &codec_.tensors_[buffer];
  }
  std::vector<std::string_view> names;
  for (const Tensor& tensor : codec_.tensors_) {
    if (fits(tensor)) names.push_back(tensor.name);
  }
  name = name.substr(0, limits::kGraphNameLength);
  return problem(
      place, "there is no " + std::string(kind) + " " + quoted(name) + did_you_mean(name, names));
}

Result<std::vector<uint64_t>> RequestReader::read_shape(const std::string& place) {
  if (!json_.enter('[')) return problem(place, "a list is expected");
  std::vector<uint64_t> shape;
  bool first = true;
  while (json_.next_element(first)) {
    uint64_t extent = 0;
    const std::string_view token = json_.scalar();
    if (read_element(DataType::kUint64, token, reinterpret_cast<char*>(&extent)) !=
        ElementProblem::kNone) {
      return problem(item_place(place, shape.size()), "a whole number is expected");
    }
    if (shape.size() == limits::kJsonDepth) return problem(place, "has too many numbers");
    shape.push_back(extent);
  }
  if (json_.failed()) return problem(place, "");
  return shape;
}

Result<void> RequestReader::read_data(Entry& entry) {
  const Tensor& tensor = *entry.tensor;
  const JsonReader::Kind kind = json_.next_kind();
  if (kind == JsonReader::Kind::kString) return read_base64(entry);
  const std::string place = input_place(entry, "data");
  if (kind != JsonReader::Kind::kArray && kind != JsonReader::Kind::kNothing) {
    return problem(place, "a list, or the bytes in base64, is expected");
  }
  if (!has_json_form(tensor.type.datatype)) {
    return problem(place, describe(ElementProblem::kNoJsonForm, tensor.type.datatype, ""));
  }
  // So that memory is taken only for what the text can hold: a digit and a comma for each.
  if (json_.left() / 2 < tensor.elements) {
    return problem(place, quoted(tensor.name) + " is " + to_string(tensor.type) +
                              ", which is more than there is in the request");
  }
  auto bytes = std::make_unique_for_overwrite<char[]>(tensor.size_bytes);
  RETURN_IF_ERROR(read_elements(entry, bytes.get()));
  entry.bytes = {bytes.get(), tensor.size_bytes};
  request_.decoded.push_back(std::move(bytes));
  return {};
}

Result<void> RequestReader::read_base64(Entry& entry) {
  const std::string place = input_place(entry, "data");
  std::string_view text;
  if (!json_.string(text)) return problem(place, "");
  const auto decoded = base64_decode(text);
  if (!decoded) return problem(place, "this is no base64");
  const uint64_t size = entry.tensor->size_bytes;
  if (decoded->size() != size) {
    return problem(place, std::to_string(decoded->size()) + " bytes are given, " +
                              quoted(entry.tensor->name) + " has " + std::to_string(size));
  }
  auto bytes = std::make_unique_for_overwrite<char[]>(size);
  std::memcpy(bytes.get(), decoded->data(), size);
  entry.bytes = {bytes.get(), size};
  request_.decoded.push_back(std::move(bytes));
  return {};
}

Result<void> RequestReader::read_elements(const Entry& entry, char* out) {
  const size_t begin = json_.position();
  size_t done = 0;
  if (!json_.enter('[')) return problem(input_place(entry, "data"), "a list is expected");
  const bool nested = json_.next_kind() == JsonReader::Kind::kArray;
  json_.return_to(begin);
  return nested ? read_nested(entry, 0, done, out)
                : read_row(entry, entry.tensor->elements, done, out);
}

Result<void> RequestReader::read_nested(const Entry& entry, size_t dimension, size_t& done,
                                        char* out) {
  const auto& shape = entry.tensor->type.shape;
  const auto wrong = [&] {
    return problem(item_place(input_place(entry, "data"), done),
                   "is nested otherwise than " + quoted(entry.tensor->name) + ", which is " +
                       to_string(entry.tensor->type));
  };
  if (dimension == shape.size() || json_.next_kind() != JsonReader::Kind::kArray) return wrong();
  if (dimension + 1 == shape.size()) return read_row(entry, shape[dimension], done, out);
  json_.enter('[');
  bool first = true;
  uint64_t count = 0;
  for (; json_.next_element(first); ++count) {
    if (count == shape[dimension]) return wrong();
    RETURN_IF_ERROR(read_nested(entry, dimension + 1, done, out));
  }
  if (count < shape[dimension]) return wrong();
  return {};
}

Result<void> RequestReader::read_row(const Entry& entry, uint64_t count, size_t& done, char* out) {
  const DataType type = entry.tensor->type.datatype;
  const size_t size = size_of(type).count;
  const auto wrong = [&](const std::string& what) {
    return problem(item_place(input_place(entry, "data"), done), what);
  };
  const auto tensor_is = [&] {
    return ": " + quoted(entry.tensor->name) + " is " + to_string(entry.tensor->type);
  };
  const size_t end = done + count;
  bool first = true;
  json_.enter('[');
  for (; json_.next_element(first); ++done) {
    if (done == end) return wrong("this number is one too many" + tensor_is());
    const std::string_view token = json_.scalar();
    if (token.empty()) return wrong("a number is expected");
    const ElementProblem bad = read_element(type, token, out + done * size);
    if (bad != ElementProblem::kNone) return wrong(describe(bad, type, token));
  }
  if (json_.failed() || done < end) return wrong("a number is missing" + tensor_is());
  return {};
}

Error RequestReader::problem(const std::string& place, const std::string& what) const {
  return {ErrorCode::kInvalidArgument,
          place + ": " + (json_.failed() ? "the JSON is wrong " + json_.problem() : what)};
}

std::string RequestReader::input_place(const Entry& entry, std::string_view key) {
  const std::string place = item_place("inputs", entry.number);
  return key.empty() ? place : place + "." + std::string(key);
}

}  // namespace lambent::kernel_graph
