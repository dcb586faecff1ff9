#include "gpu/monitor/driver_facts.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <optional>
#include <sstream>

#include "core/base/fd.h"
#include "core/base/process.h"

extern char** environ;

namespace lambent::monitor {
namespace {

constexpr size_t kMostText = 64 * 1024;
constexpr Duration kDyingGracePeriod = seconds(1);

// This process's, with the driver's folder first among those of libraries.
std::vector<std::string> environment_with(const std::string& driver_folder) {
  constexpr std::string_view kLibraries = "LD_LIBRARY_PATH=";
  std::string libraries = std::string(kLibraries) + driver_folder;
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with(kLibraries)) {
      libraries += ":" + std::string(text.substr(kLibraries.size()));
    } else {
      environment.emplace_back(text);
    }
  }
  environment.push_back(std::move(libraries));
  return environment;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

pid_t spawn_with_output(const std::string& program, const std::string& driver_folder, int output) {
  std::vector<std::string> words = {program, "--describe-driver"};
  std::vector<std::string> environment = environment_with(driver_folder);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  // Our sockets among them: a process that is stuck in the driver would keep them open after our
  // own end, which the worker is to see.
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  pid_t id = -1;
  const int status = posix_spawn(&id, program.c_str(), &actions, nullptr, pointers_to(words).data(),
                                 pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  return status == 0 ? id : -1;
}

// All that is said until the other side ends; none if it has not by then.
std::optional<std::string> read_until_end(int from, Instant deadline, const Clock& clock) {
  std::string text;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - clock.now()).count();
    pollfd readable = {from, POLLIN, 0};
    if (left <= 0 || poll(&readable, 1, static_cast<int>(left)) == 0) return std::nullopt;
    char buffer[4096];
    const ssize_t got = read(from, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    if (text.size() + static_cast<size_t>(got) > kMostText) return std::nullopt;
    text.append(buffer, static_cast<size_t>(got));
  }
}

// Who is stuck in the driver may outlive the signal, and is waited for no longer than this.
void reap(pid_t id, Instant deadline, const Clock& clock) {
  const OwnedFd ended = open_process(id);
  while (waitpid(id, nullptr, WNOHANG) == 0) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - clock.now()).count();
    pollfd readable = {ended.get(), POLLIN, 0};
    if (left <= 0 || !ended.valid() || poll(&readable, 1, static_cast<int>(left)) == 0) return;
  }
}

}  // namespace

std::string to_text(const std::vector<DriverFacts>& facts) {
  std::string text;
  for (const DriverFacts& each : facts) {
    text += each.uuid + " " + (each.integrated ? "integrated" : "discrete") + " " +
            std::to_string(each.memory.count) + "\n";
  }
  return text;
}

std::vector<DriverFacts> driver_facts_from(std::string_view text) {
  std::vector<DriverFacts> facts;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    char uuid[64] = {};
    char kind[16] = {};
    uint64_t memory = 0;
    char rest = 0;
    if (std::sscanf(line.c_str(), "%63s %15s %" SCNu64 "%c", uuid, kind, &memory, &rest) != 3) {
      continue;
    }
    const std::string_view what = kind;
    if (what != "integrated" && what != "discrete") continue;
    facts.push_back({uuid, what == "integrated", Bytes(memory)});
  }
  return facts;
}

std::vector<DriverFacts> ask_driver(const std::string& program, const std::string& driver_folder,
                                    Duration grace_period) {
  const SystemClock clock;
  const Instant deadline = clock.now() + grace_period;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const OwnedFd from(ends[0]);
  OwnedFd to(ends[1]);
  const pid_t id = spawn_with_output(program, driver_folder, to.get());
  to.reset();
  if (id < 0) return {};
  const auto text = read_until_end(from.get(), deadline, clock);
  kill(id, SIGKILL);
  reap(id, clock.now() + kDyingGracePeriod, clock);
  return driver_facts_from(text.value_or(""));
}

const DriverFacts* facts_of(const std::vector<DriverFacts>& facts, std::string_view uuid,
                            size_t devices) {
  for (const DriverFacts& each : facts) {
    if (each.uuid == uuid) return &each;
  }
  return devices == 1 && facts.size() == 1 ? &facts.front() : nullptr;
}

}  // namespace lambent::monitor
