#include "node/sandbox/zygote.h"

#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "core/base/packet.h"
#include "node/sandbox/root_filesystem.h"
#include "node/sandbox/zygote_limits.h"

namespace lambent::sandbox {
namespace {

constexpr int kRootFailure = 125;
constexpr char kReadyWord[] = "ready";

// Inside we are root from now on, outside the user of sandboxes.
Result<void> become_inner_root(const Confinement& confinement) {
  if (confinement.change_user && setgroups(0, nullptr) != 0) {
    return error_from_errno("drop the groups", errno);
  }
  if (setresgid(0, 0, 0) != 0) return error_from_errno("change group", errno);
  if (setresuid(0, 0, 0) != 0) return error_from_errno("change user", errno);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // New credentials took it away. If the launcher died meanwhile, its channel is closed.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  return enter_launcher_namespaces(true);
}

// Its user namespace owns its pid namespace, and all those of the sandboxes below it: what we and
// the zygote's program may do ends with it.
Result<void> map_users(pid_t root, const Confinement& confinement) {
  const std::string folder = "/proc/" + std::to_string(root);
  const std::string map = "0 " + std::to_string(confinement.change_user ? kNobody : 0) + " 1";
  if (!confinement.change_user) RETURN_IF_ERROR(write_text(folder + "/setgroups", "deny"));
  RETURN_IF_ERROR(write_text(folder + "/uid_map", map));
  return write_text(folder + "/gid_map", map);
}

class ZygoteRoot {
 public:
  ZygoteRoot(Channel control, const Confinement& confinement)
      : control_(std::move(control)), confinement_(confinement) {}

  // Returns when the launcher is gone, or has no use for us.
  void run() {
    if (const auto started = start(); !started.ok()) {
      (void)control_.send(FailedReply{SandboxId(), started.error()});
      return;
    }
    while (true) {
      pollfd watched[3] = {{control_.fd(), POLLIN, 0},
                           {template_.get(), POLLIN, 0},
                           {child_events_.get(), POLLIN, 0}};
      poll(watched, 3, -1);
      if (watched[1].revents != 0) hear_template();
      if (watched[2].revents != 0) reap();
      if (watched[0].revents != 0 && !hear_launcher()) return;
    }
  }

 private:
  Result<void> start() {
    ASSIGN_OR_RETURN(auto order, control_.receive());
    const auto* request = order ? std::get_if<ZygoteRequest>(&order->message) : nullptr;
    if (request == nullptr) return Error{ErrorCode::kInternal, "a zygote got no plan"};
    RETURN_IF_ERROR(become_inner_root(confinement_));
    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_signal, nullptr);
    child_events_ = OwnedFd(signalfd(-1, &child_signal, SFD_CLOEXEC | SFD_NONBLOCK));
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      return error_from_errno("socketpair", errno);
    }
    template_ = OwnedFd(ends[0]);
    const OwnedFd far_end(ends[1]);
    const pid_t child = fork();
    if (child < 0) return error_from_errno("fork", errno);
    if (child == 0) become_template(request->plan, order->fds, far_end.get());
    program_ = child;
    return {};
  }

  // In a root like a sandbox's, but among the processes below us: only so may it fork into theirs.
  [[noreturn]] void become_template(const LaunchPlan& plan, const std::vector<OwnedFd>& sources,
                                    int far_end) {
    const auto prepare = [&]() -> Result<void> {
      if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP) !=
          0) {
        return error_from_errno("create namespaces", errno);
      }
      RETURN_IF_ERROR(build_common_root());
      return complete_root(plan, sources);
    };
    const auto prepared = prepare();
    const Error error =
        prepared.ok() ? become_zygote(plan, confinement_, far_end) : prepared.error();
    (void)send_packet(far_end, error.message);
    _exit(kRootFailure);
  }

  // "ready", or why it cannot be: the last words of ours or of foreign code.
  void hear_template() {
    char words[limits::kZygoteWords];
    const auto word = receive_packet(template_.get(), words);
    if (!word.ok() || !*word) {
      template_.reset();
      return;
    }
    const std::string text(words, (*word)->size);
    if (text == kReadyWord && !ready_) {
      ready_ = true;
      (void)control_.send(ZygoteReady{});
      return;
    }
    words_ = text;
  }

  void reap() {
    signalfd_siginfo ignored{};
    (void)!read(child_events_.get(), &ignored, sizeof(ignored));
    int status = 0;
    for (pid_t child; (child = waitpid(-1, &status, WNOHANG | __WALL)) > 0;) {
      if (child != program_) continue;
      program_ = 0;
      if (template_.valid()) hear_template();
      template_.reset();
      if (words_.empty()) {
        words_ = WIFSIGNALED(status) ? "it ended by signal " + std::to_string(WTERMSIG(status))
                                     : "it exited with " + std::to_string(WEXITSTATUS(status));
      }
      (void)control_.send(
          FailedReply{SandboxId(), Error{ErrorCode::kFailedPrecondition, std::move(words_)}});
    }
  }

  // False: the launcher is gone.
  bool hear_launcher() {
    auto word = control_.receive();
    if (!word.ok()) return false;
    if (!*word) return true;
    if (auto* box = std::get_if<BoxRequest>(&(*word)->message)) make_box(*box, (*word)->fds);
    if (std::holds_alternative<ZygoteRetirement>((*word)->message) && program_ > 0) {
      kill(program_, SIGKILL);
    }
    return true;
  }

  void make_box(const BoxRequest& request, std::vector<OwnedFd>& fds) {
    if (fds.empty() || !template_.valid()) {
      (void)control_.send(BoxReply{request.number});
      return;
    }
    Channel box(std::move(fds[0]));
    ForkOrigin origin;
    origin.zygote = OwnedFd(dup(template_.get()));
    for (size_t i = 1; i < fds.size(); ++i) origin.cgroup_entries.push_back(std::move(fds[i]));
    const auto init = spawn_forked_init(std::move(box), std::move(origin), confinement_);
    if (!init.ok()) {
      (void)control_.send(BoxReply{request.number});
      return;
    }
    (void)control_.send(BoxReply{request.number}, {init->get()});
  }

  Channel control_;
  const Confinement& confinement_;
  OwnedFd template_;  // the near end of the program's socket; inits have copies
  OwnedFd child_events_;
  pid_t program_ = 0;
  bool ready_ = false;
  std::string words_;
};

}  // namespace

Result<InitProcess> spawn_zygote(const SandboxCgroup& cgroup, const Confinement& confinement) {
  ASSIGN_OR_RETURN(auto ends, Channel::make_pair());
  ASSIGN_OR_RETURN(Cloned cloned,
                   clone_process(CLONE_NEWPID | CLONE_NEWUSER, cgroup.birth_folder()));
  if (cloned.pid == 0) {
    prctl(PR_SET_NAME, "lambent-zygote", 0, 0, 0);
    // Until become_inner_root(), when they are written.
    begin_as_init(!confinement.change_user);
    auto entered = cgroup.enter();
    if (entered.ok()) entered = close_all_but({ends.second.fd()});
    if (entered.ok()) ZygoteRoot(std::move(ends.second), confinement).run();
    _exit(kRootFailure);
  }
  ends.second.close();
  // It waits for its plan meanwhile; without one it ends.
  if (auto mapped = map_users(cloned.pid, confinement); !mapped.ok()) {
    ends.first.close();
    waitpid(cloned.pid, nullptr, 0);
    return mapped.error();
  }
  return InitProcess{cloned.pid, std::move(cloned.pidfd), std::move(ends.first)};
}

}  // namespace lambent::sandbox
