#include "edge/cli/deploy.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/domain/image_function.h"
#include "core/domain/model_function.h"
#include "core/domain/version.h"
#include "edge/cli/api_error.h"
#include "edge/cli/api_json.h"
#include "edge/cli/function_request.h"
#include "edge/cli/model_loading.h"
#include "edge/cli/model_versions.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

// The version that requests to a model reach that name none; empty: what was deployed last. Who may
// not ask does not learn it.
std::string serving_version(Transport& transport, const std::string& name) {
  const auto list =
      ask_json(transport, "GET", "/v1/functions/" + http::percent_encode(name) + "/aliases");
  if (!list.ok()) return "";
  for (const Json& alias : list->value("aliases", Json::array())) {
    if (alias.value("name", "") == kServingAlias) return alias.value("version", "");
  }
  return "";
}

// An offset follows.
std::string log_target(const std::string& name) {
  return "/v1/functions/" + http::percent_encode(name) + "/log?offset=";
}

struct ReadLog {
  std::string text;
  std::string end;  // where more would come
};

// From there to its end.
ReadLog read_log(Transport& transport, const std::string& name, std::string offset) {
  constexpr int kMostAnswers = 10'000;  // one that is written all the time has no end
  const std::string log = log_target(name);
  ReadLog read{"", std::move(offset)};
  for (int i = 0; i < kMostAnswers; ++i) {
    const auto part = transport.send(
        {.method = "GET", .target = log + http::percent_encode(read.end)}, seconds(10));
    if (!part.ok() || part->status != 200 || part->body.empty()) return read;
    read.text += part->body;
    read.end = part->headers.get("x-lambent-next-offset");
  }
  return read;
}

// Where more would come; of a worker that does not know the question the beginning.
std::string end_of_log(Transport& transport, const std::string& name) {
  const auto end =
      transport.send({.method = "GET", .target = log_target(name) + "end"}, seconds(10));
  if (!end.ok() || end->status != 200) return "0";
  return std::string(end->headers.get("x-lambent-next-offset"));
}

// What the model's server said last, for an answer that only names its log; nothing: it said
// nothing.
std::string last_words(std::string_view log) {
  constexpr std::string_view kServer = "lambent-model-server: ";
  const size_t begin = log.rfind(kServer);
  if (begin == std::string_view::npos) return "";
  const std::string_view said = log.substr(begin + kServer.size());
  return ": " + std::string(said.substr(0, said.find('\n')));
}

// Loads the model once, so that one that cannot be loaded is told now, and tells what it takes.
Result<void> try_model(Transport& transport, Console& console, const std::string& name) {
  const std::string serving = serving_version(transport, name);
  const std::string target = "/v2/models/" + http::percent_encode(name);
  const std::string latest = serving.empty() ? "" : ":" + std::string(kLatestVersion);
  const std::string before = end_of_log(transport, name);
  auto takes = load_model(transport, target + latest);
  if (!takes.ok()) {
    if (takes.error().code != ErrorCode::kFailedPrecondition) return takes.error();
    const std::string& why = takes.error().message;
    const bool names_log = why.find("(its log: ") != std::string::npos;
    return Error{takes.error().code,
                 "it is deployed, but " + why +
                     (names_log ? last_words(read_log(transport, name, before).text) : "")};
  }
  if (*takes && !console.json) console.out << "  " << **takes << "\n  " << target << "\n";
  if (serving.empty() || serving == kLatestVersion) return {};
  console.err << "lambent: warning: requests that name no version still go to version " << serving
              << " of " << name << "; --model-version publishes this one and lets it serve\n";
  return {};
}

// "memory_bytes: 536870912 -> 1073741824", a line for each.
std::string change_lines(const std::string& changes) {
  const Json list = Json::parse(changes, nullptr, false);
  std::string lines;
  for (const Json& change : list.is_array() ? list : Json::array()) {
    const auto text = [&change](const char* key) {
      const Json value = change.value(key, Json());
      return value.is_null()     ? std::string("-")
             : value.is_string() ? value.get<std::string>()
                                 : value.dump();
    };
    lines += "  " + text("field") + ": " + text("from") + " -> " + text("to") + "\n";
  }
  return lines;
}

std::string summary_of(const Deployed& deployed, const FunctionSpec& spec, size_t zip_size,
                       bool dry_run) {
  std::string summary = deployed.action + " " + spec.name.name;
  if (dry_run) {
    if (deployed.action == "unchanged") return summary + " (dry run)\n";
    return "would be " + summary + "\n" + change_lines(deployed.changes);
  }
  if (deployed.action == "unchanged") {
    return summary + ", at revision " + std::to_string(deployed.revision) + "\n";
  }
  if (runs_image(spec)) {
    if (deployed.under_way) return summary + ", once its image is pulled\n";
    const Json answer = Json::parse(deployed.answer, nullptr, false);
    const uint64_t size = answer.is_object() ? answer.value("CodeSize", uint64_t{0}) : 0;
    return summary + " (an image of " + to_string(Bytes(size)) + ")\n";
  }
  summary += " (" + to_string(Bytes(zip_size));
  if (deployed.code_sent == 0) {
    summary += ", of which the worker has all";
  } else if (deployed.code_sent < zip_size) {
    summary += ", of which " + to_string(Bytes(deployed.code_sent)) + " were sent";
  }
  return summary + ")" + (deployed.under_way ? ", once its packages are installed" : "") + "\n";
}

