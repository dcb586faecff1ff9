#include "edge/cli/package_warnings.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/domain/command_line.h"

namespace lambent::cli {
namespace {

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

}  // namespace

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

Error not_deployable(const std::string& path) {
  std::string said = "'" + path +
                     "' is a file that cannot be deployed by itself: name a folder with a "
                     "lambent.toml, such a file, or a model (.onnx)";
  if (path.ends_with(".py")) {
    said += "; functions of a Python file with lambent.App are deployed by 'lambent deploy " +
            path + "', without other options";
  } else if (path.ends_with(".zip")) {
    said += "; code that is zipped already is named by --code beside a lambent.toml";
  }
  return Error{ErrorCode::kInvalidArgument, std::move(said)};
}

void warn_of_inner_references(const nlohmann::ordered_json& value, const std::string& place,
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

}  // namespace lambent::cli
