#include "node/worker/workflow_package.h"

#include "core/base/fd.h"
#include "decide/workflow/graph_json.h"
#include "decide/workflow/limits.h"

namespace lambent::worker {

Result<std::shared_ptr<const workflow::Workflow>> read_workflow(const std::string& folder,
                                                                const std::string& graph) {
  auto json = read_file(folder + "/" + graph, workflow::limits::kGraphJson.count);
  if (!json.ok()) {
    return Error{ErrorCode::kNotFound, "the package has no readable " + graph +
                                           ", which is to be its graph: " + json.error().message};
  }
  auto parsed = workflow::parse_workflow(*json);
  if (!parsed.ok()) return parsed.error().with_context(graph);
  return std::make_shared<const workflow::Workflow>(std::move(parsed).value());
}

}  // namespace lambent::worker
