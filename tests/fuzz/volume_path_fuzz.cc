// What clients and manifests say of volumes: a path in one, mounts as text, a range of bytes. What
// is taken stays inside, and reads the same when it is written again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/mount.h"
#include "core/domain/volume.h"
#include "edge/frontend/volume_transfer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (validate_volume_path(text).ok()) {
    const std::string around = "/" + std::string(text) + "/";
    CHECK(around.find("/../") == std::string::npos, "a path does not lead up");
    CHECK(around.find("//") == std::string::npos, "a path is below the volume");
    CHECK(around.find('\0') == std::string::npos, "a path is a text of C");
  }

  if (const auto mounts = parse_mounts(text); mounts.ok() && validate(*mounts).ok()) {
    const auto again = parse_mounts(text_of(*mounts));
    CHECK(again.ok() && *again == *mounts, "mounts are read as they were written");
    for (const Mount& mount : *mounts) {
      CHECK(mount.at.find("..") == std::string::npos || mount.at.find("/..") != 0,
            "a place does not lead up");
      CHECK(!mount.at.starts_with("/var/task"), "the code's own place is free");
    }
  }

  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{100}, ~uint64_t{0}}) {
    const auto range = frontend::requested_range(text, length);
    if (!range) continue;
    CHECK(range->begin <= range->end, "a range goes forwards");
    CHECK(range->end <= length, "a range is inside the file");
  }
  return 0;
}
