// Capabilities: what this machine and this user allow sandboxes, found by trying, and what is
// therefore weaker. A value; made by lambent-launcher at its start, shown by doctor and the worker.
#pragma once

#include <string>
#include <vector>

namespace lambent::sandbox {

enum class CgroupVersion { kNone, kV1, kV2 };

struct Capabilities {
  bool root = false;             // as root, or as an ordinary user with user namespaces
  bool user_namespaces = false;  // sandboxes get one of their own
  bool seccomp = false;
  bool fresh_proc = false;  // sandboxes can have a /proc of their own
  CgroupVersion cgroup = CgroupVersion::kNone;
  // Which limits a cgroup enforces; the others fall back as weaker_limits() tells.
  bool memory_cgroup = false;
  bool pids_cgroup = false;
  bool cpu_cgroup = false;
  std::string cgroup_folder;  // below which sandboxes get theirs; empty without
  std::string cgroup_reason;  // why a controller is missing; empty if none is

  bool operator==(const Capabilities&) const = default;
};

// Tries everything out in a child process that is gone when this returns: blocks for some ms.
Capabilities probe_capabilities(const std::string& cgroup_parent);

// One sentence for each limit that is weaker than it should be; empty where nothing is.
std::vector<std::string> weaker_limits(const Capabilities& capabilities);

// "name: value" lines for people.
std::string to_string(const Capabilities& capabilities);

}  // namespace lambent::sandbox
