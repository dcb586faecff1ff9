#include "edge/cli/model_versions.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/archive/zip.h"
#include "core/base/fd.h"
#include "core/domain/model_function.h"
#include "core/domain/version.h"
#include "edge/cli/api_error.h"
#include "edge/cli/api_json.h"
#include "edge/cli/function_request.h"
#include "edge/cli/model_loading.h"
#include "edge/cli/staging.h"
#include "edge/model_files/onnx_files.h"
#include "edge/model_files/triton_config.h"

namespace lambent::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string function_path(const std::string& function, const std::string& what) {
  return "/v1/functions/" + http::percent_encode(function) + "/" + what;
}

// The text of a manifest, as a config.pbtxt says it; empty texts: there is none.
struct Described {
  std::string manifest;
  std::string name;
  std::string policy;
  std::vector<std::string> warnings;
};

Result<Described> describe(const ModelFolder& folder) {
  Described described{.manifest = "kind = \"model\"\n", .name = {}, .policy = {}, .warnings = {}};
  const std::string file = folder.path + "/" + model_files::kTritonConfig;
  auto text = read_file(file, kMostManifestText);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return described;
  if (!text.ok()) return text.error();
  ASSIGN_OR_RETURN(model_files::TritonConfig config, model_files::read_triton_config(*text, file));
  described.name = config.name;
  described.policy = config.version_policy;
  for (const std::string& warning : config.warnings) {
    described.warnings.push_back(file + ": " + warning);
  }
  if (!config.file.empty()) {
    // It comes from a text format with quotes of its own.
    if (config.file.find_first_of("'\n/") != std::string::npos) {
      return Error{ErrorCode::kInvalidArgument,
                   file + ": default_model_filename is no name of a file"};
    }
    described.manifest += "model = '" + config.file + "'\n";
  }
  if (config.batch_size) {
    described.manifest += "[batch]\nsize = " + std::to_string(*config.batch_size) + "\n";
    if (config.batch_wait_ms) {
      described.manifest += "wait_ms = " + std::to_string(*config.batch_wait_ms) + "\n";
    }
  }
  return described;
}

Result<void> check_file(const std::string& folder, const std::string& model) {
  std::error_code error;
  if (fs::is_regular_file(fs::path(folder) / model, error)) return {};
  std::string others;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!model_files::is_onnx_name(name)) continue;
    others += (others.empty() ? "" : ", ") + name;
  }
  return Error{ErrorCode::kNotFound,
               folder + " has no " + model +
                   (others.empty() ? ""
                                   : "; it has " + others +
                                         ": 'model' of a lambent.toml, or "
                                         "default_model_filename of a config.pbtxt, names it")};
}

// The policy of the command line, else of the manifest, else of config.pbtxt, else Triton's own.
Result<VersionPolicy> policy_for(const DeployOptions& options, const std::string& of_manifest,
                                 const std::string& configured) {
  for (const std::string& text : {options.version_policy, of_manifest, configured}) {
    if (!text.empty()) return parse_version_policy(text);
  }
  return VersionPolicy();
}

}  // namespace

