// References of workflows: from text, to text, and followed to what they mean. Pure functions; any
// thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "decide/workflow/graph.h"

namespace lambent::workflow {

// "$NAME", then any number of ".KEY", "[NUMBER]" and "[\"any key\"]". NAME is input, item, index or
// a component. INVALID_ARGUMENT says what is wrong with it; a name that is not there comes with the
// closest one that is.
Result<Reference> parse_reference(std::string_view text,
                                  std::span<const std::string> component_names);
// What parse_reference() reads back as the same reference.
std::string to_text(const Reference& reference, std::span<const std::string> component_names);

// What references mean at one moment; all that is set outlives its use.
struct Scope {
  std::span<const std::string> names;     // of the components
  const Value* input = nullptr;           // of the workflow
  std::span<const Value* const> results;  // by component; null: it has not ended
  const Value* item = nullptr;            // of the for_each
  const Value* index = nullptr;
};

// Where the reference leads; it points into the scope. A path through null ends in null, for a
// component that was not run has no more to show. OUT_OF_RANGE, naming reference and place: there
// is no such key or entry.
Result<const Value*> follow(const Reference& reference, const Scope& scope);

// The template with everything replaced. OUT_OF_RANGE as above, with the place in the template
// ("input.boxes[2]"); RESOURCE_EXHAUSTED: it is larger than limits::kValue.
Result<Value> resolve(const Template& from, const Scope& scope, const std::string& place);

// The same without a copy where there need be none: what a template that is a bare reference leads
// to, or is itself. What has to be put together lies in `made`.
Result<const Value*> refer(const Template& from, const Scope& scope, const std::string& place,
                           Value& made);
// As resolve(), but a reference to nothing makes the whole of it null.
Result<Value> resolve_or_null(const Template& from, const Scope& scope, const std::string& place);

// What is not there counts as null here. INVALID_ARGUMENT: the two cannot be put in an order (only
// numbers and texts can, each among themselves; what is null is neither less nor more).
Result<bool> holds(const Condition& condition, const Scope& scope);

}  // namespace lambent::workflow
