// Capabilities: what this machine and this user allow sandboxes, found by trying, and what is
// therefore weaker. A value; made by lambent-launcher at its start, shown by doctor and the worker.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"

namespace lambent::sandbox {

enum class CgroupVersion { kNone, kV1, kV2 };

struct Capabilities {
  std::string impossible;  // why there can be no sandboxes at all; empty: there can
  bool root = false;       // rights of our own, or those of an own user namespace
  // Why programs are not another user outside, though we are root; empty: they are, or we are not.
  std::string same_user_reason;
  bool user_namespaces = false;  // each program gets a user namespace of its own
  CgroupVersion cgroup = CgroupVersion::kNone;
  // Which limits a cgroup enforces; the others fall back as weaker_limits() tells.
  bool memory_cgroup = false;
  bool pids_cgroup = false;
  bool cpu_cgroup = false;
  std::string cgroup_folder;   // below which sandboxes get theirs; empty without
  std::string cgroup_reason;   // why a controller is missing; empty if none is
  std::string network_reason;  // why sandboxes have no network but their own; empty: they may

  bool operator==(const Capabilities&) const = default;
};

// Tries everything out, in child processes and cgroups that are gone when this returns (some ms).
// `cgroup_parent` as in LauncherOptions. For programs that report, such as doctor.
Capabilities probe_capabilities(const std::string& cgroup_parent);

// One sentence for each limit that is weaker than it should be; empty where nothing is.
std::vector<std::string> weaker_limits(const Capabilities& capabilities);

// "name: value" lines for people.
std::string to_string(const Capabilities& capabilities);

// The part of the probe that is about namespaces; for lambent-launcher.
Capabilities probe_namespaces();
// Moves this (single-threaded) process into the mount namespace, and without root the user
// namespace, in which it makes sandboxes.
Result<void> enter_launcher_namespaces(bool root);

}  // namespace lambent::sandbox
