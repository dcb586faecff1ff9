#include "node/sandbox/delegated_cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "core/base/fd.h"

namespace lambent::sandbox {
namespace {

constexpr size_t kMostKernelText = 1 << 20;
// Where the worker goes, with us and what else it has started.
constexpr std::string_view kOwnProcesses = "/supervisor";
// What is started between a look and the next lies in the way again.
constexpr int kMostMoves = 20;

int write_file(const std::string& path, std::string_view text) {
  const OwnedFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return errno;
  return write(fd.get(), text.data(), text.size()) < 0 ? errno : 0;
}

std::string text_of(const std::string& path) {
  auto text = read_file(path, kMostKernelText);
  return text.ok() ? std::move(text).value() : std::string();
}

bool has_word(const std::string& text, std::string_view word) {
  std::istringstream words(text);
  std::string each;
  while (words >> each) {
    if (each == word) return true;
  }
  return false;
}

std::vector<pid_t> processes_in(const std::string& folder) {
  std::vector<pid_t> processes;
  std::istringstream numbers(text_of(folder + "/cgroup.procs"));
  pid_t pid = 0;
  while (numbers >> pid) processes.push_back(pid);
  return processes;
}

// None: it is gone.
std::optional<pid_t> parent_of(pid_t pid) {
  const std::string text = text_of("/proc/" + std::to_string(pid) + "/stat");
  // After the name comes the state, a letter.
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return std::nullopt;
  return atoi(text.c_str() + name_end + 4);
}

std::string name_of_process(pid_t pid) {
  std::string name = text_of("/proc/" + std::to_string(pid) + "/comm");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return std::to_string(pid) + (name.empty() ? "" : " (" + name + ")");
}

std::string folder_to_divide(std::string folder) {
  if (!folder.ends_with(kOwnProcesses)) return folder;
  const std::string above = folder.substr(0, folder.size() - kOwnProcesses.size());
  const bool is_ours = access((above + "/cgroup.subtree_control").c_str(), W_OK) == 0;
  return is_ours ? above : folder;
}

}  // namespace

DelegatedCgroup::DelegatedCgroup(std::string folder, pid_t worker)
    : DelegatedCgroup(std::move(folder), worker, write_file) {}

DelegatedCgroup::DelegatedCgroup(std::string folder, pid_t worker, Write write)
    : folder_(folder_to_divide(std::move(folder))), worker_(worker), write_(std::move(write)) {}

bool DelegatedCgroup::offers(std::string_view controller) const {
  return has_word(text_of(folder_ + "/cgroup.controllers"), controller);
}

// Not until the kernel refuses: it hands 'cpu' and 'pids' down beside processes as well. But then
// the cgroups below take threads only, and no 'memory'.
Result<void> DelegatedCgroup::hand_down(const std::string& controller) {
  if (!offers(controller)) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the cgroup " + folder_ + " has no controller '" + controller + "'"};
  }
  for (int move = 0; move < kMostMoves; ++move) {
    RETURN_IF_ERROR(move_processes_down());
    const Result<void> handed = hand_down(controller, folder_);
    if (handed.ok() || processes_in_the_way().empty()) return handed;
  }
  return Error{ErrorCode::kUnavailable,
               "in the cgroup " + folder_ + " more and more processes are started"};
}

Result<void> DelegatedCgroup::hand_down(const std::string& controller, const std::string& from) {
  const int error = write_(from + "/cgroup.subtree_control", "+" + controller);
  if (error == 0) return {};
  return error_from_errno(
      "hand the controller '" + controller + "' of the cgroup " + from + " down", error);
}

// None in the kernel's own root, which hands everything down beside processes, and has no type.
std::vector<pid_t> DelegatedCgroup::processes_in_the_way() const {
  if (access((folder_ + "/cgroup.type").c_str(), F_OK) != 0) return {};
  return processes_in(folder_);
}

// One that is gone is of it too: it is not in the way.
bool DelegatedCgroup::is_of_worker(pid_t pid) const {
  std::optional<pid_t> each = pid;
  while (each && *each > 0 && *each != worker_) each = parent_of(*each);
  return !each || *each == worker_;
}

// Those that an older launcher handed down beside processes, which therefore cannot be moved.
Result<void> DelegatedCgroup::take_back_controllers() {
  std::istringstream handed(text_of(folder_ + "/cgroup.subtree_control"));
  std::string controller;
  while (handed >> controller) {
    const int error = write_(folder_ + "/cgroup.subtree_control", "-" + controller);
    if (error != 0) {
      return error_from_errno("take the controller '" + controller + "' back in " + folder_, error);
    }
  }
  return {};
}

// All of them, or none.
Result<void> DelegatedCgroup::move_processes_down() {
  const std::vector<pid_t> processes = processes_in_the_way();
  if (processes.empty()) return {};
  for (const pid_t each : processes) {
    if (is_of_worker(each)) continue;
    return Error{ErrorCode::kFailedPrecondition,
                 "in the cgroup " + folder_ + " lies process " + name_of_process(each) +
                     ", which is not of this worker: while it does, the kernel hands no limits "
                     "down from there"};
  }
  RETURN_IF_ERROR(take_back_controllers());
  const std::string below = folder_ + std::string(kOwnProcesses);
  if (mkdir(below.c_str(), 0755) != 0 && errno != EEXIST) {
    return error_from_errno("create the cgroup " + below, errno);
  }
  for (const pid_t each : processes) {
    const int error = write_(below + "/cgroup.procs", std::to_string(each));
    if (error != 0 && error != ESRCH) {
      return error_from_errno("move process " + name_of_process(each) + " into the cgroup " + below,
                              error);
    }
  }
  return {};
}

}  // namespace lambent::sandbox
