// What an OCI image says of itself: its layout's index, its manifest and its configuration. Values
// and pure functions over foreign bytes (fuzzed); used by lambent-environment, any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::images {

struct ImageConfig {
  std::string architecture;  // as Go writes it: "amd64"
  std::string os;
  std::vector<std::string> entry_point;
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  std::string working_directory;    // absolute and without "..", "/" where it says none
  std::string user;                 // "", "name", "1000" or "name:group"
  std::vector<unsigned> ports;      // of TCP that it exposes, in order
  std::vector<std::string> layers;  // by digest of their tars, from the lowest

  bool operator==(const ImageConfig&) const = default;
};

// All of them INVALID_ARGUMENT where the text is something else, or larger than images may be.
Result<ImageConfig> parse_image_config(std::string_view json);
// The digest of the only manifest of an index.
Result<std::string> parse_image_index(std::string_view json);
// The digest of the configuration that a manifest names.
Result<std::string> parse_image_manifest(std::string_view json);
// The digests of the layers that a manifest names, as they are sent; none where it names none.
std::vector<std::string> layers_of_manifest(std::string_view json);
// The digest of an index' manifest for a machine of this architecture with Linux; empty: there is
// none, or it is no index.
std::string manifest_for(std::string_view json, std::string_view architecture);

// What this machine's images are for: "amd64", "arm64"; what uname says where it is another.
std::string architecture_of(std::string_view machine);

// A user as /etc/passwd of an image has it.
struct ImageUser {
  uint32_t id = 0;
  std::string home = "/";

  bool operator==(const ImageUser&) const = default;
};
// INVALID_ARGUMENT: a name that is not there. `passwd` may be empty.
Result<ImageUser> find_user(const std::string& user, std::string_view passwd);

}  // namespace lambent::images
