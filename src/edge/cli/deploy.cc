#include "edge/cli/deploy.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/archive/code_delta.h"
#include "core/archive/zip.h"
#include "core/base/fd.h"
#include "core/domain/command_line.h"
#include "core/domain/image_function.h"
#include "core/domain/inference.h"
#include "core/domain/model_function.h"
#include "core/domain/version.h"
#include "decide/pipeline/limits.h"
#include "decide/pipeline/pipeline_json.h"
#include "decide/workflow/graph_json.h"
#include "decide/workflow/limits.h"
#include "edge/cli/api_error.h"
#include "edge/cli/api_json.h"
#include "edge/cli/function_request.h"
#include "edge/cli/model_loading.h"
#include "edge/cli/model_versions.h"
#include "edge/cli/staging.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration kTimeout = seconds(120);
constexpr Duration kAskAgain = milliseconds(300);
// What a model is called in its package when it came as a file.
constexpr const char* kModelName = "model.onnx";
// A smaller package is sent at once, without asking whether the worker has it.
constexpr size_t kAsksFirst = 64 * 1024;
// How a worker begins when it says that it has no code of that digest.
constexpr std::string_view kCodeIsMissing = "the worker does not have this code";

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

// Mistakes in a workflow's graph, told before anything is sent.
Result<void> check_graph(const std::string& json, const std::string& file) {
  const auto graph = workflow::parse_workflow(json);
  if (!graph.ok()) return graph.error().with_context(file);
  return {};
}

// A reference within a text is none, which is easily overlooked. `place` is what lies above the
// value, or "FILE: " of the whole graph.
void warn_of_inner_references(const Json& value, const std::string& place,
                              std::vector<std::string>& warnings) {
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    for (const char* begin : {"$input", "$item", "$index"}) {
      const size_t at = text.find(begin);
      if (at == std::string::npos || at == 0 || text.starts_with('$')) continue;
      warnings.push_back(place + ": '" + text + "' is taken as it stands: a reference such as " +
                         begin + " stands alone in its text");
      return;
    }
  }
  if (!value.is_structured()) return;
  for (const auto& [key, inner] : value.items()) {
    const std::string step = value.is_array() ? "[" + key + "]" : "." + key;
    warn_of_inner_references(inner, place.ends_with(": ") ? place + key : place + step, warnings);
  }
}

// What the manifest is called in the folder of the code; empty if it is not right there.
std::string own_manifest(const std::string& code, const std::string& file) {
  const std::string name = last_part(file);
  std::error_code error;
  return std::filesystem::equivalent(std::filesystem::path(code) / name, file, error) ? name : "";
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

// Of a path without a manifest: what it holds instead, and what could be done.
std::string where_manifests_are(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(path, error)) return "there is no folder or file '" + path + "'";
  std::string said = "there is no lambent.toml in " +
                     (path == "." ? "this folder" : "'" + path + "'") +
                     ", which would describe a function";
  constexpr size_t kMostNamed = 5;
  std::vector<std::string> below;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (!fs::exists(entry.path() / "lambent.toml", error)) continue;
    below.push_back(entry.path().lexically_normal().string());
    if (below.size() == kMostNamed) break;
  }
  if (below.empty()) return said + "; 'lambent init NAME' writes one to begin with";
  std::sort(below.begin(), below.end());
  said += "; there is one in ";
  for (size_t i = 0; i < below.size(); ++i) said += (i == 0 ? "" : ", ") + below[i];
  return said;
}

// `model`: where the model of the manifest lies really, with what it refers to beside it; empty:
// where the manifest says.
Result<Package> make_package_within(const DeployOptions& options, size_t depth,
                                    const std::string& model = {});

// Whether `module` of a handler ("app", "kitchen.app") can be there: as a file, a package, or in C.
bool has_module(const std::string& code, std::string module) {
  namespace fs = std::filesystem;
  std::replace(module.begin(), module.end(), '.', '/');
  const fs::path path = fs::path(code) / module;
  std::error_code error;
  if (fs::is_directory(path, error)) return true;
  const std::string beginning = path.filename().string() + ".";
  for (const fs::directory_entry& entry : fs::directory_iterator(path.parent_path(), error)) {
    if (entry.path().filename().string().starts_with(beginning)) return true;
  }
  return false;
}

