// What makes sense in a workflow beyond its words: who may refer to what, and that there is an
// order. A pure function; used by graph_json.cc.
#pragma once

#include "core/base/result.h"
#include "decide/workflow/graph.h"

namespace lambent::workflow {

// Fills in Component::needs. INVALID_ARGUMENT, naming the place: "$item" or "$index" where there is
// no element, a component that refers to itself, or components that wait for each other in a
// circle, which is told.
Result<void> complete(Workflow& workflow);

}  // namespace lambent::workflow
