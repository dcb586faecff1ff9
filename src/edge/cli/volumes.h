// lambent volumes: files that a tenant keeps at the worker for its functions, which see them by
// mounts. What was cut off goes on where it was, and every content is compared by its digest.
#pragma once

#include <string>
#include <vector>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

// All volumes, or with a volume its files, those below `prefix`.
int run_volumes_ls(Transport& transport, Console& console, const std::string& volume,
                   const std::string& prefix);

int run_volumes_create(Transport& transport, Console& console, const std::string& volume);

struct PutOptions {
  std::string volume;
  std::string local;
  std::string path;  // empty: a file under its name, a folder's files at the top
  bool follow_links = false;
};
// A file, or all files of a folder; what the volume has already is not sent.
int run_volumes_put(Transport& transport, Console& console, const PutOptions& options);

struct GetOptions {
  std::string volume;
  std::string path;   // of a file or a folder; ".": all
  std::string local;  // empty: under the last part of the path, here
};
int run_volumes_get(Transport& transport, Console& console, const GetOptions& options);

// A file, all below a folder, or with an empty path the volume.
int run_volumes_rm(Transport& transport, Console& console, const std::string& volume,
                   const std::string& path);

}  // namespace lambent::cli