// "./server" is a file of the package; what has no '/' may be anywhere in the sandbox's PATH.
void warn_of_missing_program(const std::string& code, const std::string& file, Manifest& manifest) {
  namespace fs = std::filesystem;
  const auto words = command_words(manifest.spec.handler);
  if (!words.ok() || words->empty()) return;
  const std::string& program = words->front();
  if (program.starts_with('/') || program.find('/') == std::string::npos) return;
  std::error_code error;
  const fs::file_status status = fs::status(fs::path(code) / program, error);
  if (!fs::is_regular_file(status)) {
    manifest.warnings.push_back(file + ": there is no program '" + program + "' in " + code);
  } else if ((status.permissions() & fs::perms::others_exec) == fs::perms::none) {
    manifest.warnings.push_back(code + "/" + program + " is not executable: chmod 755 it");
  }
}

// What an invocation would fail for is better told now; but a handler may come from elsewhere, such
// as from Python's own library.
void warn_of_missing_code(const std::string& code, const std::string& file, Manifest& manifest) {
  namespace fs = std::filesystem;
  std::error_code error;
  const FunctionSpec& spec = manifest.spec;
  if (!fs::is_directory(code, error)) return;
  if (spec.kind == FunctionKind::kHttp) return warn_of_missing_program(code, file, manifest);
  if (spec.kind != FunctionKind::kHandler) return;
  if (spec.runtime == Runtime::kProvided) {
    const fs::file_status status = fs::status(fs::path(code) / "bootstrap", error);
    if (!fs::exists(status)) {
      manifest.warnings.push_back(file + ": there is no program 'bootstrap' in " + code);
    } else if ((status.permissions() & fs::perms::others_exec) == fs::perms::none) {
      manifest.warnings.push_back(code + "/bootstrap is not executable: chmod 755 it");
    }
    return;
  }
  const std::string module = spec.handler.substr(0, spec.handler.rfind('.'));
  if (has_module(code, module)) return;
  manifest.warnings.push_back(file + ": the handler '" + spec.handler + "' is a function of " +
                              module + ".py, which is not in " + code);
}

// Every function of a deployment, with the manifest it comes from: two that have one name would
// replace each other.
Result<void> check_names(const Package& package, std::map<std::string, std::string>& files) {
  for (const Package& component : package.components) {
    RETURN_IF_ERROR(check_names(component, files));
  }
  const std::string& name = package.manifest.spec.name.name;
  const std::string file = std::filesystem::path(package.file).lexically_normal();
  const auto [found, is_new] = files.try_emplace(name, file);
  if (is_new || found->second == file) return {};
  return Error{ErrorCode::kInvalidArgument, found->second + " and " + file +
                                                " both describe a function '" + name +
                                                "'; give one of them another name"};
}

// Packs what components name as their packages, and puts the functions' names into the graph.
Result<void> add_components(const std::string& folder, const std::string& file,
                            const DeployOptions& options, size_t depth, Package& package) {
  Manifest& manifest = package.manifest;
  if (manifest.packages.empty()) return {};
  if (depth == workflow::limits::kDepth) {
    return Error{ErrorCode::kInvalidArgument, file + ": packages lie more than " +
                                                  std::to_string(workflow::limits::kDepth) +
                                                  " deep in each other"};
  }
  Json graph = Json::parse(manifest.workflow);
  std::map<std::pair<std::string, std::string>, std::string> packed;  // to the function's name
  for (const auto& [number, path] : manifest.packages) {
    Json& component = graph["components"][number];
    DeployOptions inner{.path = join_path(folder, path),
                        .build_bundle = options.build_bundle,
                        .import_model = options.import_model,
                        .fetch_model = options.fetch_model};
    const auto function = component.find("function");
    if (function != component.end() && function->is_string()) inner.name = *function;
    std::string& name = packed[{inner.path, inner.name.value_or("")}];
    if (name.empty()) {
      auto made = make_package_within(inner, depth + 1);
      if (!made.ok()) {
        return made.error().with_context("components[" + std::to_string(number) + "].package");
      }
      name = made->manifest.spec.name.name;
      package.components.push_back(std::move(made).value());
    }
    component["function"] = name;
  }
  manifest.workflow = graph.dump(1, ' ', false, Json::error_handler_t::replace);
  return {};
}

// A name that a function may have, made of the file's.
std::string name_of_model(const std::string& file) {
  std::string name = std::filesystem::path(file).stem();
  for (char& c : name) {
    const bool is_fit = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!is_fit && c != '-' && c != '_') c = '-';
  }
  return name;
}

