#include "node/worker/pipeline_package.h"

#include <filesystem>
#include <memory>

#include "core/base/fd.h"
#include "decide/pipeline/limits.h"
#include "decide/pipeline/pipeline_json.h"

namespace lambent::worker {
namespace {

constexpr char kProfile[] = "profile.json";

}  // namespace

Result<std::shared_ptr<const PipelinePackage>> read_pipeline(const std::string& folder,
                                                             const std::string& file) {
  auto json = read_file(folder + "/" + file, pipeline::limits::kJson.count);
  if (!json.ok()) {
    return Error{ErrorCode::kNotFound,
                 "the package has no readable " + file +
                     ", which is to describe the pipeline (python3 -m lambent.pipeline build makes "
                     "it): " +
                     json.error().message};
  }
  auto package = std::make_shared<PipelinePackage>();
  auto definition = pipeline::parse_pipeline(*json);
  if (!definition.ok()) return definition.error().with_context(file);
  package->definition = std::move(definition).value();
  std::error_code ignored;
  if (!std::filesystem::exists(folder + "/" + kProfile, ignored)) return {std::move(package)};
  ASSIGN_OR_RETURN(json, read_file(folder + "/" + kProfile, pipeline::limits::kJson.count));
  auto profile = pipeline::parse_profile(*json, package->definition.dag);
  if (!profile.ok()) return profile.error().with_context(kProfile);
  package->profile = std::move(profile).value();
  return {std::move(package)};
}

}  // namespace lambent::worker
