// Which folders every sandbox shows by itself. Pure; used by the plans of sandboxes and executors.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace lambent::worker {

// Whether an absolute path lies in one of the system's folders of programs and libraries.
inline bool is_in_system(std::string_view path) {
  constexpr std::array<std::string_view, 5> kFolders = {"usr", "lib", "lib32", "lib64", "libx32"};
  if (!path.starts_with('/')) return false;
  path.remove_prefix(1);
  return std::ranges::find(kFolders, path.substr(0, path.find('/'))) != kFolders.end();
}

}  // namespace lambent::worker
