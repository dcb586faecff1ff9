#include "decide/kernel_graph/graph_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/base64.h"
#include "core/base/json_reading.h"
#include "core/base/json_text.h"
#include "core/base/spelling.h"
#include "core/domain/limits.h"
#include "decide/kernel_graph/constant_file.h"
#include "decide/kernel_graph/element.h"
#include "decide/kernel_graph/limits.h"

namespace lambent::kernel_graph {
namespace {

constexpr const char* kSubject = "the graph";

Result<std::string> read_text(const Json& object, const std::string& place, const char* key) {
  ASSIGN_OR_RETURN(const Json* found, required_member(object, place, key));
  if (!found->is_string()) return invalid_at(member_place(place, key), "text is expected");
  auto text = found->get<std::string>();
  if (text.empty()) return invalid_at(member_place(place, key), "is empty");
  if (text.size() > limits::kGraphNameLength) {
    return invalid_at(member_place(place, key),
                      "has more than " + std::to_string(limits::kGraphNameLength) + " characters");
  }
  if (text.find('\0') != std::string::npos)
    return invalid_at(member_place(place, key), "contains a zero byte");
  return text;
}

Result<uint64_t> read_number(const Json& object, const std::string& place, const char* key,
                             uint64_t most) {
  const auto found = object.find(key);
  if (found == object.end()) return uint64_t{0};
  return whole_value(*found, member_place(place, key), 0, most);
}

Result<const Json*> read_list(const Json& object, const std::string& place, const char* key,
                              size_t most) {
  ASSIGN_OR_RETURN(const Json* found,
                   required_member(object, place.empty() ? kSubject : place, key));
  if (!found->is_array()) return invalid_at(member_place(place, key), "a list is expected");
  if (found->size() > most) {
    return invalid_at(member_place(place, key), "has " + std::to_string(found->size()) +
                                                    " entries; at most " + std::to_string(most) +
                                                    " are taken");
  }
  return found;
}

// One of a few words; the default if nothing is said.
template <typename Word>
Result<Word> read_word(const Json& object, const std::string& place, const char* key,
                       std::initializer_list<Word> words, std::optional<Word> otherwise = {}) {
  if (otherwise && !object.contains(key)) return *otherwise;
  ASSIGN_OR_RETURN(const std::string text, read_text(object, place, key));
  std::vector<std::string_view> names;
  for (const Word word : words) {
    if (name_of(word) == text) return word;
    names.push_back(name_of(word));
  }
  return invalid_at(member_place(place, key),
                    "'" + text + "' is not known" + did_you_mean(text, names));
}

Result<DataType> read_datatype(const Json& object, const std::string& place) {
  ASSIGN_OR_RETURN(const std::string text, read_text(object, place, "datatype"));
  if (const auto type = data_type_from(text)) return *type;
  std::vector<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(kLastDataType); ++i) {
    names.push_back(name_of(static_cast<DataType>(i)));
  }
  return invalid_at(member_place(place, "datatype"),
                    "'" + text + "' is not known" + did_you_mean(text, names));
}

Result<std::string> read_base64(const Json& object, const std::string& place) {
  RETURN_IF_ERROR(check_keys(object, place, {"base64"}));
  const auto found = object.find("base64");
  std::optional<std::string> bytes;
  if (found != object.end() && found->is_string()) bytes = base64_decode(found->get<std::string>());
  if (!bytes) return invalid_at(place, "'base64' must be bytes in base64");
  return *std::move(bytes);
}

// One scalar, or bytes in base64.
Result<std::string> read_element_bytes(const Json& value, const std::string& place, DataType type) {
  if (value.is_object()) return read_base64(value, place);
  if (!value.is_primitive()) return invalid_at(place, "a number is expected");
  std::string bytes(size_of(type).count, '\0');
  const std::string token = json_text(value);
  const ElementProblem problem = read_element(type, token, bytes.data());
  if (problem != ElementProblem::kNone) return invalid_at(place, describe(problem, type, token));
  return bytes;
}

// The bytes of whole elements, of one at least.
Result<void> check_elements(const std::string& bytes, DataType type, const std::string& place) {
  if (bytes.empty() || bytes.size() % size_of(type).count != 0) {
    return invalid_at(place,
                      std::to_string(bytes.size()) + " bytes are no " + std::string(name_of(type)));
  }
  return {};
}

// An hour, of the times in "batches".
constexpr uint64_t kMostMicroseconds = 3'600'000'000;

class GraphReader {
 public:
  Result<KernelGraph> read_root(const Json& root) {
    RETURN_IF_ERROR(check_keys(root, kSubject, {"buffers", "steps", "batches"}));
    ASSIGN_OR_RETURN(const Json* buffers, read_list(root, "", "buffers", limits::kGraphBuffers));
    for (size_t i = 0; i < buffers->size(); ++i) {
      RETURN_IF_ERROR(read_buffer((*buffers)[i], item_place("buffers", i)));
    }
    ASSIGN_OR_RETURN(graph_.steps, read_steps(root, "", 0));
    if (const auto batches = root.find("batches"); batches != root.end()) {
      RETURN_IF_ERROR(read_batches(*batches));
    }
    return std::move(graph_);
  }

