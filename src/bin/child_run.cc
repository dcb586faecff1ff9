#include "bin/child_run.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "core/base/utf8.h"
#include "node/sandbox/spawn.h"

namespace lambent {
namespace {

struct Pipe {
  OwnedFd ours, theirs;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return error_from_errno("make a pipe", errno);
  Pipe made{OwnedFd(ends[0]), OwnedFd(ends[1])};
  if (fcntl(made.ours.get(), F_SETFL, O_NONBLOCK) != 0) {
    return error_from_errno("set up a pipe", errno);
  }
  return made;
}

void limit(pid_t pid, __rlimit_resource what, uint64_t most) {
  const rlimit limits{most, most};
  // It ends on its time-out where this fails.
  prlimit(pid, what, &limits, nullptr);
}

}  // namespace

Result<std::unique_ptr<ChildRun>> ChildRun::start(loop::EventLoop& loop,
                                                  std::vector<std::string> arguments,
                                                  const ChildLimits& limits, Done done) {
  std::unique_ptr<ChildRun> run(new ChildRun(loop, limits, std::move(done)));
  RETURN_IF_ERROR(run->begin(std::move(arguments)));
  return run;
}

ChildRun::~ChildRun() {
  if (has_deadline_) loop_.cancel(deadline_);
  kill_and_reap();
}

Result<void> ChildRun::begin(std::vector<std::string> arguments) {
  const std::string program = arguments.front();
  ASSIGN_OR_RETURN(Pipe output, make_pipe());
  ASSIGN_OR_RETURN(Pipe errors, make_pipe());
  const OwnedFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSIGN_OR_RETURN(pid_,
                   sandbox::spawn(std::move(arguments), {{nothing.get(), STDIN_FILENO},
                                                         {output.theirs.get(), STDOUT_FILENO},
                                                         {errors.theirs.get(), STDERR_FILENO}}));
  limit(pid_, RLIMIT_AS, limits_.memory.count);
  limit(pid_, RLIMIT_CPU, static_cast<uint64_t>(to_seconds(limits_.time)) + 1);
  limit(pid_, RLIMIT_CORE, 0);
  setpriority(PRIO_PROCESS, static_cast<id_t>(pid_), limits_.nice);
  process_ = OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_.valid()) return error_from_errno("watch " + program, errno);
  process_watch_ = loop_.watch(process_.get(), true, false, [this](loop::Readiness) { exited(); });
  for (const auto& [stream, pipe] : {std::pair(&output_, &output), std::pair(&errors_, &errors)}) {
    stream->fd = std::move(pipe->ours);
    stream->watch = loop_.watch(stream->fd.get(), true, false,
                                [this, stream = stream](loop::Readiness) { read(*stream); });
  }
  has_deadline_ = true;
  deadline_ = loop_.call_after(limits_.time, [this, program] {
    has_deadline_ = false;
    finish(Error{ErrorCode::kDeadlineExceeded,
                 program.substr(program.rfind('/') + 1) + " was stopped after " +
                     std::to_string(static_cast<int64_t>(to_seconds(limits_.time))) + " s"});
  });
  return {};
}

bool ChildRun::read(Stream& stream) {
  char buffer[16384];
  for (;;) {
    const ssize_t count = ::read(stream.fd.get(), buffer, sizeof(buffer));
    if (count > 0) {
      stream.text.append(buffer, static_cast<size_t>(count));
      if (Bytes(stream.text.size()) > limits_.output) {
        finish(Error{ErrorCode::kResourceExhausted, "a program printed too much"});
        return false;
      }
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return true;
    stream.watch.reset();
    stream.open = false;
    return true;
  }
}

void ChildRun::exited() {
  siginfo_t info{};
  if (waitid(P_PIDFD, static_cast<id_t>(process_.get()), &info, WEXITED | WNOHANG) != 0 ||
      info.si_pid == 0) {
    return;
  }
  pid_ = -1;
  // What it printed last is in the pipes still.
  for (Stream* stream : {&output_, &errors_}) {
    if (stream->open && !read(*stream)) return;
  }
  const int code = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  finish(ChildEnd{code, std::move(output_.text), std::move(errors_.text)});
}

void ChildRun::finish(Result<ChildEnd> end) {
  if (has_deadline_) loop_.cancel(deadline_);
  has_deadline_ = false;
  process_watch_.reset();
  output_.watch.reset();
  errors_.watch.reset();
  kill_and_reap();
  // The callback may destroy this run.
  const Done done = std::exchange(done_, nullptr);
  if (done) done(std::move(end));
}

void ChildRun::kill_and_reap() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::string in_one_line(std::string_view printed) {
  constexpr size_t kMostOfBeginning = 300;
  constexpr size_t kMostOfEnd = 600;
  std::string line;
  for (const char letter : printed) {
    if (letter != '\n') {
      line += letter;
    } else if (!line.empty() && !line.ends_with("; ")) {
      line += "; ";
    }
  }
  if (line.ends_with("; ")) line.resize(line.size() - 2);
  if (line.size() <= kMostOfBeginning + kMostOfEnd) return line;
  std::string_view beginning = std::string_view(line).substr(0, kMostOfBeginning);
  beginning.remove_suffix(cut_character(beginning));
  std::string_view end = std::string_view(line).substr(line.size() - kMostOfEnd);
  while (!end.empty() && (end.front() & 0xc0) == 0x80) end.remove_prefix(1);
  const size_t left_out = line.size() - beginning.size() - end.size();
  return std::string(beginning) + " [" + std::to_string(left_out) + " bytes left out] " +
         std::string(end);
}

}  // namespace lambent
