// Which functions the runs of a workflow may call, also through workflows that they call. Pure.
#pragma once

#include <functional>
#include <vector>

#include "core/domain/function.h"
#include "decide/workflow/graph.h"

namespace lambent::worker {

// Each once, without workflows, and without what is not there. Null: there is none such.
std::vector<const FunctionSpec*> steps_of(
    const FunctionSpec& workflow,
    const std::function<const workflow::Workflow*(FunctionId)>& graph_of,
    const std::function<const FunctionSpec*(const FunctionName&)>& find);

}  // namespace lambent::worker
