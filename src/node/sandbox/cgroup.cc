#include "node/sandbox/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <utility>

#include "node/sandbox/delegated_cgroup.h"
#include "node/sandbox/syscalls.h"

namespace lambent::sandbox {
namespace {

constexpr char kPrefix[] = "lambent-";
constexpr size_t kMostText = 1 << 20;
constexpr int kCpuPeriodUs = 100'000;
constexpr std::string_view kControllers[] = {"memory", "pids", "cpu"};

bool holds_word(const std::string& text, std::string_view word, char separator) {
  std::istringstream words(text);
  std::string each;
  while (std::getline(words, each, separator)) {
    while (!each.empty() && each.back() == '\n') each.pop_back();
    if (each == word) return true;
  }
  return false;
}

uint64_t read_number(const std::string& path) {
  const auto text = read_file(path, kMostText);
  return text.ok() ? strtoull(text->c_str(), nullptr, 10) : 0;
}

// The number after `key` in a file of "key number" lines.
uint64_t read_counter(const std::string& path, const std::string& key) {
  const auto text = read_file(path, kMostText);
  if (!text.ok()) return 0;
  std::istringstream lines(*text);
  std::string name;
  uint64_t number = 0;
  while (lines >> name >> number) {
    if (name == key) return number;
  }
  return 0;
}

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> names;
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(folder);
  return names;
}

struct Mount {
  std::string point;
  std::string root;  // which cgroup of the hierarchy the mount point shows
  bool v2 = false;
  std::string options;
};

std::vector<Mount> cgroup_mounts() {
  std::vector<Mount> mounts;
  const auto text = read_file("/proc/self/mountinfo", kMostText);
  if (!text.ok()) return mounts;
  std::istringstream lines(*text);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t dash = line.find(" - cgroup");
    if (dash == std::string::npos) continue;
    Mount mount;
    std::string skip, type;
    std::istringstream before(line);
    before >> skip >> skip >> skip >> mount.root >> mount.point;
    std::istringstream after(line.substr(dash + 3));
    after >> type >> skip >> mount.options;
    mount.v2 = type == "cgroup2";
    mounts.push_back(mount);
  }
  return mounts;
}

// The cgroup of this process in the hierarchy that holds `controller` (v2: empty).
std::string own_cgroup(const std::string& controller) {
  const auto text = read_file("/proc/self/cgroup", kMostText);
  if (!text.ok()) return "/";
  std::istringstream lines(*text);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers == controller ||
        (!controller.empty() && holds_word(controllers, controller, ','))) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

std::string folder_of(const Mount& mount, std::string cgroup) {
  if (mount.root != "/" && cgroup.starts_with(mount.root))
    cgroup = cgroup.substr(mount.root.size());
  return cgroup == "/" ? mount.point : mount.point + cgroup;
}

// Kills whatever a dead launcher's sandboxes left (their init should have died with it) and removes
// the folders.
void remove_stale(const std::string& folder) {
  for (const std::string& name : folders_in(folder)) {
    const std::string path = folder + "/" + name;
    const auto pids = read_file(path + "/cgroup.procs", kMostText);
    if (pids.ok()) {
      std::istringstream numbers(*pids);
      pid_t pid = 0;
      while (numbers >> pid) {
        if (pid > 1) ::kill(pid, SIGKILL);
      }
    }
    rmdir(path.c_str());
  }
  rmdir(folder.c_str());
}

// A folder whose lock can be had belongs to no live process.
void sweep(const std::string& parent) {
  for (const std::string& name : folders_in(parent)) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string path = parent + "/" + name;
    const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) == 0) remove_stale(path);
  }
}

