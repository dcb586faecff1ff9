#include "node/sandbox/way_out.h"

#include <fcntl.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>

#include "node/network/inner_network.h"
#include "node/network/limits.h"
#include "node/network/relay.h"
#include "node/network/routes.h"
#include "node/sandbox/init.h"
#include "node/sandbox/program.h"
#include "node/sandbox/syscalls.h"

namespace lambent::sandbox {
namespace {

constexpr int kOurFailure = 125;
constexpr size_t kLargestResolverFile = 64 * 1024;
constexpr rlim_t kMostMemory = rlim_t{1} << 30;
constexpr rlim_t kFiles = 2 * limits::kNetworkConnections + limits::kNetworkQuestions + 64;

// All that it does from then on: what a mistake in reading packets could do else is small.
Result<void> install_filter() {
  const std::unique_ptr<void, void (*)(void*)> context(seccomp_init(SCMP_ACT_ERRNO(EPERM)),
                                                       seccomp_release);
  if (!context) return Error{ErrorCode::kInternal, "seccomp: cannot make a filter"};
  for (const char* name :
       {"read",        "write",         "readv",          "writev",          "close",
        "socket",      "connect",       "accept4",        "sendto",          "sendmsg",
        "recvfrom",    "recvmsg",       "shutdown",       "getsockname",     "getpeername",
        "setsockopt",  "getsockopt",    "epoll_wait",     "epoll_pwait",     "epoll_pwait2",
        "epoll_ctl",   "clock_gettime", "gettimeofday",   "getrandom",       "mmap",
        "munmap",      "mremap",        "mprotect",       "madvise",         "brk",
        "futex",       "rt_sigreturn",  "rt_sigprocmask", "restart_syscall", "exit",
        "exit_group",  "gettid",        "getpid",         "tgkill",          "rt_sigaction",
        "sched_yield", "nanosleep",     "clock_nanosleep"}) {
    const int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR) continue;
    const int result = seccomp_rule_add(context.get(), SCMP_ACT_ALLOW, call, 0);
    if (result != 0) return error_from_errno("seccomp", -result);
  }
  const int result = seccomp_load(context.get());
  return result == 0 ? Result<void>{} : error_from_errno("seccomp", -result);
}

uint16_t random_number() {
  uint16_t number = 0;
  while (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
  }
  return number;
}

Result<void> give_up_rights(bool root, pid_t launcher) {
  const rlimit memory{kMostMemory, kMostMemory};
  setrlimit(RLIMIT_AS, &memory);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max = std::min(files.rlim_max, kFiles);
  setrlimit(RLIMIT_NOFILE, &files);
  if (root) RETURN_IF_ERROR(become_nobody());
  RETURN_IF_ERROR(drop_capabilities());
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // A change of user makes the kernel forget it.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != launcher) return Error{ErrorCode::kCancelled, "the launcher is gone"};
  return install_filter();
}

Result<void> relay(const NetworkPlan& plan, std::vector<OwnedFd> sockets, OwnedFd refusals,
                   const std::vector<OwnedFd>& cgroup_entries, bool root, pid_t launcher) {
  for (const OwnedFd& entry : cgroup_entries) (void)!write(entry.get(), "0", 1);
  network::RelayOptions options;
  options.access = plan.access;
  options.bounds = plan.bounds;
  const auto resolvers = read_file("/etc/resolv.conf", kLargestResolverFile);
  for (const IpAddress& server : network::parse_name_servers(resolvers.ok() ? *resolvers : "")) {
    options.name_servers.push_back({server, network::kNamePort});
  }
  ASSIGN_OR_RETURN(network::Routes routes, network::Routes::open());
  options.route_of = [&routes](const IpAddress& address) { return routes.of(address); };
  options.random = random_number;
  const SystemClock clock;
  loop::EventLoop loop(clock);
  network::InnerSockets inner;
  inner.device = std::move(sockets[0]);
  inner.listener_v4 = std::move(sockets[1]);
  if (sockets.size() > 2) inner.listener_v6 = std::move(sockets[2]);
  RETURN_IF_ERROR(give_up_rights(root, launcher));
  const network::Relay relay(loop, std::move(options), std::move(inner), std::move(refusals));
  loop.run();
  return {};
}

}  // namespace

Result<WayOut> start_way_out(const NetworkPlan& plan, std::vector<OwnedFd> sockets,
                             const SandboxCgroup& cgroup, bool root) {
  if (sockets.size() < 2) return Error{ErrorCode::kInternal, "a sandbox's network got lost"};
  ASSIGN_OR_RETURN(const std::vector<OwnedFd> entries, cgroup.open_entries());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return error_from_errno("pipe", errno);
  WayOut way_out;
  way_out.refusals = OwnedFd(ends[0]);
  OwnedFd write_end(ends[1]);
  const pid_t launcher = getpid();
  ASSIGN_OR_RETURN(Cloned cloned, clone_process(0, -1));
  if (cloned.pid == 0) {
    prctl(PR_SET_NAME, "lambent-network", 0, 0, 0);
    begin_as_init();
    std::vector<int> keep = {write_end.get()};
    for (const OwnedFd& each : sockets) keep.push_back(each.get());
    for (const OwnedFd& each : entries) keep.push_back(each.get());
    if (close_all_but(std::move(keep)).ok()) {
      (void)relay(plan, std::move(sockets), std::move(write_end), entries, root, launcher);
    }
    _exit(kOurFailure);
  }
  way_out.pidfd = std::move(cloned.pidfd);
  return way_out;
}

}  // namespace lambent::sandbox
