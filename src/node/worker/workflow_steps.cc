#include "node/worker/workflow_steps.h"

#include <algorithm>

namespace lambent::worker {

std::vector<const FunctionSpec*> steps_of(
    const FunctionSpec& workflow,
    const std::function<const workflow::Workflow*(FunctionId)>& graph_of,
    const std::function<const FunctionSpec*(const FunctionName&)>& find) {
  std::vector<const FunctionSpec*> all = {&workflow};  // grows while it is walked
  for (size_t each = 0; each < all.size(); ++each) {
    const workflow::Workflow* graph = graph_of(all[each]->id);
    if (graph == nullptr) continue;
    for (const auto& component : graph->components) {
      const FunctionSpec* step = find({workflow.name.tenant, component.function});
      const bool is_new = step != nullptr && std::ranges::find(all, step) == all.end();
      if (is_new) all.push_back(step);
    }
  }
  std::erase_if(all,
                [](const FunctionSpec* step) { return step->kind == FunctionKind::kWorkflow; });
  return all;
}

}  // namespace lambent::worker
