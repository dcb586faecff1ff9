#include "node/sandbox/init.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>

#include "node/sandbox/limits.h"
#include "node/sandbox/network_device.h"
#include "node/sandbox/root_filesystem.h"
#include "node/sandbox/syscalls.h"

namespace lambent::sandbox {
namespace {

constexpr int kListenBacklog = 128;
constexpr int kMemoryWatchMs = 20;
constexpr int kOurFailure = 125;

Result<OwnedFd> listen_for_runtime() {
  OwnedFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return error_from_errno("socket", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kRuntimeApiPort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), kListenBacklog) != 0) {
    return error_from_errno("listen at 127.0.0.1:9001", errno);
  }
  return listener;
}

Result<OwnedFd> prepare() {
  if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP) != 0) {
    return error_from_errno("create namespaces", errno);
  }
  RETURN_IF_ERROR(bring_loopback_up());
  ASSIGN_OR_RETURN(OwnedFd listener, listen_for_runtime());
  RETURN_IF_ERROR(build_common_root());
  return listener;
}

// `sources`: what the plan binds.
Result<void> show_plan(const LaunchPlan& plan, std::span<const OwnedFd> sources) {
  if (sethostname(plan.hostname.data(), plan.hostname.size()) != 0) {
    return error_from_errno("set the host name", errno);
  }
  return complete_root(plan, sources);
}

// Forks the program; none if it was executed, else why not. The channel's far end closes on exec:
// silence means success.
Result<pid_t> start_program(const LaunchPlan& plan, const Confinement& confinement,
                            const OwnedFd& output, std::span<const OwnedFd> sources) {
  RETURN_IF_ERROR(show_plan(plan, sources));
  ASSIGN_OR_RETURN(auto ends, Channel::make_pair());
  const pid_t child = fork();
  if (child < 0) return error_from_errno("fork", errno);
  if (child == 0) {
    ends.first.close();
    const Error error = become_program(plan, confinement, output.get());
    (void)ends.second.send(FailedReply{plan.sandbox, error});
    _exit(kOurFailure);
  }
  ends.second.close();
  auto word = ends.first.receive();
  if (!word.ok()) return child;  // the end was closed by exec
  waitpid(child, nullptr, 0);
  if (*word && std::holds_alternative<FailedReply>((*word)->message)) {
    return std::get<FailedReply>((*word)->message).error;
  }
  return Error{ErrorCode::kInternal, "the sandbox's program spoke out of turn"};
}

