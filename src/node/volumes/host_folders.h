// HostFolders: which folders of the host functions may mount, as the operator said. A value; made
// before the loop runs, read on the loop thread.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"

namespace lambent::volumes {

class HostFolders {
 public:
  HostFolders() = default;
  // Each is PATH, for all tenants, or PATH=TENANT. Blocks. INVALID_ARGUMENT, NOT_FOUND: a path that
  // is no folder, is the root, or has one of `own` (the worker's folders) in it or around it.
  static Result<HostFolders> open(const std::vector<std::string>& allowed,
                                  const std::vector<std::string>& own);

  // Where the path lies on the host when the allowed folder's own links are followed; below that
  // there may be none. PERMISSION_DENIED: the tenant may not mount it.
  Result<std::string> resolve(const std::string& tenant, const std::string& path) const;

 private:
  struct Folder {
    std::string path;  // as the operator wrote it
    std::string real;
    std::string tenant;  // empty: of all
  };
  std::vector<Folder> folders_;
};

}  // namespace lambent::volumes