// "resnet.onnx": a folder with the file and a manifest of a model. Large ones stay where they are.
Result<Package> package_of_model(const DeployOptions& options) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(options.path, error)) {
    return Error{ErrorCode::kNotFound, "there is no file '" + options.path + "'"};
  }
  ASSIGN_OR_RETURN(const StagingFolder staging, StagingFolder::make());
  const std::vector<LocalFile> files = files_of_model(options.path, kModelName);
  if (size_of(files) <= kWeightsInPackage) {
    for (const LocalFile& file : files) RETURN_IF_ERROR(staging.add(file.local, file.path));
  }
  RETURN_IF_ERROR(
      write_file_atomically(staging.path() + "/lambent.toml", "kind = \"model\"\n", false));
  DeployOptions inner = options;
  inner.path = staging.path();
  inner.name = options.name.value_or(name_of_model(options.path));
  const std::string model = std::filesystem::absolute(options.path);
  ASSIGN_OR_RETURN(Package package, make_package_within(inner, 0, model));
  package.file = options.path;
  return package;
}

// "https://example.com/resnet.onnx": as if a manifest named it.
Result<Package> package_of_url(const DeployOptions& options) {
  ASSIGN_OR_RETURN(const std::string file, file_of_url(options.path));
  // In one line, in quotes that have no escapes.
  if (options.path.find_first_of("'\n\r") != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument, "the URL has quotes or line ends; escape them"};
  }
  ASSIGN_OR_RETURN(const StagingFolder staging, StagingFolder::make());
  std::string manifest = "kind = \"model\"\nmodel = '" + options.path + "'\n";
  if (!options.sha256.empty()) manifest += "sha256 = '" + options.sha256 + "'\n";
  RETURN_IF_ERROR(write_file_atomically(staging.path() + "/lambent.toml", manifest, false));
  DeployOptions inner = options;
  inner.path = staging.path();
  inner.name = options.name.value_or(name_of_model(file));
  ASSIGN_OR_RETURN(Package package, make_package_within(inner, 0));
  package.file = options.path;
  return package;
}

// "ghcr.io/owner/app:1": an HTTP function called app, as if a manifest said so.
Result<Package> package_of_image(const DeployOptions& options) {
  if (options.code) return Error{ErrorCode::kInvalidArgument, "--image goes with no --code"};
  ASSIGN_OR_RETURN(ImageReference image, parse_image_reference(*options.image));
  if (image.is_local()) image.name = std::filesystem::absolute(image.name).lexically_normal();
  ASSIGN_OR_RETURN(const StagingFolder staging, StagingFolder::make());
  RETURN_IF_ERROR(write_file_atomically(staging.path() + "/lambent.toml",
                                        "kind = \"http\"\nimage = '" + text_of(image) + "'\n",
                                        false));
  const DeployOptions inner{.path = staging.path(),
                            .name = options.name.value_or(name_of_model(image.name))};
  ASSIGN_OR_RETURN(Package package, make_package_within(inner, 0));
  package.file = *options.image;
  return package;
}

// What the command line says of a model, in place of its manifest.
Result<void> choose_engine(const DeployOptions& options, const std::string& file,
                           Manifest& manifest) {
  const bool is_of_kernels =
      options.batch || options.most_elements || options.precision || !options.shapes.empty();
  const bool chooses = options.engine || is_of_kernels;
  if (!chooses) return {};
  if (!manifest.model) {
    return Error{ErrorCode::kInvalidArgument,
                 file +
                     ": --engine, --shape, --batch-size, --max-batch-size and --precision are "
                     "for functions of kind 'model'"};
  }
  if (options.engine) manifest.model->engine = *options.engine;
  if (options.most_elements &&
      (*options.most_elements < 2 || *options.most_elements > kMostBatchSize)) {
    return Error{ErrorCode::kInvalidArgument,
                 "--max-batch-size is from 2 to " + std::to_string(kMostBatchSize)};
  }
  if (options.batch && options.most_elements) {
    return Error{ErrorCode::kInvalidArgument,
                 "--batch-size is for requests of one size, --max-batch-size for several"};
  }
  if (options.batch) {
    manifest.model->batch = *options.batch;
    manifest.model->batches.reset();
  }
  if (options.most_elements) {
    auto& batches = manifest.model->batches;
    if (!batches) batches.emplace();
    batches->size = *options.most_elements;
  }
  if (options.precision) manifest.model->precision = *options.precision;
  if (!options.shapes.empty()) manifest.model->shapes = options.shapes;
  const bool is_unused = manifest.model->engine == ModelEngineChoice::kOnnxruntime;
  if (!is_unused || !is_of_kernels) return {};
  return Error{ErrorCode::kInvalidArgument,
               "--shape, --batch-size, --max-batch-size and --precision are for models that "
               "kernels serve: add --engine kernels"};
}

