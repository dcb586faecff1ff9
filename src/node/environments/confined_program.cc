#include "node/environments/confined_program.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "node/environments/index_proxy.h"
#include "node/sandbox/capabilities.h"
#include "node/sandbox/program.h"
#include "node/sandbox/root_filesystem.h"
#include "node/sandbox/syscalls.h"

namespace lambent::environments {
namespace {

constexpr size_t kKeptOutput = 256 << 10;
constexpr size_t kLongestLine = 4 << 10;
constexpr int kLookAgainMs = 1000;
constexpr int kOurFailure = 125;
constexpr unsigned kProcesses = 512;
constexpr unsigned kOpenFiles = 4096;
constexpr Bytes kFileSize = Bytes::gib(16);
constexpr rlim_t kAddressSpace = rlim_t{16} << 30;
constexpr rlim_t kProcessorSeconds = 7200;
constexpr size_t kMostEtcFile = 64 << 10;

// What resolving names needs of the host's /etc; empty without network.
struct NameResolution {
  std::string hosts;
  std::string resolv_conf;
};

std::string text_of(const char* path) {
  auto text = read_file(path, kMostEtcFile);
  return text.ok() ? std::move(*text) : std::string();
}

NameResolution read_name_resolution() {
  return {.hosts = text_of("/etc/hosts"), .resolv_conf = text_of("/etc/resolv.conf")};
}

Result<void> show_name_resolution(const NameResolution& names) {
  RETURN_IF_ERROR(write_file_atomically("/etc/hosts", names.hosts, false));
  RETURN_IF_ERROR(write_file_atomically("/etc/resolv.conf", names.resolv_conf, false));
  return write_file_atomically("/etc/nsswitch.conf",
                               "passwd: files\ngroup: files\nhosts: files dns\n", false);
}

sandbox::LaunchPlan plan_of(const ConfinedProgram& program) {
  sandbox::LaunchPlan plan;
  plan.argv = program.argv;
  plan.environment = program.environment;
  plan.binds = program.binds;
  plan.limits.processes = kProcesses;
  plan.limits.open_files = kOpenFiles;
  plan.limits.file_size = kFileSize;
  return plan;
}

void limit(__rlimit_resource resource, rlim_t amount) {
  rlimit now{};
  if (getrlimit(resource, &now) == 0) amount = std::min(amount, now.rlim_max);
  const rlimit both{amount, amount};
  (void)setrlimit(resource, &both);
}

// In a process of a pid namespace of its own, which becomes the program.
Error become(const Walls& walls, const sandbox::LaunchPlan& plan,
             const std::vector<OwnedFd>& sources, bool network, const IndexProxy* proxy,
             int output) {
  const auto prepare = [&]() -> Result<sandbox::Confinement> {
    const NameResolution names = network ? read_name_resolution() : NameResolution();
    const int spaces = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    if (unshare(network ? spaces : spaces | CLONE_NEWNET) != 0) {
      return error_from_errno("create namespaces", errno);
    }
    if (proxy != nullptr) RETURN_IF_ERROR(proxy->listen_inside());
    RETURN_IF_ERROR(sandbox::build_common_root());
    if (network) RETURN_IF_ERROR(show_name_resolution(names));
    RETURN_IF_ERROR(sandbox::complete_root(plan, sources));
    limit(RLIMIT_AS, kAddressSpace);
    limit(RLIMIT_CPU, kProcessorSeconds);
    sandbox::Confinement confinement;
    confinement.change_user = walls.change_user;
    confinement.own_user_namespace = walls.own_user_namespace;
    confinement.limit_by_rlimit = walls.own_user_namespace;
    ASSIGN_OR_RETURN(confinement.filter, sandbox::compile_seccomp_filter());
    return confinement;
  };
  const auto confinement = prepare();
  if (!confinement.ok()) return confinement.error();
  return sandbox::become_program(plan, *confinement, output);
}

// The first process of a pid namespace: all others in it end with it, and it ends with the process
// that made it. The program cannot be this one, because a change of user takes that promise back.
[[noreturn]] void stand_above(pid_t program) {
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, 0);
    if (ended < 0 && errno != EINTR) _exit(kOurFailure);
    if (ended != program) continue;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
}

// Gives whole lines on, and keeps the end of all of it.
class Output {
 public:
  explicit Output(const std::function<void(std::string_view)>& on_line) : on_line_(on_line) {}

