// DeviceProcess: one running lambent-device and our end of its socket. A resource, used on the loop
// thread by DeviceMonitor.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"

namespace lambent::device {

class DeviceProcess {
 public:
  static Result<std::unique_ptr<DeviceProcess>> spawn(const std::string& program,
                                                      const std::string& nvml, Duration period,
                                                      const std::vector<std::string>& environment);
  // Kills it and waits, though not for long: a process stuck in the driver cannot die at once.
  ~DeviceProcess();
  DeviceProcess(const DeviceProcess&) = delete;
  DeviceProcess& operator=(const DeviceProcess&) = delete;

  int socket() const { return socket_.get(); }
  // Becomes readable when the process has ended.
  int exit_fd() const { return pidfd_.get(); }
  pid_t id() const { return id_; }
  void kill() const;
  // True once it has ended and been collected.
  bool collect();

 private:
  DeviceProcess(pid_t id, OwnedFd pidfd, OwnedFd socket)
      : id_(id), pidfd_(std::move(pidfd)), socket_(std::move(socket)) {}

  pid_t id_;
  OwnedFd pidfd_;
  OwnedFd socket_;
  bool collected_ = false;
};

}  // namespace lambent::device