Result<ModelVersions> pack_model_folder(const ModelFolder& folder, const DeployOptions& options) {
  ASSIGN_OR_RETURN(const StagingFolder staging, StagingFolder::make());
  std::error_code error;
  const bool has_own = folder.has_own_manifest;
  Described described;
  if (!has_own) {
    ASSIGN_OR_RETURN(described, describe(folder));
    RETURN_IF_ERROR(
        write_file_atomically(staging.path() + "/" + kManifestName, described.manifest, false));
  } else if (fs::exists(folder.path + "/" + model_files::kTritonConfig, error)) {
    described.warnings.push_back(folder.path + "/" + model_files::kTritonConfig +
                                 " is not read where there is a lambent.toml");
  }
  const std::string file = (has_own ? folder.path : staging.path()) + "/" + kManifestName;
  ASSIGN_OR_RETURN(const std::string text, read_file(file, kMostManifestText));
  ASSIGN_OR_RETURN(const Manifest manifest, parse_manifest(text, file, overrides_of(options)));
  const std::string called = last_part(fs::absolute(folder.path).lexically_normal().string());
  // Triton holds it so too.
  if (!described.name.empty() && described.name != called) {
    return Error{ErrorCode::kInvalidArgument, folder.path + "/" + model_files::kTritonConfig +
                                                  ": it is of a model '" + described.name +
                                                  "', and the folder is '" + called + "'"};
  }
  ModelVersions models{.name = options.name.value_or(
                           manifest.spec.name.name.empty() ? called : manifest.spec.name.name),
                       .packages = {},
                       .keeps = {}};
  ASSIGN_OR_RETURN(models.keeps,
                   policy_for(options, manifest.model->version_policy, described.policy));
  std::set<uint64_t> there;
  for (const auto& [version, path] : folder.versions) there.insert(version);
  ASSIGN_OR_RETURN(const std::vector<uint64_t> served, served_versions(*models.keeps, there));
  for (const uint64_t version : served) {
    DeployOptions one = options;
    one.path = file;
    one.name = models.name;
    one.code = folder.versions.at(version);
    RETURN_IF_ERROR(check_file(*one.code, manifest.model->file));
    auto package = make_package(one);
    if (!package.ok()) return package.error().with_context("version " + std::to_string(version));
    package->manifest.warnings.insert(package->manifest.warnings.begin(),
                                      described.warnings.begin(), described.warnings.end());
    described.warnings.clear();
    models.packages.emplace(version, *std::move(package));
  }
  return models;
}

Result<std::vector<uint64_t>> versions_to_serve(const std::string& folder,
                                                const std::set<uint64_t>& there,
                                                const DeployOptions& options) {
  ASSIGN_OR_RETURN(const Described described, describe({.path = folder, .versions = {}}));
  ASSIGN_OR_RETURN(const VersionPolicy policy, policy_for(options, "", described.policy));
  return served_versions(policy, there);
}

Result<ModelVersions> pack_model_version(const DeployOptions& options) {
  ASSIGN_OR_RETURN(Package package, make_package(options));
  if (!package.is_model) {
    return Error{ErrorCode::kInvalidArgument,
                 "--model-version is for models; other functions are published with 'lambent "
                 "publish'"};
  }
  ModelVersions models{.name = package.manifest.spec.name.name, .packages = {}, .keeps = {}};
  if (!options.version_policy.empty()) {
    ASSIGN_OR_RETURN(models.keeps, parse_version_policy(options.version_policy));
  }
  models.packages.emplace(*options.model_version, std::move(package));
  return models;
}

namespace {

// One deployment of a model's versions.
class VersionRoll {
 public:
  VersionRoll(Transport& transport, Console& console, const ModelVersions& models,
              const DeployOptions& options)
      : transport_(transport), console_(console), models_(models), options_(options) {}

  Result<void> run() {
    RETURN_IF_ERROR(read());
    for (const auto& [version, package] : models_.packages) {
      const std::string name = models_.name + ":" + std::to_string(version);
      const auto put =
          published_.contains(version) ? compare(version, package) : publish(version, package);
      if (!put.ok()) return put.error().with_context(name);
    }
    if (options_.dry_run) return {};
    RETURN_IF_ERROR(serve());
    return remove_others();
  }

  Json json() const {
    Json versions = Json::array();
    for (const auto& [version, action] : actions_) {
      versions.push_back({{"version", version}, {"action", action}});
    }
    Json json = {{"model", models_.name}, {"versions", versions}, {"removed", removed_}};
    if (!serving_.empty()) json["serving"] = serving_;
    if (options_.dry_run) json["dry_run"] = true;
    return json;
  }

 private:
  void say(const std::string& line) {
    if (!console_.json) console_.out << line << "\n";
  }

