// ExecutorSupervisor: the executors of this worker. Starts one for each tenant, device and domain
// that needs it, keeps it for a while after its last use, and replaces one that ended. Used by
// ExecutorHost on the loop thread.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/domain/function.h"
#include "core/loop/event_loop.h"
#include "core/protocol/executor_message.h"
#include "node/sandbox/launcher.h"
#include "node/worker/executor_plan.h"
#include "node/worker/executor_process.h"

namespace lambent::worker {

// Which executor: any function of the tenant that names the domain can use it, on this device.
struct ExecutorKey {
  TenantId tenant;
  DeviceId device;
  std::string domain;
  bool modelled = false;

  auto operator<=>(const ExecutorKey&) const = default;
};
ExecutorKey executor_key(const FunctionSpec& spec, DeviceId device);

// How an executor ended.
struct ExecutorEnd {
  Error cause;  // what broke it, if it said so itself; else how its process ended
  // Which of its requests did it is no question: that has its answer, or its end words, already;
  // or it was none of them.
  bool blame_is_known = false;
  bool retired = false;    // nothing used it
  bool was_ready = false;  // else it came to nothing
  bool no_room = false;    // there never was room for its context
};

// How many executors ended, since the worker began.
struct ExecutorEnds {
  uint64_t unused = 0;     // nothing needed them
  uint64_t fault = 0;      // something broke their context
  uint64_t hang = 0;       // what ran in them did not end
  uint64_t died = 0;       // in another way
  uint64_t unstarted = 0;  // before they were ready
};

// Why what waited for an executor, or had one, ended. The first is tried again.
inline constexpr char kPlatformFailure[] = "Sandbox.Failure";
inline constexpr char kNoRoom[] = "Sandbox.NoRoom";

class ExecutorSupervisor {
 public:
  struct Events {
    std::function<void(const ExecutorKey&)> on_ready;
    std::function<void(const ExecutorKey&, protocol::ExecutorMessage, std::vector<OwnedFd>)>
        on_message;
    std::function<void(const ExecutorKey&, std::string_view)> on_output;
    // It says that its context is broken, and will end.
    std::function<void(const ExecutorKey&, const Error&)> on_broken;
    // It is gone from here; what used it may need another from within.
    std::function<void(const ExecutorKey&, const ExecutorEnd&)> on_end;
    // contexts_on() may have changed there. What used one that is gone knows of its end by then.
    std::function<void(DeviceId)> on_count;
    // Whether this one's context has room on its device among so many, and what uses them; may be
    // empty: it has. Launches wait for that.
    std::function<bool(const ExecutorKey&, size_t contexts)> has_room;
    // Whether anything has a place in it, or wants one.
    std::function<bool(const ExecutorKey&)> is_used;
    // It is to end because nothing uses it: what only it has must be brought elsewhere before.
    // False if there is nothing; else cleared() follows. May be empty: there never is.
    std::function<bool(const ExecutorKey&)> clear;
    // An executor will ask for turns on the device's link at this socket, until it is forgotten.
    // May be empty: then there are no turns.
    std::function<void(SandboxId, DeviceId, OwnedFd listener)> serve_link;
    std::function<void(SandboxId)> forget_link;
  };

  // All outlive it. Sockets lie in `run_folder`, which is there.
  ExecutorSupervisor(loop::EventLoop& loop, LogSink& log, sandbox::Launcher& launcher,
                     ExecutorSetting setting, std::string run_folder, Events events);
  ExecutorSupervisor(const ExecutorSupervisor&) = delete;
  ExecutorSupervisor& operator=(const ExecutorSupervisor&) = delete;

  // Has one ready ahead of its first use, and again when it breaks, unless the device has as many
  // as it may.
  void keep(const ExecutorKey& key);
  // No more.
  void drop(const ExecutorKey& key);
  // Executors on other devices that start from now on do not see this one, until one is kept there.
  void hide(DeviceId device) { hidden_.insert(device); }
  std::vector<ExecutorKey> kept() const;

