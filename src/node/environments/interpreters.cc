#include "node/environments/interpreters.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/domain/python_packages.h"

namespace lambent::environments {
namespace {

// Of "python3.11"; empty if the name is another one.
std::string version_in(const std::string& name) {
  constexpr std::string_view kBegin = "python";
  if (!name.starts_with(kBegin)) return "";
  std::string version = name.substr(kBegin.size());
  return !version.empty() && check_python_version(version).ok() ? version : "";
}

unsigned minor_of(const std::string& version) {
  return static_cast<unsigned>(std::stoul(version.substr(2)));
}

}  // namespace

Interpreters Interpreters::find(const std::vector<std::string>& folders, const std::string& usual) {
  namespace fs = std::filesystem;
  Interpreters found;
  for (const std::string& folder : folders) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      const std::string version = version_in(entry.path().filename());
      if (version.empty() || access(entry.path().c_str(), X_OK) != 0) continue;
      found.paths_.try_emplace(version, entry.path());
    }
  }
  std::error_code error;
  found.usual_ = version_in(fs::canonical(usual, error).filename());
  if (!found.paths_.contains(found.usual_)) found.usual_.clear();
  return found;
}

Result<Interpreter> Interpreters::get(const std::string& version) const {
  const std::string& wanted = version.empty() ? usual_ : version;
  const auto found = paths_.find(wanted);
  if (found != paths_.end()) return Interpreter{found->first, found->second};
  if (paths_.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "this worker's machine has no Python that functions with packages can use: there "
                 "is not a python3.N in /usr/bin and /usr/local/bin"};
  }
  const std::string asked = version.empty() ? "name a version: this worker's own Python is none of "
                                              "them"
                                            : "Python " + version + " is not there";
  return Error{ErrorCode::kInvalidArgument,
               "python.version: " + asked + "; this worker's machine has " + list()};
}

Result<void> Interpreters::check_runtime(const std::string& runtime,
                                         const std::string& version) const {
  const std::string named = version_in(runtime);
  const std::string& runs = version.empty() ? usual_ : version;
  if (named.empty() || runs.empty() || named == runs) return {};
  std::string what = "runtime is '" + runtime + "', ";
  if (!version.empty()) {
    what += "but [python] version is '" + version + "'; name one of the two";
  } else if (paths_.contains(named)) {
    what += "which the worker's own Python " + usual_ + " is not; [python] version = \"" + named +
            "\" in lambent.toml chooses it";
  } else {
    what += "which is not there; this worker's machine has " + list() +
            ", and 'python3' is its Python " + usual_;
  }
  return Error{ErrorCode::kInvalidArgument, std::move(what)};
}

std::string Interpreters::list() const {
  std::vector<std::string> versions;
  for (const auto& [known, path] : paths_) versions.push_back(known);
  std::ranges::sort(versions, {}, minor_of);
  std::string text;
  for (const std::string& known : versions) text += (text.empty() ? "" : ", ") + known;
  return text;
}

}  // namespace lambent::environments
