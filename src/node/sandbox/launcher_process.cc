#include "node/sandbox/launcher_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "node/sandbox/spawn.h"

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
                                        std::to_string(options.most_sandboxes),
                                        "--zygotes",
                                        std::to_string(options.zygotes)};
  if (!options.cgroup_parent.empty()) {
    arguments.insert(arguments.end(), {"--cgroup-parent", options.cgroup_parent});
  }
  if (options.require_strong_limits) arguments.push_back("--strict");
  return spawn(std::move(arguments), {{channel, kChannelInChild}});
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
