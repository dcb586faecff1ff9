#include "edge/cli/pipeline_files.h"

#include <filesystem>
#include <variant>

#include "core/base/fd.h"
#include "decide/pipeline/limits.h"
#include "decide/pipeline/pipeline_json.h"
#include "edge/cli/manifest.h"
#include "edge/cli/staging.h"

namespace lambent::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kManifestSize = 1 << 20;
constexpr char kProfile[] = "profile.json";

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}
bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Of a folder that is deployed as it is; none: it has no lambent.toml.
Result<std::optional<Manifest>> manifest_in(const std::string& folder) {
  const std::string file = folder + "/lambent.toml";
  if (!exists(file)) return {std::optional<Manifest>()};
  ASSIGN_OR_RETURN(const std::string text, read_file(file, kManifestSize));
  ASSIGN_OR_RETURN(Manifest manifest, parse_manifest(text, file));
  return {std::optional<Manifest>(std::move(manifest))};
}

// In a folder the file, or that of the folder's code, where the folder is what is deployed.
std::string file_in(const std::string& folder, const std::string& file,
                    const std::optional<Manifest>& manifest) {
  const std::string here = folder + "/" + file;
  return manifest && !exists(here) ? join_path(folder, manifest->code) + "/" + file : here;
}

Result<std::string> read_json(const std::string& path) {
  return read_file(path, pipeline::limits::kJson.count + 1);
}

}  // namespace

Result<DescribedPipeline> read_definition(const std::string& path) {
  std::optional<Manifest> manifest;
  std::string file = path;
  if (is_folder(path)) {
    ASSIGN_OR_RETURN(manifest, manifest_in(path));
    const bool named = manifest && manifest->spec.kind == FunctionKind::kPipeline;
    file = file_in(path, named ? manifest->spec.handler : "pipeline.json", manifest);
  }
  ASSIGN_OR_RETURN(const std::string text, read_json(file));
  auto definition = pipeline::parse_pipeline(text);
  if (!definition.ok()) return definition.error().with_context(file);
  DescribedPipeline described{*std::move(definition), Bytes()};
  if (!manifest) return described;
  described.declared_memory = manifest->spec.gpu.memory;
  if (!std::holds_alternative<pipeline::NoSlo>(manifest->slo)) {
    described.definition.slo = manifest->slo;
  }
  return described;
}

Result<std::string> read_profile_text(const std::string& path) {
  if (!is_folder(path)) return read_json(path);
  ASSIGN_OR_RETURN(const auto manifest, manifest_in(path));
  return read_json(file_in(path, kProfile, manifest));
}

Result<std::optional<std::string>> read_own_profile_text(const std::string& path) {
  std::string file = join_path(folder_of(path), kProfile);
  if (is_folder(path)) {
    ASSIGN_OR_RETURN(const auto manifest, manifest_in(path));
    file = file_in(path, kProfile, manifest);
  }
  if (!exists(file)) return {std::optional<std::string>()};
  ASSIGN_OR_RETURN(std::string text, read_json(file));
  return {std::optional<std::string>(std::move(text))};
}

}  // namespace lambent::cli
