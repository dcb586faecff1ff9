// The cgroups of sandboxes: one folder per launcher, one per sandbox below it, in v1 hierarchies
// (memory, pids, cpu apart), in v2, or none at all. Used only by lambent-launcher.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "node/sandbox/capabilities.h"
#include "node/sandbox/memory_meter.h"
#include "node/sandbox/plan.h"

namespace lambent::sandbox {

// One hierarchy that we work in, with the controllers it serves us.
struct CgroupHierarchy {
  CgroupVersion version = CgroupVersion::kNone;
  std::string folder;  // ours, below the parent
  OwnedFd lock;        // flock()ed: the folder belongs to a living launcher
  bool memory = false;
  bool pids = false;
  bool cpu = false;
};

// A sandbox's folders; removed when destroyed, which works once nothing runs inside.
class SandboxCgroup {
 public:
  SandboxCgroup() = default;
  SandboxCgroup(SandboxCgroup&&) = default;
  SandboxCgroup& operator=(SandboxCgroup&& other) noexcept;
  ~SandboxCgroup();

  Result<void> set_limits(const SandboxLimits& limits);

  // While it gives way, what runs inside runs only where nothing of other sandboxes wants to, and
  // at once stops for what does. Does nothing without a cpu controller, or before Linux 5.15.
  void give_way(bool gives_way);

  // The v2 folder to be born into with CLONE_INTO_CGROUP, or -1.
  int birth_folder() const { return v2_folder_.get(); }
  // Enters the v1 folders; called by the new process itself, see cgroup.cc.
  Result<void> enter() const;
  // What a process that was not born here enters by: it writes "0" into each, in any namespace.
  Result<std::vector<OwnedFd>> open_entries() const;

  uint64_t oom_kills() const;
  Bytes memory_peak() const;
  // Its peak as a file to read and reset, and its usage; measures nothing without a memory
  // controller.
  MemoryMeter memory_meter() const;
  // None without a memory controller.
  std::optional<Bytes> memory_usage() const;

  // False while something is inside still; true when gone (or never there).
  bool remove();

 private:
  friend class CgroupTree;
  struct Folder {
    CgroupVersion version;
    std::string path;
    bool memory, pids, cpu;
  };
  const Folder* memory_folder() const;
  static std::string peak_file(const Folder& folder);
  static std::string usage_file(const Folder& folder);

  std::vector<Folder> folders_;
  std::vector<OwnedFd> v1_entries_;
  OwnedFd v2_folder_;
};

class CgroupTree {
 public:
  // Finds and makes what is possible; what is not is told by describe(). `parent`: path of an
  // existing cgroup such as "/lambent", the same in every hierarchy; empty: the one we are in.
  // Removes what launchers that died have left there.
  static CgroupTree open(const std::string& parent);
  CgroupTree(CgroupTree&&) = default;
  ~CgroupTree();

  // Fills the cgroup fields.
  void describe(Capabilities& capabilities) const;
  Result<SandboxCgroup> create(uint64_t number);

 private:
  CgroupTree() = default;
  std::vector<CgroupHierarchy> hierarchies_;
  std::string reason_;
};

}  // namespace lambent::sandbox
