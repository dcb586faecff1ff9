#include "workflow/graph.h"

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

bool Condition::per_element() const {
  std::vector<const Reference*> references{&reference};
  collect_references(value, references);
  for (const Reference* each : references) {
    if (each->per_element()) return true;
  }
  return false;
}

}  // namespace lambent::workflow
