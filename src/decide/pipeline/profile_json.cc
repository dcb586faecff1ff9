#include "decide/pipeline/profile_json.h"

#include <algorithm>
#include <charconv>

#include "core/base/spelling.h"
#include "decide/pipeline/document.h"
#include "decide/pipeline/limits.h"

namespace lambent::pipeline {
namespace {

constexpr const char* kSubject = "the profile";

Result<SliceShape> read_shape(const std::string& name, const Json& object) {
  const std::string place = "shapes '" + name + "'";
  RETURN_IF_ERROR(check_keys(object, place, {"multiprocessors", "memory_mb"}));
  SliceShape shape{.name = name};
  ASSIGN_OR_RETURN(const Json* multiprocessors, required_member(object, place, "multiprocessors"));
  ASSIGN_OR_RETURN(const uint64_t count, whole_value(*multiprocessors, place + ".multiprocessors",
                                                     1, limits::kMultiprocessors));
  shape.multiprocessors = static_cast<unsigned>(count);
  ASSIGN_OR_RETURN(const Json* memory, required_member(object, place, "memory_mb"));
  ASSIGN_OR_RETURN(shape.memory, megabytes_value(*memory, place + ".memory_mb"));
  return shape;
}

Result<std::vector<SliceShape>> read_shapes(const Json& root) {
  ASSIGN_OR_RETURN(const Json* object, required_member(root, kSubject, "shapes"));
  if (!object->is_object()) return invalid_at("shapes", "an object is expected");
  if (object->size() > limits::kShapes) {
    return invalid_at("shapes", "has " + std::to_string(object->size()) + " entries; at most " +
                                    std::to_string(limits::kShapes) + " are taken");
  }
  std::vector<SliceShape> shapes;
  for (const auto& [name, value] : object->items()) {
    if (!is_text(name, limits::kShapeNameLength)) {
      return invalid_at("shapes", "a name is no text of 1 to " +
                                      std::to_string(limits::kShapeNameLength) + " bytes");
    }
    ASSIGN_OR_RETURN(shapes.emplace_back(), read_shape(name, value));
  }
  std::sort(shapes.begin(), shapes.end(),
            [](const SliceShape& a, const SliceShape& b) { return a.name < b.name; });
  return shapes;
}

Result<void> check_described(const std::string& name, const std::string& place,
                             const std::vector<SliceShape>& shapes) {
  if (std::any_of(shapes.begin(), shapes.end(),
                  [&](const SliceShape& shape) { return shape.name == name; })) {
    return {};
  }
  return invalid_at(
      place, "'shapes' does not describe '" + name.substr(0, limits::kShapeNameLength) + "'");
}

Result<std::map<std::string, Duration>> read_times(const Json& object, const std::string& place,
                                                   const std::vector<SliceShape>& shapes) {
  if (!object.is_object()) return invalid_at(place, "an object is expected");
  std::map<std::string, Duration> times;
  for (const auto& [name, value] : object.items()) {
    RETURN_IF_ERROR(check_described(name, place, shapes));
    ASSIGN_OR_RETURN(times[name], milliseconds_value(value, place + " '" + name + "'"));
  }
  return times;
}

// Times by the number of requests, 2 to limits::kBatch.
Result<std::map<unsigned, Duration>> read_batches(const Json& object, const std::string& place) {
  if (!object.is_object()) return invalid_at(place, "an object is expected");
  std::map<unsigned, Duration> times;
  for (const auto& [text, value] : object.items()) {
    unsigned requests = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), requests);
    if (error != std::errc() || end != text.data() + text.size() || text[0] == '0' ||
        requests < 2 || requests > limits::kBatch) {
      return invalid_at(place, "'" + text.substr(0, 16) + "' is no number of requests from 2 to " +
                                   std::to_string(limits::kBatch));
    }
    ASSIGN_OR_RETURN(times[requests], milliseconds_value(value, place + " '" + text + "'"));
  }
  return times;
}

