// LauncherProcess: lambent-launcher as a child process, with the channel to it. A resource; made by
// the Launcher (and by tests, which speak over the channel directly).
#pragma once

#include "node/sandbox/capabilities.h"
#include "node/sandbox/channel.h"
#include "node/sandbox/launcher.h"

namespace lambent::sandbox {

class LauncherProcess {
 public:
  // Starts it and does not wait; its Hello (or the reason why not) comes over the channel.
  // NOT_FOUND if there is no such program.
  static Result<LauncherProcess> spawn(const LauncherOptions& options);
  // Blocks until the child has said hello: some hundred ms at most. FAILED_PRECONDITION if
  // sandboxes are not possible here.
  Result<Capabilities> wait_for_hello();
  // One that this process has as a child already.
  LauncherProcess(Channel channel, pid_t pid) : channel_(std::move(channel)), pid_(pid) {}
  LauncherProcess(LauncherProcess&& other) noexcept;
  LauncherProcess& operator=(LauncherProcess&&) = delete;

  // Closes the channel, which ends everything, and waits for it.
  ~LauncherProcess();

  Channel& channel() { return channel_; }
  pid_t pid() const { return pid_; }
  // It is another owner's from now on.
  OwnedFd release() {
    pid_ = -1;
    return channel_.release();
  }

 private:
  LauncherProcess() = default;
  Channel channel_;
  pid_t pid_ = -1;
};

}  // namespace lambent::sandbox