// Whether it lies in a folder that packages do not have, such as .git.
bool is_below_left_out(const std::string& code, const std::string& path) {
  namespace fs = std::filesystem;
  for (fs::path at = fs::path(path).parent_path(); !at.empty(); at = at.parent_path()) {
    std::error_code error;
    if (archive::is_left_out(fs::directory_entry(fs::path(code) / at, error))) return true;
  }
  return false;
}

// The files of a model that onnxruntime runs, if they are too large for a package. `model` is as
// make_package_within has it.
Result<std::optional<ModelWeights>> large_weights(Manifest& manifest, const std::string& file,
                                                  const std::string& model,
                                                  const DeployOptions& options) {
  std::vector<LocalFile> files;
  if (!model.empty()) {
    files = files_of_model(model, kModelName);
  } else {
    const std::string code =
        options.code ? *options.code : join_path(folder_of(file), manifest.code);
    if (!std::filesystem::is_directory(code)) return std::optional<ModelWeights>();
    ASSIGN_OR_RETURN(files, files_to_put(code, "", true));
    std::erase_if(files, [&, own = own_manifest(code, file)](const LocalFile& one) {
      return one.path == own || is_below_left_out(code, one.path);
    });
  }
  if (size_of(files) <= kWeightsInPackage) return std::optional<ModelWeights>();
  ASSIGN_OR_RETURN(ModelWeights weights, set_weights_apart(manifest, files));
  return std::optional<ModelWeights>(std::move(weights));
}

// What is left of a package whose files are in a volume: which packages its Python has.
Result<std::string> zip_without_weights(const Manifest& manifest, const std::string& folder) {
  ASSIGN_OR_RETURN(const StagingFolder staging, StagingFolder::make());
  if (manifest.python) RETURN_IF_ERROR(put_python(staging, *manifest.python, folder));
  return archive::make_zip(staging.path());
}

// Of a file that is neither a manifest nor a model.
Error not_deployable(const std::string& path) {
  std::string said = "'" + path +
                     "' is a file that cannot be deployed by itself: name a folder with a "
                     "lambent.toml, such a file, or a model (.onnx)";
  if (path.ends_with(".py")) {
    said +=
        "; functions of a Python file with lambent.App are deployed by 'python3 -m lambent "
        "deploy " +
        path + "'";
  } else if (path.ends_with(".zip")) {
    said += "; code that is zipped already is named by --code beside a lambent.toml";
  }
  return Error{ErrorCode::kInvalidArgument, std::move(said)};
}

// A model that its manifest names by a URL is a file of a folder from here on, which is the code.
Result<void> fetch_model_of(Package& package, DeployOptions& options) {
  ModelSection& model = *package.manifest.model;
  if (!is_model_url(model.file)) return {};
  if (options.code) {
    return Error{ErrorCode::kInvalidArgument, "--code: the model is fetched from " + model.file};
  }
  if (!options.fetch_model) {
    return Error{ErrorCode::kUnimplemented, "nothing here fetches models"};
  }
  ASSIGN_OR_RETURN(const FetchedModel fetched, options.fetch_model({model.file, model.sha256}));
  FunctionSpec& spec = package.manifest.spec;
  ASSIGN_OR_RETURN(std::vector<std::string> command, command_words(spec.handler));
  command.at(1) = fetched.file;
  spec.handler = command_text(command);
  model.file = fetched.file;
  options.code = fetched.folder;
  package.fetched.push_back(fetched.entry);
  return {};
}

