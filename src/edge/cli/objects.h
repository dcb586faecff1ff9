// lambent objects put, get, ls, rm: objects from the command line (docs/guides/objects.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct PutObjectOptions {
  std::string file;  // - is stdin
  std::string datatype;
  std::string shape;  // "2,3"
  std::optional<double> time_to_live_s;
  std::string id;  // empty: it gets one
};
int run_objects_put(Transport& transport, Console& console, const PutObjectOptions& options);

struct GetObjectOptions {
  std::string id;
  double wait_s = 0;  // for one that is still being made
  std::optional<std::string> output;
};
// The bytes go to stdout or into a file, the type to stderr.
int run_objects_get(Transport& transport, Console& console, const GetObjectOptions& options);

int run_objects_ls(Transport& transport, Console& console);
int run_objects_rm(Transport& transport, Console& console, const std::vector<std::string>& ids);

}  // namespace lambent::cli
