// A cgroup of version 2 that was given to us to divide, by a service manager most often. The kernel
// hands a controller down only from a cgroup in which no process lies; but there we start, with the
// worker and what else it has started. Used only by CgroupTree.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::sandbox {

class DelegatedCgroup {
 public:
  // Writes text into a file that exists, and gives 0 or the error's number.
  using Write = std::function<int(const std::string& path, std::string_view text)>;

  // `folder`: the one that we are in, or another. Processes are moved only if they are `worker` or
  // descend from it.
  DelegatedCgroup(std::string folder, pid_t worker);
  DelegatedCgroup(std::string folder, pid_t worker, Write write);

  // The one to divide: where a launcher before us has moved its worker out of the way, the one
  // above.
  const std::string& folder() const { return folder_; }
  bool offers(std::string_view controller) const;

  // So that cgroups below it have the controller's limits. Moves the worker and its descendants
  // down, out of the way, if they lie in it.
  Result<void> hand_down(const std::string& controller);
  // The same of a cgroup below it, in which nothing runs.
  Result<void> hand_down(const std::string& controller, const std::string& from);

 private:
  std::vector<pid_t> processes_in_the_way() const;
  Result<void> move_processes_down();
  Result<void> take_back_controllers();
  bool is_of_worker(pid_t pid) const;

  std::string folder_;
  pid_t worker_;
  Write write_;
};

}  // namespace lambent::sandbox
