#include "gpu/monitor/device_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/process.h"

namespace lambent::monitor {
namespace {

constexpr int kSocketInChild = 3;
constexpr int kMemorySocketInChild = 4;
constexpr int kAboveThem = 10;
constexpr int kGracePeriodMs = 1000;

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The child starts with no signal blocked or ignored, whatever the worker does with its own.
int spawn_with(const std::string& program, std::vector<std::string> arguments,
               std::vector<std::string> environment, int socket, int memory_socket, pid_t& id) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, kSocketInChild);
  posix_spawn_file_actions_adddup2(&actions, memory_socket, kMemorySocketInChild);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int status = posix_spawn(&id, program.c_str(), &actions, &attributes,
                                 pointers_to(arguments).data(), pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

struct SocketPair {
  OwnedFd ours;
  OwnedFd theirs;  // above the numbers that it gets in the child
};

Result<SocketPair> make_sockets() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return error_from_errno("make a socket for lambent-device", errno);
  }
  SocketPair pair{OwnedFd(ends[0]), OwnedFd(ends[1])};
  pair.theirs = OwnedFd(fcntl(pair.theirs.get(), F_DUPFD_CLOEXEC, kAboveThem));
  if (!pair.theirs.valid()) return error_from_errno("make a socket for lambent-device", errno);
  return pair;
}

}  // namespace

Result<std::unique_ptr<DeviceProcess>> DeviceProcess::spawn(
    const std::string& program, const std::string& nvml, Duration period,
    const std::vector<std::string>& more_words, const std::vector<std::string>& environment) {
  ASSIGN_OR_RETURN(SocketPair readings, make_sockets());
  ASSIGN_OR_RETURN(SocketPair memory, make_sockets());
  const auto period_ms = std::chrono::duration_cast<milliseconds>(period).count();
  pid_t id = -1;
  std::vector<std::string> words = {"lambent-device",
                                    "--nvml",
                                    nvml,
                                    "--socket-fd",
                                    std::to_string(kSocketInChild),
                                    "--period-ms",
                                    std::to_string(period_ms),
                                    "--memory-socket-fd",
                                    std::to_string(kMemorySocketInChild)};
  words.insert(words.end(), more_words.begin(), more_words.end());
  const int status = spawn_with(program, std::move(words), environment, readings.theirs.get(),
                                memory.theirs.get(), id);
  if (status != 0) return error_from_errno("start " + program, status);
  OwnedFd pidfd = open_process(id);
  const int pidfd_error = errno;
  auto process = std::unique_ptr<DeviceProcess>(
      new DeviceProcess(id, std::move(pidfd), std::move(readings.ours), std::move(memory.ours)));
  if (process->exit_fd() < 0) return error_from_errno("watch " + program, pidfd_error);
  return process;
}

DeviceProcess::~DeviceProcess() {
  if (collect()) return;
  kill();
  pollfd exited = {exit_fd(), POLLIN, 0};
  if (exit_fd() >= 0) poll(&exited, 1, kGracePeriodMs);
  collect();
}

void DeviceProcess::kill() const {
  if (!collected_) ::kill(id_, SIGKILL);
}

bool DeviceProcess::collect() {
  if (collected_) return true;
  const pid_t ended = waitpid(id_, nullptr, WNOHANG);
  collected_ = ended == id_ || (ended < 0 && errno == ECHILD);
  return collected_;
}

}  // namespace lambent::monitor
