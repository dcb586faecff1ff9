#include "core/domain/mount.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/domain/limits.h"

namespace lambent {
namespace {

// Places that show the system or belong to the sandbox: nothing may lie over, above or below them.
constexpr std::array<std::string_view, 16> kTakenPlaces = {
    "/usr", "/lib",  "/lib32", "/lib64", "/libx32", "/bin",      "/sbin",        "/etc",
    "/sys", "/proc", "/dev",   "/tmp",   "/run",    "/var/task", "/var/runtime", "/opt/lambent"};

Error invalid(const std::string& what) { return Error{ErrorCode::kInvalidArgument, what}; }

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

bool lies_within(std::string_view inner, std::string_view outer) {
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

bool is_good_part(std::string_view part) { return !part.empty() && part != "." && part != ".."; }

// The separators of text_of() are among what it does not allow.
Result<void> check_path(const std::string& what, const std::string& path) {
  const auto is_plain = [](unsigned char c) {
    return c >= ' ' && c != 127 && c != ':' && c != ',';
  };
  if (path.size() > limits::kSandboxPathLength || !path.starts_with('/') || path == "/" ||
      !std::all_of(path.begin(), path.end(), is_plain)) {
    return invalid(what + " is " + quoted(path) +
                   "; it is an absolute path below /, without ':', ',' and control characters");
  }
  for (size_t start = 1; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (!is_good_part(std::string_view(path).substr(start, end - start))) {
      return invalid(what + " is " + quoted(path) +
                     "; it may have no '.', '..' or empty part, and no '/' at its end");
    }
    start = end + 1;
  }
  return {};
}

Result<void> check_place(const std::string& at) {
  RETURN_IF_ERROR(check_path("the place of a mount", at));
  for (const std::string_view taken : kTakenPlaces) {
    if (lies_within(at, taken) || lies_within(taken, at)) {
      return invalid("a mount cannot be at " + quoted(at) + ": " + std::string(taken) +
                     " is the sandbox's own; choose a place such as /weights or /mnt/weights");
    }
  }
  return {};
}

}  // namespace

std::string text_of(const Mounts& mounts) {
  std::string text;
  for (const Mount& mount : mounts) {
    if (!text.empty()) text += ',';
    text += (mount.volume.empty() ? mount.host : mount.volume) + ":" + mount.at;
  }
  return text;
}

Result<Mounts> parse_mounts(std::string_view text) {
  Mounts mounts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, end);
    const size_t colon = one.find(':');
    if (colon == std::string_view::npos || colon == 0 || colon + 1 == one.size()) {
      return invalid("a mount is VOLUME:PLACE or FOLDER:PLACE, such as weights:/weights, not " +
                     quoted(one));
    }
    const std::string source(one.substr(0, colon));
    Mount mount{.volume = {}, .host = {}, .at = std::string(one.substr(colon + 1))};
    (source.starts_with('/') ? mount.host : mount.volume) = source;
    mounts.push_back(std::move(mount));
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
    if (text.empty()) return invalid("a list of mounts does not end in ','");
  }
  return mounts;
}

Result<void> validate_volume_name(std::string_view name) {
  const auto is_plain = [](unsigned char c) {
    return c < 128 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.');
  };
  const bool good = !name.empty() && name.size() <= limits::kVolumeNameLength &&
                    name.front() != '.' && std::all_of(name.begin(), name.end(), is_plain);
  if (good) return {};
  return invalid("the name of a volume has 1 to " + std::to_string(limits::kVolumeNameLength) +
                 " letters, digits, '-', '_' and '.', and does not begin with '.'");
}

Result<void> validate(const Mounts& mounts) {
  if (mounts.size() > limits::kMountsPerFunction) {
    return invalid("a function has at most " + std::to_string(limits::kMountsPerFunction) +
                   " mounts");
  }
  for (size_t i = 0; i < mounts.size(); ++i) {
    const Mount& mount = mounts[i];
    if (mount.volume.empty() == mount.host.empty()) {
      return invalid("the mount at " + quoted(mount.at) + " has either a volume or a host folder");
    }
    if (!mount.volume.empty()) RETURN_IF_ERROR(validate_volume_name(mount.volume));
    if (!mount.host.empty()) RETURN_IF_ERROR(check_path("the host folder of a mount", mount.host));
    RETURN_IF_ERROR(check_place(mount.at));
    for (size_t other = 0; other < i; ++other) {
      const std::string& taken = mounts[other].at;
      if (lies_within(mount.at, taken) || lies_within(taken, mount.at)) {
        return invalid("the mounts at " + quoted(taken) + " and " + quoted(mount.at) +
                       " would be inside one another");
      }
    }
  }
  return {};
}

}  // namespace lambent
