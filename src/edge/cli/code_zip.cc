#include "edge/cli/code_zip.h"

#include <filesystem>
#include <variant>

#include "core/archive/zip.h"
#include "core/base/fd.h"
#include "core/domain/limits.h"
#include "decide/pipeline/limits.h"
#include "decide/pipeline/pipeline_json.h"
#include "edge/cli/staging.h"

namespace lambent::cli {
namespace {

// "kernels/step.cu" becomes bundles/step.
Result<void> add_compiled(const StagingFolder& staging, const std::string& source,
                          const DeployOptions& options) {
  if (!options.build_bundle) {
    return Error{ErrorCode::kUnimplemented, "compiling " + source + ": there is no compiler here"};
  }
  const std::string name = std::filesystem::path(source).stem();
  const std::string folder = staging.path() + "/bundles/" + name;
  std::error_code error;
  if (std::filesystem::exists(folder, error)) {
    return Error{ErrorCode::kInvalidArgument, "two kernel bundles are called '" + name + "'"};
  }
  std::filesystem::create_directories(staging.path() + "/bundles", error);
  return options.build_bundle(source, folder);
}

// Of a workflow that is described in the manifest: its graph and nothing else.
Result<std::string> zip_of_graph(const Manifest& manifest) {
  ASSIGN_OR_RETURN(const StagingFolder staging, StagingFolder::make());
  const std::string file = staging.path() + "/" + manifest.spec.handler;
  RETURN_IF_ERROR(write_file_atomically(file, manifest.workflow, false));
  return archive::make_zip(staging.path());
}

// The SLO of the manifest, into the pipeline's description that is sent.
Result<void> put_slo(const StagingFolder& staging, const Manifest& manifest) {
  const std::string& name = manifest.spec.handler;
  const std::string file = staging.path() + "/" + name;
  const auto text = read_file(file, pipeline::limits::kJson.count + 1);
  if (!text.ok()) {
    return Error{text.error().code, "the code has no readable " + name +
                                        ", which python3 -m lambent.pipeline build writes"};
  }
  auto definition = pipeline::parse_pipeline(*text);
  if (!definition.ok()) return definition.error().with_context(name);
  definition->slo = manifest.slo;
  return write_file_atomically(file, pipeline::to_json(*definition), false);
}

Result<void> add_unpacked(const StagingFolder& staging, const std::string& file) {
  ASSIGN_OR_RETURN(const std::string zip, read_file(file, limits::kZippedCode.count));
  ASSIGN_OR_RETURN(const StagingFolder unpacked, StagingFolder::make());
  const std::string folder = unpacked.path() + "/code";
  if (const auto done = archive::unpack_zip(zip, folder); !done.ok()) {
    return done.error().with_context(file);
  }
  return staging.add(folder, "");
}

// Which packages its Python has, into the package that is sent.
Result<void> put_python(const StagingFolder& staging, const PythonSection& section,
                        const std::string& folder) {
  ASSIGN_OR_RETURN(const PythonPackages packages, load_python_packages(section, folder));
  const std::filesystem::path path = std::filesystem::path(staging.path()) / kPythonPackagesFile;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return Error{ErrorCode::kInternal, "create " + path.string() + ": " + error.message()};
  return write_file_atomically(path, to_json(packages), false);
}

}  // namespace

std::string own_manifest(const std::string& code, const std::string& file) {
  const std::string name = last_part(file);
  std::error_code error;
  return std::filesystem::equivalent(std::filesystem::path(code) / name, file, error) ? name : "";
}

Result<std::string> zip_of(const std::string& file, const Manifest& manifest,
                           const DeployOptions& options) {
  const std::string folder = folder_of(file);
  if (!manifest.workflow.empty()) {
    if (!options.code) return zip_of_graph(manifest);
    return Error{ErrorCode::kInvalidArgument,
                 "--code is for workflows without [[component]] tables"};
  }
  const std::string code = options.code ? *options.code : join_path(folder, manifest.code);
  const bool has_slo = !std::holds_alternative<pipeline::NoSlo>(manifest.slo);
  const bool as_it_is =
      manifest.bundles.empty() && manifest.sources.empty() && !has_slo && !manifest.python;
  const bool is_zip = code.ends_with(".zip");
  if (is_zip && as_it_is) return read_file(code, limits::kZippedCode.count);
  // The manifest is told in the request. In the package it would make other code of it whenever a
  // setting is another one, and what runs would start again.
  const std::string without = own_manifest(code, file);
  if (as_it_is) return archive::make_zip(code, {}, without);
  ASSIGN_OR_RETURN(const StagingFolder staging, StagingFolder::make());
  RETURN_IF_ERROR(is_zip ? add_unpacked(staging, code) : staging.add(code, ""));
  for (const std::string& bundle : manifest.bundles) {
    const std::string source = join_path(folder, bundle);
    RETURN_IF_ERROR(staging.add(source, "bundles/" + last_part(source)));
  }
  for (const std::string& source : manifest.sources) {
    RETURN_IF_ERROR(add_compiled(staging, join_path(folder, source), options));
  }
  if (has_slo) RETURN_IF_ERROR(put_slo(staging, manifest));
  if (manifest.python) RETURN_IF_ERROR(put_python(staging, *manifest.python, folder));
  return archive::make_zip(staging.path(), {}, without);
}

Result<std::string> zip_without_weights(const Manifest& manifest, const std::string& folder) {
  ASSIGN_OR_RETURN(const StagingFolder staging, StagingFolder::make());
  if (manifest.python) RETURN_IF_ERROR(put_python(staging, *manifest.python, folder));
  return archive::make_zip(staging.path());
}

}  // namespace lambent::cli
