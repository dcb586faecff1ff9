#include "bin/environment_settings.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "core/archive/zip.h"
#include "core/base/fd.h"

namespace lambent {
namespace {

constexpr size_t kMostIndex = 16 << 10;

// What tells programs of the node's proxy.
constexpr const char* kProxyVariables[] = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
                                           "http_proxy", "https_proxy", "all_proxy", "no_proxy"};

bool is_program(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// Empty: there is none.
std::string search_uv(const Installation& installation) {
  if (is_program(installation.program("uv"))) return installation.program("uv");
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/local/bin:/usr/bin" : path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    if (!folder.empty() && is_program(folder + "/uv")) return folder + "/uv";
  }
  return "";
}

Result<std::string> read_index(const std::string& text) {
  if (!text.starts_with('@')) return text;
  auto read = read_file(text.substr(1), kMostIndex);
  if (!read.ok()) return read.error().with_context("--python-index");
  std::string index = std::move(*read);
  while (!index.empty() && (index.back() == '\n' || index.back() == '\r' || index.back() == ' ')) {
    index.pop_back();
  }
  return index;
}

}  // namespace

Result<environments::EnvironmentOptions> environment_options(const WorkerConfig& config,
                                                             const Installation& installation) {
  environments::EnvironmentOptions options;
  options.folder = config.state_folder + "/environments";
  options.program = installation.program("lambent-environment");
  options.python = config.python;
  options.offline = config.python_offline;
  options.most = config.environments_size;
  options.timeout = config.environment_timeout;
  options.uv = config.uv.empty() ? search_uv(installation) : config.uv;
  if (!config.uv.empty() && !is_program(config.uv)) {
    return Error{ErrorCode::kNotFound, "--uv: there is no program " + config.uv};
  }
  std::error_code error;
  if (!options.uv.empty()) options.uv = std::filesystem::canonical(options.uv, error);
  if (!config.python_wheels.empty()) {
    if (!std::filesystem::is_directory(config.python_wheels, error)) {
      return Error{ErrorCode::kNotFound,
                   "--python-wheels: there is no folder " + config.python_wheels};
    }
    options.wheels = std::filesystem::canonical(config.python_wheels, error);
  }
  ASSIGN_OR_RETURN(options.index, read_index(config.python_index));
  for (const char* name : kProxyVariables) {
    if (const char* value = std::getenv(name)) {
      options.variables.push_back(std::string(name) + "=" + value);
    }
  }
  return options;
}

Result<std::unique_ptr<environments::EnvironmentStore>> open_environments(
    const WorkerConfig& config, const Installation& installation, loop::EventLoop& loop,
    LogSink& log, environments::EnvironmentStore::Offload offload,
    worker::SandboxSetting& sandboxes) {
  ASSIGN_OR_RETURN(auto options, environment_options(config, installation));
  auto store = std::make_unique<environments::EnvironmentStore>(loop, log, std::move(offload),
                                                                std::move(options));
  RETURN_IF_ERROR(store->recover());
  sandboxes.environment_of = [&store = *store](const FunctionSpec& spec) {
    return store.folder_of(archive::code_folder_name(spec.code_sha256));
  };
  return store;
}

}  // namespace lambent
