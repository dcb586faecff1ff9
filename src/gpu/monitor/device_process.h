// DeviceProcess: one running lambent-device and our ends of its sockets. A resource, used on the
// loop thread by DeviceMonitor.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace lambent::monitor {

class DeviceProcess {
 public:
  // `more_words`: what its memory service is told on the command line.
  static Result<std::unique_ptr<DeviceProcess>> spawn(const std::string& program,
                                                      const std::string& nvml, Duration period,
                                                      const std::vector<std::string>& more_words,
                                                      const std::vector<std::string>& environment);
  // Kills it and waits, though not for long: a process stuck in the driver cannot die at once.
  ~DeviceProcess();
  DeviceProcess(const DeviceProcess&) = delete;
  DeviceProcess& operator=(const DeviceProcess&) = delete;

  int socket() const { return socket_.get(); }
  // Where it is told which sandboxes to serve (core/protocol/memory_message.h).
  int memory_socket() const { return memory_socket_.get(); }
  // Becomes readable when the process has ended.
  int exit_fd() const { return pidfd_.get(); }
  pid_t id() const { return id_; }
  void kill() const;
  // True once it has ended and been collected.
  bool collect();

 private:
  DeviceProcess(pid_t id, OwnedFd pidfd, OwnedFd socket, OwnedFd memory_socket)
      : id_(id),
        pidfd_(std::move(pidfd)),
        socket_(std::move(socket)),
        memory_socket_(std::move(memory_socket)) {}

  pid_t id_;
  OwnedFd pidfd_;
  OwnedFd socket_;
  OwnedFd memory_socket_;
  bool collected_ = false;
};

}  // namespace lambent::monitor
