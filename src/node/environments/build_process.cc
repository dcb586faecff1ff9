#include "node/environments/build_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "core/base/sealed_memory.h"
#include "node/sandbox/spawn.h"

namespace lambent::environments {
namespace {

constexpr size_t kLongestLine = 2 << 20;
constexpr size_t kLongestProgress = 200;

// A file whose place is its beginning.
Result<OwnedFd> file_of(std::string_view text) {
  ASSIGN_OR_RETURN(OwnedFd file, sealed_memory(text));
  if (lseek(file.get(), 0, SEEK_SET) != 0) return error_from_errno("lseek", errno);
  return file;
}

}  // namespace

void BuildLines::add(std::string_view text) {
  rest_ += text;
  for (size_t end = 0; (end = rest_.find('\n')) != std::string::npos;) {
    take(std::string_view(rest_).substr(0, end));
    rest_.erase(0, end + 1);
  }
  if (rest_.size() > kLongestLine) rest_.clear();
}

void BuildLines::take(std::string_view line) {
  const size_t blank = std::min(line.find(' '), line.size());
  const std::string_view kind = line.substr(0, blank);
  std::string_view rest = line.substr(std::min(blank + 1, line.size()));
  if (kind == "tell") {
    progress_ = rest.substr(0, kLongestProgress);
  } else if (kind == "done") {
    outcome_ = std::string(rest);
  } else if (kind == "failed") {
    const size_t end = std::min(rest.find(' '), rest.size());
    const auto code = error_code_from_name(rest.substr(0, end));
    outcome_ = Error{code.value_or(ErrorCode::kInternal),
                     std::string(rest.substr(std::min(end + 1, rest.size())))};
  }
}

Result<std::string> BuildLines::outcome() const {
  if (outcome_) return *outcome_;
  return Error{ErrorCode::kInternal, "lambent-environment ended without a result"};
}

Result<std::unique_ptr<BuildProcess>> BuildProcess::start(loop::EventLoop& loop,
                                                          std::vector<std::string> command,
                                                          std::string_view order, Ended ended) {
  ASSIGN_OR_RETURN(const OwnedFd input, file_of(order));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return error_from_errno("make a pipe", errno);
  std::unique_ptr<BuildProcess> process(new BuildProcess(std::move(ended)));
  process->output_ = OwnedFd(ends[0]);
  const OwnedFd writing(ends[1]);
  // Its end of the pipe waits when it is full.
  if (fcntl(writing.get(), F_SETFL, 0) != 0) return error_from_errno("fcntl", errno);
  ASSIGN_OR_RETURN(process->pid_,
                   sandbox::spawn(std::move(command),
                                  {{input.get(), STDIN_FILENO}, {writing.get(), STDOUT_FILENO}}));
  process->watch_ = loop.watch(process->output_.get(), true, false,
                               [raw = process.get()](loop::Readiness) { raw->read(); });
  return process;
}

BuildProcess::~BuildProcess() {
  if (pid_ > 0) kill(pid_, SIGKILL);
  reap();
}

void BuildProcess::reap() {
  if (pid_ <= 0) return;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void BuildProcess::read() {
  char buffer[16 << 10];
  while (true) {
    const ssize_t count = ::read(output_.get(), buffer, sizeof(buffer));
    if (count > 0) {
      lines_.add(std::string_view(buffer, static_cast<size_t>(count)));
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    break;
  }
  // It closed its output, which it does by ending.
  watch_.reset();
  reap();
  const Ended ended = std::move(ended_);
  ended(lines_.outcome());
}

}  // namespace lambent::environments
