#include "edge/cli/package.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/archive/zip.h"
#include "core/base/fd.h"
#include "core/domain/command_line.h"
#include "core/domain/image_function.h"
#include "core/domain/inference.h"
#include "core/domain/model_function.h"
#include "decide/workflow/graph_json.h"
#include "decide/workflow/limits.h"
#include "edge/cli/code_zip.h"
#include "edge/cli/package_warnings.h"
#include "edge/cli/staging.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

// What a model is called in its package when it came as a file.
constexpr const char* kModelName = "model.onnx";

// Mistakes in a workflow's graph, told before anything is sent.
Result<void> check_graph(const std::string& json, const std::string& file) {
  const auto graph = workflow::parse_workflow(json);
  if (!graph.ok()) return graph.error().with_context(file);
  return {};
}

// `model`: where the model of the manifest lies really, with what it refers to beside it; empty:
// where the manifest says.
Result<Package> make_package_within(const DeployOptions& options, size_t depth,
                                    const std::string& model = {});

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
                        .has_gpu = options.has_gpu,
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
  ASSIGN_OR_RETURN(const std::vector<LocalFile> files, files_of_model(options.path, kModelName));
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
  const bool chooses = options.engine || options.provider || options.gpu_memory || is_of_kernels;
  if (!chooses) return {};
  if (!manifest.model) {
    return Error{ErrorCode::kInvalidArgument,
                 file +
                     ": --engine, --provider, --gpu-memory, --shape, --batch-size, "
                     "--max-batch-size and --precision are for functions of kind 'model'"};
  }
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

// A model that takes a GPU only where there is one: does the worker have one?
void choose_processors(const DeployOptions& options, Manifest& manifest) {
  const ModelSection& model = *manifest.model;
  const bool is_open = (model.engine == ModelEngineChoice::kAuto && model.provider != "cuda") ||
                       model.provider == "auto";
  if (!is_open || !options.has_gpu || options.has_gpu()) return;
  run_on_processors(manifest);
  manifest.warnings.push_back(
      "the worker has no GPU: onnxruntime runs the model on the host's processors");
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
    ASSIGN_OR_RETURN(files, files_of_model(model, kModelName));
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
  ASSIGN_OR_RETURN(package.manifest, parse_manifest(*text, file, overrides_of(options)));
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
    choose_processors(options, package.manifest);
    RETURN_IF_ERROR(fetch_model_of(package, options));
    if (!model.empty()) package.manifest.model->file = model;
    ASSIGN_OR_RETURN(auto imported, import_model(package.manifest, options.code.value_or(folder),
                                                 options.import_model));
    if (imported) {
      package.manifest = std::move(imported->manifest);
      package.staging = std::make_shared<const StagingFolder>(std::move(imported->staging));
      ASSIGN_OR_RETURN(package.weights,
                       set_constants_apart(package.manifest, folder_of(imported->file),
                                           package.staging->path() + "/weights"));
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

}  // namespace

ModelOverrides overrides_of(const DeployOptions& options) {
  return {options.engine, options.provider, options.gpu_memory};
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

void drop_fetched(const Package& package) {
  for (const Package& component : package.components) drop_fetched(component);
  for (const auto& entry : package.fetched) entry->drop();
}

}  // namespace lambent::cli