// Resident memory of everything inside but us, from our own /proc.
Bytes resident_memory() {
  uint64_t pages = 0;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return Bytes();
  while (const dirent* entry = readdir(folder)) {
    const long pid = strtol(entry->d_name, nullptr, 10);
    if (pid <= 1) continue;
    const auto text = read_file("/proc/" + std::to_string(pid) + "/statm", 4096);
    unsigned long total = 0, resident = 0, shared = 0;
    if (text.ok() && sscanf(text->c_str(), "%lu %lu %lu", &total, &resident, &shared) == 3) {
      pages += resident - std::min(resident, shared);
    }
  }
  closedir(folder);
  return Bytes(pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

Duration cpu_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  auto sum = [](const timeval& time) { return seconds(time.tv_sec) + microseconds(time.tv_usec); };
  return sum(usage.ru_utime) + sum(usage.ru_stime);
}

// Lives until the program ends; orphans are reaped on the way.
class Watcher {
 public:
  // `memory`: where its use is to be written, if it is to be watched.
  Watcher(Channel& control, const LaunchPlan& plan, pid_t program, MemoryMeter memory)
      : control_(control),
        plan_(plan),
        program_(program),
        memory_(std::move(memory)),
        watch_memory_(memory_.file().valid()) {}

  Exit run(int child_events) {
    while (true) {
      pollfd watched[2] = {{child_events, POLLIN, 0}, {control_.fd(), POLLIN, 0}};
      poll(watched, 2, watch_memory_ ? kMemoryWatchMs : -1);
      if (watched[0].revents != 0) {
        signalfd_siginfo ignored{};
        (void)!read(child_events, &ignored, sizeof(ignored));
        if (reap()) return exit_;
      }
      if (watched[1].revents != 0 && !answer()) _exit(kOurFailure);
      if (watch_memory_ && over_limit()) return exit_;
    }
  }

 private:
  bool reap() {
    int status = 0;
    bool program_ended = false;
    for (pid_t child; (child = waitpid(-1, &status, WNOHANG | __WALL)) > 0;) {
      if (child != program_) continue;
      program_ended = true;
      exit_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
      exit_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }
    return program_ended;
  }

  // Without a memory cgroup: looked at every 20 ms, so a fast eater can be above its limit for
  // that long.
  bool over_limit() {
    const Bytes now = resident_memory();
    exit_.memory_peak = std::max(exit_.memory_peak, now);
    memory_.raise(now);
    if (now <= plan_.limits.memory) return false;
    exit_.out_of_memory = true;
    exit_.signal = SIGKILL;
    return true;
  }

  // False: the launcher is gone.
  bool answer() {
    auto word = control_.receive();
    if (!word.ok()) return false;
    if (*word && std::holds_alternative<UsageRequest>((*word)->message)) {
      return control_.send(UsageReply{plan_.sandbox, resident_memory(), true}).ok();
    }
    if (*word && std::holds_alternative<SocketsRequest>((*word)->message)) {
      return send_sockets(std::get<SocketsRequest>((*word)->message).count);
    }
    return true;
  }

  // A socket belongs to the network that it was made in, wherever it is used.
  bool send_sockets(uint32_t count) {
    std::vector<OwnedFd> sockets;
    std::vector<int> fds;
    for (uint32_t i = 0; i < std::min(count, limits::kSandboxSockets); ++i) {
      OwnedFd made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!made.valid()) break;
      fds.push_back(made.get());
      sockets.push_back(std::move(made));
    }
    return control_.send(SocketsReply{plan_.sandbox}, fds).ok();
  }

  Channel& control_;
  const LaunchPlan& plan_;
  const pid_t program_;
  MemoryMeter memory_;
  const bool watch_memory_;
  Exit exit_;
};

// What the worker and the launcher ignore, programs shall not.
void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Before the program runs, which has no right to change any of it.
Result<void> connect_network(Channel& control, const LaunchPlan& plan, OwnedFd device_file) {
  if (!plan.network) return {};
  ASSIGN_OR_RETURN(const std::vector<OwnedFd> made, make_network_device(std::move(device_file)));
  std::vector<int> fds;
  for (const OwnedFd& each : made) fds.push_back(each.get());
  RETURN_IF_ERROR(control.send(NetworkReady{}, fds));
  return use_name_server();
}

// What runs in the sandbox from then on: a fork of a zygote that is in it already, or the program.
Result<pid_t> start_or_hand_over(Channel& control, const LaunchPlan& plan,
                                 const Confinement& confinement, const OwnedFd& output,
                                 std::span<const OwnedFd> sources,
                                 std::optional<Adopted>& adopted) {
  if (!adopted) return start_program(plan, confinement, output, sources);
  RETURN_IF_ERROR(show_plan(plan, sources));
  RETURN_IF_ERROR(limit(*adopted, plan, confinement));
  if (const auto taken = hand_over(*adopted, plan, output); !taken.ok()) {
    (void)control.send(ForkFailed{taken.error()});
    _exit(kOurFailure);
  }
  return adopted->pid;
}

