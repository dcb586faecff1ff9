#include "node/sandbox/launcher_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

namespace lambent::sandbox {
namespace {

constexpr int kHelloTimeoutMs = 10'000;
constexpr int kChannelInChild = 3;

Result<pid_t> start(const LauncherOptions& options, int channel) {
  std::vector<std::string> arguments = {options.program,
                                        "--channel",
                                        std::to_string(kChannelInChild),
                                        "--pool",
                                        std::to_string(options.pool),
                                        "--most",
                                        std::to_string(options.most_sandboxes)};
  if (!options.cgroup_parent.empty()) {
    arguments.insert(arguments.end(), {"--cgroup-parent", options.cgroup_parent});
  }
  if (options.require_strong_limits) arguments.push_back("--strict");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Also when both are the same number: then it clears close-on-exec.
  posix_spawn_file_actions_adddup2(&actions, channel, kChannelInChild);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  char* no_environment[] = {nullptr};
  pid_t pid = -1;
  const int result = posix_spawn(&pid, options.program.c_str(), &actions, &attributes, argv.data(),
                                 no_environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (result != 0) return error_from_errno("start " + options.program, result);
  return pid;
}

}  // namespace

Result<LauncherProcess> LauncherProcess::spawn(const LauncherOptions& options) {
  ASSIGN_OR_RETURN(auto ends, Channel::make_pair());
  LauncherProcess process;
  ASSIGN_OR_RETURN(process.pid_, start(options, ends.second.fd()));
  process.channel_ = std::move(ends.first);
  ends.second.close();
  return process;
}

Result<Capabilities> LauncherProcess::wait_for_hello() {
  pollfd watched{channel_.fd(), POLLIN, 0};
  if (poll(&watched, 1, kHelloTimeoutMs) <= 0) {
    return Error{ErrorCode::kDeadlineExceeded, "lambent-launcher does not say hello"};
  }
  ASSIGN_OR_RETURN(std::optional<Envelope> word, channel_.receive());
  if (word) {
    if (auto* hello = std::get_if<Hello>(&word->message)) return hello->capabilities;
    if (auto* failed = std::get_if<FailedReply>(&word->message)) return failed->error;
  }
  return Error{ErrorCode::kInternal, "lambent-launcher said something else than hello"};
}

LauncherProcess::LauncherProcess(LauncherProcess&& other) noexcept
    : channel_(std::move(other.channel_)), pid_(std::exchange(other.pid_, -1)) {}

LauncherProcess::~LauncherProcess() {
  channel_.close();
  if (pid_ < 0) return;
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace lambent::sandbox
