#include "node/sandbox/seccomp.h"

#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string_view>

namespace lambent::sandbox {
namespace {

struct Reason {
  const char* why;
  std::vector<const char*> calls;
};

// Most of these need capabilities that a sandbox does not have; they are refused here as well, so
// that a mistake elsewhere, or a bug in the kernel's rarely used corners, does not open a way out.
const std::vector<Reason>& refused() {
  static const std::vector<Reason> list = {
      {"changes what the file system shows",
       {"mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick",
        "move_mount", "open_tree", "mount_setattr", "quotactl", "quotactl_fd"}},
      {"makes or enters namespaces", {"unshare", "setns"}},
      {"reads or writes other processes",
       {"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "process_madvise",
        "pidfd_getfd"}},
      {"loads code into the kernel or watches it",
       {"bpf", "perf_event_open", "init_module", "finit_module", "delete_module", "kexec_load",
        "kexec_file_load", "syslog", "lookup_dcookie", "fanotify_init"}},
      {"known for kernel bugs and not needed by functions",
       {"userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "vmsplice"}},
      {"keys of the kernel are not separated by namespaces", {"keyctl", "add_key", "request_key"}},
      {"opens files past their folders' permissions", {"open_by_handle_at", "name_to_handle_at"}},
      {"changes the whole machine",
       {"reboot", "swapon", "swapoff", "acct", "settimeofday", "clock_settime", "clock_adjtime",
        "adjtimex", "iopl", "ioperm", "vhangup", "nfsservctl", "sethostname", "setdomainname"}},
  };
  return list;
}

// The families that a network with only a loopback can use. The rest is attack surface, and
// AF_VSOCK would lead out: it is not separated by network namespaces.
constexpr std::array<int, 4> kAllowedFamilies = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
constexpr int kFamilies = 64;  // the kernel knows fewer

constexpr uint64_t kLow32 = 0xffffffff;

struct ContextDeleter {
  void operator()(void* context) const { seccomp_release(context); }
};
using Context = std::unique_ptr<void, ContextDeleter>;

Error failed(const std::string& doing, int result) {
  return error_from_errno("seccomp: " + doing, -result);
}

Result<void> refuse_calls(scmp_filter_ctx context, SeccompException exception) {
  for (const Reason& reason : refused()) {
    for (const char* name : reason.calls) {
      if (exception == SeccompException::kSetns && std::string_view(name) == "setns") continue;
      const int call = seccomp_syscall_resolve_name(name);
      if (call == __NR_SCMP_ERROR) continue;  // this libseccomp does not know it
      const int result = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), call, 0);
      if (result != 0 && result != -EDOM) return failed(name, result);
    }
  }
  return {};
}

// The kernel reads 32 bits of these arguments, so the filter must not look at the others: a
// comparison of all 64 could be evaded.
Result<void> refuse_by_argument(scmp_filter_ctx context) {
  for (const uint64_t flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC,
                              CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWTIME}) {
    // CLONE_NEWTIME shares its bit with the exit signal of clone() and cannot be asked for there.
    if (flag == CLONE_NEWTIME) continue;
    const int result = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                        SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
    if (result != 0) return failed("clone", result);
  }
  // clone3 hides its flags in memory; glibc falls back to clone() on ENOSYS.
  if (int result = seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
      result != 0) {
    return failed("clone3", result);
  }
  // Both write into the input of a terminal; all other ioctls stay open, GPUs need theirs.
  for (const uint64_t request : {TIOCSTI, TIOCLINUX}) {
    const int result = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                                        SCMP_A1(SCMP_CMP_MASKED_EQ, kLow32, request));
    if (result != 0) return failed("ioctl", result);
  }
  // A socket that lingers can be sent to another process, which then closes it for as long as the
  // sender likes: the worker's loop would stand still.
  const int lingers =
      seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(setsockopt), 2,
                       SCMP_A1(SCMP_CMP_MASKED_EQ, kLow32, static_cast<uint64_t>(SOL_SOCKET)),
                       SCMP_A2(SCMP_CMP_MASKED_EQ, kLow32, static_cast<uint64_t>(SO_LINGER)));
  if (lingers != 0) return failed("setsockopt", lingers);
  for (int family = 0; family < kFamilies; ++family) {
    bool allowed = false;
    for (const int good : kAllowedFamilies) allowed = allowed || family == good;
    if (allowed) continue;
    const int result =
        seccomp_rule_add(context, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                         SCMP_A0(SCMP_CMP_MASKED_EQ, kLow32, static_cast<uint64_t>(family)));
    if (result != 0) return failed("socket", result);
  }
  return {};
}

}  // namespace

Result<SeccompFilter> compile_seccomp_filter(SeccompException exception) {
  const Context context(seccomp_init(SCMP_ACT_ALLOW));
  if (!context) return Error{ErrorCode::kInternal, "seccomp: cannot make a filter"};
  // Other instruction sets of the machine (32 bit) have other numbers: refused altogether.
  seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  RETURN_IF_ERROR(refuse_calls(context.get(), exception));
  RETURN_IF_ERROR(refuse_by_argument(context.get()));

  const OwnedFd file(memfd_create("seccomp", MFD_CLOEXEC));
  if (!file.valid()) return error_from_errno("memfd_create", errno);
  if (int result = seccomp_export_bpf(context.get(), file.get()); result != 0) {
    return failed("export", result);
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return error_from_errno("fstat", errno);
  SeccompFilter filter(static_cast<size_t>(status.st_size) / sizeof(sock_filter));
  const ssize_t size = static_cast<ssize_t>(filter.size() * sizeof(sock_filter));
  if (pread(file.get(), filter.data(), static_cast<size_t>(size), 0) != size) {
    return error_from_errno("read the seccomp filter", errno);
  }
  return filter;
}

Result<void> install_seccomp_filter(const SeccompFilter& filter) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return error_from_errno("no_new_privs", errno);
  sock_fprog program{static_cast<unsigned short>(filter.size()),
                     const_cast<sock_filter*>(filter.data())};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    return error_from_errno("install the seccomp filter", errno);
  }
  return {};
}

}  // namespace lambent::sandbox
