// The files of a pipeline function that is not asked of a worker: pipeline.json, what lambent.toml
// beside it says of the SLO, and profile.json. They read the disk; used by deploy, plan and `slices
// advise`.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/base/units.h"
#include "decide/pipeline/definition.h"

namespace lambent::cli {

struct DescribedPipeline {
  pipeline::PipelineDefinition definition;
  Bytes declared_memory;  // of its lambent.toml; 0: that says none, or is not there
};
// `path`: the file, or a folder with it, or with the lambent.toml of a function whose code has it.
// An SLO that a folder's lambent.toml names takes the place of that of the file.
Result<DescribedPipeline> read_definition(const std::string& path);

// `path` likewise.
Result<std::string> read_profile_text(const std::string& path);
// That of a function whose definition is found at `path`, if it has one beside it; none otherwise.
Result<std::optional<std::string>> read_own_profile_text(const std::string& path);

}  // namespace lambent::cli
