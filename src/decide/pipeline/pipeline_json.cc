#include "decide/pipeline/pipeline_json.h"

#include <algorithm>

#include "core/base/spelling.h"
#include "decide/pipeline/document.h"
#include "decide/pipeline/limits.h"

namespace lambent::pipeline {
namespace {

// "app.App": a class, or a function, in a module that may lie in others.
bool is_handler(std::string_view text) {
  if (text.size() > limits::kHandlerLength || text.find('.') == text.npos) return false;
  bool first = true;  // of a name
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    if (c == '.' ? first : !(letter || (digit && !first))) return false;
    first = c == '.';
  }
  return !first;
}

class DefinitionReader {
 public:
  Result<PipelineDefinition> read_all(const Json& root) {
    RETURN_IF_ERROR(check_keys(root, kSubject,
                               {"pipeline", "handler", "inputs", "components", "outputs", "slo",
                                "batch", "rank", "isolation"}));
    ASSIGN_OR_RETURN(const Json* handler, required_member(root, kSubject, "handler"));
    if (!handler->is_string() || !is_handler(handler->get_ref<const std::string&>())) {
      return invalid_at("handler", "a module and a class such as 'app.App' are expected");
    }
    definition_.handler = handler->get<std::string>();
    RETURN_IF_ERROR(read_inputs(root));
    RETURN_IF_ERROR(read_components(root));
    RETURN_IF_ERROR(read_outputs(root));
    RETURN_IF_ERROR(check_use());
    RETURN_IF_ERROR(read_slo(root));
    RETURN_IF_ERROR(read_rest(root));
    return std::move(definition_);
  }

 private:
  static constexpr const char* kSubject = "the pipeline";

  std::string place_of(size_t component) const {
    return item_place("components", component) + " '" + names_[component] + "'";
  }

  Result<void> read_inputs(const Json& root) {
    ASSIGN_OR_RETURN(const Json* list,
                     required_list(root, kSubject, "inputs", "inputs", limits::kInputs));
    std::vector<std::string>& inputs = definition_.dag.inputs;
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string place = item_place("inputs", i);
      ASSIGN_OR_RETURN(std::string name, name_value((*list)[i], place, limits::kNameLength));
      if (std::find(inputs.begin(), inputs.end(), name) != inputs.end()) {
        return invalid_at(place, "there are two inputs '" + name + "'");
      }
      inputs.push_back(std::move(name));
    }
    return {};
  }

