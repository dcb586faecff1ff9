#include "decide/workflow/graph.h"

namespace lambent::workflow {

void collect_references(const Template& from, std::vector<const Reference*>& into) {
  if (const auto* reference = std::get_if<Reference>(&from.content)) {
    into.push_back(reference);
  } else if (const auto* list = std::get_if<Template::List>(&from.content)) {
    for (const Template& each : *list) collect_references(each, into);
  } else if (const auto* object = std::get_if<Template::Object>(&from.content)) {
    for (const auto& [key, each] : *object) collect_references(each, into);
  }
}

bool Template::operator==(const Template& other) const { return content == other.content; }

bool Template::per_element() const {
  std::vector<const Reference*> references;
  collect_references(*this, references);
  for (const Reference* each : references) {
    if (each->per_element()) return true;
  }
  return false;
}

bool Condition::per_element() const { return reference.per_element() || value.per_element(); }

}  // namespace lambent::workflow