  // What the worker has.
  Result<void> read() {
    const auto versions = ask_json(transport_, "GET", function_path(models_.name, "versions"));
    if (!versions.ok() && versions.error().code == ErrorCode::kNotFound) return {};
    if (!versions.ok()) return versions.error();
    for (const Json& one : versions->value("versions", Json::array())) {
      if (const auto number = version_number(one.value("version", ""))) published_.insert(*number);
    }
    ASSIGN_OR_RETURN(const Json aliases,
                     ask_json(transport_, "GET", function_path(models_.name, "aliases")));
    for (const Json& alias : aliases.value("aliases", Json::array())) {
      if (alias.value("name", "") != kServingAlias) continue;
      serving_ = alias.value("version", "");
      has_second_ = !alias.value("second", "").empty();
    }
    return {};
  }

  // A version never changes: one that is there is the one of the folder, or the folder is wrong.
  Result<void> compare(uint64_t version, const Package& package) {
    const std::string number = std::to_string(version);
    ASSIGN_OR_RETURN(const Json there,
                     ask_json(transport_, "GET",
                              function_target(models_.name, "/configuration?Qualifier=" + number)));
    const FunctionSpec& spec = package.manifest.spec;
    const bool is_same = there.value("CodeSha256", "") == archive::code_sha256(package.zip) &&
                         there.value("Handler", "") == spec.handler &&
                         there.value("MemorySize", uint64_t{0}) == spec.memory.count >> 20;
    if (!is_same) {
      return Error{ErrorCode::kFailedPrecondition,
                   "it is published with other files or settings, and a version never changes: "
                   "call the new one " +
                       std::to_string(*published_.rbegin() + 1)};
    }
    actions_[version] = "unchanged";
    say("unchanged " + models_.name + ":" + number);
    return {};
  }

  // Whether it can be loaded is known before it is published: its number is used up then.
  Result<void> publish(uint64_t version, const Package& package) {
    const std::string number = std::to_string(version);
    const std::string name = models_.name + ":" + number;
    ASSIGN_OR_RETURN(const Deployed deployed,
                     deploy_package(transport_, console_, package, options_));
    actions_[version] = "published";
    if (options_.dry_run) {
      say("would be published " + name);
      return {};
    }
    const std::string model = "/v2/models/" + http::percent_encode(models_.name);
    RETURN_IF_ERROR(load_model(transport_, model + ":" + std::string(kLatestVersion)));
    const Json body = {{"version", version}};
    RETURN_IF_ERROR(ask_json(transport_, "POST", function_path(models_.name, "versions"), &body));
    published_.insert(version);
    say("published " + name);
    ASSIGN_OR_RETURN(const auto takes, load_model(transport_, model + "/versions/" + number));
    if (takes) say("  " + *takes);
    return {};
  }

  // The version that served stays, with the requests that are on their way to it.
  Result<void> serve() {
    served_before_ = version_number(serving_);
    const std::string highest = std::to_string(models_.packages.rbegin()->first);
    if (serving_ != highest || has_second_) {
      const Json body = {{"version", highest},
                         {"description", "serves requests that name no version"}};
      RETURN_IF_ERROR(ask_json(transport_, "PUT",
                               function_path(models_.name, "aliases/" + std::string(kServingAlias)),
                               &body));
    }
    serving_ = highest;
    say("  /v2/models/" + http::percent_encode(models_.name) + " -> version " + highest);
    return {};
  }

  Result<void> remove_others() {
    if (!models_.keeps) return {};
    std::set<uint64_t> others = published_;
    if (models_.keeps->kind == VersionPolicy::Kind::kAll) return {};
    for (const auto& [version, package] : models_.packages) others.erase(version);
    if (served_before_) others.erase(*served_before_);
    for (const uint64_t version : others) {
      const std::string number = std::to_string(version);
      const auto removed =
          ask_json(transport_, "DELETE", function_path(models_.name, "versions/" + number));
      if (!removed.ok()) {
        // An alias of its user's needs it, which is a reason to keep it.
        if (removed.error().code != ErrorCode::kFailedPrecondition) return removed.error();
        continue;
      }
      removed_.push_back(version);
      say("removed " + models_.name + ":" + number);
    }
    return {};
  }

