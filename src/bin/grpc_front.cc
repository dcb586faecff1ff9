#include "bin/grpc_front.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "node/sandbox/spawn.h"

namespace lambent {
namespace {

constexpr size_t kMostLine = 4096;
// A little more than lambent-grpc gives the calls that are there.
constexpr int kEndTimeMs = 6000;
constexpr std::string_view kListening = "lambent-grpc: listening on ";

// Of a worker that listens on all addresses, the one that is always there.
std::string asked_at(std::string endpoint) {
  for (const auto& [all, own] :
       {std::pair("//0.0.0.0:", "//127.0.0.1:"), {"//[::]:", "//[::1]:"}}) {
    const size_t at = endpoint.find(all);
    if (at != std::string::npos) endpoint.replace(at, std::string_view(all).size(), own);
  }
  return endpoint;
}

}  // namespace

std::vector<std::string> grpc_arguments(const std::string& program, const ListenOptions& options,
                                        const std::string& endpoint) {
  std::vector<std::string> words = {
      program,    "--until-input-ends",
      "--listen", options.grpc,
      "--worker", options.grpc_worker.empty() ? asked_at(endpoint) : options.grpc_worker};
  const auto add = [&words](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--worker-ca", options.grpc_worker_authorities);
  add("--tls-certificate", options.tls.server.certificate);
  add("--tls-key", options.tls.server.key);
  if (options.open_to_network) words.push_back("--insecure-open-to-network");
  return words;
}

GrpcFront::GrpcFront(loop::EventLoop& loop, LogSink& log, GrpcFrontOptions options)
    : loop_(loop), log_(log), options_(std::move(options)) {
  timer_ = loop_.call_after(Duration::zero(), [this] { start(); });
}

GrpcFront::~GrpcFront() {
  loop_.cancel(timer_);
  if (pid_ < 0) return;
  kill(pid_, SIGTERM);
  pollfd ended{.fd = process_.get(), .events = POLLIN, .revents = 0};
  if (poll(&ended, 1, kEndTimeMs) <= 0) kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  unlink(options_.address_file.c_str());
}

void GrpcFront::start() {
  const auto spawned = spawn();
  if (spawned.ok()) return;
  log_.error("grpc_not_started", {{"error", to_string(spawned.error())}});
  start_again();
}

Result<void> GrpcFront::spawn() {
  int input[2];
  if (pipe2(input, O_CLOEXEC) != 0) return error_from_errno("make a pipe", errno);
  input_ = OwnedFd(input[1]);
  const OwnedFd its_input(input[0]);
  int output[2];
  if (pipe2(output, O_CLOEXEC) != 0) return error_from_errno("make a pipe", errno);
  output_ = OwnedFd(output[0]);
  const OwnedFd its_output(output[1]);
  if (fcntl(output_.get(), F_SETFL, O_NONBLOCK) != 0) {
    return error_from_errno("set up a pipe", errno);
  }
  ASSIGN_OR_RETURN(pid_, sandbox::spawn(options_.arguments, {{its_input.get(), STDIN_FILENO},
                                                             {its_output.get(), STDOUT_FILENO},
                                                             {its_output.get(), STDERR_FILENO}}));
  process_ = OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_.valid()) {
    const int code = errno;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
    return error_from_errno("watch lambent-grpc", code);
  }
  process_watch_ = loop_.watch(process_.get(), true, false, [this](loop::Readiness) { exited(); });
  output_watch_ =
      loop_.watch(output_.get(), true, false, [this](loop::Readiness) { read_output(); });
  return {};
}

void GrpcFront::read_output() {
  char buffer[kMostLine];
  const ssize_t got = read(output_.get(), buffer, sizeof buffer);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return output_watch_.reset();
  for (const char c : std::string_view(buffer, static_cast<size_t>(got))) {
    if (c == '\n' || line_.size() == kMostLine) take_line(std::exchange(line_, {}));
    if (c != '\n') line_ += c;
  }
}

void GrpcFront::take_line(const std::string& line) {
  if (!line.starts_with(kListening)) {
    log_.warning("grpc", {{"said", line}});
    return;
  }
  back_off_ = Duration::zero();
  const std::string address = line.substr(kListening.size());
  log_.info("grpc_listening", {{"address", address}});
  const auto written = write_file_atomically(options_.address_file, address + "\n", false);
  if (!written.ok()) log_.warning("grpc", {{"said", to_string(written.error())}});
}

void GrpcFront::exited() {
  // What it said last is the reason.
  while (output_watch_.active()) {
    pollfd more{.fd = output_.get(), .events = POLLIN, .revents = 0};
    if (poll(&more, 1, 0) <= 0) break;
    read_output();
  }
  process_watch_.reset();
  output_watch_.reset();
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  log_.error("grpc_ended", {{"exit_code", int64_t{code}}});
  unlink(options_.address_file.c_str());
  start_again();
}

void GrpcFront::start_again() {
  back_off_ = std::clamp(back_off_ * 2, options_.first_back_off, options_.most_back_off);
  timer_ = loop_.call_after(back_off_, [this] { start(); });
}

}  // namespace lambent
