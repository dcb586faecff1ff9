#include "node/images/image_config.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/domain/image_function.h"
#include "core/domain/limits.h"

namespace lambent::images {
namespace {

using nlohmann::json;

// A plan of a sandbox with all of it fits into one message.
constexpr size_t kMostText = 48 << 10;
constexpr size_t kMostPorts = 1000;
constexpr size_t kMostLayers = 512;  // an overlay of Linux has at most 500
constexpr uint32_t kMostUser = 0x7fffffff;

Error wrong(const std::string& what) {
  return {ErrorCode::kInvalidArgument, "the image's configuration " + what};
}

// Null where it is missing or null.
const json* find(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<std::string> text_in(const json& object, const char* key) {
  const json* value = find(object, key);
  if (value == nullptr) return std::string();
  if (!value->is_string()) return wrong("has a " + std::string(key) + " that is no text");
  std::string text = value->get<std::string>();
  if (text.find('\0') != std::string::npos) {
    return wrong("has a NUL byte in " + std::string(key));
  }
  return text;
}

Result<std::vector<std::string>> texts_in(const json& object, const char* key) {
  std::vector<std::string> texts;
  const json* value = find(object, key);
  if (value == nullptr) return texts;
  if (!value->is_array()) return wrong("has a " + std::string(key) + " that is no list");
  size_t size = 0;
  for (const json& one : *value) {
    if (!one.is_string()) return wrong("has no texts in " + std::string(key));
    texts.push_back(one.get<std::string>());
    size += texts.back().size() + 1;
    if (texts.back().find('\0') != std::string::npos) {
      return wrong("has a NUL byte in " + std::string(key));
    }
    if (size > kMostText) return wrong("has more than 48 KiB in " + std::string(key));
  }
  return texts;
}

// "/a//./b/../c" as "/a/c", as it is meant.
std::string normal_path(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, end - start);
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
    start = end + 1;
  }
  std::string normal;
  for (const std::string_view part : parts) normal += "/" + std::string(part);
  return normal.empty() ? "/" : normal;
}

std::optional<uint32_t> number_of(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number <= kMostUser ? std::optional(number) : std::nullopt;
}

// {"8080/tcp": {}, "53/udp": {}}
std::vector<unsigned> ports_of(const json& config) {
  std::vector<unsigned> ports;
  const json* exposed = find(config, "ExposedPorts");
  if (exposed == nullptr || !exposed->is_object()) return ports;
  for (const auto& [key, value] : exposed->items()) {
    const size_t slash = std::min(key.find('/'), key.size());
    if (key.substr(slash) != "/tcp" && slash != key.size()) continue;
    const auto port = number_of(std::string_view(key).substr(0, slash));
    if (port && *port > 0 && *port < 65536 && ports.size() < kMostPorts) ports.push_back(*port);
  }
  std::ranges::sort(ports);
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  return ports;
}

Result<std::map<std::string, std::string>> environment_of(const json& config) {
  std::map<std::string, std::string> environment;
  ASSIGN_OR_RETURN(const std::vector<std::string> variables, texts_in(config, "Env"));
  for (const std::string& variable : variables) {
    const size_t equals = variable.find('=');
    if (equals == 0 || equals == std::string::npos) continue;
    environment[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return environment;
}

// What is no digest is left out: it is only used to find what images have in common.
std::string digest_in(const json& value) {
  std::string digest = value.is_string() ? value.get<std::string>() : "";
  return is_image_digest(digest) ? digest : "";
}

std::vector<std::string> layers_of(const json& object) {
  std::vector<std::string> layers;
  const json* tree = find(object, "rootfs");
  const json* digests = tree == nullptr ? nullptr : find(*tree, "diff_ids");
  if (digests == nullptr || !digests->is_array()) return layers;
  for (const json& one : *digests) {
    std::string digest = digest_in(one);
    if (!digest.empty() && layers.size() < kMostLayers) layers.push_back(std::move(digest));
  }
  return layers;
}

// A line of passwd in its seven fields.
std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t start = 0; start <= line.size() && fields.size() < 8;) {
    const size_t end = std::min(line.find(':', start), line.size());
    fields.push_back(line.substr(start, end - start));
    start = end + 1;
  }
  return fields;
}

}  // namespace

