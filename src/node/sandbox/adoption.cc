#include "node/sandbox/adoption.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "core/base/packet.h"
#include "node/sandbox/syscalls.h"
#include "node/sandbox/zygote_limits.h"
#include "node/sandbox/zygote_memory.h"

namespace lambent::sandbox {
namespace {

constexpr size_t kMostOfProc = 16 << 20;  // of a file in /proc

// In the order in which a fork enters them: the user namespace takes the right to the others away,
// and the mount namespace the sight of them.
constexpr std::array<const char*, 6> kNamespaces = {"pid", "net", "ipc", "uts", "cgroup", "mnt"};

Error refused(const std::string& why) {
  return Error{ErrorCode::kPermissionDenied, "a fork of the zygote is refused: " + why};
}

std::string proc(pid_t pid, const std::string& name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

std::string link_target(const std::string& path) {
  std::array<char, 512> target{};
  const ssize_t size = readlink(path.c_str(), target.data(), target.size());
  return size <= 0 ? "" : std::string(target.data(), static_cast<size_t>(size));
}

bool wait_for(int fd, Duration most) {
  pollfd watched{fd, POLLIN, 0};
  return poll(&watched, 1, static_cast<int>(to_milliseconds(most))) == 1;
}

// One in which the program has no rights over ours. It lives by its descriptor.
Result<OwnedFd> make_user_namespace() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return error_from_errno("socketpair", errno);
  }
  OwnedFd ours(ends[0]), theirs(ends[1]);
  const pid_t child = fork();
  if (child < 0) return error_from_errno("fork", errno);
  if (child == 0) {
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    char word = enter_user_namespace(kNobody, 0).ok() ? 'y' : 'n';
    (void)!write(theirs.get(), &word, 1);
    ours.reset();
    (void)!read(theirs.get(), &word, 1);  // until our parent has it
    _exit(0);
  }
  theirs.reset();
  char word = 0;
  const bool made = read(ours.get(), &word, 1) == 1 && word == 'y';
  OwnedFd user(made ? open(proc(child, "ns/user").c_str(), O_RDONLY | O_CLOEXEC) : -1);
  const int error = errno;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (!user.valid()) return error_from_errno("make a user namespace", made ? error : EPERM);
  return user;
}

std::map<std::string, std::string> status_of(pid_t pid) {
  std::map<std::string, std::string> fields;
  const auto text = read_file(proc(pid, "status"), kMostOfProc);
  std::string_view rest = text.ok() ? std::string_view(*text) : std::string_view();
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const size_t colon = line.find(":\t");
    if (colon == std::string_view::npos) continue;
    fields[std::string(line.substr(0, colon))] = line.substr(colon + 2);
  }
  return fields;
}

Result<void> check_rights(pid_t pid) {
  const auto status = status_of(pid);
  const auto holds = [&](const char* field, std::string_view value) {
    const auto found = status.find(field);
    return found != status.end() && found->second == value;
  };
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    if (!holds(set, "0000000000000000")) return refused(std::string("it has rights: ") + set);
  }
  if (!holds("NoNewPrivs", "1") || !holds("Seccomp", "2")) return refused("it has no filter");
  if (!holds("Threads", "1")) return refused("it has threads");
  if (!holds("PPid", std::to_string(getpid()))) return refused("it is not our child");
  return {};
}

Result<void> check_namespaces(pid_t pid, const OwnedFd& user) {
  for (const char* name : kNamespaces) {
    if (link_target(proc(pid, std::string("ns/") + name)) !=
        link_target(std::string("/proc/self/ns/") + name)) {
      return refused(std::string("it is in another namespace: ") + name);
    }
  }
  struct stat expected {};
  struct stat found {};
  const bool known = fstat(user.get(), &expected) == 0 &&
                     stat(proc(pid, "ns/user").c_str(), &found) == 0 &&
                     expected.st_ino == found.st_ino;
  if (!known) return refused("it is in another namespace: user");
  return {};
}

// Its channel, and /dev/null three times.
Result<void> check_descriptors(pid_t pid) {
  std::error_code error;
  size_t others = 0;
  for (const auto& entry : std::filesystem::directory_iterator(proc(pid, "fd"), error)) {
    const std::string name = entry.path().filename();
    if (name != "0" && name != "1" && name != "2") {
      ++others;
      continue;
    }
    struct stat status {};
    if (stat(entry.path().c_str(), &status) != 0 || !S_ISCHR(status.st_mode) ||
        status.st_rdev != makedev(1, 3)) {
      return refused("it kept a descriptor");
    }
  }
  if (error || others != 1) return refused("it kept descriptors");
  return {};
}

// Nothing else is in here: what it left behind could act for it, and with its rights.
Result<void> check_company(pid_t pid) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    const bool is_process = name.find_first_not_of("0123456789") == std::string::npos;
    if (!is_process || name == std::to_string(pid) || name == std::to_string(getpid())) continue;
    return refused("it came with another process");
  }
  if (error) return refused("/proc cannot be read");
  return {};
}

