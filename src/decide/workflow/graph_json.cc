#include "decide/workflow/graph_json.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/base/json_reading.h"
#include "decide/workflow/limits.h"
#include "decide/workflow/reference.h"
#include "decide/workflow/validation.h"

namespace lambent::workflow {
namespace {

struct Operator {
  std::string_view text;
  Comparison comparison;
};
constexpr std::array<Operator, 6> kOperators{{{"==", Comparison::kEqual},
                                              {"!=", Comparison::kUnequal},
                                              {"<", Comparison::kLess},
                                              {"<=", Comparison::kAtMost},
                                              {">", Comparison::kMore},
                                              {">=", Comparison::kAtLeast}}};

Result<std::string> read_name(const Json& object, const std::string& place, const char* key) {
  ASSIGN_OR_RETURN(const Json* name, required_member(object, place, key));
  return name_value(*name, member_place(place, key), limits::kNameLength);
}

class WorkflowReader {
 public:
  Result<Workflow> read_root(const Json& root) {
    RETURN_IF_ERROR(check_keys(root, "the workflow", {"components", "output"}));
    ASSIGN_OR_RETURN(const Json* list, required_member(root, "the workflow", "components"));
    if (!list->is_array() || list->empty()) {
      return invalid_at("components", "a list of at least one component is expected");
    }
    if (list->size() > limits::kComponents) {
      return invalid_at("components", "has " + std::to_string(list->size()) + " entries; at most " +
                                          std::to_string(limits::kComponents) + " are taken");
    }
    RETURN_IF_ERROR(read_names(*list));
    Workflow workflow;
    for (size_t i = 0; i < list->size(); ++i) {
      ASSIGN_OR_RETURN(workflow.components.emplace_back(),
                       read_component((*list)[i], item_place("components", i), names_[i]));
    }
    if (const auto output = root.find("output"); output != root.end()) {
      ASSIGN_OR_RETURN(workflow.output, read_template(*output, "output"));
    } else {
      Reference last{.root = Reference::Root::kComponent};
      last.component = static_cast<uint32_t>(names_.size() - 1);
      workflow.output.content = std::move(last);
    }
    RETURN_IF_ERROR(complete(workflow));
    return workflow;
  }

 private:
  // First of all, since components may refer to those after them.
  Result<void> read_names(const Json& list) {
    std::set<std::string> seen;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string place = item_place("components", i);
      if (!list[i].is_object()) return invalid_at(place, "an object is expected");
      ASSIGN_OR_RETURN(std::string name, read_name(list[i], place, "name"));
      if (name == "input" || name == "item" || name == "index") {
        return invalid_at(place + ".name", "'" + name + "' has a meaning of its own in references");
      }
      if (!seen.insert(name).second) {
        return invalid_at(place + ".name", "there are two components '" + name + "'");
      }
      names_.push_back(std::move(name));
    }
    return {};
  }

  Result<Component> read_component(const Json& object, const std::string& place,
                                   const std::string& name) {
    RETURN_IF_ERROR(check_keys(
        object, place,
        {"name", "function", "input", "for_each", "when", "after", "idempotent", "inline"}));
    Component component;
    component.name = name;
    ASSIGN_OR_RETURN(component.function, read_name(object, place, "function"));
    if (const auto each = object.find("for_each"); each != object.end()) {
      ASSIGN_OR_RETURN(component.for_each, read_template(*each, place + ".for_each"));
    }
    if (const auto input = object.find("input"); input != object.end()) {
      ASSIGN_OR_RETURN(component.input, read_template(*input, place + ".input"));
    } else {
      Reference whole;
      if (component.for_each) whole.root = Reference::Root::kItem;
      component.input.content = whole;
    }
    if (const auto when = object.find("when"); when != object.end()) {
      ASSIGN_OR_RETURN(component.when, read_condition(*when, place + ".when"));
    }
    if (const auto after = object.find("after"); after != object.end()) {
      ASSIGN_OR_RETURN(component.after, read_after(*after, place + ".after"));
    }
    ASSIGN_OR_RETURN(component.idempotent, flag_member(object, place, "idempotent"));
    ASSIGN_OR_RETURN(component.by_value, flag_member(object, place, "inline"));
    return component;
  }

  Result<std::vector<uint32_t>> read_after(const Json& list, const std::string& place) {
    if (!list.is_array() || list.size() > limits::kComponents) {
      return invalid_at(place, "a list of components' names is expected");
    }
    std::vector<uint32_t> after;
    for (size_t i = 0; i < list.size(); ++i) {
      const auto found = list[i].is_string() ? std::find(names_.begin(), names_.end(),
                                                         list[i].get_ref<const std::string&>())
                                             : names_.end();
      if (found == names_.end())
        return invalid_at(item_place(place, i), "the name of a component is expected");
      after.push_back(static_cast<uint32_t>(found - names_.begin()));
    }
    return after;
  }

  Result<Reference> read_reference(const Json& value, const std::string& place) {
    if (!value.is_string())
      return invalid_at(place, "a reference such as \"$input.x\" is expected");
    auto reference = parse_reference(value.get_ref<const std::string&>(), names_);
    if (!reference.ok()) return reference.error().with_context(place);
    return reference;
  }