 private:
  Result<void> read_batches(const Json& object) {
    constexpr const char* kPlace = "batches";
    RETURN_IF_ERROR(check_keys(object, kPlace, {"wait_us", "slo_us"}));
    ASSIGN_OR_RETURN(const uint64_t wait,
                     read_number(object, kPlace, "wait_us", kMostMicroseconds));
    ASSIGN_OR_RETURN(const uint64_t slo, read_number(object, kPlace, "slo_us", kMostMicroseconds));
    graph_.batches = BatchTimes{microseconds(wait), microseconds(slo)};
    return {};
  }

  Result<void> read_buffer(const Json& object, const std::string& place) {
    RETURN_IF_ERROR(
        check_keys(object, place, {"name", "role", "datatype", "shape", "file", "fill"}));
    Buffer buffer;
    ASSIGN_OR_RETURN(buffer.name, read_text(object, place, "name"));
    if (!indices_.emplace(buffer.name, static_cast<uint32_t>(graph_.buffers.size())).second) {
      return invalid_at(member_place(place, "name"), "there are two buffers '" + buffer.name + "'");
    }
    ASSIGN_OR_RETURN(buffer.role, read_word<BufferRole>(object, place, "role",
                                                        {BufferRole::kInput, BufferRole::kConstant,
                                                         BufferRole::kTemporary,
                                                         BufferRole::kOutput, BufferRole::kInOut}));
    ASSIGN_OR_RETURN(buffer.type.datatype, read_datatype(object, place));
    ASSIGN_OR_RETURN(const Json* shape, read_list(object, place, "shape", SIZE_MAX));
    for (size_t i = 0; i < shape->size(); ++i) {
      ASSIGN_OR_RETURN(
          const uint64_t extent,
          whole_value((*shape)[i], item_place(member_place(place, "shape"), i), 0, INT64_MAX));
      buffer.type.shape.push_back(extent);
    }
    if (const auto size = byte_size(buffer.type); !size.ok()) {
      return invalid_at(member_place(place, "shape"), size.error().message);
    }
    RETURN_IF_ERROR(read_content(object, place, buffer));
    graph_.buffers.push_back(std::move(buffer));
    return {};
  }