// Before the function that mounts them. A dry run sends nothing; where there is no such volume yet,
// it looks at the function without the mount.
Result<void> put_weights(Transport& transport, Console& console, const ModelWeights& weights,
                         bool dry_run, FunctionSpec& spec) {
  if (!dry_run) return send_weights(transport, console, weights);
  ASSIGN_OR_RETURN(const bool is_there, has_volume(transport, weights));
  if (!is_there) {
    std::erase_if(spec.mounts, [&](const Mount& mount) { return mount.volume == weights.volume; });
  }
  if (!console.json) {
    console.out << "would put " << to_string(weights.size) << " into volume " << weights.volume
                << "\n";
  }
  return {};
}

// Components before those that call them. The error names the function.
Result<void> deploy_all(Transport& transport, Console& console, const Package& package,
                        const DeployOptions& options, Json& actions) {
  for (const Package& component : package.components) {
    RETURN_IF_ERROR(deploy_all(transport, console, component, options, actions));
  }
  const FunctionSpec& spec = package.manifest.spec;
  const auto deployed = deploy_package(transport, console, package, options);
  if (!deployed.ok()) return deployed.error().with_context("deploying " + spec.name.name);
  if (!console.json) {
    console.out << summary_of(*deployed, spec, package.zip.size(), options.dry_run);
    if (spec.kind == FunctionKind::kHttp && !package.is_model && !options.dry_run) {
      console.out << "  curl " << curl_words(options.endpoint, spec.name.name) << "\n";
    }
  }
  if (package.is_model && !options.dry_run && !deployed->under_way) {
    const auto loaded = try_model(transport, console, spec.name.name);
    if (!loaded.ok()) return loaded.error().with_context(spec.name.name);
  }
  Json json = {{"action", deployed->action},
               {"package_bytes", package.zip.size()},
               {"sent_bytes", deployed->bytes_sent},
               {"revision", deployed->revision}};
  if (package.weights) {
    json["weights"] = {{"volume", package.weights->volume},
                       {"folder", package.weights->folder},
                       {"bytes", package.weights->size.count}};
  }
  if (options.dry_run) json["dry_run"] = true;
  const Json changes = Json::parse(deployed->changes, nullptr, false);
  json["changes"] = changes.is_discarded() ? Json::array() : changes;
  if (deployed->kind_change) {
    json["kind_change"] = {{"from", deployed->kind_change->first},
                           {"to", deployed->kind_change->second}};
  }
  const Json answer = Json::parse(deployed->answer, nullptr, false);
  json["function"] = answer.is_discarded() ? Json() : answer;
  actions.push_back(std::move(json));
  return {};
}

}  // namespace

Result<Deployed> deploy_package(Transport& transport, Console& console, const Package& package,
                                const DeployOptions& options) {
  FunctionSpec spec = package.manifest.spec;
  for (const std::string& warning : package.manifest.warnings) {
    console.err << "lambent: warning: " << warning << "\n";
  }
  if (package.weights) {
    RETURN_IF_ERROR(put_weights(transport, console, *package.weights, options.dry_run, spec));
  }
  const DeployHow how{
      .dry_run = options.dry_run, .waits = options.waits, .tell = [&](const std::string& progress) {
        console.err << "lambent: " << spec.name.name << ": " << progress << std::endl;
      }};
  auto deployed = deploy_function(transport, spec, package.zip, how);
  if (!deployed.ok()) return deployed;
  if (deployed->kind_change) {
    const auto& [from, to] = *deployed->kind_change;
    console.err << "lambent: warning: " << spec.name.name << " was of kind " << from
                << (options.dry_run ? " and would become of kind " : " and is now of kind ") << to
                << "; 'lambent rollback " << spec.name.name << "' brings the former one back\n";
  }
  const std::string warning = read_deployment_state(deployed->answer).warning;
  if (!warning.empty()) {
    console.err << "lambent: warning: " << spec.name.name << ": " << warning << "\n";
  }
  return deployed;
}

int run_deploy(Transport& transport, Console& console, const DeployOptions& options) {
  if (!options.image && is_folder_url(options.path)) {
    return run_deploy_folder_url(transport, console, options);
  }
  const auto folder = options.image || options.code || options.model_version
                          ? std::optional<ModelFolder>()
                          : find_model_folder(options.path);
  if (folder) return run_deploy_folder(transport, console, *folder, options);
  if (options.model_version) {
    const auto models = pack_model_version(options);
    if (!models.ok()) return fail(console, models.error());
    return run_deploy_versions(transport, console, *models, options);
  }
  if (!options.image && !options.code) {
    const auto repository = find_model_repository(options.path);
    if (!repository.empty()) return run_deploy_repository(transport, console, repository, options);
  }
  if (!options.version_policy.empty()) {
    return fail(console, Error{ErrorCode::kInvalidArgument,
                               "--version-policy is for models with versions: a folder with "
                               "NAME/1/model.onnx, or --model-version"});
  }
  const auto package = make_package(options);
  if (!package.ok()) return fail(console, package.error());
  Json actions = Json::array();
  const auto deployed = deploy_all(transport, console, *package, options, actions);
  if (!deployed.ok()) return fail(console, deployed.error());
  if (!options.dry_run) drop_fetched(*package);
  if (console.json) {
    // The function itself, with those that came before it.
    Json json = std::move(actions.back());
    actions.erase(actions.size() - 1);
    if (!actions.empty()) json["components"] = std::move(actions);
    console.out << json.dump(2) << "\n";
  }
  return 0;
}

}  // namespace lambent::cli
