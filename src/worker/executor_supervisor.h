// ExecutorSupervisor: the executors of this worker. Starts one for each tenant, device and domain
// that needs it, keeps it for a while after its last use, and replaces one that ended. Used by
// ExecutorHost on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "domain/function.h"
#include "loop/event_loop.h"
#include "protocol/executor_message.h"
#include "sandbox/launcher.h"
#include "worker/executor_plan.h"
#include "worker/executor_process.h"

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
  bool guilt_is_known = false;
  bool retired = false;    // nothing used it
  bool was_ready = false;  // else it came to nothing
};

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
    // The device has one more, that will make its context there, or one less, which is gone.
    std::function<void(DeviceId)> on_count;
    // Whether the contexts of so many have room there; may be empty: they have. Launches wait for
    // that.
    std::function<bool(DeviceId)> has_room;
    // Whether anything has a place in it, or wants one.
    std::function<bool(const ExecutorKey&)> is_used;
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

  // There will be one: on_ready follows unless it is ready, or on_end.
  void need(const ExecutorKey& key);
  // Something left that had a place in it.
  void left(const ExecutorKey& key);

  bool ready(const ExecutorKey& key) const;
  std::vector<ExecutorKey> ready_ones() const;
  // Processes that have a context there, or may have: those that start and end as well.
  size_t contexts_on(DeviceId device) const;
  // Those that nothing uses leave, kept or not; they come back when they are needed.
  void retire_unused(const std::string& reason);
  bool empty() const { return executors_.empty(); }
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
    bool retired = false;         // it is ended because nobody uses it
    uint64_t last_use = 0;        // counts up with every use of any
    loop::TimerId idle_timer;
  };

  void launch(const ExecutorKey& key);
  void give_link(ExecutorRequest& request);
  void ended(const ExecutorKey& key, const Error& error);
  void heard(const ExecutorKey& key, protocol::ExecutorMessage message, std::vector<OwnedFd> fds);
  void retire(const ExecutorKey& key, const std::string& reason);
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
  uint64_t launches_ = 0;
  uint64_t uses_ = 0;
  // So that what a timer says later finds nobody.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::worker
