// ExecutorProcess: one lambent-executor in its sandbox, and the messages to and from it. Used by
// ExecutorHost on the loop thread; trusts no byte of what it hears.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/loop/event_loop.h"
#include "core/protocol/executor_message.h"
#include "node/sandbox/launcher.h"
#include "node/worker/executor_plan.h"

namespace lambent::worker {

class ExecutorProcess {
 public:
  struct Events {
    // It is connected, and its context is there: instances can be added.
    std::function<void()> on_ready;
    std::function<void(protocol::ExecutorMessage, std::vector<OwnedFd>)> on_message;
    std::function<void(std::string_view)> on_output;
    // Whether its context has room on the device; may be empty: it has. It is launched once it has,
    // and may be killed from within.
    std::function<bool()> has_room;
    // It is gone; nothing is called after this. The process may be destroyed from within.
    std::function<void(Error)> on_end;
  };

  // Launches it; all that it says comes later, from the loop.
  ExecutorProcess(loop::EventLoop& loop, LogSink& log, sandbox::Launcher& launcher,
                  const ExecutorSetting& setting, ExecutorRequest request, Events events);
  ~ExecutorProcess();
  ExecutorProcess(const ExecutorProcess&) = delete;
  ExecutorProcess& operator=(const ExecutorProcess&) = delete;

  SandboxId id() const { return request_.executor; }
  DeviceId device() const { return request_.device; }
  bool ready() const { return ready_; }
  // Until then it has no room, and takes none.
  bool launched() const { return !plan_; }
  // Ends it at that instant if it has no room by then.
  void wait_for_room_until(Instant by) { room_by_ = by; }
  Instant waits_for_room_until() const { return room_by_; }
  // That is how it ended.
  bool found_no_room() const { return found_no_room_; }
  bool ending() const { return ending_.has_value(); }
  pid_t pid() const { return pid_; }
  // Devices whose memory its own can reach, once it is ready.
  const std::vector<DeviceId>& peers() const { return peers_; }

  // In order; what the socket has no room for waits. One that does not read what waits is killed.
  void send(protocol::ExecutorMessage message, std::vector<OwnedFd> fds = {});
  // Ends it, for this reason; on_end follows.
  void kill(Error reason);
  // The launcher says that it is gone.
  void exited(const sandbox::Exit& exit);

 private:
  struct Outgoing {
    std::string bytes;
    std::vector<OwnedFd> fds;
    bool is_short = false;
  };

  void launch_when_it_has_room();
  void launch();
  void started(Result<sandbox::Started> result);
  void accept_it();
  void receive();
  bool take(protocol::ExecutorMessage message, std::vector<OwnedFd> fds);
  void flush();
  void read_output(size_t most);
  void end(Error reason);

  loop::EventLoop& loop_;
  LogSink& log_;
  sandbox::Launcher& launcher_;
  const ExecutorRequest request_;
  const std::vector<DeviceId> seen_;         // in the order of its ordinals
  std::optional<sandbox::LaunchPlan> plan_;  // until it is launched
  const Bytes context_memory_;
  Events events_;
  Instant room_by_;
  bool found_no_room_ = false;

  OwnedFd listener_;
  loop::Watch listener_watch_;
  OwnedFd socket_;
  loop::Watch socket_watch_;
  OwnedFd output_;
  loop::Watch output_watch_;
  pid_t pid_ = 0;
  bool ready_ = false;
  std::vector<DeviceId> peers_;
  bool ended_ = false;
  std::optional<Error> ending_;  // why it was killed
  std::deque<Outgoing> outgoing_;
  size_t long_outgoing_ = 0;  // of these
  // So that a late launcher or timer finds this gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::worker
