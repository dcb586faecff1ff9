#include "bin/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <utility>

namespace lambent {
namespace {

Result<uint64_t> read_number(const char* name, std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string(name) + " is a number above 0, not '" + std::string(text) + "'"};
  }
  return number;
}

std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& each : line) {
    if (each == '\n') each = ' ';
  }
  return line;
}

}  // namespace

Result<ServiceSettings> read_service_settings(const char* socket, const char* watchdog_us,
                                              const char* watchdog_pid, pid_t self) {
  ServiceSettings settings;
  if (socket == nullptr || *socket == '\0') return settings;
  settings.address = socket;
  const bool known = settings.address.front() == '/' || settings.address.front() == '@';
  if (!known || settings.address.size() < 2 ||
      settings.address.size() >= sizeof(sockaddr_un::sun_path)) {
    return Error{ErrorCode::kInvalidArgument,
                 "NOTIFY_SOCKET is an absolute path or '@' and a name, of at most " +
                     std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " bytes, not '" +
                     settings.address + "'"};
  }
  if (watchdog_us == nullptr) return settings;
  if (watchdog_pid != nullptr) {
    ASSIGN_OR_RETURN(const uint64_t pid, read_number("WATCHDOG_PID", watchdog_pid));
    if (pid != static_cast<uint64_t>(self)) return settings;
  }
  ASSIGN_OR_RETURN(const uint64_t interval, read_number("WATCHDOG_USEC", watchdog_us));
  // Above a day it guards nothing, and larger numbers would not fit.
  constexpr uint64_t kMost = 86'400'000'000;
  settings.watchdog = std::chrono::microseconds(std::min(interval, kMost));
  return settings;
}

Result<ServiceManager> ServiceManager::open(ServiceSettings settings, LogSink& log) {
  ServiceManager manager(std::move(settings), log);
  const std::string& path = manager.settings_.address;
  if (path.empty()) return manager;
  OwnedFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return error_from_errno("create a socket for the service manager", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  if (path.front() == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return Error{ErrorCode::kUnavailable,
                 "reach the service manager at NOTIFY_SOCKET " + path + ": " + strerror(errno)};
  }
  manager.socket_ = std::move(socket);
  return manager;
}

void ServiceManager::ready(std::string_view status) { send("READY=1\nSTATUS=" + one_line(status)); }

void ServiceManager::stopping(std::string_view status) {
  send("STOPPING=1\nSTATUS=" + one_line(status));
}

void ServiceManager::reloading(Instant now) {
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(since.count()));
}

void ServiceManager::watch(loop::EventLoop& loop) {
  if (!asked() || !settings_.watchdog) return;
  send("WATCHDOG=1");
  loop.call_after(*settings_.watchdog / 2, [this, &loop] { watch(loop); });
}

void ServiceManager::send(const std::string& message) {
  if (!asked()) return;
  if (::send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL) >= 0) {
    failed_ = false;
    return;
  }
  // Once, or a manager that is gone would fill the log.
  if (!std::exchange(failed_, true)) {
    log_.warning("service_manager_silent",
                 {{"socket", settings_.address}, {"error", std::string(strerror(errno))}});
  }
}

}  // namespace lambent
