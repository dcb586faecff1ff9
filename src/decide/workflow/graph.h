// Workflow: functions that are called in an order which their values give, as data. A value; read
// from JSON (graph_json.h), run by Run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "decide/workflow/value.h"

namespace lambent::workflow {

// A place in what a run knows: "$input.image", "$detect.boxes[0].x", "$item", "$index".
struct Reference {
  enum class Root { kInput, kItem, kIndex, kComponent };
  Root root = Root::kInput;
  uint32_t component = 0;  // if the root is one: its number in the workflow
  // Keys of objects and numbers in lists, from the outside in.
  std::vector<std::variant<std::string, uint32_t>> path;

  bool operator==(const Reference&) const = default;
  bool per_element() const { return root == Root::kItem || root == Root::kIndex; }
};

// A value with references in it, which are replaced when it is needed.
struct Template {
  using List = std::vector<Template>;
  using Object = std::vector<std::pair<std::string, Template>>;
  // A Value has no references anywhere in it; a List or Object has some.
  std::variant<Value, Reference, List, Object> content;

  // Not defaulted here: clang compares a content that holds this type only where it is complete.
  bool operator==(const Template& other) const;
  // A List or an Object: put together again each time.
  bool is_made() const { return content.index() >= 2; }
  // Whether it is another one for each element of a for_each.
  bool per_element() const;
};

enum class Comparison { kTrue, kNotTrue, kEqual, kUnequal, kLess, kAtMost, kMore, kAtLeast };

struct Condition {
  Reference reference;
  Comparison comparison = Comparison::kTrue;
  Template value;  // null for kTrue and kNotTrue

  bool operator==(const Condition&) const = default;
  // Whether it is another one for each element of a for_each.
  bool per_element() const;
};

struct Component {
  std::string name;
  std::string function;
  Template input;
  std::optional<Template> for_each;  // gives a list: one call for each of its elements
  std::optional<Condition> when;
  std::vector<uint32_t> after;  // components to wait for, beside those that are referred to
  bool idempotent = false;      // its calls may be made again when their place failed
  bool by_value = false;        // the outputs of a kernel function come as JSON, not as objects

  // What has to end before this can begin, by number: sorted, each once. Follows from the rest.
  std::vector<uint32_t> needs;

  bool operator==(const Component&) const = default;
};

struct Workflow {
  std::vector<Component> components;
  Template output;

  bool operator==(const Workflow&) const = default;
};

// Every reference in it, from left to right.
void collect_references(const Template& from, std::vector<const Reference*>& into);

}  // namespace lambent::workflow
