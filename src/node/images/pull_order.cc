#include "node/images/pull_order.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "core/archive/zip.h"
#include "core/base/base64.h"
#include "core/base/json_text.h"
#include "core/domain/image_function.h"
#include "node/environments/order_reader.h"

namespace lambent::images {
namespace {

using environments::OrderReader;
using nlohmann::json;

}  // namespace

std::string to_json(const PullOrder& order) {
  const auto timeout = std::chrono::duration_cast<milliseconds>(order.timeout).count();
  return json_text(json{{"folder", order.folder},
                        {"work", order.work},
                        {"skopeo", order.skopeo},
                        {"umoci", order.umoci},
                        {"auth_file", order.auth_file},
                        {"auth", order.auth},
                        {"proves", order.proves},
                        {"reference", order.reference},
                        {"local_path", order.local_path},
                        {"is_copy", order.is_copy},
                        {"keeps_layout", order.keeps_layout},
                        {"plain_http", order.plain_http},
                        {"variables", order.variables},
                        {"most_bytes", order.most.count},
                        {"timeout_ms", static_cast<uint64_t>(timeout)}});
}

Result<PullOrder> parse_pull_order(std::string_view text) {
  OrderReader reader(text);
  PullOrder order;
  uint64_t timeout_ms = 0;
  reader.read("folder", order.folder);
  reader.read("work", order.work);
  reader.read("skopeo", order.skopeo);
  reader.read("umoci", order.umoci);
  reader.read("auth_file", order.auth_file);
  reader.read("auth", order.auth);
  reader.read("proves", order.proves);
  reader.read("reference", order.reference);
  reader.read("local_path", order.local_path);
  reader.read("is_copy", order.is_copy);
  reader.read("keeps_layout", order.keeps_layout);
  reader.read("plain_http", order.plain_http);
  reader.read("variables", order.variables);
  reader.read("most_bytes", order.most.count);
  reader.read("timeout_ms", timeout_ms);
  constexpr uint64_t kMostTimeoutMs = uint64_t{1} << 40;
  if (!reader.good() || timeout_ms > kMostTimeoutMs) {
    return Error{ErrorCode::kInvalidArgument, "this is not an order to pull an image"};
  }
  order.timeout = milliseconds(timeout_ms);
  return order;
}

std::string to_json(const PulledImage& image) {
  const ImageConfig& config = image.config;
  json variables = json::array();
  for (const auto& [name, value] : config.environment) variables.push_back(name + "=" + value);
  // In the form of an image's configuration, so that one function reads both.
  const json described = {{"architecture", config.architecture},
                          {"os", config.os},
                          {"rootfs", {{"diff_ids", config.layers}}},
                          {"config",
                           {{"Entrypoint", config.entry_point},
                            {"Cmd", config.command},
                            {"Env", variables},
                            {"WorkingDir", config.working_directory},
                            {"User", config.user},
                            {"ExposedPorts", json::object()}}}};
  json object = {{"digest", image.digest},
                 {"bytes", image.size.count},
                 {"user_id", image.user.id},
                 {"home", image.user.home},
                 {"c_library", image.c_library.name},
                 {"c_library_version", image.c_library.version},
                 {"image", described}};
  if (!image.registry.empty()) object["registry"] = image.registry;
  if (!image.base.empty()) object["base"] = image.base;
  if (image.shared.count > 0) object["shared_bytes"] = image.shared.count;
  json& ports = object["image"]["config"]["ExposedPorts"];
  for (const unsigned port : config.ports) ports[std::to_string(port) + "/tcp"] = json::object();
  return json_text(object);
}

Result<PulledImage> parse_pulled_image(std::string_view text) {
  OrderReader reader(text);
  PulledImage image;
  uint64_t user = 0;
  reader.read("digest", image.digest);
  reader.read("bytes", image.size.count);
  reader.read("user_id", user);
  reader.read("home", image.user.home);
  reader.read("c_library", image.c_library.name);
  reader.read("c_library_version", image.c_library.version);
  image.user.id = static_cast<uint32_t>(user);
  const json object = json::parse(text, nullptr, false);
  if (!reader.good() || !is_image_digest(image.digest) || user > UINT32_MAX ||
      !object.contains("image")) {
    return Error{ErrorCode::kInternal, "this is not a report of an image that was pulled"};
  }
  // Reports of earlier workers have none of these.
  if (object.contains("registry")) reader.read("registry", image.registry);
  if (object.contains("base")) reader.read("base", image.base);
  if (object.contains("shared_bytes")) reader.read("shared_bytes", image.shared.count);
  if (!reader.good() || image.shared > image.size) {
    return Error{ErrorCode::kInternal, "this report of an image says what cannot be"};
  }
  ASSIGN_OR_RETURN(image.config, parse_image_config(json_text(object["image"])));
  return image;
}

std::string code_sha256_of(std::string_view digest) {
  digest.remove_prefix(std::min(digest.find(':') + 1, digest.size()));
  std::string bytes;
  for (size_t i = 0; i + 1 < digest.size(); i += 2) {
    uint8_t byte = 0;
    std::from_chars(digest.data() + i, digest.data() + i + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return base64_encode(bytes);
}

std::string key_of(std::string_view digest) {
  return archive::code_folder_name(code_sha256_of(digest));
}

}  // namespace lambent::images
