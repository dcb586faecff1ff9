#include "edge/cli/model_weights.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "core/crypto/crypto.h"
#include "core/domain/command_line.h"
#include "core/domain/function_limits.h"
#include "core/domain/limits.h"
#include "edge/cli/api_json.h"
#include "edge/cli/volume_upload.h"
#include "edge/model_files/onnx_files.h"

namespace lambent::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kVolumeEnd = "-weights";
constexpr size_t kDigestDigits = 16;
constexpr Bytes kMostGraph = Bytes::mib(64);  // that is read of a package; a worker takes less

// A volume's name is no longer than a function's.
std::string volume_of(const std::string& function) {
  if (function.size() + kVolumeEnd.size() <= limits::kVolumeNameLength) {
    return function + std::string(kVolumeEnd);
  }
  const std::string digest = crypto::to_hex(crypto::sha256(function)).substr(0, kDigestDigits);
  return function.substr(0, limits::kVolumeNameLength - kVolumeEnd.size() - digest.size()) +
         digest + std::string(kVolumeEnd);
}

// Lets the function mount the files' volume.
Result<ModelWeights> mount_files(FunctionSpec& spec, const std::vector<LocalFile>& files) {
  ModelWeights weights{.volume = volume_of(spec.name.name), .folder = {}, .files = {}, .size = {}};
  std::string contents;
  for (const LocalFile& file : files) {
    auto measured = measure_file(file.local, [](Bytes) {});
    if (!measured.ok()) return measured.error().with_context(file.local);
    weights.size += measured->size;
    contents += file.path + '\0' + measured->sha256 + '\n';
    weights.files.push_back({file, *measured});
  }
  weights.folder = crypto::to_hex(crypto::sha256(contents)).substr(0, kDigestDigits);
  for (ModelWeights::File& file : weights.files) {
    file.file.path = weights.folder + "/" + file.file.path;
  }
  spec.mounts.push_back({.volume = weights.volume, .host = {}, .at = std::string(kWeightsPlace)});
  RETURN_IF_ERROR(validate(spec.mounts));
  return weights;
}

// The files that a model keeps its tensors in. Of one that cannot be read as a model there are
// none: what runs it says what is wrong.
std::set<std::string> named_files(const std::string& file) {
  const auto model = read_file(file, model_files::kMostModel);
  auto named = model.ok() ? model_files::external_files(*model) : model.error();
  return named.ok() ? *std::move(named) : std::set<std::string>();
}

}  // namespace

Result<std::vector<LocalFile>> files_of_model(const std::string& file, const std::string& name) {
  std::vector<LocalFile> files = {{file, name}};
  const fs::path path = fs::absolute(file);
  const std::string own = path.filename();
  std::error_code error;
  const std::set<std::string> named = named_files(file);
  for (const std::string& other : named) {
    const fs::path local = path.parent_path() / other;
    if (!fs::is_regular_file(local, error)) {
      return Error{ErrorCode::kNotFound,
                   file + " keeps tensors in '" + other + "', and that file is not beside it"};
    }
    if (other == name) {
      return Error{ErrorCode::kInvalidArgument,
                   file + " keeps tensors in '" + other +
                       "', as the model itself is called in its "
                       "package; put both into a folder with a lambent.toml"};
    }
    files.push_back({local.string(), other});
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(path.parent_path(), error)) {
    const std::string other = entry.path().filename();
    if (other.size() <= own.size() || !other.starts_with(own) || named.contains(other)) continue;
    std::error_code ignored;
    if (entry.is_regular_file(ignored)) files.push_back({entry.path().string(), other});
  }
  std::sort(files.begin() + 1, files.end(),
            [](const LocalFile& a, const LocalFile& b) { return a.path < b.path; });
  return files;
}

Bytes size_of(const std::vector<LocalFile>& files) {
  Bytes size;
  for (const LocalFile& file : files) {
    std::error_code error;
    const auto bytes = fs::file_size(file.local, error);
    if (!error) size += Bytes(bytes);
  }
  return size;
}