  void add(std::string_view text) {
    kept_ += text;
    if (kept_.size() > 2 * kKeptOutput) kept_.erase(0, kept_.size() - kKeptOutput);
    line_ += text;
    for (size_t end = 0; (end = line_.find('\n')) != std::string::npos;) {
      if (on_line_) on_line_(std::string_view(line_).substr(0, end));
      line_.erase(0, end + 1);
    }
    if (line_.size() > kLongestLine) line_.clear();
  }
  std::string take() { return std::move(kept_); }

 private:
  const std::function<void(std::string_view)>& on_line_;
  std::string kept_;
  std::string line_;
};

// Until the other end is closed, which is when all processes of the program have ended.
Result<void> read_to_the_end(int descriptor, const ConfinedWatch& watch, Output& output) {
  std::string buffer(64 << 10, '\0');
  Instant looked = SystemClock().now();
  while (true) {
    pollfd ready = {descriptor, POLLIN, 0};
    const int seen = poll(&ready, 1, kLookAgainMs);
    if (seen < 0 && errno != EINTR) return error_from_errno("wait for output", errno);
    if (const Instant now = SystemClock().now(); now - looked >= milliseconds(kLookAgainMs)) {
      looked = now;
      if (watch.stop) RETURN_IF_ERROR(watch.stop());
    }
    if (seen <= 0) continue;
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count == 0) return {};
    if (count < 0 && errno != EINTR) return error_from_errno("read output", errno);
    if (count > 0) output.add(std::string_view(buffer).substr(0, static_cast<size_t>(count)));
  }
}

}  // namespace

Result<Walls> prepare_to_confine() {
  const sandbox::Capabilities can = sandbox::probe_namespaces();
  if (!can.impossible.empty()) {
    return Error{ErrorCode::kFailedPrecondition, "packages cannot be installed: " + can.impossible};
  }
  RETURN_IF_ERROR(sandbox::enter_launcher_namespaces(can.root));
  return Walls{.change_user = can.root, .own_user_namespace = can.user_namespaces};
}

Result<ConfinedEnd> run_confined(const Walls& walls, const ConfinedProgram& program,
                                 const ConfinedWatch& watch) {
  const sandbox::LaunchPlan plan = plan_of(program);
  ASSIGN_OR_RETURN(const std::vector<OwnedFd> sources, sandbox::open_sources(plan));
  std::optional<IndexProxy> proxy;
  if (!program.network && !program.reaches.empty()) {
    ASSIGN_OR_RETURN(IndexProxy started, IndexProxy::start(program.reaches, walls.change_user));
    proxy.emplace(std::move(started));
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return error_from_errno("make a pipe", errno);
  OwnedFd reading(ends[0]);
  OwnedFd writing(ends[1]);
  ASSIGN_OR_RETURN(const sandbox::Cloned cloned, sandbox::clone_process(CLONE_NEWPID, -1));
  if (cloned.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    reading.reset();
    const pid_t child = fork();
    if (child > 0) {
      writing.reset();
      stand_above(child);
    }
    const Error error = child < 0 ? error_from_errno("fork", errno)
                                  : become(walls, plan, sources, program.network,
                                           proxy ? &*proxy : nullptr, writing.get());
    (void)write_all(writing.get(), "error: " + error.message + "\n");
    _exit(kOurFailure);
  }
  writing.reset();
  Output output(watch.on_line);
  const auto read = read_to_the_end(reading.get(), watch, output);
  // With the first process of its namespace all of them end.
  if (!read.ok()) kill(cloned.pid, SIGKILL);
  int status = 0;
  while (waitpid(cloned.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!read.ok()) return read.error();
  ConfinedEnd end;
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  end.output = output.take();
  if (proxy) end.refused = proxy->refused();
  return end;
}

}  // namespace lambent::environments