Result<CgroupHierarchy> make_hierarchy(CgroupVersion version, const std::string& parent) {
  sweep(parent);
  CgroupHierarchy hierarchy;
  hierarchy.version = version;
  hierarchy.folder = parent + "/" + kPrefix + std::to_string(getpid());
  if (mkdir(hierarchy.folder.c_str(), 0755) != 0 && errno != EEXIST) {
    return error_from_errno("create " + hierarchy.folder, errno);
  }
  hierarchy.lock = OwnedFd(::open(hierarchy.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!hierarchy.lock.valid() || flock(hierarchy.lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return error_from_errno("lock " + hierarchy.folder, errno);
  }
  return hierarchy;
}

// All sandboxes together weigh as one neighbour of ours unless told otherwise: give them the weight
// of as many as there are cores.
void weigh_by_cores(const CgroupHierarchy& hierarchy) {
  const long cores = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  if (hierarchy.version == CgroupVersion::kV1) {
    (void)write_text(hierarchy.folder + "/cpu.shares", std::to_string(1024 * cores));
  } else {
    (void)write_text(hierarchy.folder + "/cpu.weight",
                     std::to_string(std::min(10'000L, 100 * cores)));
  }
}

}  // namespace

// --- one sandbox's folders ---

SandboxCgroup& SandboxCgroup::operator=(SandboxCgroup&& other) noexcept {
  if (this != &other) {
    remove();
    folders_ = std::move(other.folders_);
    other.folders_.clear();
    v1_entries_ = std::move(other.v1_entries_);
    v2_folder_ = std::move(other.v2_folder_);
  }
  return *this;
}

SandboxCgroup::~SandboxCgroup() { remove(); }

// Entering a cgroup through cgroup.procs waits for all threads of the process to stand still, which
// costs an RCU grace period (8 ms on an idle machine). A single-threaded process that writes 0 for
// itself into 'tasks' moves without that wait.
Result<void> SandboxCgroup::enter() const {
  for (const OwnedFd& entry : v1_entries_) {
    if (write(entry.get(), "0", 1) != 1) return error_from_errno("enter a cgroup", errno);
  }
  return {};
}

Result<std::vector<OwnedFd>> SandboxCgroup::open_entries() const {
  std::vector<OwnedFd> entries;
  for (const Folder& folder : folders_) {
    const bool v1 = folder.version == CgroupVersion::kV1;
    const std::string path = folder.path + (v1 ? "/tasks" : "/cgroup.procs");
    OwnedFd entry(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!entry.valid()) return error_from_errno("open " + path, errno);
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<void> SandboxCgroup::set_limits(const SandboxLimits& limits) {
  for (const Folder& folder : folders_) {
    const bool v1 = folder.version == CgroupVersion::kV1;
    if (folder.memory) {
      const std::string amount = std::to_string(limits.memory.count);
      if (v1) {
        RETURN_IF_ERROR(write_text(folder.path + "/memory.limit_in_bytes", amount));
        // Missing where swap is not accounted for.
        (void)write_text(folder.path + "/memory.memsw.limit_in_bytes", amount);
      } else {
        RETURN_IF_ERROR(write_text(folder.path + "/memory.max", amount));
        (void)write_text(folder.path + "/memory.swap.max", "0");
      }
    }
    if (folder.pids) {
      // One more: the sandbox's init.
      const std::string most = std::to_string(limits.processes + 1);
      RETURN_IF_ERROR(write_text(folder.path + "/pids.max", most));
    }
    if (folder.cpu && limits.cpus) {
      const std::string quota = std::to_string(static_cast<int64_t>(*limits.cpus * kCpuPeriodUs));
      if (v1) {
        RETURN_IF_ERROR(write_text(folder.path + "/cpu.cfs_quota_us", quota));
      } else {
        RETURN_IF_ERROR(
            write_text(folder.path + "/cpu.max", quota + " " + std::to_string(kCpuPeriodUs)));
      }
    }
  }
  return {};
}

// An idle group has hardly any weight, and what wakes up in another one does not wait for the end
// of its slice. Both versions have the file.
void SandboxCgroup::give_way(bool gives_way) {
  for (const Folder& folder : folders_) {
    if (folder.cpu) (void)write_text(folder.path + "/cpu.idle", gives_way ? "1" : "0");
  }
}

const SandboxCgroup::Folder* SandboxCgroup::memory_folder() const {
  for (const Folder& folder : folders_) {
    if (folder.memory) return &folder;
  }
  return nullptr;
}

uint64_t SandboxCgroup::oom_kills() const {
  const Folder* folder = memory_folder();
  if (folder == nullptr) return 0;
  return folder->version == CgroupVersion::kV1
             ? read_counter(folder->path + "/memory.oom_control", "oom_kill")
             : read_counter(folder->path + "/memory.events", "oom_kill");
}

Bytes SandboxCgroup::memory_peak() const {
  const Folder* folder = memory_folder();
  if (folder == nullptr) return Bytes();
  return Bytes(read_number(peak_file(*folder)));
}

std::string SandboxCgroup::peak_file(const Folder& folder) {
  return folder.path +
         (folder.version == CgroupVersion::kV1 ? "/memory.max_usage_in_bytes" : "/memory.peak");
}

std::string SandboxCgroup::usage_file(const Folder& folder) {
  return folder.path +
         (folder.version == CgroupVersion::kV1 ? "/memory.usage_in_bytes" : "/memory.current");
}

MemoryMeter SandboxCgroup::memory_meter() const {
  const Folder* folder = memory_folder();
  if (folder == nullptr) return {};
  const std::string path = peak_file(*folder);
  OwnedFd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  // Kernels before 6.12 refuse to write the one of v2.
  if (!file.valid()) file = OwnedFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return MemoryMeter(std::move(file),
                     OwnedFd(open(usage_file(*folder).c_str(), O_RDONLY | O_CLOEXEC)));
}

std::optional<Bytes> SandboxCgroup::memory_usage() const {
  const Folder* folder = memory_folder();
  if (folder == nullptr) return std::nullopt;
  return Bytes(read_number(usage_file(*folder)));
}

bool SandboxCgroup::remove() {
  v1_entries_.clear();
  v2_folder_.reset();
  while (!folders_.empty()) {
    if (rmdir(folders_.back().path.c_str()) != 0 && errno != ENOENT) return false;
    folders_.pop_back();
  }
  return true;
}

// --- the launcher's folders ---

CgroupTree CgroupTree::open(const std::string& parent) {
  CgroupTree tree;
  bool memory = false, pids = false, cpu = false;
  const std::vector<Mount> mounts = cgroup_mounts();

  for (const Mount& mount : mounts) {
    if (mount.v2) continue;
    const bool has_memory = !memory && holds_word(mount.options, "memory", ',');
    const bool has_pids = !pids && holds_word(mount.options, "pids", ',');
    const bool has_cpu = !cpu && holds_word(mount.options, "cpu", ',');
    if (!has_memory && !has_pids && !has_cpu) continue;
    const std::string controller = has_memory ? "memory" : has_pids ? "pids" : "cpu";
    const std::string cgroup = parent.empty() ? own_cgroup(controller) : parent;
    auto made = make_hierarchy(CgroupVersion::kV1, folder_of(mount, cgroup));
    if (!made.ok()) {
      tree.reason_ = made.error().message;
      continue;
    }
    made->memory = has_memory;
    made->pids = has_pids;
    made->cpu = has_cpu;
    if (has_cpu) weigh_by_cores(*made);
    memory = memory || has_memory;
    pids = pids || has_pids;
    cpu = cpu || has_cpu;
    tree.hierarchies_.push_back(std::move(made).value());
  }

  for (const Mount& mount : mounts) {
    if (!mount.v2 || (memory && pids && cpu)) continue;
    const std::string cgroup = parent.empty() ? own_cgroup("") : parent;
    DelegatedCgroup given(folder_of(mount, cgroup), getppid());
    if (std::ranges::none_of(kControllers, [&](auto each) { return given.offers(each); })) continue;
    auto made = make_hierarchy(CgroupVersion::kV2, given.folder());
    if (!made.ok()) {
      tree.reason_ = made.error().message;
      continue;
    }
    const auto take = [&](const char* controller, bool taken) {
      if (taken) return false;
      auto handed = given.hand_down(controller);
      if (handed.ok()) handed = given.hand_down(controller, made->folder);
      if (!handed.ok() && tree.reason_.empty()) tree.reason_ = handed.error().message;
      return handed.ok();
    };
    made->memory = take("memory", memory);
    made->pids = take("pids", pids);
    made->cpu = take("cpu", cpu);
    if (made->cpu) weigh_by_cores(*made);
    memory = memory || made->memory;
    pids = pids || made->pids;
    cpu = cpu || made->cpu;
    if (!made->memory && !made->pids && !made->cpu) {
      rmdir(made->folder.c_str());
      continue;
    }
    tree.hierarchies_.push_back(std::move(made).value());
    break;
  }
  if (memory && pids && cpu) {
    tree.reason_.clear();
  } else if (tree.reason_.empty()) {
    tree.reason_ = mounts.empty() ? "no cgroup file system is mounted"
                                  : "the cgroup file systems do not offer the controller";
  }
  return tree;
}

CgroupTree::~CgroupTree() {
  for (const CgroupHierarchy& hierarchy : hierarchies_) remove_stale(hierarchy.folder);
}

void CgroupTree::describe(Capabilities& capabilities) const {
  for (const CgroupHierarchy& hierarchy : hierarchies_) {
    if (capabilities.cgroup == CgroupVersion::kNone || hierarchy.memory) {
      capabilities.cgroup = hierarchy.version;
      capabilities.cgroup_folder = hierarchy.folder;
    }
    capabilities.memory_cgroup = capabilities.memory_cgroup || hierarchy.memory;
    capabilities.pids_cgroup = capabilities.pids_cgroup || hierarchy.pids;
    capabilities.cpu_cgroup = capabilities.cpu_cgroup || hierarchy.cpu;
  }
  capabilities.cgroup_reason = reason_;
}

Result<SandboxCgroup> CgroupTree::create(uint64_t number) {
  SandboxCgroup cgroup;
  for (const CgroupHierarchy& hierarchy : hierarchies_) {
    const std::string path = hierarchy.folder + "/" + std::to_string(number);
    if (mkdir(path.c_str(), 0755) != 0) return error_from_errno("create " + path, errno);
    cgroup.folders_.push_back(SandboxCgroup::Folder{hierarchy.version, path, hierarchy.memory,
                                                    hierarchy.pids, hierarchy.cpu});
    if (hierarchy.version == CgroupVersion::kV1) {
      OwnedFd entry(::open((path + "/tasks").c_str(), O_WRONLY | O_CLOEXEC));
      if (!entry.valid()) return error_from_errno("open " + path + "/tasks", errno);
      cgroup.v1_entries_.push_back(std::move(entry));
    } else {
      cgroup.v2_folder_ = OwnedFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!cgroup.v2_folder_.valid()) return error_from_errno("open " + path, errno);
    }
  }
  return cgroup;
}

}  // namespace lambent::sandbox