Result<Package> make_package_within(const DeployOptions& given, size_t depth,
                                    const std::string& model) {
  DeployOptions options = given;
  std::error_code unknown;
  if (!options.path.ends_with(".toml") && std::filesystem::is_regular_file(options.path, unknown)) {
    return not_deployable(options.path);
  }
  const std::string file =
      options.path.ends_with(".toml") ? options.path : join_path(options.path, "lambent.toml");
  auto text = read_file(file, kMostManifestText);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) {
    return Error{ErrorCode::kNotFound, where_manifests_are(options.path)};
  }
  if (!text.ok()) return text.error();
  Package package;
  package.file = file;
  ASSIGN_OR_RETURN(package.manifest, parse_manifest(*text, file));
  FunctionSpec& spec = package.manifest.spec;
  const std::string folder = folder_of(file);
  if (options.name) spec.name.name = *options.name;
  if (spec.name.name.empty()) {
    Error error{ErrorCode::kInvalidArgument, file + " has no name; add one or give --name"};
    // It may be there under a key that is spelt wrong.
    for (const std::string& warning : package.manifest.warnings) error.message += "\n  " + warning;
    return error;
  }
  RETURN_IF_ERROR(choose_engine(options, file, package.manifest));
  if (package.manifest.model) {
    package.is_model = true;
    RETURN_IF_ERROR(fetch_model_of(package, options));
    if (!model.empty()) package.manifest.model->file = model;
    ASSIGN_OR_RETURN(auto imported, import_model(package.manifest, options.code.value_or(folder),
                                                 options.import_model));
    if (imported) {
      package.manifest = std::move(imported->manifest);
      ASSIGN_OR_RETURN(package.zip, zip_of(imported->file, package.manifest,
                                           {.build_bundle = options.build_bundle}));
      return package;
    }
  }
  if (auto valid = validate(spec); !valid.ok()) {
    // What is missing may be there under a name that is spelt wrong.
    Error error = valid.error().with_context(file);
    for (const std::string& warning : package.manifest.warnings) error.message += "\n  " + warning;
    return error;
  }
  if (package.manifest.model) {
    ASSIGN_OR_RETURN(package.weights, large_weights(package.manifest, file, model, options));
  }
  RETURN_IF_ERROR(add_components(folder, file, options, depth, package));
  if (!package.manifest.workflow.empty()) {
    RETURN_IF_ERROR(check_graph(package.manifest.workflow, file));
    warn_of_inner_references(Json::parse(package.manifest.workflow), file + ": ",
                             package.manifest.warnings);
  }
  if (runs_image(spec)) {
    if (!options.code) return package;
    return Error{ErrorCode::kInvalidArgument, "--code: a function of an image has no code"};
  }
  if (package.weights) {
    ASSIGN_OR_RETURN(package.zip, zip_without_weights(package.manifest, folder));
    return package;
  }
  ASSIGN_OR_RETURN(package.zip, zip_of(file, package.manifest, options));
  const std::string code = options.code ? *options.code : join_path(folder, package.manifest.code);
  warn_of_missing_code(code, file, package.manifest);
  return package;
}

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

// Loads the model once, so that one that cannot be loaded is told now, and tells what it takes.
Result<void> try_model(Transport& transport, Console& console, const std::string& name) {
  const std::string serving = serving_version(transport, name);
  const std::string target = "/v2/models/" + http::percent_encode(name);
  const std::string latest = serving.empty() ? "" : ":" + std::string(kLatestVersion);
  auto takes = load_model(transport, target + latest);
  if (!takes.ok()) {
    if (takes.error().code != ErrorCode::kFailedPrecondition) return takes.error();
    return Error{takes.error().code, "it is deployed, but " + takes.error().message};
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
  const Json answer = Json::parse(deployed->answer, nullptr, false);
  json["function"] = answer.is_discarded() ? Json() : answer;
  actions.push_back(std::move(json));
  return {};
}

// What makes the package out of the one that the worker has of the function.
struct Delta {
  std::string base_sha256;
  std::string steps;
};

// Nothing where it has none, tells none, or all of it is other code.
std::optional<Delta> delta_to(Transport& transport, const std::string& name,
                              const std::string& zip) {
  const auto code =
      ask_json(transport, "GET", "/v1/functions/" + http::percent_encode(name) + "/code/parts");
  if (!code.ok() || !code->is_object()) return std::nullopt;
  const auto list = code->find("parts");
  if (list == code->end() || !list->is_array()) return std::nullopt;
  std::vector<CodePart> parts;
  for (const Json& part : *list) {
    const auto sha256 = part.find("sha256");
    const auto size = part.find("bytes");
    const bool is_part = part.is_object() && sha256 != part.end() && sha256->is_string() &&
                         size != part.end() && size->is_number_unsigned();
    if (!is_part) return std::nullopt;
    parts.push_back({sha256->get<std::string>(), Bytes(size->get<uint64_t>())});
  }
  const auto base = code->find("code_sha256");
  if (base == code->end() || !base->is_string()) return std::nullopt;
  auto steps = archive::make_code_delta(zip, parts);
  // As good as all of it is not worth another kind of request.
  if (!steps.ok() || steps->size() > zip.size() / 10 * 9) return std::nullopt;
  return Delta{base->get<std::string>(), *std::move(steps)};
}

// A worker that installs packages answers at once. Asks it until it has done that, and puts the
// last answer into `body`. The error is the one that the deployment failed for.
Result<void> wait_until_done(Transport& transport, const std::string& name, std::string& body,
                             const DeployProgress& tell) {
  std::string told;
  while (true) {
    const DeploymentState state = read_deployment_state(body);
    if (state.failure) return *state.failure;
    if (!state.under_way) return {};
    if (tell && state.reason != told) tell(state.reason);
    told = state.reason;
    std::this_thread::sleep_for(kAskAgain);
    auto answer = good(transport.send(
        {.method = "GET", .target = function_target(name, "/configuration")}, kTimeout));
    if (!answer.ok()) return answer.error().with_context("waiting for its packages");
    body = std::move(answer->body);
  }
}

}  // namespace

