#include "bin/host_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace lambent {
namespace {

Bytes of_machine() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    uint64_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return Bytes::kib(kib);
  }
  return Bytes(0);
}

// No limit reads as the largest number.
Bytes left_in_cgroup(const std::string& folder) {
  uint64_t limit = 0;
  uint64_t used = 0;
  if (!(std::ifstream(folder + "/memory.max") >> limit)) return Bytes(~uint64_t{0});
  std::ifstream(folder + "/memory.current") >> used;
  return Bytes(limit) - Bytes(used);
}

// Of version 2; a limit may stand at any level.
Bytes of_cgroup() {
  Bytes least(~uint64_t{0});
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::string path = line.substr(3);; path.resize(path.rfind('/'))) {
      least = std::min(least, left_in_cgroup("/sys/fs/cgroup" + path));
      if (path.empty() || path == "/") break;
    }
  }
  return least;
}

}  // namespace

Bytes available_host_memory() { return std::min(of_machine(), of_cgroup()); }

}  // namespace lambent
