#include "decide/workflow/validation.h"

#include <algorithm>
#include <string>

#include "core/base/document_place.h"

namespace lambent::workflow {
namespace {

using References = std::vector<const Reference*>;

Result<void> check_elements(const References& references, const std::string& place,
                            const char* why) {
  for (const Reference* reference : references) {
    if (reference->per_element()) {
      return invalid_at(place, std::string("$item and $index mean nothing ") + why);
    }
  }
  return {};
}

// What a component refers to, after a check that it may.
Result<References> references_of(const Component& component, const std::string& place) {
  References all;
  if (component.for_each) {
    collect_references(*component.for_each, all);
    RETURN_IF_ERROR(check_elements(all, place + ".for_each", "before there are elements"));
  }
  References others;
  collect_references(component.input, others);
  if (component.when) {
    others.push_back(&component.when->reference);
    collect_references(component.when->value, others);
  }
  if (!component.for_each) {
    RETURN_IF_ERROR(check_elements(others, place, "without a for_each"));
  }
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

// Finds a circle by walking from need to need.
class CircleSearch {
 public:
  explicit CircleSearch(const Workflow& workflow)
      : components_(workflow.components), states_(components_.size(), State::kUnseen) {}

  Result<void> search() {
    for (uint32_t i = 0; i < components_.size(); ++i) RETURN_IF_ERROR(visit(i));
    return {};
  }

 private:
  enum class State { kUnseen, kOnPath, kDone };

  // As deep as there are components, at most.
  Result<void> visit(uint32_t number) {
    if (states_[number] == State::kDone) return {};
    if (states_[number] == State::kOnPath) return circle(number);
    states_[number] = State::kOnPath;
    path_.push_back(number);
    for (const uint32_t need : components_[number].needs) RETURN_IF_ERROR(visit(need));
    path_.pop_back();
    states_[number] = State::kDone;
    return {};
  }

  Error circle(uint32_t number) const {
    const auto from = std::find(path_.begin(), path_.end(), number);
    std::string told;
    for (auto each = from; each != path_.end(); ++each) {
      told += "'" + components_[*each].name + "' needs ";
    }
    return invalid_at(item_place("components", number),
                      told + "'" + components_[number].name + "': nothing of that could begin");
  }

  const std::vector<Component>& components_;
  std::vector<State> states_;
  std::vector<uint32_t> path_;
};

}  // namespace

Result<void> complete(Workflow& workflow) {
  for (size_t i = 0; i < workflow.components.size(); ++i) {
    Component& component = workflow.components[i];
    ASSIGN_OR_RETURN(const References references,
                     references_of(component, "components[" + std::to_string(i) + "]"));
    component.needs = component.after;
    for (const Reference* reference : references) {
      if (reference->root == Reference::Root::kComponent) {
        component.needs.push_back(reference->component);
      }
    }
    std::sort(component.needs.begin(), component.needs.end());
    component.needs.erase(std::unique(component.needs.begin(), component.needs.end()),
                          component.needs.end());
  }
  References of_output;
  collect_references(workflow.output, of_output);
  RETURN_IF_ERROR(check_elements(of_output, "output", "in the output"));
  return CircleSearch(workflow).search();
}

}  // namespace lambent::workflow
