#include "bin/zygote_program.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/packet.h"

namespace lambent {
namespace {

constexpr int kRoot = 3;  // its root's socket; in a fork that of its init
constexpr size_t kNamespaces = 6;
constexpr size_t kMostPlan = 256 << 10;
constexpr int kMostCapabilities = 64;
constexpr long kLookAgain_ns = 200'000;

size_t count_threads() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return static_cast<size_t>(std::distance(begin(threads), end(threads)));
}

Result<void> give_capabilities_up() {
  for (int each = 0; each < kMostCapabilities; ++each) prctl(PR_CAPBSET_DROP, each, 0, 0, 0);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  if (syscall(SYS_capset, &header, none.data()) == 0) return {};
  return error_from_errno("give capabilities up", errno);
}

// Its init has no child but the program: what was between them is to be gone.
void await_end_of(pid_t between) {
  const std::string entry = "/proc/" + std::to_string(between);
  while (getppid() == between || access(entry.c_str(), F_OK) == 0) {
    const timespec pause{0, kLookAgain_ns};
    nanosleep(&pause, nullptr);
  }
}

// Only the socket of its init and /dev/null three times stay.
Result<void> keep_only(int channel) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return error_from_errno("open /dev/null", errno);
  for (int standard = 0; standard <= 2; ++standard) {
    if (dup2(null, standard) < 0) return error_from_errno("dup2", errno);
  }
  if (dup2(channel, kRoot) < 0) return error_from_errno("dup2", errno);
  if (syscall(SYS_close_range, kRoot + 1, ~0U, 0) != 0) return error_from_errno("close", errno);
  return {};
}

// In a child that is born in the sandbox's pid namespace. `fds`: its init's socket, the namespaces,
// the first of which it is in, the user namespace, and what the cgroups are entered by.
Result<void> become_child_of_init(std::span<const OwnedFd> fds) {
  for (const OwnedFd& cgroup : fds.subspan(kNamespaces + 2)) {
    if (write(cgroup.get(), "0", 1) != 1) return error_from_errno("enter a cgroup", errno);
  }
  for (const OwnedFd& each : fds.subspan(2, kNamespaces)) {
    if (setns(each.get(), 0) != 0) return error_from_errno("enter a namespace", errno);
  }
  RETURN_IF_ERROR(give_capabilities_up());
  if (chdir("/") != 0) return error_from_errno("enter /", errno);
  const pid_t between = getpid();
  const pid_t child = fork();
  if (child < 0) return error_from_errno("fork", errno);
  if (child > 0) _exit(0);
  await_end_of(between);
  setsid();
  return keep_only(fds[0].get());
}

std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t size = text.find('\0');
    parts.emplace_back(text.substr(0, size));
    text.remove_prefix(size == std::string_view::npos ? text.size() : size + 1);
  }
  return parts;
}

// The plan of the sandbox: a folder, how many words its command has, these, its variables; and with
// it where its output goes.
Result<std::vector<std::string>> take_plan() {
  std::vector<char> text(kMostPlan);
  ASSIGN_OR_RETURN(const auto packet, receive_packet(kRoot, text));
  if (!packet || packet->fds.size() != 1) return Error{ErrorCode::kInternal, "there is no plan"};
  const std::vector<std::string> parts = parts_of({text.data(), packet->size});
  const size_t count = parts.size() < 2 ? 0 : std::strtoul(parts[1].c_str(), nullptr, 10);
  if (count == 0 || parts.size() < count + 2) return Error{ErrorCode::kInternal, "a broken plan"};
  const int output = packet->fds[0].get();
  if (dup2(output, 1) < 0 || dup2(output, 2) < 0) return error_from_errno("dup2", errno);
  clearenv();
  for (const std::string& variable : std::span(parts).subspan(count + 2)) {
    const size_t end = variable.find('=');
    if (end != std::string::npos) {
      setenv(variable.substr(0, end).c_str(), variable.c_str() + end + 1, 1);
    }
  }
  tzset();
  if (chdir(parts[0].c_str()) != 0) return error_from_errno("enter " + parts[0], errno);
  RETURN_IF_ERROR(send_packet(kRoot, "go"));
  close(kRoot);
  return std::vector<std::string>(parts.begin() + 2,
                                  parts.begin() + 2 + static_cast<ptrdiff_t>(count));
}

// What a fork does. Ends it if that fails, and tells its init why.
std::vector<std::string> go_on_in_sandbox(std::vector<OwnedFd> fds) {
  const auto became = become_child_of_init(fds);
  if (!became.ok()) {
    (void)send_packet(fds[0].get(), became.error().message);
    _exit(1);
  }
  for (OwnedFd& each : fds) (void)each.release();  // they are closed
  const auto told = send_packet(kRoot, std::to_string(getpid()));
  auto words = told.ok() ? take_plan() : Result<std::vector<std::string>>(told.error());
  if (words.ok()) return *std::move(words);
  (void)send_packet(kRoot, words.error().message);
  _exit(1);
}

}  // namespace

std::optional<std::vector<std::string>> serve_as_zygote(const std::function<Result<void>()>& load) {
  Result<void> loaded = load();
  if (loaded.ok() && count_threads() != 1) {
    loaded = Error{ErrorCode::kFailedPrecondition, "what it loads starts threads"};
  }
  if (!send_packet(kRoot, loaded.ok() ? "ready" : loaded.error().message).ok()) return std::nullopt;
  if (!loaded.ok()) return std::nullopt;
  std::array<char, 64> word{};
  while (true) {
    auto packet = receive_packet(kRoot, word);
    if (!packet.ok()) return std::nullopt;
    if (!*packet) continue;
    std::vector<OwnedFd> fds = std::move((*packet)->fds);
    const bool is_fork = std::string_view(word.data(), (*packet)->size) == "fork";
    if (!is_fork || fds.size() < kNamespaces + 2) continue;
    // For children: pid namespaces are entered by being born in them.
    const pid_t born = setns(fds[1].get(), 0) == 0 ? fork() : -1;
    if (born == 0) return go_on_in_sandbox(std::move(fds));
    if (born < 0) {
      (void)send_packet(fds[0].get(), error_from_errno("fork", errno).message);
    } else {
      waitpid(born, nullptr, 0);
    }
  }
}

}  // namespace lambent