  Result<void> read_content(const Json& object, const std::string& place, Buffer& buffer) {
    if (object.contains("file")) {
      ASSIGN_OR_RETURN(buffer.file, read_text(object, place, "file"));
      if (!names_constant(buffer.file)) {
        return invalid_at(member_place(place, "file"),
                          "'" + buffer.file + "' is neither in the package nor in a mount");
      }
    }
    if (const auto fill = object.find("fill"); fill != object.end()) {
      ASSIGN_OR_RETURN(buffer.fill, read_element_bytes(*fill, member_place(place, "fill"),
                                                       buffer.type.datatype));
      if (buffer.fill.size() != size_of(buffer.type.datatype).count) {
        return invalid_at(member_place(place, "fill"), "one element is expected");
      }
    }
    return {};
  }

  Result<std::vector<Step>> read_steps(const Json& object, const std::string& place, size_t depth) {
    if (depth > limits::kGraphDepth) {
      return invalid_at(
          place, "more than " + std::to_string(limits::kGraphDepth) + " repeats lie in each other");
    }
    ASSIGN_OR_RETURN(const Json* list, read_list(object, place, "steps", limits::kGraphSteps));
    std::vector<Step> steps;
    for (size_t i = 0; i < list->size(); ++i) {
      const Json& step = (*list)[i];
      const std::string here = item_place(member_place(place, "steps"), i);
      if (++step_count_ > limits::kGraphSteps) {
        return invalid_at(here, "more than " + std::to_string(limits::kGraphSteps) +
                                    " steps, with those in repeats");
      }
      if (step.is_object() && step.contains("batch")) {
        ASSIGN_OR_RETURN(steps.emplace_back(), read_variant(step, here, depth));
      } else if (step.is_object() && step.contains("repeat")) {
        ASSIGN_OR_RETURN(steps.emplace_back(), read_repeat(step, here, depth));
      } else {
        ASSIGN_OR_RETURN(steps.emplace_back(), read_launch(step, here));
      }
    }
    return steps;
  }

  Result<Step> read_repeat(const Json& object, const std::string& place, size_t depth) {
    RETURN_IF_ERROR(check_keys(object, place, {"repeat", "until", "steps"}));
    Repeat repeat;
    ASSIGN_OR_RETURN(repeat.times, read_number(object, place, "repeat", limits::kGraphRounds));
    if (object.contains("until")) {
      ASSIGN_OR_RETURN(repeat.until, read_buffer_name(object, place, "until"));
    }
    ASSIGN_OR_RETURN(repeat.steps, read_steps(object, place, depth + 1));
    return Step(std::move(repeat));
  }

  Result<Step> read_variant(const Json& object, const std::string& place, size_t depth) {
    RETURN_IF_ERROR(check_keys(object, place, {"batch", "steps"}));
    Repeat variant;
    ASSIGN_OR_RETURN(variant.batch, read_number(object, place, "batch", kMostBatchSize));
    if (variant.batch == 0 || depth > 0) {
      return invalid_at(place, depth > 0 ? "a variant is no part of another step"
                                         : "a variant has 1 element at least");
    }
    ASSIGN_OR_RETURN(variant.steps, read_steps(object, place, depth + 1));
    return Step(std::move(variant));
  }

  Result<Step> read_launch(const Json& object, const std::string& place) {
    RETURN_IF_ERROR(check_keys(object, place,
                               {"kernel", "bundle", "grid", "block", "shared_bytes", "arguments"}));
    Launch launch;
    ASSIGN_OR_RETURN(launch.kernel, read_text(object, place, "kernel"));
    ASSIGN_OR_RETURN(launch.bundle, read_text(object, place, "bundle"));
    if (!names_bundle(launch.bundle)) {
      return invalid_at(member_place(place, "bundle"),
                        "'" + launch.bundle + "' is not in the package");
    }
    ASSIGN_OR_RETURN(launch.grid, read_extent(object, place, "grid"));
    ASSIGN_OR_RETURN(launch.block, read_extent(object, place, "block"));
    ASSIGN_OR_RETURN(const uint64_t shared, read_number(object, place, "shared_bytes", UINT32_MAX));
    launch.shared_bytes = static_cast<uint32_t>(shared);
    ASSIGN_OR_RETURN(const Json* list,
                     read_list(object, place, "arguments", limits::kGraphArguments));
    for (size_t i = 0; i < list->size(); ++i) {
      ASSIGN_OR_RETURN(launch.arguments.emplace_back(),
                       read_argument((*list)[i], item_place(member_place(place, "arguments"), i)));
    }
    return Step(std::move(launch));
  }

