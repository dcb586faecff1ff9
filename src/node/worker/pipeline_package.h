// The definition in a pipeline function's package, and what was measured of it before it was sent.
// Blocks for the disk: used on the file thread, and when the worker starts.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "decide/pipeline/definition.h"
#include "decide/pipeline/profile_json.h"

namespace lambent::worker {

struct PipelinePackage {
  pipeline::PipelineDefinition definition;
  std::optional<pipeline::MeasuredProfile> profile;  // its profile.json, if there is one
};

// Shared, since instances go on with what they were started with. INVALID_ARGUMENT names the place
// in the file; NOT_FOUND: the package has no such file.
Result<std::shared_ptr<const PipelinePackage>> read_pipeline(const std::string& folder,
                                                             const std::string& file);

}  // namespace lambent::worker