  // All names first, so that what stands too late can be told from what does not exist.
  Result<void> read_components(const Json& root) {
    ASSIGN_OR_RETURN(const Json* list, required_list(root, kSubject, "components", "components",
                                                     limits::kComponents));
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string place = item_place("components", i);
      if (!(*list)[i].is_object()) return invalid_at(place, "an object is expected");
      ASSIGN_OR_RETURN(const Json* value, required_member((*list)[i], place, "name"));
      ASSIGN_OR_RETURN(std::string name, name_value(*value, place + ".name", limits::kNameLength));
      if (std::find(names_.begin(), names_.end(), name) != names_.end()) {
        return invalid_at(place + ".name", "there are two components '" + name + "'");
      }
      names_.push_back(std::move(name));
    }
    for (size_t i = 0; i < list->size(); ++i) {
      ASSIGN_OR_RETURN(definition_.dag.components.emplace_back(), read_component((*list)[i], i));
    }
    return {};
  }

  Result<Component> read_component(const Json& object, size_t index) {
    const std::string place = place_of(index);
    RETURN_IF_ERROR(check_keys(object, place, {"name", "inputs", "optional"}));
    Component component{.name = names_[index]};
    ASSIGN_OR_RETURN(const Json* list,
                     required_list(object, place, "inputs", place + ".inputs", limits::kSources));
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string here = item_place(place + ".inputs", i);
      ASSIGN_OR_RETURN(component.inputs.emplace_back(), read_source((*list)[i], here, index));
    }
    ASSIGN_OR_RETURN(component.optional, flag_member(object, place, "optional"));
    return component;
  }

  Result<Source> read_source(const Json& value, const std::string& place, size_t component) {
    if (!value.is_string())
      return invalid_at(place, "\"$input\" or a component's name is expected");
    const auto& text = value.get_ref<const std::string&>();
    const std::string shown = text.substr(0, limits::kNameLength);
    if (text.starts_with('$')) {
      const std::vector<std::string>& inputs = definition_.dag.inputs;
      const auto found = std::find(inputs.begin(), inputs.end(), text.substr(1));
      if (found == inputs.end()) {
        return invalid_at(place, "the function has no input '" + shown + "'" +
                                     did_you_mean(text.substr(1), inputs));
      }
      return Source{Source::Kind::kInput, static_cast<size_t>(found - inputs.begin())};
    }
    ASSIGN_OR_RETURN(const size_t needed, component_index(text, place));
    if (needed == component) return invalid_at(place, "the component needs itself");
    if (needed > component) {
      return invalid_at(place,
                        "'" + text +
                            "' stands behind it; a component stands before those that need it, "
                            "and none can wait for itself");
    }
    return Source{Source::Kind::kComponent, needed};
  }

  Result<size_t> component_index(const std::string& text, const std::string& place) const {
    const auto found = std::find(names_.begin(), names_.end(), text);
    if (found != names_.end()) return static_cast<size_t>(found - names_.begin());
    const std::vector<std::string>& inputs = definition_.dag.inputs;
    const bool is_input = std::find(inputs.begin(), inputs.end(), text) != inputs.end();
    return invalid_at(place, "there is no component '" + text.substr(0, limits::kNameLength) + "'" +
                                 (is_input ? "; the input is written '$" + text + "'"
                                           : did_you_mean(text, names_)));
  }

  Result<void> read_outputs(const Json& root) {
    ASSIGN_OR_RETURN(const Json* list,
                     required_list(root, kSubject, "outputs", "outputs", limits::kComponents));
    std::vector<size_t>& outputs = definition_.dag.outputs;
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string place = item_place("outputs", i);
      if (!(*list)[i].is_string()) return invalid_at(place, "a component's name is expected");
      ASSIGN_OR_RETURN(const size_t index,
                       component_index((*list)[i].get_ref<const std::string&>(), place));
      if (std::find(outputs.begin(), outputs.end(), index) != outputs.end()) {
        return invalid_at(place, "'" + names_[index] + "' stands there twice");
      }
      outputs.push_back(index);
    }
    return {};
  }

  // What is not needed would run for nothing: a mistake, most likely in `outputs`.
  Result<void> check_use() const {
    std::vector<bool> used(names_.size());
    for (const size_t output : definition_.dag.outputs) used[output] = true;
    for (const Component& component : definition_.dag.components) {
      for (const Source& source : component.inputs) {
        if (source.kind == Source::Kind::kComponent) used[source.index] = true;
      }
    }
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) {
        return invalid_at(place_of(i), "nothing needs it, and it is no output of the function");
      }
    }
    return {};
  }

  Result<void> read_slo(const Json& root) {
    const auto slo = root.find("slo");
    if (slo == root.end()) return {};
    RETURN_IF_ERROR(check_keys(*slo, "slo", {"ms", "scale"}));
    if (slo->size() != 1) return invalid_at("slo", "either 'ms' or 'scale' is expected");
    if (const auto ms = slo->find("ms"); ms != slo->end()) {
      ASSIGN_OR_RETURN(const Duration time, milliseconds_value(*ms, "slo.ms"));
      if (time <= Duration{}) return invalid_at("slo.ms", "more than 0 is expected");
      definition_.slo = time;
    } else {
      ASSIGN_OR_RETURN(const double factor,
                       number_value(slo->at("scale"), "slo.scale", 0, limits::kSloScale));
      if (factor <= 0) return invalid_at("slo.scale", "more than 0 is expected");
      definition_.slo = SloScale{factor};
    }
    return {};
  }

  Result<void> read_rest(const Json& root) {
    if (const auto batch = root.find("batch"); batch != root.end()) {
      ASSIGN_OR_RETURN(const uint64_t most, whole_value(*batch, "batch", 1, limits::kBatch));
      definition_.most_batch = static_cast<unsigned>(most);
    }
    if (const auto rank = root.find("rank"); rank != root.end()) {
      if (rank->is_string()) {
        definition_.rank = rank_rule_from(rank->get_ref<const std::string&>());
      }
      if (!definition_.rank) return invalid_at("rank", "'balance' or 'throughput' is expected");
    }
    if (const auto isolation = root.find("isolation"); isolation != root.end()) {
      std::optional<IsolationRule> rule;
      if (isolation->is_string()) {
        rule = isolation_rule_from(isolation->get_ref<const std::string&>());
      }
      if (!rule) return invalid_at("isolation", "'slices', 'shared' or 'auto' is expected");
      definition_.isolation = *rule;
    }
    return {};
  }

  std::vector<std::string> names_;
  PipelineDefinition definition_;
};

Json component_json(const Dag& dag, const Component& component) {
  Json inputs = Json::array();
  for (const Source& source : component.inputs) {
    inputs.push_back(source.kind == Source::Kind::kInput ? "$" + dag.inputs[source.index]
                                                         : dag.components[source.index].name);
  }
  Json object = {{"name", component.name}, {"inputs", inputs}};
  if (component.optional) object["optional"] = true;
  return object;
}

}  // namespace

Result<PipelineDefinition> parse_pipeline(std::string_view text) {
  ASSIGN_OR_RETURN(const Json root, parse_numbered(text, "the pipeline", "pipeline"));
  return DefinitionReader().read_all(root);
}

std::string to_json(const PipelineDefinition& definition) {
  Json components = Json::array(), outputs = Json::array();
  for (const Component& component : definition.dag.components) {
    components.push_back(component_json(definition.dag, component));
  }
  for (const size_t output : definition.dag.outputs) {
    outputs.push_back(definition.dag.components[output].name);
  }
  Json root = {{"pipeline", 1},
               {"handler", definition.handler},
               {"inputs", definition.dag.inputs},
               {"components", components},
               {"outputs", outputs}};
  if (const auto* time = std::get_if<Duration>(&definition.slo)) {
    root["slo"] = {{"ms", milliseconds_json(*time)}};
  } else if (const auto* scale = std::get_if<SloScale>(&definition.slo)) {
    root["slo"] = {{"scale", scale->factor}};
  }
  if (definition.most_batch != 1) root["batch"] = definition.most_batch;
  if (definition.rank) root["rank"] = name_of(*definition.rank);
  if (definition.isolation != IsolationRule::kSlices) {
    root["isolation"] = name_of(definition.isolation);
  }
  return root.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lambent::pipeline