  Result<Extent> read_extent(const Json& object, const std::string& place, const char* key) {
    ASSIGN_OR_RETURN(const Json* list, read_list(object, place, key, 3));
    if (list->empty())
      return invalid_at(member_place(place, key), "one to three numbers are expected");
    uint32_t extents[3] = {1, 1, 1};
    for (size_t i = 0; i < list->size(); ++i) {
      ASSIGN_OR_RETURN(
          const uint64_t number,
          whole_value((*list)[i], item_place(member_place(place, key), i), 0, UINT32_MAX));
      extents[i] = static_cast<uint32_t>(number);
    }
    return Extent{extents[0], extents[1], extents[2]};
  }

  Result<Argument> read_argument(const Json& object, const std::string& place) {
    if (object.is_object() && object.contains("literal")) return read_literal(object, place);
    RETURN_IF_ERROR(check_keys(object, place, {"buffer", "offset_bytes", "access", "literal"}));
    BufferArgument argument;
    ASSIGN_OR_RETURN(argument.buffer, read_buffer_name(object, place, "buffer"));
    ASSIGN_OR_RETURN(argument.offset_bytes, read_number(object, place, "offset_bytes", INT64_MAX));
    ASSIGN_OR_RETURN(argument.access,
                     read_word<Access>(object, place, "access",
                                       {Access::kRead, Access::kWrite, Access::kReadWrite},
                                       default_access(graph_.buffers[argument.buffer].role)));
    return Argument(argument);
  }

  Result<Argument> read_literal(const Json& object, const std::string& place) {
    RETURN_IF_ERROR(check_keys(object, place, {"literal", "datatype"}));
    LiteralArgument argument;
    ASSIGN_OR_RETURN(argument.datatype, read_datatype(object, place));
    const Json& literal = object.at("literal");
    const std::string here = member_place(place, "literal");
    if (literal.is_array()) {
      for (size_t i = 0; i < literal.size(); ++i) {
        ASSIGN_OR_RETURN(const std::string bytes,
                         read_element_bytes(literal[i], item_place(here, i), argument.datatype));
        argument.bytes += bytes;
      }
    } else {
      ASSIGN_OR_RETURN(argument.bytes, read_element_bytes(literal, here, argument.datatype));
    }
    RETURN_IF_ERROR(check_elements(argument.bytes, argument.datatype, here));
    return Argument(std::move(argument));
  }

  Result<uint32_t> read_buffer_name(const Json& object, const std::string& place, const char* key) {
    ASSIGN_OR_RETURN(const std::string name, read_text(object, place, key));
    if (const auto found = indices_.find(name); found != indices_.end()) return found->second;
    std::vector<std::string_view> names;
    for (const Buffer& buffer : graph_.buffers) names.push_back(buffer.name);
    return invalid_at(member_place(place, key),
                      "there is no buffer '" + name + "'" + did_you_mean(name, names));
  }

