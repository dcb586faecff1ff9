#include "node/sandbox/syscalls.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace lambent::sandbox {

Result<Cloned> clone_process(uint64_t flags, int cgroup) {
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = flags | CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  if (cgroup >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<uint64_t>(cgroup);
  }
  const long pid = syscall(SYS_clone3, &arguments, sizeof(arguments));
  if (pid < 0) return error_from_errno("clone3", errno);
  Cloned cloned;
  cloned.pid = static_cast<pid_t>(pid);
  if (pid > 0) cloned.pidfd = OwnedFd(pidfd);
  return cloned;
}

Result<void> enter_user_namespace(uint32_t inside_id, int more_flags) {
  const std::string uid = std::to_string(geteuid());
  const std::string gid = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER | more_flags) != 0) {
    return error_from_errno("create a user namespace", errno);
  }
  const std::string inside = std::to_string(inside_id);
  RETURN_IF_ERROR(write_text("/proc/self/setgroups", "deny"));
  RETURN_IF_ERROR(write_text("/proc/self/uid_map", inside + " " + uid + " 1"));
  return write_text("/proc/self/gid_map", inside + " " + gid + " 1");
}

Result<void> drop_capabilities(std::initializer_list<int> keep) {
  for (int capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    if (std::ranges::find(keep, capability) != keep.end()) continue;
    // EINVAL: a capability that this kernel does not know. EPERM: none of them can be dropped.
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL) {
      return error_from_errno("drop a capability from the bounding set", errno);
    }
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct kept[2] = {};
  for (const int capability : keep) {
    __user_cap_data_struct& half = kept[capability / 32];
    half.effective |= 1U << (capability % 32);
    half.permitted = half.effective;
  }
  if (syscall(SYS_capset, &header, kept) != 0) {
    return error_from_errno("drop capabilities", errno);
  }
  return {};
}

Result<void> raise_permitted_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2] = {};
  if (syscall(SYS_capget, &header, sets) != 0) return error_from_errno("capget", errno);
  for (__user_cap_data_struct& set : sets) set.effective = set.permitted;
  if (syscall(SYS_capset, &header, sets) != 0) return error_from_errno("capset", errno);
  return {};
}

Result<void> close_all_but(std::vector<int> keep) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return error_from_errno("open /dev/null", errno);
  for (int standard = 0; standard <= 2; ++standard) dup2(null, standard);
  std::ranges::sort(keep);
  unsigned next = 3;
  for (const int kept : keep) {
    const auto number = static_cast<unsigned>(kept);
    if (number > next) close_range(next, number - 1, 0);
    next = std::max(next, number + 1);
  }
  close_range(next, ~0U, 0);
  return {};
}

Result<void> write_text(const std::string& path, std::string_view text) {
  OwnedFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return error_from_errno("open " + path, errno);
  const ssize_t written = write(fd.get(), text.data(), text.size());
  if (written < 0) return error_from_errno("write " + path, errno);
  return {};
}

Result<void> bring_loopback_up() {
  const OwnedFd socket_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_fd.valid()) return error_from_errno("socket", errno);
  ifreq request{};
  snprintf(request.ifr_name, sizeof(request.ifr_name), "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (ioctl(socket_fd.get(), SIOCSIFFLAGS, &request) != 0) {
    return error_from_errno("bring the loopback up", errno);
  }
  // Programs of images listen on port 80 as well; the network is the sandbox's own. Where the
  // kernel refuses, such a program tells that it may not.
  (void)write_text("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
  return {};
}

}  // namespace lambent::sandbox