Result<ModelWeights> set_weights_apart(Manifest& manifest, const std::vector<LocalFile>& files) {
  FunctionSpec& spec = manifest.spec;
  ASSIGN_OR_RETURN(ModelWeights weights, mount_files(spec, files));
  // onnxruntime has the weights twice while it makes its own layout of them.
  if (manifest.model && !manifest.model->says_memory) {
    spec.memory =
        std::min(Bytes::mib((spec.memory + weights.size * 2).count >> 20), limits::kMostMemory);
  }
  ASSIGN_OR_RETURN(std::vector<std::string> command, command_words(spec.handler));
  command.at(1) = std::string(kWeightsPlace) + "/" + weights.folder + "/" + command.at(1);
  spec.handler = command_text(command);
  return weights;
}

Result<std::optional<ModelWeights>> set_constants_apart(Manifest& manifest,
                                                        const std::string& package,
                                                        const std::string& apart) {
  const std::string file = package + "/" + manifest.spec.handler;
  ASSIGN_OR_RETURN(const std::string text, read_file(file, kMostGraph.count));
  auto graph = nlohmann::ordered_json::parse(text, nullptr, false);
  std::set<std::string> constants;
  for (const auto& buffer : graph.is_object() ? graph["buffers"] : graph) {
    const auto constant = buffer.find("file");
    if (constant == buffer.end() || !constant->is_string()) continue;
    auto name = constant->get<std::string>();
    if (!name.starts_with('/')) constants.insert(std::move(name));
  }
  std::vector<LocalFile> files;
  for (const std::string& each : constants) files.push_back({package + "/" + each, each});
  if (size_of(files) <= kWeightsInPackage) return std::optional<ModelWeights>();
  std::error_code error;
  for (LocalFile& each : files) {
    const fs::path to = apart + "/" + each.path;
    fs::create_directories(to.parent_path(), error);
    if (!error) fs::rename(each.local, to, error);
    if (error) return Error{ErrorCode::kInternal, "move " + each.local + ": " + error.message()};
    each.local = to;
  }
  ASSIGN_OR_RETURN(ModelWeights weights, mount_files(manifest.spec, files));
  const std::string folder = std::string(kWeightsPlace) + "/" + weights.folder + "/";
  for (auto& buffer : graph["buffers"]) {
    const auto constant = buffer.find("file");
    if (constant == buffer.end() || !constant->is_string()) continue;
    const auto name = constant->get<std::string>();
    if (constants.contains(name)) *constant = folder + name;
  }
  RETURN_IF_ERROR(write_file_atomically(file, graph.dump(), false));
  return std::optional<ModelWeights>(std::move(weights));
}

Result<bool> has_volume(Transport& transport, const ModelWeights& weights) {
  ASSIGN_OR_RETURN(const auto list, ask_json(transport, "GET", "/v1/volumes"));
  for (const auto& volume : list.value("volumes", nlohmann::ordered_json::array())) {
    if (volume.value("name", "") == weights.volume) return true;
  }
  return false;
}

Result<void> send_weights(Transport& transport, Console& console, const ModelWeights& weights) {
  const auto made = ask_json(transport, "PUT", volume_target(weights.volume));
  if (!made.ok() && made.error().code != ErrorCode::kAlreadyExists)
    return made.error().with_context("volume " + weights.volume);
  VolumeUpload upload(transport, console, weights.volume);
  for (const ModelWeights::File& file : weights.files) {
    const auto how = upload.put(file.file, file.measured);
    if (!how.ok()) return how.error().with_context("put " + file.file.local);
    // What is deployed is all that the other stream gets.
    console.err << weights.volume << ": " << file.file.path << "  " << to_string(file.measured.size)
                << "  " << *how << "\n"
                << std::flush;
  }
  return {};
}

}  // namespace lambent::cli