  // There will be one: on_ready follows unless it is ready, or on_end. If its context finds no room
  // for so long it comes to nothing.
  void need(const ExecutorKey& key, Duration longest_wait);
  // As long as a start waits whose function may not run for longer than that.
  Duration shortest_wait() const { return setting_.init_timeout / kWaitPart; }
  Duration longest_wait(const FunctionSpec& spec) const {
    return std::max(setting_.init_timeout, spec.timeout) / kWaitPart;
  }
  // Something left that had a place in it.
  void left(const ExecutorKey& key);

  bool ready(const ExecutorKey& key) const;
  std::vector<ExecutorKey> ready_ones() const;
  // Processes that have a context there, or may have: those that start and end as well, and those
  // that are used and wait for room. One that is only kept counts once it has room.
  size_t contexts_on(DeviceId device) const;
  // Once those have left that nothing uses.
  size_t used_contexts_on(DeviceId device) const;
  // Those there that nothing uses leave, kept or not; they come back when they are needed.
  void retire_unused(DeviceId device, const std::string& reason);
  // Nothing is only in this one any more; if it is to end, it does.
  void cleared(const ExecutorKey& key);
  // It is to end, and what only it has is still being brought elsewhere.
  bool is_clearing(const ExecutorKey& key) const;
  bool launched(const ExecutorKey& key) const;
  bool empty() const { return executors_.empty(); }
  const ExecutorEnds& ends() const { return ends_; }
  SandboxId process_of(const ExecutorKey& key) const;  // zero: there is none
  pid_t pid_of(const ExecutorKey& key) const;
  // Whether what lies on that device can be copied to this executor's without the host.
  bool reaches(const ExecutorKey& key, DeviceId device) const;
  // Nothing happens if there is none.
  void send(const ExecutorKey& key, protocol::ExecutorMessage message,
            std::vector<OwnedFd> fds = {});
  // A request in it does not end: it has to, with all that it runs.
  void end_hung(const ExecutorKey& key, Error reason);
  // It says what it must not.
  void end_broken(const ExecutorKey& key, Error reason);

  // The launcher's word that a sandbox is gone; false if it was no executor.
  bool exited(SandboxId executor, const sandbox::Exit& exit);

 private:
  struct Executor {
    std::unique_ptr<ExecutorProcess> process;
    std::optional<Error> broken;  // as it said itself
    bool blamed = false;          // and whose request it was
    bool hung = false;            // it is ended for a request that does not end
    bool retired = false;         // it is ended because it is not used
    bool is_clearing = false;     // and will be when what only it has is elsewhere
    std::string reason;           // of that
    uint64_t last_use = 0;        // counts up with every use of any
    uint64_t wanted = 0;          // at which of these it came to be used; zero: it is only kept
    bool has_room = false;        // it is only kept, and about to be launched
    loop::TimerId idle_timer;
    loop::TimerId clearing_timer;
  };

  // An executor that is to end brings elsewhere what only it has, unless it is silent for so long.
  static constexpr Duration kMostSilence = seconds(5);
  // Of what a start may take, how much may be a wait for room.
  static constexpr int kWaitPart = 3;

  void launch(const ExecutorKey& key);
  bool may_launch(const ExecutorKey& key);
  void evict_unused_for(const ExecutorKey& key);
  std::vector<ExecutorKey> unused_on(DeviceId device) const;
  size_t launched_on(DeviceId device) const;
  void give_link(ExecutorRequest& request);
  void ended(const ExecutorKey& key, const Error& error);
  void replace(const ExecutorKey& key, bool was_ready);
  void heard(const ExecutorKey& key, protocol::ExecutorMessage message, std::vector<OwnedFd> fds);
  void retire(const ExecutorKey& key, const std::string& reason);
  void watch_clearing(const ExecutorKey& key);
  void make_room(DeviceId device);
  size_t executors_on(DeviceId device) const;
  void watch_idleness(const ExecutorKey& key);

  loop::EventLoop& loop_;
  LogSink& log_;
  sandbox::Launcher& launcher_;
  const ExecutorSetting setting_;
  const std::string run_folder_;
  const Events events_;
  std::map<ExecutorKey, Executor> executors_;
  std::set<DeviceId> hidden_;
  std::map<ExecutorKey, unsigned> kept_;  // and how often in a row one came to nothing
  ExecutorEnds ends_;
  uint64_t launches_ = 0;
  uint64_t uses_ = 0;
  // So that a late timer finds this gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::worker