Result<ComponentProfile> read_component(const Json& object, const std::string& place,
                                        const std::vector<SliceShape>& shapes) {
  RETURN_IF_ERROR(check_keys(
      object, place, {"weights_mb", "memory_mb", "output_bytes", "probability", "ms", "batch_ms"}));
  ComponentProfile profile;
  ASSIGN_OR_RETURN(const Json* weights, required_member(object, place, "weights_mb"));
  ASSIGN_OR_RETURN(profile.weights, megabytes_value(*weights, place + ".weights_mb"));
  ASSIGN_OR_RETURN(const Json* memory, required_member(object, place, "memory_mb"));
  ASSIGN_OR_RETURN(profile.memory, megabytes_value(*memory, place + ".memory_mb"));
  if (profile.memory < profile.weights) {
    return invalid_at(place + ".memory_mb", "is less than the weights that it includes");
  }
  ASSIGN_OR_RETURN(const Json* output, required_member(object, place, "output_bytes"));
  ASSIGN_OR_RETURN(const uint64_t bytes,
                   whole_value(*output, place + ".output_bytes", 0, limits::kMemory.count));
  profile.output = Bytes(bytes);
  if (const auto probability = object.find("probability"); probability != object.end()) {
    ASSIGN_OR_RETURN(profile.probability, number_value(*probability, place + ".probability", 0, 1));
  }
  ASSIGN_OR_RETURN(const Json* times, required_member(object, place, "ms"));
  ASSIGN_OR_RETURN(profile.time_by_shape, read_times(*times, place + ".ms", shapes));
  const auto batches = object.find("batch_ms");
  if (batches == object.end()) return profile;
  const std::string there = place + ".batch_ms";
  if (!batches->is_object()) return invalid_at(there, "an object is expected");
  for (const auto& [shape, sizes] : batches->items()) {
    RETURN_IF_ERROR(check_described(shape, there, shapes));
    if (!profile.time_by_shape.contains(shape)) {
      return invalid_at(there, "there is no time of one request on '" + shape + "' in 'ms'");
    }
    ASSIGN_OR_RETURN(auto times_of_sizes, read_batches(sizes, there + " '" + shape + "'"));
    if (!times_of_sizes.empty()) {
      profile.batch_times_by_shape[shape] = std::move(times_of_sizes);
    }
  }
  return profile;
}

Result<std::vector<ComponentProfile>> read_components(const Json& root, const Dag& dag,
                                                      const std::vector<SliceShape>& shapes) {
  ASSIGN_OR_RETURN(const Json* object, required_member(root, kSubject, "components"));
  if (!object->is_object()) return invalid_at("components", "an object is expected");
  std::vector<std::string> names;
  for (const Component& component : dag.components) names.push_back(component.name);
  std::vector<ComponentProfile> profiles(names.size());
  for (const auto& [name, value] : object->items()) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      return invalid_at("components", "the function has no '" +
                                          name.substr(0, limits::kNameLength) + "'" +
                                          did_you_mean(name, names));
    }
    const auto index = static_cast<size_t>(found - names.begin());
    const std::string place = "components '" + name + "'";
    ASSIGN_OR_RETURN(profiles[index], read_component(value, place, shapes));
    if (!dag.components[index].optional && profiles[index].probability != 1) {
      return invalid_at(place + ".probability", "is 1 for a component that is not optional");
    }
  }
  return profiles;
}

}  // namespace

Result<MeasuredProfile> parse_profile(std::string_view text, const Dag& dag) {
  ASSIGN_OR_RETURN(const Json root, parse_numbered(text, kSubject, "profile"));
  RETURN_IF_ERROR(
      check_keys(root, kSubject, {"profile", "context_mb", "start_ms", "shapes", "components"}));
  MeasuredProfile measured;
  ASSIGN_OR_RETURN(const Json* context, required_member(root, kSubject, "context_mb"));
  ASSIGN_OR_RETURN(measured.profile.context, megabytes_value(*context, "context_mb"));
  ASSIGN_OR_RETURN(const Json* start, required_member(root, kSubject, "start_ms"));
  ASSIGN_OR_RETURN(measured.profile.start, milliseconds_value(*start, "start_ms"));
  ASSIGN_OR_RETURN(measured.shapes, read_shapes(root));
  ASSIGN_OR_RETURN(measured.profile.components, read_components(root, dag, measured.shapes));
  return measured;
}

std::string to_json(const MeasuredProfile& measured, const Dag& dag) {
  Json shapes = Json::object(), components = Json::object();
  for (const SliceShape& shape : measured.shapes) {
    shapes[shape.name] = {{"multiprocessors", shape.multiprocessors},
                          {"memory_mb", megabytes_json(shape.memory)}};
  }
  for (size_t i = 0; i < measured.profile.components.size(); ++i) {
    const ComponentProfile& profile = measured.profile.components[i];
    if (profile == ComponentProfile()) continue;
    // Requests that failed before they came to it say nothing of one that is not optional.
    const bool optional = dag.components[i].optional;
    Json times = Json::object();
    for (const auto& [shape, time] : profile.time_by_shape) times[shape] = milliseconds_json(time);
    components[dag.components[i].name] = {{"weights_mb", megabytes_json(profile.weights)},
                                          {"memory_mb", megabytes_json(profile.memory)},
                                          {"output_bytes", profile.output.count},
                                          {"probability", optional ? profile.probability : 1},
                                          {"ms", times}};
    if (profile.batch_times_by_shape.empty()) continue;
    Json& batches = components[dag.components[i].name]["batch_ms"];
    for (const auto& [shape, sizes] : profile.batch_times_by_shape) {
      for (const auto& [requests, time] : sizes) {
        batches[shape][std::to_string(requests)] = milliseconds_json(time);
      }
    }
  }
  const Json root = {{"profile", 1},
                     {"context_mb", megabytes_json(measured.profile.context)},
                     {"start_ms", milliseconds_json(measured.profile.start)},
                     {"shapes", shapes},
                     {"components", components}};
  return root.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lambent::pipeline
