// ServiceManager: tells systemd, or what speaks its protocol (sd_notify), how the worker is:
// datagrams to a socket that it named. Used by the worker's main, on its loop thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/loop/event_loop.h"

namespace lambent {

// What a service manager asks for.
struct ServiceSettings {
  std::string address;  // of its socket; '@' at the front: an abstract one. Empty: none asks
  std::optional<Duration> watchdog;  // the longest time between two signs of life
};

// From the values of NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID; null: not set. INVALID_ARGUMENT
// if one cannot be read. A watchdog for another process is none.
Result<ServiceSettings> read_service_settings(const char* socket, const char* watchdog_us,
                                              const char* watchdog_pid, pid_t self);

class ServiceManager {
 public:
  // Without an address all that follows does nothing. UNAVAILABLE if the socket cannot be had.
  static Result<ServiceManager> open(ServiceSettings settings, LogSink& log);

  bool asked() const { return socket_.valid(); }

  // Each says in one line what the worker does; a second line would be another message.
  void ready(std::string_view status);
  void stopping(std::string_view status);
  // Before the worker reads again what it reads at its start; `ready` ends it.
  void reloading(Instant now);

  // Signs of life from the loop, twice in the time that is asked for, while this exists: a loop
  // that hangs sends none.
  void watch(loop::EventLoop& loop);

 private:
  ServiceManager(ServiceSettings settings, LogSink& log)
      : settings_(std::move(settings)), log_(log) {}
  void send(const std::string& message);

  ServiceSettings settings_;
  LogSink& log_;
  OwnedFd socket_;
  bool failed_ = false;
};

}  // namespace lambent