  Transport& transport_;
  Console& console_;
  const ModelVersions& models_;
  const DeployOptions& options_;
  std::set<uint64_t> published_;
  std::string serving_;
  bool has_second_ = false;
  std::optional<uint64_t> served_before_;
  std::map<uint64_t, std::string> actions_;
  std::vector<uint64_t> removed_;
};

Result<Json> deploy_versions(Transport& transport, Console& console, const ModelVersions& models,
                             const DeployOptions& options) {
  if (!options.waits) {
    return Error{ErrorCode::kInvalidArgument, "--no-wait: a version is published once it serves"};
  }
  VersionRoll roll(transport, console, models, options);
  RETURN_IF_ERROR(roll.run());
  if (!options.dry_run) {
    for (const auto& [version, package] : models.packages) drop_fetched(package);
  }
  return roll.json();
}

Result<void> check_several(bool are_several, const DeployOptions& options) {
  if (!are_several || !options.name) return {};
  return Error{ErrorCode::kInvalidArgument,
               "--name: these are several models, which are called as their folders"};
}

// What may not be said of a folder that is fetched: it has versions, and each its files.
Result<void> check_folder_options(const DeployOptions& options) {
  const auto refused = [](const std::string& what) {
    return Error{ErrorCode::kInvalidArgument, what};
  };
  if (!options.sha256.empty()) {
    return refused("--sha256 is for one file; a folder has a SHA256SUMS");
  }
  if (options.model_version) return refused("--model-version: a folder has its versions' numbers");
  if (options.code) return refused("--code: the models are fetched from " + options.path);
  if (!options.fetch_folder) return Error{ErrorCode::kUnimplemented, "nothing here fetches models"};
  return {};
}

}  // namespace

int run_deploy_versions(Transport& transport, Console& console, const ModelVersions& models,
                        const DeployOptions& options) {
  const auto done = deploy_versions(transport, console, models, options);
  if (!done.ok()) return fail(console, done.error());
  if (console.json) console.out << done->dump(2) << "\n";
  return 0;
}

int run_deploy_folder(Transport& transport, Console& console, const ModelFolder& folder,
                      const DeployOptions& options) {
  const auto models = pack_model_folder(folder, options);
  if (!models.ok()) return fail(console, models.error());
  return run_deploy_versions(transport, console, *models, options);
}

int run_deploy_repository(Transport& transport, Console& console,
                          const std::vector<ModelFolder>& repository,
                          const DeployOptions& options) {
  const auto checked = check_several(true, options);
  if (!checked.ok()) return fail(console, checked.error());
  int exit_code = 0;
  Json all = Json::array();
  for (const ModelFolder& folder : repository) {
    const auto models = pack_model_folder(folder, options);
    auto done = models.ok() ? deploy_versions(transport, console, *models, options)
                            : Result<Json>(models.error());
    if (done.ok()) {
      all.push_back(*std::move(done));
      continue;
    }
    const int failed = fail(console, done.error());
    if (exit_code == 0) exit_code = failed;
  }
  if (console.json) console.out << all.dump(2) << "\n";
  return exit_code;
}

int run_deploy_folder_url(Transport& transport, Console& console, const DeployOptions& options) {
  if (const auto checked = check_folder_options(options); !checked.ok()) {
    return fail(console, checked.error());
  }
  const auto fetched = options.fetch_folder(
      options.path,
      {.check = [&options](bool is_repository) { return check_several(is_repository, options); },
       .versions =
           [&options](const std::string& folder, const std::set<uint64_t>& there) {
             return versions_to_serve(folder, there, options);
           }});
  if (!fetched.ok()) return fail(console, fetched.error());
  const int exit_code = fetched->is_repository
                            ? run_deploy_repository(transport, console, fetched->models, options)
                            : run_deploy_folder(transport, console, fetched->models[0], options);
  if (exit_code == 0 && !options.dry_run) fetched->entry->drop();
  return exit_code;
}

}  // namespace lambent::cli
