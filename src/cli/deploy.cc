#include "cli/deploy.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "archive/zip.h"
#include "base/fd.h"
#include "cli/api_error.h"
#include "cli/function_request.h"
#include "cli/staging.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration kTimeout = seconds(120);
constexpr size_t kMostManifest = 1 << 20;

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

Result<std::string> zip_of(const std::string& folder, const Manifest& manifest,
                           const DeployOptions& options) {
  const std::string code = options.code ? *options.code : join_path(folder, manifest.code);
  if (code.ends_with(".zip")) {
    if (!manifest.bundles.empty() || !manifest.sources.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   "bundles cannot be added to " + code + ": name a folder as code"};
    }
    return read_file(code, limits::kZippedCode.count);
  }
  if (manifest.bundles.empty() && manifest.sources.empty()) return archive::make_zip(code);
  ASSIGN_OR_RETURN(const StagingFolder staging, StagingFolder::make());
  RETURN_IF_ERROR(staging.add(code, ""));
  for (const std::string& bundle : manifest.bundles) {
    const std::string source = join_path(folder, bundle);
    RETURN_IF_ERROR(staging.add(source, "bundles/" + last_part(source)));
  }
  for (const std::string& source : manifest.sources) {
    RETURN_IF_ERROR(add_compiled(staging, join_path(folder, source), options));
  }
  return archive::make_zip(staging.path());
}

}  // namespace

Result<Package> make_package(const DeployOptions& options) {
  const std::string file =
      options.path.ends_with(".toml") ? options.path : join_path(options.path, "lambent.toml");
  auto text = read_file(file, kMostManifest);
  if (!text.ok()) {
    return text.error().with_context("a function is described by a file lambent.toml");
  }
  Package package;
  ASSIGN_OR_RETURN(package.manifest, parse_manifest(*text, file));
  FunctionSpec& spec = package.manifest.spec;
  const std::string folder = folder_of(file);
  if (options.name) spec.name.name = *options.name;
  if (spec.name.name.empty()) {
    return Error{ErrorCode::kInvalidArgument, file + " has no name; add one or give --name"};
  }
  if (auto valid = validate(spec); !valid.ok()) return valid.error().with_context(file);
  ASSIGN_OR_RETURN(package.zip, zip_of(folder, package.manifest, options));
  return package;
}

Result<Deployed> deploy_function(Transport& transport, const FunctionSpec& spec,
                                 const std::string& zip) {
  auto created = good(transport.send(create_request(spec, zip), kTimeout));
  if (created.ok()) return Deployed{.created = true, .answer = std::move(created->body)};
  if (created.error().code != ErrorCode::kAlreadyExists) return created.error();
  auto updated = good(transport.send(update_code_request(spec.name.name, zip), kTimeout));
  if (!updated.ok()) return updated.error().with_context("updating the code");
  updated = good(transport.send(update_tags_request(spec), kTimeout));
  if (!updated.ok()) return updated.error().with_context("updating the tags");
  updated = good(transport.send(update_configuration_request(spec), kTimeout));
  if (!updated.ok()) return updated.error().with_context("updating the configuration");
  return Deployed{.created = false, .answer = std::move(updated->body)};
}

int run_deploy(Transport& transport, Console& console, const DeployOptions& options) {
  const auto package = make_package(options);
  if (!package.ok()) return fail(console, package.error());
  for (const std::string& warning : package->manifest.warnings) {
    console.err << "lambent: warning: " << warning << "\n";
  }
  const FunctionSpec& spec = package->manifest.spec;
  const auto deployed = deploy_function(transport, spec, package->zip);
  if (!deployed.ok()) {
    return fail(console, deployed.error().with_context("deploying " + spec.name.name));
  }
  const char* action = deployed->created ? "created" : "updated";
  if (console.json) {
    Json json = {{"action", action}, {"package_bytes", package->zip.size()}};
    const Json answer = Json::parse(deployed->answer, nullptr, false);
    json["function"] = answer.is_discarded() ? Json() : answer;
    console.out << json.dump(2) << "\n";
  } else {
    console.out << action << " " << spec.name.name << " (" << to_string(Bytes(package->zip.size()))
                << ")\n";
  }
  return 0;
}

}  // namespace lambent::cli