  KernelGraph graph_;
  std::map<std::string, uint32_t> indices_;
  size_t step_count_ = 0;
};

// No object of a graph has more.
constexpr size_t kMostKeys = 16;

// --- Writing ---

Json element_json(DataType type, std::string_view bytes) {
  const Json as_bytes = {{"base64", base64_encode(bytes)}};
  if (!has_json_form(type)) return as_bytes;
  std::string text;
  append_element(type, bytes.data(), text);
  // Some bits have no text of their own, such as the many NaN.
  std::string again(bytes.size(), '\0');
  const Json value = Json::parse(text);
  if (read_element(type, value.dump(), again.data()) != ElementProblem::kNone || again != bytes) {
    return as_bytes;
  }
  return value;
}

Json literal_json(const LiteralArgument& literal) {
  const uint64_t size = size_of(literal.datatype).count;
  if (!has_json_form(literal.datatype)) return {{"base64", base64_encode(literal.bytes)}};
  if (literal.bytes.size() == size) return element_json(literal.datatype, literal.bytes);
  Json list = Json::array();
  for (size_t at = 0; at + size <= literal.bytes.size(); at += size) {
    list.push_back(
        element_json(literal.datatype, std::string_view(literal.bytes).substr(at, size)));
  }
  return list;
}

Json extent_json(const Extent& extent) {
  Json list = Json::array({extent.x});
  if (extent.y != 1 || extent.z != 1) list.push_back(extent.y);
  if (extent.z != 1) list.push_back(extent.z);
  return list;
}

Json argument_json(const KernelGraph& graph, const Argument& argument) {
  if (const auto* literal = std::get_if<LiteralArgument>(&argument)) {
    return {{"literal", literal_json(*literal)}, {"datatype", name_of(literal->datatype)}};
  }
  const auto& buffer = std::get<BufferArgument>(argument);
  Json object = {{"buffer", graph.buffers[buffer.buffer].name}};
  if (buffer.offset_bytes != 0) object["offset_bytes"] = buffer.offset_bytes;
  object["access"] = name_of(buffer.access);
  return object;
}

Json steps_json(const KernelGraph& graph, const std::vector<Step>& steps) {
  Json list = Json::array();
  for (const Step& step : steps) {
    Json object;
    if (const auto* repeat = std::get_if<Repeat>(&step)) {
      if (repeat->batch > 0) {
        object["batch"] = repeat->batch;
      } else {
        object["repeat"] = repeat->times;
      }
      if (repeat->until != kNoFlag) object["until"] = graph.buffers[repeat->until].name;
      object["steps"] = steps_json(graph, repeat->steps);
    } else {
      const auto& launch = std::get<Launch>(step);
      object = {{"kernel", launch.kernel},
                {"bundle", launch.bundle},
                {"grid", extent_json(launch.grid)},
                {"block", extent_json(launch.block)}};
      if (launch.shared_bytes != 0) object["shared_bytes"] = launch.shared_bytes;
      object["arguments"] = Json::array();
      for (const Argument& argument : launch.arguments) {
        object["arguments"].push_back(argument_json(graph, argument));
      }
    }
    list.push_back(std::move(object));
  }
  return list;
}

}  // namespace

Result<KernelGraph> parse_graph(std::string_view text) {
  ASSIGN_OR_RETURN(const Json root, parse_document(text, limits::kGraphJson,
                                                   {.subject = kSubject,
                                                    .most_depth = limits::kJsonDepth,
                                                    .most_keys = kMostKeys}));
  return GraphReader().read_root(root);
}

std::string to_json(const KernelGraph& graph) {
  Json buffers = Json::array();
  for (const Buffer& buffer : graph.buffers) {
    Json object = {{"name", buffer.name},
                   {"role", name_of(buffer.role)},
                   {"datatype", name_of(buffer.type.datatype)},
                   {"shape", buffer.type.shape}};
    if (!buffer.file.empty()) object["file"] = buffer.file;
    if (!buffer.fill.empty()) object["fill"] = element_json(buffer.type.datatype, buffer.fill);
    buffers.push_back(std::move(object));
  }
  Json root = {{"buffers", buffers}, {"steps", steps_json(graph, graph.steps)}};
  if (graph.batches) {
    root["batches"] = {
        {"wait_us", std::chrono::duration_cast<microseconds>(graph.batches->most_wait).count()},
        {"slo_us", std::chrono::duration_cast<microseconds>(graph.batches->slo).count()}};
  }
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lambent::kernel_graph
