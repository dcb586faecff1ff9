#include "core/archive/entry_path.h"

#include <vector>

namespace lambent::archive {
namespace {

// What Linux takes, less room for the folder that the package lies in.
constexpr size_t kPathLength = 2048;
constexpr size_t kComponentLength = 255;

Error invalid(std::string_view what) {
  return Error{ErrorCode::kInvalidArgument, std::string(what)};
}

std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.push_back(part);
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return parts;
}

}  // namespace

Result<std::string> normalize_entry_path(std::string_view path) {
  if (path.starts_with('/')) return invalid("its path is absolute");
  if (path.size() > kPathLength) return invalid("its path is too long");
  if (path.find('\0') != std::string_view::npos) return invalid("its path has a NUL character");
  std::string normal;
  for (const std::string_view part : split(path)) {
    if (part == "..") return invalid("its path has '..', which leads outside the package");
    if (part.size() > kComponentLength) return invalid("a name in its path is too long");
    if (!normal.empty()) normal += '/';
    normal += part;
  }
  return normal;
}

Result<void> check_link_target(std::string_view path, std::string_view target) {
  if (target.empty()) return invalid("the symbolic link points nowhere");
  if (target.size() > kPathLength) return invalid("the symbolic link's target is too long");
  if (target.starts_with('/')) return invalid("the symbolic link is absolute");
  const size_t depth = split(path).size() - 1;
  size_t up = 0;
  bool down = false;
  for (const std::string_view part : split(target)) {
    if (part != "..") {
      down = true;
    } else if (down || ++up > depth) {
      return invalid("the symbolic link leads outside the package");
    }
  }
  return {};
}

Result<void> EntryTree::add(const std::string& path, EntryType type) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const auto [above, added] = entries_.emplace(path.substr(0, slash), EntryType::kFolder);
    if (!added && above->second != EntryType::kFolder) {
      return invalid("it lies below '" + above->first + "', which is no folder");
    }
  }
  const auto [entry, added] = entries_.emplace(path, type);
  const bool same_folder = type == EntryType::kFolder && entry->second == EntryType::kFolder;
  if (!added && !same_folder) return invalid("its name is used twice");
  return {};
}

}  // namespace lambent::archive
