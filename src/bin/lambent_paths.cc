#include "bin/lambent_paths.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>

namespace lambent::bin {
namespace {

namespace fs = std::filesystem;

std::string first_existing(std::initializer_list<std::string> candidates) {
  std::error_code ignored;
  for (const std::string& candidate : candidates) {
    if (fs::exists(candidate, ignored)) return fs::path(candidate).lexically_normal().string();
  }
  return "";
}

std::string value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

// There, or in a folder that hides it from this user, who is better told so than sent elsewhere.
bool is_or_is_hidden(const std::string& path) {
  std::error_code error;
  return !path.empty() && (fs::exists(path, error) || error == std::errc::permission_denied);
}

}  // namespace

std::string own_folder() {
  std::error_code code;
  const fs::path self = fs::read_symlink("/proc/self/exe", code);
  return code ? "." : self.parent_path().string();
}

std::string find_shared(const std::string& name) {
  const std::string own = own_folder();
  return first_existing({own + "/../share/lambent/" + name, own + "/../share/" + name,
                         own + "/../../../share/" + name});
}

std::string find_example(const std::string& name) {
  const std::string own = own_folder();
  for (const std::string& folder :
       {own + "/../examples/" + name, own + "/../share/lambent/examples/" + name}) {
    if (!first_existing({folder + "/bootstrap"}).empty()) return first_existing({folder});
  }
  return "";
}

std::string default_state_folder() {
  const std::string home = value_of("HOME");
  if (geteuid() == 0 || home.empty()) return "/var/lib/lambent";
  return home + "/.local/share/lambent";
}

std::string default_endpoint() {
  if (const char* endpoint = std::getenv("LAMBENT_ENDPOINT"); endpoint && *endpoint != '\0') {
    return endpoint;
  }
  std::string own_socket;
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime && *runtime != '\0') {
    own_socket = std::string(runtime) + "/lambent/lambent.sock";
  }
  for (const std::string& socket : {own_socket, std::string("/run/lambent/lambent.sock")}) {
    if (is_or_is_hidden(socket)) return "unix:" + socket;
  }
  return "http://127.0.0.1:8980";
}

std::string config_path() {
  if (const std::string path = value_of("LAMBENT_CONFIG"); !path.empty()) return path;
  if (const std::string folder = value_of("XDG_CONFIG_HOME"); !folder.empty()) {
    return folder + "/lambent/config.toml";
  }
  const std::string home = value_of("HOME");
  return (home.empty() ? "." : home) + "/.config/lambent/config.toml";
}

std::string environment_context() { return value_of("LAMBENT_CONTEXT"); }

bool has_environment_endpoint() { return !value_of("LAMBENT_ENDPOINT").empty(); }

std::string model_cache() {
  const std::string folder = value_of("XDG_CACHE_HOME");
  const std::string home = value_of("HOME");
  return (!folder.empty() ? folder : (home.empty() ? "." : home) + "/.cache") + "/lambent/models";
}

tls::CredentialFiles default_credentials() {
  return {.certificate = value_of("LAMBENT_CLIENT_CERTIFICATE"),
          .key = value_of("LAMBENT_CLIENT_KEY"),
          .authorities = value_of("LAMBENT_CA")};
}

}  // namespace lambent::bin
