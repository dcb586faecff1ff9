#include "edge/cli/plan_inputs.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "core/http/message.h"
#include "decide/pipeline/limits.h"
#include "decide/pipeline/pipeline_json.h"
#include "edge/cli/api_json.h"
#include "edge/cli/pipeline_files.h"
#include "edge/cli/slice_names.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

// Of some text from `where`.
Result<void> take_definition(const std::string& text, const std::string& where,
                             PlanInputs& inputs) {
  auto definition = pipeline::parse_pipeline(text);
  if (!definition.ok()) return definition.error().with_context(where);
  inputs.definition = *std::move(definition);
  return {};
}
Result<void> take_profile(const std::string& text, const std::string& where, PlanInputs& inputs) {
  auto measured = pipeline::parse_profile(text, inputs.definition.dag);
  if (!measured.ok()) return measured.error().with_context(where);
  inputs.measured = *std::move(measured);
  const auto& components = inputs.measured.profile.components;
  inputs.is_measured = std::any_of(components.begin(), components.end(),
                                   [](const auto& each) { return !each.time_by_shape.empty(); });
  return {};
}

// Only of a function that has no slices.
void take_isolation(const Json& json, PlanInputs& inputs) {
  const auto isolation = json.find("isolation");
  if (inputs.definition.isolation == pipeline::IsolationRule::kSlices || isolation == json.end() ||
      !isolation->is_object()) {
    return;
  }
  const auto chosen = isolation->find("chosen"), reasons = isolation->find("reasons");
  if (chosen == isolation->end() || !chosen->is_string()) return;
  inputs.isolation = chosen->get<std::string>();
  if (reasons == isolation->end() || !reasons->is_array()) return;
  for (const Json& reason : *reasons) {
    if (reason.is_string()) inputs.isolation_reasons.push_back(reason.get<std::string>());
  }
}

Result<void> read_function(Transport& transport, const PlanOptions& options, PlanInputs& inputs) {
  if (options.function.empty()) {
    ASSIGN_OR_RETURN(DescribedPipeline described, read_definition(options.pipeline));
    inputs.definition = std::move(described.definition);
    inputs.declared_memory = described.declared_memory;
    if (options.profile.empty()) {
      ASSIGN_OR_RETURN(const auto text, read_own_profile_text(options.pipeline));
      if (text) RETURN_IF_ERROR(take_profile(*text, "its profile.json", inputs));
    }
  } else {
    const std::string target =
        "/v1/functions/" + http::percent_encode(options.function) + "/pipeline";
    ASSIGN_OR_RETURN(const Json json, ask_json(transport, "GET", target));
    const auto part = [&](const char* key) {
      return json.contains(key) ? json_text(json[key]) : std::string();
    };
    RETURN_IF_ERROR(take_definition(part("pipeline"), "the worker's " + target, inputs));
    RETURN_IF_ERROR(take_profile(part("profile"), "the worker's " + target, inputs));
    if (const auto memory = json.find("gpu_memory_mb"); memory != json.end()) {
      if (!memory->is_number_unsigned() ||
          memory->get<uint64_t>() > pipeline::limits::kMemory.count >> 20) {
        return Error{ErrorCode::kInternal, "the worker's " + target + " is not as it should be"};
      }
      inputs.declared_memory = Bytes::mib(memory->get<uint64_t>());
    }
    if (const auto there = json.find("instances"); there != json.end() && there->is_array()) {
      inputs.instances = there->size();
    }
    take_isolation(json, inputs);
  }
  if (options.profile.empty()) return {};
  ASSIGN_OR_RETURN(const std::string text, read_profile_text(options.profile));
  return take_profile(text, options.profile, inputs);
}

void add_shape(const SliceShape& shape, std::vector<SliceShape>& shapes) {
  const auto same = [&](const SliceShape& each) { return each.name == shape.name; };
  if (std::none_of(shapes.begin(), shapes.end(), same)) shapes.push_back(shape);
}

Result<void> read_names(const PlanOptions& options, PlanInputs& inputs) {
  ASSIGN_OR_RETURN(const mig::MigFamily* family, parse_family(options.family));
  ASSIGN_OR_RETURN(const auto profiles, parse_profiles(options.slices, *family));
  for (uint32_t gpu = 0; gpu < options.gpus; ++gpu) {
    for (const mig::MigProfile* profile : profiles) {
      const auto id = static_cast<uint32_t>(inputs.free.size() + 1);
      inputs.free.push_back({.id = DeviceId(id), .gpu = gpu, .shape = shape_of(*profile)});
    }
  }
  inputs.knows_slices = true;
  return {};
}

// What the worker says of one of its slices.
struct WorkersSlice {
  Slice slice;
  bool free = false;
};
Result<WorkersSlice> slice_of(const Json& json) {
  const auto is = [&](const char* key, bool (Json::*kind)() const noexcept) {
    return json.is_object() && json.contains(key) && (json[key].*kind)();
  };
  if (!is("slice", &Json::is_string) || !is("shape", &Json::is_string) ||
      !is("multiprocessors", &Json::is_number_unsigned) ||
      !is("memory_mb", &Json::is_number_unsigned) || !is("lost", &Json::is_boolean) ||
      !is("holders", &Json::is_array) ||
      json["memory_mb"].get<uint64_t>() > pipeline::limits::kMemory.count >> 20) {
    return Error{ErrorCode::kInternal, "the worker's /v1/slices is not as it should be"};
  }
  WorkersSlice found;
  // "0:2" is a part of GPU 0.
  const auto& place = json["slice"].get_ref<const std::string&>();
  std::from_chars(place.data(), place.data() + place.size(), found.slice.gpu);
  found.slice.shape = {json["shape"], json["multiprocessors"],
                       Bytes::mib(json["memory_mb"].get<uint64_t>())};
  found.free = !json["lost"].get<bool>() && json["holders"].empty();
  return found;
}

Result<void> ask_for_slices(Transport& transport, PlanInputs& inputs) {
  ASSIGN_OR_RETURN(const Json json, ask_json(transport, "GET", "/v1/slices"));
  if (!json.contains("slices") || !json["slices"].is_array()) {
    return Error{ErrorCode::kInternal, "the worker's /v1/slices is not as it should be"};
  }
  for (const Json& each : json["slices"]) {
    ASSIGN_OR_RETURN(WorkersSlice found, slice_of(each));
    add_shape(found.slice.shape, inputs.shapes);
    if (!found.free) continue;
    found.slice.id = DeviceId(static_cast<uint32_t>(inputs.free.size() + 1));
    inputs.free.push_back(std::move(found.slice));
  }
  inputs.knows_slices = true;
  return {};
}

}  // namespace

Result<PlanInputs> plan_inputs(Transport& transport, const PlanOptions& options) {
  PlanInputs inputs;
  RETURN_IF_ERROR(read_function(transport, options, inputs));
  if (!options.slices.empty()) {
    RETURN_IF_ERROR(read_names(options, inputs));
  } else if (!options.function.empty()) {
    RETURN_IF_ERROR(ask_for_slices(transport, inputs));
  }
  // From files: by all shapes that are known, so that what the free slices lack is told as well. A
  // worker knows what it has.
  if (inputs.shapes.empty()) {
    inputs.shapes = inputs.measured.shapes;
    for (const Slice& slice : inputs.free) add_shape(slice.shape, inputs.shapes);
  }
  if (!options.memory.empty()) {
    ASSIGN_OR_RETURN(inputs.declared_memory, parse_bytes(options.memory));
  }
  return inputs;
}

}  // namespace lambent::cli