Result<ImageConfig> parse_image_config(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return wrong("is no JSON object");
  ImageConfig image;
  ASSIGN_OR_RETURN(image.architecture, text_in(object, "architecture"));
  ASSIGN_OR_RETURN(image.os, text_in(object, "os"));
  const json nothing = json::object();
  const json* found = find(object, "config");
  const json& config = found == nullptr ? nothing : *found;
  if (!config.is_object()) return wrong("has a config that is no object");
  ASSIGN_OR_RETURN(image.entry_point, texts_in(config, "Entrypoint"));
  ASSIGN_OR_RETURN(image.command, texts_in(config, "Cmd"));
  ASSIGN_OR_RETURN(image.environment, environment_of(config));
  ASSIGN_OR_RETURN(const std::string directory, text_in(config, "WorkingDir"));
  image.working_directory = normal_path(directory);
  if (image.working_directory.size() > limits::kSandboxPathLength) {
    return wrong("has a working directory that is too long");
  }
  ASSIGN_OR_RETURN(image.user, text_in(config, "User"));
  image.ports = ports_of(config);
  image.layers = layers_of(object);
  return image;
}

Result<std::string> parse_image_index(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  const json* manifests = find(object, "manifests");
  if (manifests == nullptr || !manifests->is_array() || manifests->size() != 1) {
    return Error{ErrorCode::kInvalidArgument, "the image's index does not have one manifest"};
  }
  ASSIGN_OR_RETURN(std::string digest, text_in((*manifests)[0], "digest"));
  if (!is_image_digest(digest)) return wrong("is named by no digest of sha256");
  return digest;
}

Result<std::string> parse_image_manifest(std::string_view text) {
  const json object = json::parse(text, nullptr, false);
  const json* config = find(object, "config");
  if (config == nullptr) {
    return Error{ErrorCode::kInvalidArgument, "the image's manifest names no configuration"};
  }
  ASSIGN_OR_RETURN(std::string digest, text_in(*config, "digest"));
  if (!is_image_digest(digest)) return wrong("is named by no digest of sha256");
  return digest;
}

std::vector<std::string> layers_of_manifest(std::string_view text) {
  std::vector<std::string> layers;
  const json object = json::parse(text, nullptr, false);
  const json* named = find(object, "layers");
  if (named == nullptr || !named->is_array()) return layers;
  for (const json& one : *named) {
    const json* value = find(one, "digest");
    std::string digest = value == nullptr ? "" : digest_in(*value);
    if (!digest.empty() && layers.size() < kMostLayers) layers.push_back(std::move(digest));
  }
  return layers;
}

std::string manifest_for(std::string_view text, std::string_view architecture) {
  const json object = json::parse(text, nullptr, false);
  const json* manifests = find(object, "manifests");
  if (manifests == nullptr || !manifests->is_array()) return "";
  for (const json& one : *manifests) {
    const json* platform = find(one, "platform");
    const json* digest = find(one, "digest");
    if (platform == nullptr || digest == nullptr) continue;
    const json* machine = find(*platform, "architecture");
    const json* os = find(*platform, "os");
    const bool fits =
        machine != nullptr && os != nullptr && *machine == architecture && *os == "linux";
    if (fits) return digest_in(*digest);
  }
  return "";
}

std::string architecture_of(std::string_view machine) {
  if (machine == "x86_64") return "amd64";
  if (machine == "aarch64") return "arm64";
  return std::string(machine);
}

Result<ImageUser> find_user(const std::string& user, std::string_view passwd) {
  const std::string wanted = user.empty() ? "0" : user.substr(0, user.find(':'));
  const auto number = number_of(wanted);
  while (!passwd.empty()) {
    const size_t end = std::min(passwd.find('\n'), passwd.size());
    const std::vector<std::string_view> fields = fields_of(passwd.substr(0, end));
    passwd.remove_prefix(std::min(end + 1, passwd.size()));
    if (fields.size() < 6) continue;
    const auto id = number_of(fields[2]);
    if (!id || (number ? *id != *number : fields[0] != wanted)) continue;
    const bool has_home = fields[5].starts_with('/') && fields[5].find('\0') == fields[5].npos &&
                          fields[5].size() <= limits::kSandboxPathLength;
    return ImageUser{*id, has_home ? std::string(fields[5]) : "/"};
  }
  if (number) return ImageUser{*number, "/"};
  return Error{ErrorCode::kInvalidArgument, "the image's user is '" + wanted +
                                                "', whom its /etc/passwd does not have; give it "
                                                "a number (USER 1000)"};
}

}  // namespace lambent::images
