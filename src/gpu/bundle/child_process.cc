#include "gpu/bundle/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/fd.h"

namespace lambent::bundle {
namespace {

constexpr int kNotStarted = 127;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAMBENT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LAMBENT_SANITIZED 1
#endif
#endif

struct Pipe {
  OwnedFd read;
  OwnedFd write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return error_from_errno("pipe2", errno);
  return Pipe{OwnedFd(ends[0]), OwnedFd(ends[1])};
}

void limit(__rlimit_resource resource, rlim_t amount) {
  const rlimit value = {amount, amount};
  setrlimit(resource, &value);
}

// Between fork and exec: only calls that are safe after fork.
[[noreturn]] void become(char* const* arguments, const ChildLimits& limits, pid_t parent, int out,
                         int err) {
  if (limits.in_own_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNotStarted);  // it ended before
  bound_this_process(limits);
  const int none = open("/dev/null", O_RDONLY);
  dup2(none, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execvp(arguments[0], arguments);
  _exit(kNotStarted);
}

// Reads what has come; false at the end of the stream.
bool drain(int fd, std::string& into, size_t most) {
  char buffer[16384];
  const ssize_t got = read(fd, buffer, sizeof(buffer));
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  into.append(buffer, std::min(static_cast<size_t>(got), most - std::min(most, into.size())));
  return true;
}

// Gathers both streams until they end or the time is over; false if it is.
bool gather(int out, int err, const Clock& clock, Instant end, const ChildLimits& limits,
            ChildOutcome& outcome) {
  const auto most = static_cast<size_t>(limits.output.count);
  pollfd streams[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const Duration left = end - clock.now();
    if (left <= Duration::zero()) return false;
    // After a signal it says nothing of the streams, and reading them would wait.
    if (poll(streams, 2, static_cast<int>(left / milliseconds(1)) + 1) < 0) continue;
    for (auto& stream : streams) {
      if (stream.fd < 0 || stream.revents == 0) continue;
      std::string& into = &stream == &streams[0] ? outcome.standard_output : outcome.standard_error;
      if (!drain(stream.fd, into, most)) stream.fd = -1;
    }
  }
  return true;
}

// Waits for a child that has closed its streams; false if the time is over.
bool reap(pid_t child, const Clock& clock, Instant end, int& status) {
  while (true) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) return true;
    if (clock.now() >= end) return false;
    poll(nullptr, 0, 1);
  }
}

}  // namespace

void bound_this_process(const ChildLimits& limits) {
#ifndef LAMBENT_SANITIZED  // a sanitizer reserves terabytes of addresses
  limit(RLIMIT_AS, static_cast<rlim_t>(limits.memory.count));
#endif
  limit(RLIMIT_CPU, static_cast<rlim_t>(to_seconds(limits.wall_time)) + 1);
  limit(RLIMIT_FSIZE, static_cast<rlim_t>(limits.file_size.count));
  limit(RLIMIT_CORE, 0);
}

Result<ChildOutcome> run_child(const std::vector<std::string>& command, const ChildLimits& limits) {
  CHECK(!command.empty(), "a command has a program");
  ASSIGN_OR_RETURN(Pipe out, make_pipe());
  ASSIGN_OR_RETURN(Pipe err, make_pipe());
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  const pid_t self = getpid();
  const pid_t child = fork();
  if (child < 0) return error_from_errno("fork", errno);
  if (child == 0) become(arguments.data(), limits, self, out.write.get(), err.write.get());
  if (limits.in_own_group) setpgid(child, child);
  out.write.reset();
  err.write.reset();

  ChildOutcome outcome;
  const SystemClock clock;
  const Instant end = std::min(limits.end, clock.now() + limits.wall_time);
  int status = 0;
  outcome.timed_out = !gather(out.read.get(), err.read.get(), clock, end, limits, outcome) ||
                      !reap(child, clock, end, status);
  if (outcome.timed_out) {
    kill(limits.in_own_group ? -child : child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (WIFSIGNALED(status)) {
    outcome.exit_code = 128 + WTERMSIG(status);
  } else {
    outcome.exit_code = WEXITSTATUS(status);
  }
  if (outcome.exit_code == kNotStarted && outcome.standard_error.empty()) {
    return Error{ErrorCode::kUnavailable, "cannot start " + command[0] + ": is it installed?"};
  }
  return outcome;
}

}  // namespace lambent::bundle