  Result<Condition> read_condition(const Json& value, const std::string& place) {
    Condition condition;
    if (!value.is_object()) {
      ASSIGN_OR_RETURN(condition.reference, read_reference(value, place));
      return condition;
    }
    if (const auto inner = value.find("not"); inner != value.end()) {
      RETURN_IF_ERROR(check_keys(value, place, {"not"}));
      condition.comparison = Comparison::kNotTrue;
      ASSIGN_OR_RETURN(condition.reference, read_reference(*inner, place + ".not"));
      return condition;
    }
    RETURN_IF_ERROR(check_keys(value, place, {"ref", "op", "value", "not"}));
    ASSIGN_OR_RETURN(const Json* reference, required_member(value, place, "ref"));
    ASSIGN_OR_RETURN(const Json* op, required_member(value, place, "op"));
    ASSIGN_OR_RETURN(const Json* compared, required_member(value, place, "value"));
    ASSIGN_OR_RETURN(condition.reference, read_reference(*reference, place + ".ref"));
    const auto known = std::find_if(kOperators.begin(), kOperators.end(), [&](const auto& each) {
      return op->is_string() && op->get_ref<const std::string&>() == each.text;
    });
    if (known == kOperators.end()) {
      return invalid_at(place + ".op", "one of ==, !=, <, <=, > and >= is expected");
    }
    condition.comparison = known->comparison;
    ASSIGN_OR_RETURN(condition.value, read_template(*compared, place + ".value"));
    return condition;
  }

  Result<Template> read_template(const Json& value, const std::string& place) {
    if (value.is_string()) return read_text(value.get_ref<const std::string&>(), place);
    if (value.is_array()) {
      Template::List list;
      for (size_t i = 0; i < value.size(); ++i) {
        ASSIGN_OR_RETURN(list.emplace_back(), read_template(value[i], item_place(place, i)));
      }
      return settled(std::move(list));
    }
    if (!value.is_object()) return Template{Value(value)};
    Template::Object object;
    for (const auto& [key, inner] : value.items()) {
      ASSIGN_OR_RETURN(Template each, read_template(inner, place + "." + key));
      object.emplace_back(key, std::move(each));
    }
    // So that the same value is read from the text that is written of it.
    std::sort(object.begin(), object.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    return settled(std::move(object));
  }

  Result<Template> read_text(const std::string& text, const std::string& place) {
    if (!text.starts_with('$')) return Template{Value(text)};
    if (text.starts_with("$$")) return Template{Value(text.substr(1))};
    auto reference = parse_reference(text, names_);
    if (!reference.ok()) return reference.error().with_context(place);
    return Template{std::move(*reference)};
  }

  // One value, if there is no reference in it.
  static Template settled(Template::List list) {
    Value value = Value::array();
    for (const Template& each : list) {
      if (!std::holds_alternative<Value>(each.content)) return Template{std::move(list)};
      value.push_back(std::get<Value>(each.content));
    }
    return Template{std::move(value)};
  }
  static Template settled(Template::Object object) {
    Value value = Value::object();
    for (const auto& [key, each] : object) {
      if (!std::holds_alternative<Value>(each.content)) return Template{std::move(object)};
      value[key] = std::get<Value>(each.content);
    }
    return Template{std::move(value)};
  }

  std::vector<std::string> names_;
};

// --- Writing ---

class WorkflowWriter {
 public:
  explicit WorkflowWriter(const Workflow& workflow) : workflow_(workflow) {
    for (const Component& component : workflow.components) names_.push_back(component.name);
  }

  Json json() const {
    Json list = Json::array();
    for (const Component& component : workflow_.components) list.push_back(json(component));
    return {{"components", list}, {"output", json(workflow_.output)}};
  }

 private:
  Json json(const Component& component) const {
    Json object = {{"name", component.name},
                   {"function", component.function},
                   {"input", json(component.input)}};
    if (component.for_each) object["for_each"] = json(*component.for_each);
    if (component.when) object["when"] = json(*component.when);
    for (const uint32_t each : component.after) object["after"].push_back(names_[each]);
    if (component.idempotent) object["idempotent"] = true;
    if (component.by_value) object["inline"] = true;
    return object;
  }

  Json json(const Condition& condition) const {
    const std::string reference = to_text(condition.reference, names_);
    if (condition.comparison == Comparison::kTrue) return reference;
    if (condition.comparison == Comparison::kNotTrue) return {{"not", reference}};
    const auto known = std::find_if(kOperators.begin(), kOperators.end(), [&](const auto& each) {
      return each.comparison == condition.comparison;
    });
    return {{"ref", reference}, {"op", known->text}, {"value", json(condition.value)}};
  }

  Json json(const Template& from) const {
    if (const auto* value = std::get_if<Value>(&from.content)) return json(*value);
    if (const auto* reference = std::get_if<Reference>(&from.content)) {
      return to_text(*reference, names_);
    }
    if (const auto* list = std::get_if<Template::List>(&from.content)) {
      Json made = Json::array();
      for (const Template& each : *list) made.push_back(json(each));
      return made;
    }
    Json made = Json::object();
    for (const auto& [key, each] : std::get<Template::Object>(from.content)) made[key] = json(each);
    return made;
  }

  // As it was written: with the "$" that stands for itself twice.
  Json json(const Value& value) const {
    if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      return text.starts_with('$') ? "$" + text : text;
    }
    if (value.is_array()) {
      Json made = Json::array();
      for (const Value& each : value) made.push_back(json(each));
      return made;
    }
    if (!value.is_object()) return Json(value);
    Json made = Json::object();
    for (const auto& [key, each] : value.items()) made[key] = json(each);
    return made;
  }

  const Workflow& workflow_;
  std::vector<std::string> names_;
};

}  // namespace

Result<Workflow> parse_workflow(std::string_view text) {
  ASSIGN_OR_RETURN(const Json root,
                   parse_document(text, limits::kGraphJson,
                                  {.subject = "the workflow", .most_depth = limits::kGraphDepth}));
  return WorkflowReader().read_root(root);
}

std::string to_json(const Workflow& workflow) {
  return WorkflowWriter(workflow).json().dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lambent::workflow
