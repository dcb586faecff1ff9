// The rules for names inside a package: none leads outside, none is used twice, none goes through a
// symbolic link. Values; used by unpacking and packing, on any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace lambent::archive {

enum class EntryType { kFile, kFolder, kLink };

// "a//b/./c/" as "a/b/c". INVALID_ARGUMENT for absolute paths, "..", and what no file system takes;
// empty for the top folder itself.
Result<std::string> normalize_entry_path(std::string_view path);

// Whether a symbolic link at `path` (normalized) may point to `target`: relative, ".." only at its
// beginning and not above the top. With no entry below a link, ".." then always means the real
// parent, so that no chain of such links leads outside.
Result<void> check_link_target(std::string_view path, std::string_view target);

// The entries seen so far.
class EntryTree {
 public:
  // Adds a normalized path and the folders above it. INVALID_ARGUMENT for a name that is taken, or
  // one below a file or link. A folder may be named again.
  Result<void> add(const std::string& path, EntryType type);
  size_t size() const { return entries_.size(); }

 private:
  std::map<std::string, EntryType, std::less<>> entries_;
};

}  // namespace lambent::archive