Result<void> check(pid_t pid, const OwnedFd& user) {
  RETURN_IF_ERROR(check_rights(pid));
  RETURN_IF_ERROR(check_namespaces(pid, user));
  RETURN_IF_ERROR(check_descriptors(pid));
  RETURN_IF_ERROR(check_company(pid));
  const auto maps = read_file(proc(pid, "maps"), kMostOfProc);
  if (!maps.ok()) return refused("its memory cannot be looked at");
  const std::string shared = shared_memory_in(*maps);
  if (!shared.empty()) return refused("it shares memory with the zygote: " + shared);
  return {};
}

Result<void> order_fork(const ForkOrigin& origin, const OwnedFd& far_end, const OwnedFd& user) {
  std::vector<OwnedFd> namespaces;
  std::vector<int> fds = {far_end.get()};
  for (const char* name : kNamespaces) {
    const std::string path = std::string("/proc/self/ns/") + name;
    namespaces.emplace_back(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!namespaces.back().valid()) return error_from_errno("open " + path, errno);
    fds.push_back(namespaces.back().get());
  }
  fds.push_back(user.get());
  for (const OwnedFd& entry : origin.cgroup_entries) fds.push_back(entry.get());
  return send_packet(origin.zygote.get(), "fork", fds);
}

// One that is bound lower already, as the launcher's user may be, stays so, as programs do.
Result<void> set_limit(pid_t pid, __rlimit_resource resource, uint64_t amount) {
  rlimit both{amount, amount};
  if (prlimit(pid, resource, &both, nullptr) == 0) return {};
  rlimit now{};
  if (prlimit(pid, resource, nullptr, &now) == 0 && now.rlim_max < amount) {
    now.rlim_cur = now.rlim_max;
    if (prlimit(pid, resource, &now, nullptr) == 0) return {};
  }
  return error_from_errno("set a resource limit", errno);
}

// "cwd\0count of arguments\0arguments\0variables\0".
std::string text_of(const LaunchPlan& plan) {
  std::string text = plan.working_directory + '\0' + std::to_string(plan.argv.size()) + '\0';
  for (const std::string& argument : plan.argv) text += argument + '\0';
  for (const auto& [name, value] : plan.environment) text += name + "=" + value + '\0';
  return text;
}

}  // namespace

Result<Adopted> adopt(ForkOrigin origin) {
  ASSIGN_OR_RETURN(const OwnedFd user, make_user_namespace());
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return error_from_errno("socketpair", errno);
  }
  Adopted adopted;
  adopted.channel = OwnedFd(ends[0]);
  OwnedFd far_end(ends[1]);
  RETURN_IF_ERROR(order_fork(origin, far_end, user));
  far_end.reset();
  origin = {};
  if (!wait_for(adopted.channel.get(), limits::kZygoteForkTimeout)) {
    return Error{ErrorCode::kDeadlineExceeded, "the zygote hangs"};
  }
  std::array<char, limits::kZygoteWords> word{};
  ASSIGN_OR_RETURN(const auto packet, receive_packet(adopted.channel.get(), word));
  const std::string_view text(word.data(), packet ? packet->size : 0);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), adopted.pid);
  if (error != std::errc() || end != text.data() + text.size() || adopted.pid <= 1) {
    return refused(std::string(text));
  }
  RETURN_IF_ERROR(check(adopted.pid, user));
  return adopted;
}

Result<void> limit(const Adopted& adopted, const LaunchPlan& plan, const Confinement& confinement) {
  const SandboxLimits& most = plan.limits;
  RETURN_IF_ERROR(set_limit(adopted.pid, RLIMIT_CORE, 0));
  RETURN_IF_ERROR(set_limit(adopted.pid, RLIMIT_NOFILE, most.open_files));
  RETURN_IF_ERROR(set_limit(adopted.pid, RLIMIT_FSIZE, most.file_size.count));
  if (confinement.limit_by_rlimit) {
    RETURN_IF_ERROR(set_limit(adopted.pid, RLIMIT_NPROC, most.processes));
  }
  stay_near(adopted.pid, plan.processors);
  return {};
}

Result<void> hand_over(Adopted& adopted, const LaunchPlan& plan, const OwnedFd& output) {
  const std::array<int, 1> fds = {output.get()};
  RETURN_IF_ERROR(send_packet(adopted.channel.get(), text_of(plan), fds));
  if (!wait_for(adopted.channel.get(), limits::kZygoteForkTimeout)) {
    return Error{ErrorCode::kDeadlineExceeded, "a fork of the zygote hangs"};
  }
  std::array<char, limits::kZygoteWords> word{};
  ASSIGN_OR_RETURN(const auto packet, receive_packet(adopted.channel.get(), word));
  const std::string text(word.data(), packet ? packet->size : 0);
  if (text != "go") return Error{ErrorCode::kInternal, "a fork of the zygote: " + text};
  adopted.channel.reset();
  return {};
}

}  // namespace lambent::sandbox
