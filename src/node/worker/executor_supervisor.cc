#include "node/worker/executor_supervisor.h"
#include "node/worker/sandbox_socket.h"

#include <algorithm>
#include <utility>

namespace lambent::worker {
namespace {

// Sandboxes of functions are counted from 1 by dispatch; executors from here.
constexpr uint64_t kFirstExecutor = uint64_t{1} << 63;
// Before one that is kept ready, but came to nothing, is tried again; twice as long each time.
constexpr Duration kFirstPause = seconds(1);
constexpr unsigned kMostDoublings = 6;

}  // namespace

ExecutorKey executor_key(const FunctionSpec& spec, DeviceId device) {
  return {spec.name.tenant, device, spec.gpu.domain,
          spec.gpu.launch_mode == GpuNeeds::LaunchMode::kModel};
}

ExecutorSupervisor::ExecutorSupervisor(loop::EventLoop& loop, LogSink& log,
                                       sandbox::Launcher& launcher, ExecutorSetting setting,
                                       std::string run_folder, Events events)
    : loop_(loop),
      log_(log),
      launcher_(launcher),
      setting_(std::move(setting)),
      run_folder_(std::move(run_folder)),
      events_(std::move(events)) {}

void ExecutorSupervisor::keep(const ExecutorKey& key) {
  hidden_.erase(key.device);
  if (!kept_.emplace(key, 0).second || executors_.contains(key)) return;
  if (executors_on(key.device) < setting_.most_on_device) launch(key);
}

void ExecutorSupervisor::drop(const ExecutorKey& key) {
  kept_.erase(key);
  if (!events_.is_used(key)) retire(key, "no function needs it any more");
}

std::vector<ExecutorKey> ExecutorSupervisor::kept() const {
  std::vector<ExecutorKey> keys;
  for (const auto& [key, failures] : kept_) keys.push_back(key);
  return keys;
}

void ExecutorSupervisor::need(const ExecutorKey& key, Duration longest_wait) {
  const bool is_there = executors_.contains(key);
  if (!is_there || is_clearing(key)) make_room(key.device);
  if (!is_there) launch(key);
  Executor& executor = executors_.at(key);
  if (executor.is_clearing) {
    // It was to end, and need not.
    executor.is_clearing = executor.retired = false;
    loop_.cancel(std::exchange(executor.clearing_timer, {}));
  }
  executor.last_use = ++uses_;
  loop_.cancel(std::exchange(executor.idle_timer, {}));
  Instant by = loop_.clock().now() + longest_wait;
  if (executor.wanted > 0) by = std::min(by, executor.process->waits_for_room_until());
  executor.process->wait_for_room_until(by);
  if (executor.wanted > 0) return;
  executor.wanted = uses_;
  events_.on_count(key.device);
}

void ExecutorSupervisor::left(const ExecutorKey& key) {
  if (events_.is_used(key)) return;
  if (const auto found = executors_.find(key); found != executors_.end()) found->second.wanted = 0;
  if (kept_.contains(key)) {
    watch_idleness(key);
  } else {
    retire(key, "no function needs it any more");
  }
  events_.on_count(key.device);
}

void ExecutorSupervisor::watch_idleness(const ExecutorKey& key) {
  const auto found = executors_.find(key);
  if (found == executors_.end()) return;
  loop_.cancel(found->second.idle_timer);
  found->second.idle_timer =
      loop_.call_after(setting_.keep_alive, [this, key, alive = std::weak_ptr(alive_)] {
        if (!alive.expired()) retire(key, "nothing used it for long");
      });
}

void ExecutorSupervisor::retire(const ExecutorKey& key, const std::string& reason) {
  const auto found = executors_.find(key);
  if (found == executors_.end() || found->second.retired) return;
  Executor& executor = found->second;
  const bool can_clear = ready(key) && events_.clear;
  executor.retired = executor.is_clearing = true;
  executor.reason = reason;
  if (!can_clear || !events_.clear(key)) return cleared(key);
  watch_clearing(key);
}

// Ends it when nothing has come from it for too long.
void ExecutorSupervisor::watch_clearing(const ExecutorKey& key) {
  Executor& executor = executors_.at(key);
  loop_.cancel(executor.clearing_timer);
  executor.clearing_timer =
      loop_.call_after(kMostSilence, [this, key, alive = std::weak_ptr(alive_)] {
        if (!alive.expired()) cleared(key);
      });
}

void ExecutorSupervisor::cleared(const ExecutorKey& key) {
  if (!is_clearing(key)) return;
  Executor& executor = executors_.at(key);
  executor.is_clearing = false;
  loop_.cancel(std::exchange(executor.clearing_timer, {}));
  executor.process->kill({ErrorCode::kCancelled, executor.reason});
}

bool ExecutorSupervisor::is_clearing(const ExecutorKey& key) const {
  const auto found = executors_.find(key);
  return found != executors_.end() && found->second.is_clearing;
}

size_t ExecutorSupervisor::executors_on(DeviceId device) const {
  return static_cast<size_t>(std::count_if(
      executors_.begin(), executors_.end(),
      [device](const auto& each) { return each.first.device == device && !each.second.retired; }));
}

// Those that nothing uses leave, the least recently used first. If all are used there is one more
// than there should be until one of them is not.
void ExecutorSupervisor::make_room(DeviceId device) {
  while (executors_on(device) >= setting_.most_on_device) {
    auto oldest = executors_.end();
    for (auto each = executors_.begin(); each != executors_.end(); ++each) {
      const bool can_leave =
          each->first.device == device && !each->second.retired && !events_.is_used(each->first);
      if (!can_leave) continue;
      if (oldest == executors_.end() || each->second.last_use < oldest->second.last_use) {
        oldest = each;
      }
    }
    if (oldest == executors_.end()) return;
    retire(oldest->first, "another takes its place on the device");
  }
}

void ExecutorSupervisor::launch(const ExecutorKey& key) {
  ExecutorRequest request;
  request.executor = SandboxId(kFirstExecutor + ++launches_);
  request.device = key.device;
  request.modelled = key.modelled;
  request.hidden = hidden_;
  request.socket_path = run_folder_ + "/executor-" + std::to_string(launches_);
  give_link(request);
  ExecutorProcess::Events events;
  events.on_ready = [this, key] {
    if (const auto kept = kept_.find(key); kept != kept_.end()) kept->second = 0;
    events_.on_ready(key);
  };
  events.on_message = [this, key](protocol::ExecutorMessage message, std::vector<OwnedFd> fds) {
    heard(key, std::move(message), std::move(fds));
  };
  events.on_output = [this, key](std::string_view text) { events_.on_output(key, text); };
  events.on_end = [this, key](const Error& error) { ended(key, error); };
  if (events_.has_room) {
    events.has_room = [this, key] { return may_launch(key); };
  }
  executors_[key].process = std::make_unique<ExecutorProcess>(
      loop_, log_, launcher_, setting_, std::move(request), std::move(events));
  watch_idleness(key);
  events_.on_count(key.device);
}

size_t ExecutorSupervisor::launched_on(DeviceId device) const {
  return static_cast<size_t>(std::ranges::count_if(executors_, [device](const auto& each) {
    return each.first.device == device && each.second.process->launched();
  }));
}

std::vector<ExecutorKey> ExecutorSupervisor::unused_on(DeviceId device) const {
  std::vector<ExecutorKey> unused;
  for (const auto& [key, executor] : executors_) {
    if (key.device != device || executor.retired || events_.is_used(key)) continue;
    unused.push_back(key);
  }
  std::ranges::sort(unused, {}, [this](const auto& key) { return executors_.at(key).last_use; });
  return unused;
}

// Those that wait for room launch one by one, as they came to be wanted: none of them holds for
// another what it does not have yet. One that is only kept gives up for them.
bool ExecutorSupervisor::may_launch(const ExecutorKey& key) {
  Executor& executor = executors_.at(key);
  for (const auto& [other, each] : executors_) {
    const bool waits = other != key && other.device == key.device && each.wanted > 0 &&
                       !each.retired && !each.process->launched();
    if (!waits) continue;
    if (executor.wanted == 0) {
      retire(key, "another that is needed waits for room on the device");
      return false;
    }
    if (each.wanted < executor.wanted) return false;
  }
  if (executor.wanted == 0) {
    if (!executor.has_room) {
      if (!events_.has_room(key, contexts_on(key.device) + 1)) return false;
      // Objects that lie there are evicted once it counts.
      executor.has_room = true;
      events_.on_count(key.device);
    }
    return events_.has_room(key, contexts_on(key.device));
  }
  if (events_.has_room(key, launched_on(key.device) + 1)) return true;
  evict_unused_for(key);
  return false;
}

// The least recently used first, no more than it takes, and none if it were for nothing.
void ExecutorSupervisor::evict_unused_for(const ExecutorKey& key) {
  std::vector<ExecutorKey> unused = unused_on(key.device);
  std::erase_if(unused, [this](const auto& each) { return !launched(each); });
  size_t staying = static_cast<size_t>(std::ranges::count_if(executors_, [&](const auto& each) {
    return each.first.device == key.device && each.second.process->launched() &&
           !each.second.retired;
  }));
  if (!events_.has_room(key, staying - unused.size() + 1)) return;
  for (const ExecutorKey& each : unused) {
    if (events_.has_room(key, staying + 1)) return;
    retire(each, "another that is needed waits for room on the device");
    --staying;
  }
}

// One that cannot be given its turns copies without.
void ExecutorSupervisor::give_link(ExecutorRequest& request) {
  if (!events_.serve_link) return;
  const std::string path = request.socket_path + "-link";
  auto listener = listen_to_sandbox(path);
  if (!listener.ok()) {
    log_.warning("executor_without_link", {{"error", to_string(listener.error())}});
    return;
  }
  request.link_path = path;
  events_.serve_link(request.executor, request.device, std::move(*listener));
}

bool ExecutorSupervisor::exited(SandboxId executor, const sandbox::Exit& exit) {
  if (executor.value < kFirstExecutor) return false;
  for (auto& [key, each] : executors_) {
    if (each.process->id() != executor) continue;
    each.process->exited(exit);
    break;
  }
  return true;
}

void ExecutorSupervisor::heard(const ExecutorKey& key, protocol::ExecutorMessage message,
                               std::vector<OwnedFd> fds) {
  Executor& executor = executors_.at(key);
  if (const auto* finished = std::get_if<protocol::Finished>(&message)) {
    const bool is_fault = finished->error && finished->error->code == ErrorCode::kInternal &&
                          finished->subject == protocol::ErrorSubject::kRequest;
    executor.blamed = executor.blamed || is_fault;
  } else if (const auto* broken = std::get_if<protocol::Broken>(&message)) {
    executor.broken = broken->error;
    return events_.on_broken(key, broken->error);
  } else if (const auto* written = std::get_if<protocol::ObjectWritten>(&message)) {
    if (executor.is_clearing && !written->error) watch_clearing(key);
  }
  events_.on_message(key, std::move(message), std::move(fds));
}

void ExecutorSupervisor::ended(const ExecutorKey& key, const Error& error) {
  const Executor gone = std::move(executors_.at(key));
  executors_.erase(key);
  loop_.cancel(gone.idle_timer);
  loop_.cancel(gone.clearing_timer);
  if (events_.forget_link) events_.forget_link(gone.process->id());
  const bool was_ready = gone.process->ready();
  ++(gone.retired  ? ends_.unused
     : gone.hung   ? ends_.hang
     : gone.broken ? ends_.fault
     : was_ready   ? ends_.died
                   : ends_.unstarted);
  if (gone.retired) {
    events_.on_end(key, {.cause = error, .blame_is_known = true, .retired = true});
    // Something may have come meanwhile that was not let in any more.
    if (events_.is_used(key)) need(key, shortest_wait());
    return events_.on_count(key.device);
  }
  ExecutorEnd end;
  end.cause = gone.broken ? *gone.broken : error;
  end.was_ready = was_ready;
  end.blame_is_known = gone.blamed || gone.hung || error.code == ErrorCode::kUnavailable;
  end.no_room = gone.process->found_no_room();
  events_.on_end(key, end);
  replace(key, was_ready);
  events_.on_count(key.device);
}

// One that is kept.
void ExecutorSupervisor::replace(const ExecutorKey& key, bool was_ready) {
  const auto kept = kept_.find(key);
  if (kept == kept_.end() || executors_.contains(key)) return;
  if (was_ready) return launch(key);
  const Duration pause = kFirstPause * (1 << std::min(kept->second++, kMostDoublings));
  loop_.call_after(pause, [this, key, alive = std::weak_ptr(alive_)] {
    if (!alive.expired() && kept_.contains(key) && !executors_.contains(key)) launch(key);
  });
}

bool ExecutorSupervisor::ready(const ExecutorKey& key) const {
  const auto found = executors_.find(key);
  return found != executors_.end() && found->second.process->ready() && !found->second.retired &&
         !found->second.broken;
}

SandboxId ExecutorSupervisor::process_of(const ExecutorKey& key) const {
  const auto found = executors_.find(key);
  return found != executors_.end() ? found->second.process->id() : SandboxId();
}

std::vector<ExecutorKey> ExecutorSupervisor::ready_ones() const {
  std::vector<ExecutorKey> keys;
  for (const auto& [key, executor] : executors_) {
    if (ready(key)) keys.push_back(key);
  }
  return keys;
}

bool ExecutorSupervisor::reaches(const ExecutorKey& key, DeviceId device) const {
  const auto found = executors_.find(key);
  if (found == executors_.end()) return false;
  const std::vector<DeviceId>& peers = found->second.process->peers();
  return key.device == device || std::find(peers.begin(), peers.end(), device) != peers.end();
}

size_t ExecutorSupervisor::contexts_on(DeviceId device) const {
  return static_cast<size_t>(std::ranges::count_if(executors_, [device](const auto& each) {
    const Executor& executor = each.second;
    const bool waits = (executor.wanted > 0 || executor.has_room) && !executor.retired;
    return each.first.device == device && (waits || executor.process->launched());
  }));
}

size_t ExecutorSupervisor::used_contexts_on(DeviceId device) const {
  return static_cast<size_t>(std::ranges::count_if(executors_, [&](const auto& each) {
    return each.first.device == device && events_.is_used(each.first);
  }));
}

void ExecutorSupervisor::retire_unused(DeviceId device, const std::string& reason) {
  for (const ExecutorKey& key : unused_on(device)) retire(key, reason);
}

bool ExecutorSupervisor::launched(const ExecutorKey& key) const {
  const auto found = executors_.find(key);
  return found != executors_.end() && found->second.process->launched();
}

pid_t ExecutorSupervisor::pid_of(const ExecutorKey& key) const {
  const auto found = executors_.find(key);
  return found != executors_.end() ? found->second.process->pid() : 0;
}

void ExecutorSupervisor::send(const ExecutorKey& key, protocol::ExecutorMessage message,
                              std::vector<OwnedFd> fds) {
  const auto found = executors_.find(key);
  if (found != executors_.end()) found->second.process->send(std::move(message), std::move(fds));
}

void ExecutorSupervisor::end_hung(const ExecutorKey& key, Error reason) {
  const auto found = executors_.find(key);
  if (found == executors_.end()) return;
  found->second.hung = true;
  found->second.is_clearing = false;
  found->second.process->kill(std::move(reason));
}

void ExecutorSupervisor::end_broken(const ExecutorKey& key, Error reason) {
  const auto found = executors_.find(key);
  if (found == executors_.end()) return;
  found->second.is_clearing = false;
  found->second.process->kill(std::move(reason));
}

}  // namespace lambent::worker