// `origin`: the zygote whose fork is to be the program; none: it is executed.
[[noreturn]] void run_init(Channel control, const Confinement& confinement,
                           std::optional<ForkOrigin> origin) {
  auto listener = prepare();
  std::optional<Adopted> adopted;
  if (listener.ok() && origin) {
    if (auto fork = adopt(std::move(*origin)); fork.ok()) {
      adopted = std::move(*fork);
    } else {
      listener = fork.error();
    }
  }
  if (!listener.ok()) {
    (void)control.send(FailedReply{SandboxId(), listener.error().with_context("make a sandbox")});
    _exit(kOurFailure);
  }
  if (!control.send(Ready{}, {listener->get()}).ok()) _exit(kOurFailure);
  listener->reset();

  auto order = control.receive();
  if (!order.ok() || !*order || (*order)->fds.empty()) _exit(kOurFailure);
  const auto* request = std::get_if<LaunchRequest>(&(*order)->message);
  if (request == nullptr) _exit(kOurFailure);
  const LaunchPlan& plan = request->plan;

  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_signal, nullptr);
  const OwnedFd child_events(signalfd(-1, &child_signal, SFD_CLOEXEC));

  // The output pipe, the meter if we are to watch, the file of network devices if it is to have
  // one, then the plan's sources.
  std::vector<OwnedFd>& fds = (*order)->fds;
  const size_t device_file = confinement.watch_memory ? 2 : 1;
  const size_t first_source = device_file + (plan.network ? 1 : 0);
  if (fds.size() < first_source) _exit(kOurFailure);
  MemoryMeter memory;
  if (confinement.watch_memory) memory = MemoryMeter(std::move(fds[1]));
  OwnedFd network = plan.network ? std::move(fds[device_file]) : OwnedFd();
  const auto connected = connect_network(control, plan, std::move(network));
  auto program = connected.ok() ? start_or_hand_over(control, plan, confinement, fds[0],
                                                     std::span(fds).subspan(first_source), adopted)
                                : Result<pid_t>(connected.error());
  fds.clear();
  if (!program.ok()) {
    (void)control.send(FailedReply{plan.sandbox, program.error()});
    _exit(kOurFailure);
  }
  const OwnedFd program_fd(static_cast<int>(syscall(SYS_pidfd_open, *program, 0)));
  std::vector<int> told;
  if (program_fd.valid()) told.push_back(program_fd.get());
  if (!control.send(StartedReply{plan.sandbox}, told).ok()) _exit(kOurFailure);
  // From here on we need no right but to wait for our children.
  if (!drop_capabilities().ok()) _exit(kOurFailure);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);

  Watcher watcher(control, plan, *program, std::move(memory));
  Exit exit = watcher.run(child_events.get());
  exit.cpu = cpu_of_children();
  (void)control.send(ExitedReply{plan.sandbox, exit});
  _exit(0);  // and the kernel ends whatever the program left behind
}

}  // namespace

void begin_as_init(bool dumpable) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, dumpable ? 1 : 0, 0, 0, 0);
  reset_signals();
}

Result<InitProcess> spawn_init(const SandboxCgroup& cgroup, const Confinement& confinement) {
  ASSIGN_OR_RETURN(auto ends, Channel::make_pair());
  ASSIGN_OR_RETURN(Cloned cloned, clone_process(CLONE_NEWPID, cgroup.birth_folder()));
  if (cloned.pid == 0) {
    prctl(PR_SET_NAME, "lambent-init", 0, 0, 0);
    begin_as_init();
    auto entered = cgroup.enter();
    if (entered.ok()) entered = close_all_but({ends.second.fd()});
    if (!entered.ok()) {
      (void)ends.second.send(FailedReply{SandboxId(), entered.error()});
      _exit(kOurFailure);
    }
    run_init(std::move(ends.second), confinement, std::nullopt);
  }
  return InitProcess{cloned.pid, std::move(cloned.pidfd), std::move(ends.first)};
}

Result<OwnedFd> spawn_forked_init(Channel control, ForkOrigin origin,
                                  const Confinement& confinement) {
  ASSIGN_OR_RETURN(Cloned cloned, clone_process(CLONE_NEWPID, -1));
  if (cloned.pid == 0) {
    prctl(PR_SET_NAME, "lambent-init", 0, 0, 0);
    begin_as_init();
    std::vector<int> keep = {control.fd(), origin.zygote.get()};
    Result<void> entered;
    for (const OwnedFd& entry : origin.cgroup_entries) {
      keep.push_back(entry.get());
      if (write(entry.get(), "0", 1) != 1) entered = error_from_errno("enter a cgroup", errno);
    }
    if (entered.ok()) entered = close_all_but(std::move(keep));
    if (!entered.ok()) {
      (void)control.send(FailedReply{SandboxId(), entered.error()});
      _exit(kOurFailure);
    }
    run_init(std::move(control), confinement, std::move(origin));
  }
  return std::move(cloned.pidfd);
}

}  // namespace lambent::sandbox
