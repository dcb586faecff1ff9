// Container images: the line by which a function names one, and what an image says of itself. What
// is accepted is read again as it was, and has nothing that a sandbox could not be started with.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/image_function.h"
#include "node/images/image_config.h"
#include "node/images/pull_failure.h"
#include "node/images/pull_order.h"

namespace {

using namespace lambent;

void check_config(std::string_view text) {
  const auto config = images::parse_image_config(text);
  if (!config.ok()) return;
  CHECK(config->working_directory.starts_with('/'), "the working directory is absolute");
  CHECK((config->working_directory + "/").find("/../") == std::string::npos, "and has no '..'");
  for (const auto& [name, value] : config->environment) {
    CHECK(!name.empty(), "every variable has a name");
    CHECK(value.find('\0') == std::string::npos, "and no NUL byte");
  }
  (void)images::find_user(config->user, text).ok();
  images::PulledImage image{.digest = "sha256:" + std::string(64, '1'), .config = *config};
  const auto again = images::parse_pulled_image(images::to_json(image));
  CHECK(!again.ok() || again->config.ports == config->ports, "its ports are read again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto reference = parse_image_reference(text); reference.ok()) {
    const std::string written = text_of(*reference);
    CHECK(written.find_first_of(" \n\"\\'") == std::string::npos || reference->is_local(),
          "a name has no blanks and no quotes");
    const auto again = parse_image_reference(written);
    CHECK(again.ok() && *again == *reference, "a reference is read again as it was");
  }
  if (const auto command = parse_image_command(text); command.ok()) {
    const auto again = parse_image_command(text_of(*command));
    CHECK(again.ok() && *again == *command, "a line is read again as it was");
  }
  check_config(text);
  for (const auto& digest : {images::parse_image_index(text), images::parse_image_manifest(text)}) {
    CHECK(!digest.ok() || is_image_digest(*digest), "a digest names no path");
  }
  (void)images::find_user("app", text).ok();
  for (const std::string& digest : images::layers_of_manifest(text)) {
    CHECK(is_image_digest(digest), "layers have digests");
  }
  const std::string manifest = images::manifest_for(text, "amd64");
  CHECK(manifest.empty() || is_image_digest(manifest), "a manifest has a digest");
  (void)images::parse_pull_order(text).ok();
  (void)images::pull_failure("image", text);
  return 0;
}
