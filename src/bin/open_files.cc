#include "bin/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "core/base/error.h"
#include "node/objects/limits.h"

namespace lambent {
namespace {

constexpr size_t kConnections = 16'384;

}  // namespace

OpenFileShares share_of(uint64_t open_files) {
  return {.connections = std::min<uint64_t>(kConnections, open_files / 8 * 5),
          .objects = std::min<uint64_t>(limits::kObjects, open_files / 4)};
}

std::optional<std::string> shortage_of(uint64_t open_files) {
  const size_t connections = share_of(open_files).connections;
  if (connections >= kConnections) return std::nullopt;
  return "the limit of open files leaves at most " + std::to_string(connections) + " of " +
         std::to_string(kConnections) +
         " connections, and fewer beside many sandboxes, of which each takes some five files; "
         "raise the hard limit where the worker is started (ulimit -Hn, LimitNOFILE=)";
}

uint64_t open_files_limit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return files.rlim_cur;
}

void allow_many_files(LogSink& log) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  if (files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
      log.warning("file_limit", {{"error", to_string(error_from_errno("setrlimit", errno))}});
    }
  }
}

void tell_of_few_files(LogSink& log) {
  const uint64_t most = open_files_limit();
  if (const auto shortage = shortage_of(most)) {
    log.info("few_open_files", {{"open_files", static_cast<int64_t>(most)}, {"reason", *shortage}});
  }
}

}  // namespace lambent
