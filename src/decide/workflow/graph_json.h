// A workflow as JSON, the form in which packages carry it (workflow.json). Pure functions; used by
// the worker when it deploys, by the command line before it sends, by fuzzers.
//
//   {"components": [
//      {"name": "detect", "function": "detector", "input": {"image": "$input.image"}},
//      {"name": "faces", "function": "face_reader", "for_each": "$detect.boxes",
//       "input": {"image": "$input.image", "box": "$item", "number": "$index"},
//       "when": {"ref": "$detect.count", "op": ">", "value": 0},
//       "after": ["audit"], "idempotent": true, "inline": false}],
//    "output": {"faces": "$faces"}}
//
// A text that begins with "$" is a reference (reference.h) and becomes what that means, with its
// type; "$$" at the front of a text is a "$". "input" is "$input" unless said, or "$item" where
// there is a for_each; "output" is what the last component gives. "when" is a reference, which has
// to be true (value.h), {"not": REFERENCE}, or {"ref", "op", "value"} with ==, !=, <, <=, > or >=.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "decide/workflow/graph.h"

namespace lambent::workflow {

// INVALID_ARGUMENT, naming the place, such as "components[2].input.box", for what is no workflow:
// unknown words, wrong types, two components of one name, references to nothing, "$item" without a
// for_each, components that wait for each other in a circle, limits exceeded. That the functions
// exist is not asked.
Result<Workflow> parse_workflow(std::string_view json);

// What parse_workflow() reads back as the same value.
std::string to_json(const Workflow& workflow);

}  // namespace lambent::workflow
