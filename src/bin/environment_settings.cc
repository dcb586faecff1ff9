#include "bin/environment_settings.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "core/archive/zip.h"
#include "core/base/fd.h"
#include "node/environments/proxy_request.h"

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

// URLs with blanks between them: the index, and where else its files lie. The message does not show
// them: they may have passwords.
Result<std::vector<std::string>> checked_index(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> urls;
  for (std::string url; words >> url;) {
    if (!environments::place_of_url(url).ok()) {
      return Error{
          ErrorCode::kInvalidArgument,
          "--python-index is a URL, such as https://pypi.example/simple, with further ones "
          "where its files lie, or @FILE with them"};
    }
    urls.push_back(std::move(url));
  }
  return urls;
}

Result<std::vector<std::string>> read_index(const std::string& text) {
  if (!text.starts_with('@')) return checked_index(text);
  const auto read = read_file(text.substr(1), kMostIndex);
  if (!read.ok()) return read.error().with_context("--python-index");
  return checked_index(*read);
}

}  // namespace

std::string search_program(const std::string& name, const Installation& installation) {
  if (is_program(installation.program(name))) return installation.program(name);
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/local/bin:/usr/bin" : path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    if (!folder.empty() && is_program(folder + "/" + name)) return folder + "/" + name;
  }
  return "";
}

std::vector<std::string> proxy_variables() {
  std::vector<std::string> variables;
  for (const char* name : kProxyVariables) {
    if (const char* value = std::getenv(name)) variables.push_back(std::string(name) + "=" + value);
  }
  return variables;
}

Result<environments::EnvironmentOptions> environment_options(const WorkerConfig& config,
                                                             const Installation& installation) {
  environments::EnvironmentOptions options;
  options.folder = config.state_folder + "/environments";
  options.program = installation.program("lambent-environment");
  options.python = config.python;
  options.offline = config.python_offline;
  options.most = config.environments_size;
  options.timeout = config.environment_timeout;
  options.uv = config.uv.empty() ? search_program("uv", installation) : config.uv;
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
  ASSIGN_OR_RETURN(options.files, read_index(config.python_index));
  if (!options.files.empty()) {
    options.index = options.files.front();
    options.files.erase(options.files.begin());
  }
  options.variables = proxy_variables();
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
  sandboxes.environment_of =
      [&store = *store](const FunctionSpec& spec) -> Result<worker::PythonEnvironment> {
    const std::string code = archive::code_folder_name(spec.code_sha256);
    ASSIGN_OR_RETURN(std::string folder, store.folder_of(code));
    return worker::PythonEnvironment{std::move(folder), store.preload_of(code)};
  };
  return store;
}

}  // namespace lambent
