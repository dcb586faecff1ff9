#include "node/sandbox/zygote_memory.h"

#include <algorithm>
#include <array>

namespace lambent::sandbox {
namespace {

// Mounted read-only in every sandbox.
constexpr std::array<std::string_view, 4> kReadOnly = {"/usr/", "/lib", "/opt/lambent/",
                                                       "/var/runtime/"};

// "start-end rwxs offset device inode   path"
bool is_harmless(std::string_view line) {
  const size_t blank = line.find(' ');
  if (blank == std::string_view::npos || line.size() < blank + 5) return false;
  const std::string_view permissions = line.substr(blank + 1, 4);
  if (permissions[3] == 'p') return true;
  const size_t slash = line.find('/');
  const std::string_view path =
      slash == std::string_view::npos ? std::string_view() : line.substr(slash);
  return permissions[1] == '-' && std::ranges::any_of(kReadOnly, [path](std::string_view folder) {
           return path.starts_with(folder);
         });
}

}  // namespace

std::string shared_memory_in(std::string_view maps) {
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(line.size() + 1, maps.size()));
    if (!line.empty() && !is_harmless(line)) return std::string(line);
  }
  return "";
}

}  // namespace lambent::sandbox