DeploymentState read_deployment_state(const std::string& configuration) {
  DeploymentState result;
  const Json json = Json::parse(configuration, nullptr, false);
  if (!json.is_object()) return result;
  const auto text = [&json](const std::string& key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  for (const std::string key : {"State", "LastUpdateStatus"}) {
    const std::string state = text(key);
    if (state == "Pending" || state == "InProgress") {
      result.under_way = true;
      result.reason = text(key + "Reason");
    } else if (state == "Failed") {
      const auto code = error_code_from_name(text(key + "ReasonCode"));
      result.failure = Error{code.value_or(ErrorCode::kUnknown), text(key + "Reason")};
    }
  }
  return result;
}

Result<Package> make_package(const DeployOptions& options) {
  const bool is_url = is_model_url(options.path);
  if (!options.sha256.empty() && !is_url) {
    return Error{ErrorCode::kInvalidArgument, "--sha256 is for a model that is fetched from a URL"};
  }
  const bool is_model = options.path.ends_with(".onnx") && !options.code;
  ASSIGN_OR_RETURN(Package package, options.image ? package_of_image(options)
                                    : is_url      ? package_of_url(options)
                                    : is_model    ? package_of_model(options)
                                                  : make_package_within(options, 0));
  std::map<std::string, std::string> files;
  RETURN_IF_ERROR(check_names(package, files));
  return package;
}

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
  return deploy_function(transport, spec, package.zip, how);
}

Result<Deployed> deploy_function(Transport& transport, const FunctionSpec& spec,
                                 const std::string& zip, const DeployHow& how) {
  uint64_t sent = 0;
  uint64_t code_sent = 0;
  const auto send = [&](const DeployRequestOptions& options) {
    const http::Request request = deploy_request(spec, options);
    sent += request.body.size();
    code_sent += options.zip.size() + options.delta.size();
    return good(transport.send(request, kTimeout));
  };
  // A worker that has the code takes its digest for it.
  const bool asks_first = zip.size() > kAsksFirst;
  auto answer = send(asks_first ? DeployRequestOptions{.code_sha256 = archive::code_sha256(zip),
                                                       .dry_run = how.dry_run}
                                : DeployRequestOptions{.zip = zip, .dry_run = how.dry_run});
  const auto lacks_code = [&] {
    return asks_first && !answer.ok() && answer.error().code == ErrorCode::kFailedPrecondition &&
           answer.error().message.starts_with(kCodeIsMissing);
  };
  if (lacks_code()) {
    if (const auto delta = delta_to(transport, spec.name.name, zip)) {
      answer = send({.code_sha256 = archive::code_sha256(zip),
                     .delta = delta->steps,
                     .base_sha256 = delta->base_sha256,
                     .dry_run = how.dry_run});
    }
  }
  if (lacks_code()) answer = send({.zip = zip, .dry_run = how.dry_run});
  if (!answer.ok()) return answer.error();
  const Json body = Json::parse(answer->body, nullptr, false);
  if (!body.is_object()) return not_a_worker("/v1/functions");
  Deployed deployed{.action = body.value("action", "updated"),
                    .changes = body.value("changes", Json::array()).dump(),
                    .answer = body.value("configuration", Json::object()).dump(),
                    .bytes_sent = sent,
                    .code_sent = code_sent,
                    .revision = body.value("revision", uint64_t{0})};
  if (how.waits) {
    RETURN_IF_ERROR(wait_until_done(transport, spec.name.name, deployed.answer, how.tell));
  } else {
    deployed.under_way = read_deployment_state(deployed.answer).under_way;
  }
  return deployed;
}

void drop_fetched(const Package& package) {
  for (const Package& component : package.components) drop_fetched(component);
  for (const auto& entry : package.fetched) entry->drop();
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
