// Mount: a volume of the tenant, or a folder of the host that its operator allowed, that a
// function's sandboxes see at a place of their own, read-only. Values and pure functions, any
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent {

// One of `volume` and `host` is given.
struct Mount {
  std::string volume;  // its name
  std::string host;    // an absolute path of the host
  std::string at;      // an absolute path inside the sandbox

  bool operator==(const Mount&) const = default;
};
using Mounts = std::vector<Mount>;

// As tags and the catalog have them: "weights:/weights,/data/models:/models". Only of mounts that
// are valid.
std::string text_of(const Mounts& mounts);
// The mounts of such a text. INVALID_ARGUMENT if it is none; they may still be invalid.
Result<Mounts> parse_mounts(std::string_view text);

// 1 to 64 letters, digits, '-', '_' and '.', not beginning with '.'; INVALID_ARGUMENT otherwise.
Result<void> validate_volume_name(std::string_view name);

// INVALID_ARGUMENT, naming the mount: too many, a bad name or path, a place of the system or of the
// sandbox itself, or places inside one another.
Result<void> validate(const Mounts& mounts);

}  // namespace lambent
