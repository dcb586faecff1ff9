#include "node/sandbox/launcher.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "node/sandbox/launcher_process.h"

namespace lambent::sandbox {
namespace {

// A lambent-launcher that dies again and again is not started more often than this.
constexpr Duration kLeastTimeBetweenStarts = seconds(1);

// What has to end may take so long before what stays is handed over.
constexpr Duration kEndTime = seconds(5);

class ProcessLauncher final : public Launcher {
 public:
  ProcessLauncher(loop::EventLoop& loop, LogSink& log, LauncherOptions options)
      : loop_(loop), log_(log), options_(std::move(options)) {}

  ~ProcessLauncher() override {
    for (auto& [id, launch] : launches_) loop_.cancel(launch.timer);
    if (deferring_) loop_.cancel(deferred_timer_);
    if (respawning_) loop_.cancel(respawn_timer_);
  }

  Result<void> start() {
    RETURN_IF_ERROR(spawn());
    ASSIGN_OR_RETURN(capabilities_, process_->wait_for_hello());
    serve();
    return {};
  }

  // Instead of start(): it was handed over, and gets no more to launch.
  void take_over(HandedOverLauncher launcher) {
    process_.emplace(Channel(std::move(launcher.channel)), launcher.pid);
    for (const HandedOverLauncher::Kept& each : launcher.kept) sandboxes_[each.number] = true;
    serve();
  }

  void on_exit(OnExit callback) override { on_exit_ = std::move(callback); }

  void on_zygote(OnZygote callback) override { on_zygote_ = std::move(callback); }

  void launch(LaunchPlan plan, OnStarted callback) override {
    const SandboxId sandbox = plan.sandbox;
    auto refuse = [&](Error error) {
      defer([callback = std::move(callback), error = std::move(error)] { callback(error); });
    };
    if (auto valid = validate(plan); !valid.ok()) return refuse(valid.error());
    if (launches_.contains(sandbox) || sandboxes_.contains(sandbox)) {
      return refuse(Error{ErrorCode::kAlreadyExists,
                          "sandbox " + std::to_string(sandbox.value) + " is there already"});
    }
    if (launches_.size() + sandboxes_.size() >= options_.most_sandboxes) {
      return refuse(Error{
          ErrorCode::kResourceExhausted,
          "all " + std::to_string(options_.most_sandboxes) + " sandboxes of this node are in use"});
    }
    Launch& launch = launches_[sandbox];
    launch.callback = std::move(callback);
    launch.timer = loop_.call_after(options_.launch_timeout, [this, sandbox] { give_up(sandbox); });
    if (!process_) respawn_soon();
    send(LaunchRequest{std::move(plan)});
  }

  void ready(SandboxId sandbox) override {
    if (sandboxes_.contains(sandbox)) send(ProgramReady{sandbox});
  }

  void kill(SandboxId sandbox) override {
    if (launches_.contains(sandbox) || sandboxes_.contains(sandbox)) send(KillRequest{sandbox});
  }

  void terminate(SandboxId sandbox) override {
    if (launches_.contains(sandbox) || sandboxes_.contains(sandbox)) {
      send(TerminateRequest{sandbox});
    }
  }

  void usage(SandboxId sandbox, OnUsage callback) override {
    if (!sandboxes_.contains(sandbox)) {
      return defer([callback = std::move(callback)] {
        callback(Error{ErrorCode::kNotFound, "no such sandbox"});
      });
    }
    auto& waiting = usages_[sandbox];
    waiting.push_back(std::move(callback));
    if (waiting.size() == 1) send(UsageRequest{sandbox});
  }

  void sockets(SandboxId sandbox, uint32_t count, OnSockets callback) override {
    if (!sandboxes_.contains(sandbox)) {
      return defer([callback = std::move(callback)] {
        callback(Error{ErrorCode::kNotFound, "no such sandbox"});
      });
    }
    sockets_[sandbox].push_back(std::move(callback));
    send(SocketsRequest{sandbox, count});
  }

  std::vector<HandedOverLauncher> hand_over(const std::vector<SandboxId>& kept) override {
    on_exit_ = {};
    on_zygote_ = {};
    usages_.clear();
    sockets_.clear();
    for (auto& [id, launch] : launches_) launch.callback = nullptr;
    const std::unordered_set<SandboxId> stay(kept.begin(), kept.end());
    for (const auto& [id, launch] : launches_) send(KillRequest{id});
    for (const auto& [id, told] : sandboxes_) {
      if (!stay.contains(id)) send(KillRequest{id});
    }
    HandedOverLauncher launcher;
    if (!wait_for_others(stay)) return {};
    for (const auto& [id, told] : sandboxes_) launcher.kept.push_back({id, id});
    if (launcher.kept.empty()) return {};
    launcher.pid = process_->pid();
    watch_.reset();
    launcher.channel = process_->release();
    process_.reset();
    sandboxes_.clear();
    std::vector<HandedOverLauncher> all;
    all.push_back(std::move(launcher));
    return all;
  }

  const Capabilities& capabilities() const override { return capabilities_; }

  void kill_others(const std::vector<SandboxId>& kept) {
    for (const auto& [id, told] : sandboxes_) {
      if (std::ranges::find(kept, id) == kept.end()) send(KillRequest{id});
    }
  }
  bool has(SandboxId sandbox) const { return sandboxes_.contains(sandbox); }
  bool is_empty() const { return sandboxes_.empty(); }

 private:
  struct Launch {
    OnStarted callback;  // empty: given up; what comes of it is thrown away
    loop::TimerId timer;
  };

  // --- lambent-launcher's life ---

  Result<void> spawn() {
    spawned_ = loop_.clock().now();
    ASSIGN_OR_RETURN(LauncherProcess process, LauncherProcess::spawn(options_));
    process_.emplace(std::move(process));
    return {};
  }

  void serve() {
    process_->channel().set_blocking(false);
    watch_ = loop_.watch(process_->channel().fd(), true, false, [this](loop::Readiness ready) {
      if (ready.writable) flush();
      if (ready.readable || ready.hung_up) hear();
    });
  }

  // What is to be launched meanwhile waits: refused at once, all that is queued would go the same
  // way before there is a launcher again.
  void respawn_soon() {
    if (std::exchange(respawning_, true)) return;
    const Instant due = std::max(loop_.clock().now(), spawned_ + kLeastTimeBetweenStarts);
    respawn_timer_ = loop_.call_at(due, [this] {
      respawning_ = false;
      log_.warning("launcher_restarted");
      if (const auto spawned = spawn(); !spawned.ok()) return mourn(spawned.error());
      serve();
      flush();
    });
  }

  // Everything that it had made died with it.
  void mourn(const Error& why) {
    log_.error("launcher_ended", {{"why", why.message}});
    watch_.reset();
    process_.reset();
    outgoing_.clear();
    awaits_room_ = false;
    auto launches = std::exchange(launches_, {});
    auto sandboxes = std::exchange(sandboxes_, {});
    auto usages = std::exchange(usages_, {});
    auto sockets = std::exchange(sockets_, {});
    for (auto& [id, launch] : launches) {
      loop_.cancel(launch.timer);
      if (launch.callback) {
        launch.callback(Error{ErrorCode::kUnavailable, "lambent-launcher ended: " + why.message});
      }
    }
    for (auto& [id, callbacks] : usages) {
      for (auto& callback : callbacks) callback(Error{ErrorCode::kNotFound, "no such sandbox"});
    }
    for (auto& [id, callbacks] : sockets) {
      for (auto& callback : callbacks) callback(Error{ErrorCode::kNotFound, "no such sandbox"});
    }
    Exit killed;
    killed.signal = SIGKILL;
    killed.launcher_ended = true;
    for (const auto& [id, told] : sandboxes) {
      if (told && on_exit_) on_exit_(id, killed);
    }
  }

  // False: not all have ended in time, or lambent-launcher has.
  bool wait_for_others(const std::unordered_set<SandboxId>& stay) {
    const Instant latest = loop_.clock().now() + kEndTime;
    while (process_) {
      const bool all_ended =
          launches_.empty() && std::ranges::all_of(sandboxes_, [&stay](const auto& each) {
            return stay.contains(each.first);
          });
      if (all_ended && outgoing_.empty()) return true;
      const Duration rest = latest - loop_.clock().now();
      if (rest <= Duration(0)) return false;
      const short events = outgoing_.empty() ? POLLIN : POLLIN | POLLOUT;
      pollfd channel{process_->channel().fd(), events, 0};
      (void)poll(&channel, 1, static_cast<int>(to_milliseconds(rest)) + 1);
      flush();
      hear();
    }
    return false;
  }

  // --- what it says ---

  void hear() {
    while (process_) {
      auto word = process_->channel().receive();
      if (!word.ok()) return mourn(word.error());
      if (!*word) return;
      std::visit([&](auto& message) { handle(message, (*word)->fds); }, (*word)->message);
    }
  }

  void handle(Hello& hello, std::vector<OwnedFd>&) { capabilities_ = hello.capabilities; }

  void handle(StartedReply& reply, std::vector<OwnedFd>& fds) {
    OnStarted callback = finish_launch(reply.sandbox);
    sandboxes_[reply.sandbox] = callback != nullptr;
    if (!callback) return;  // given up and being killed: the descriptors close
    const size_t memory_at = reply.has_network ? 4 : 3;
    if (fds.size() < memory_at || fds.size() > memory_at + 2) {
      sandboxes_[reply.sandbox] = false;
      send(KillRequest{reply.sandbox});
      return callback(Error{ErrorCode::kResourceExhausted,
                            "the descriptors of a new sandbox were lost: too many are open"});
    }
    Started started;
    started.pid = reply.pid;
    started.pidfd = std::move(fds[0]);
    started.runtime_api_listener = std::move(fds[1]);
    started.output = std::move(fds[2]);
    if (reply.has_network) started.refusals = std::move(fds[3]);
    if (fds.size() > memory_at) {
      started.memory =
          MemoryMeter(std::move(fds[memory_at]),
                      fds.size() > memory_at + 1 ? std::move(fds[memory_at + 1]) : OwnedFd());
    }
    started.elapsed = reply.elapsed;
    started.forked = reply.forked;
    if (reply.forked && on_zygote_) on_zygote_("", ZygoteEvent::kForked, "");
    callback(std::move(started));
  }

  void handle(FailedReply& reply, std::vector<OwnedFd>&) {
    OnStarted callback = finish_launch(reply.sandbox);
    if (callback) return callback(reply.error);
    log_.warning("sandbox_failed", {{"why", to_string(reply.error)}});
  }

  void handle(ExitedReply& reply, std::vector<OwnedFd>&) {
    const auto found = sandboxes_.find(reply.sandbox);
    if (found == sandboxes_.end()) return;
    const bool told = found->second;
    sandboxes_.erase(found);
    answer_usage(reply.sandbox, Error{ErrorCode::kNotFound, "no such sandbox"});
    const auto sockets = sockets_.extract(reply.sandbox);
    if (!sockets.empty()) {
      for (const OnSockets& callback : sockets.mapped()) {
        callback(Error{ErrorCode::kNotFound, "no such sandbox"});
      }
    }
    if (told && on_exit_) on_exit_(reply.sandbox, reply.exit);
  }

  void handle(UsageReply& reply, std::vector<OwnedFd>&) {
    if (!reply.known) {
      return answer_usage(reply.sandbox, Error{ErrorCode::kNotFound, "no such sandbox"});
    }
    if (!reply.memory) {
      return answer_usage(reply.sandbox, Error{ErrorCode::kUnimplemented,
                                               "memory cannot be measured on this machine"});
    }
    answer_usage(reply.sandbox, *reply.memory);
  }

  void handle(SocketsReply& reply, std::vector<OwnedFd>& fds) {
    const auto found = sockets_.find(reply.sandbox);
    if (found == sockets_.end()) return;
    const OnSockets callback = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) sockets_.erase(found);
    if (fds.empty()) {
      return callback(Error{ErrorCode::kResourceExhausted,
                            "no sockets could be made in the network of a sandbox"});
    }
    callback(std::move(fds));
  }

  void handle(ZygoteNews& news, std::vector<OwnedFd>&) {
    if (news.event == ZygoteEvent::kFailed) {
      log_.warning("zygote_failed", {{"zygote", news.key}, {"why", news.text}});
    } else if (news.event == ZygoteEvent::kReady) {
      log_.info("zygote_ready", {{"zygote", news.key}, {"ms", to_milliseconds(news.elapsed)}});
    } else {
      log_.info("zygote_retired", {{"zygote", news.key}, {"why", news.text}});
    }
    if (on_zygote_) on_zygote_(news.key, news.event, news.text);
  }

  // Ours, or between it and its zygotes.
  template <typename Other>
  void handle(Other&, std::vector<OwnedFd>&) {}

  void answer_usage(SandboxId sandbox, const Result<Bytes>& answer) {
    const auto found = usages_.find(sandbox);
    if (found == usages_.end()) return;
    const auto callbacks = std::move(found->second);
    usages_.erase(found);
    for (const OnUsage& callback : callbacks) callback(answer);
  }

  OnStarted finish_launch(SandboxId sandbox) {
    const auto found = launches_.find(sandbox);
    if (found == launches_.end()) return nullptr;
    loop_.cancel(found->second.timer);
    OnStarted callback = std::move(found->second.callback);
    launches_.erase(found);
    return callback;
  }

  void give_up(SandboxId sandbox) {
    Launch& launch = launches_.at(sandbox);
    OnStarted callback = std::exchange(launch.callback, nullptr);
    send(KillRequest{sandbox});
    callback(
        Error{ErrorCode::kDeadlineExceeded,
              "the sandbox was not started within " +
                  std::to_string(static_cast<int64_t>(to_milliseconds(options_.launch_timeout))) +
                  " ms"});
  }

  // --- what we say ---

  // The queue is bounded: each sandbox has at most a launch, a kill or two, a usage, and
  // what its owner asks for of sockets in it.
  void send(Message message) {
    if (!process_ && !respawning_) return;
    outgoing_.push_back(std::move(message));
    if (process_) flush();
  }

  void flush() {
    while (!outgoing_.empty()) {
      const auto sent = process_->channel().send(outgoing_.front());
      // Gone: hear() finds out.
      if (!sent.ok() && sent.error().code == ErrorCode::kResourceExhausted) break;
      outgoing_.pop_front();
    }
    if (std::exchange(awaits_room_, !outgoing_.empty()) != awaits_room_) {
      watch_.update(true, awaits_room_);
    }
  }

  // Runs `task` in a later turn of the loop.
  void defer(loop::EventLoop::Task task) {
    deferred_.push_back(std::move(task));
    if (std::exchange(deferring_, true)) return;
    deferred_timer_ = loop_.call_after(Duration(0), [this] {
      deferring_ = false;
      for (auto& each : std::exchange(deferred_, {})) each();
    });
  }

  loop::EventLoop& loop_;
  LogSink& log_;
  const LauncherOptions options_;
  Capabilities capabilities_;
  std::optional<LauncherProcess> process_;
  Instant spawned_{};
  bool respawning_ = false;
  loop::TimerId respawn_timer_;
  loop::Watch watch_;

  std::unordered_map<SandboxId, Launch> launches_;  // asked for, not answered
  std::unordered_map<SandboxId, bool> sandboxes_;   // started; whether the owner was told so
  std::unordered_map<SandboxId, std::vector<OnUsage>> usages_;
  std::unordered_map<SandboxId, std::deque<OnSockets>> sockets_;  // answered in order
  std::deque<Message> outgoing_;
  bool awaits_room_ = false;  // watching for the channel to take more
  std::vector<loop::EventLoop::Task> deferred_;
  loop::TimerId deferred_timer_;
  bool deferring_ = false;
  OnExit on_exit_;
  OnZygote on_zygote_;
};

// One that launches, beside those that were handed over, which have what was adopted from them.
class SucceedingLauncher final : public Launcher {
 public:
  SucceedingLauncher(loop::EventLoop& loop, LogSink& log, std::unique_ptr<ProcessLauncher> present,
                     std::vector<HandedOverLauncher> former)
      : loop_(loop), present_(std::move(present)) {
    for (HandedOverLauncher& each : former) {
      auto launcher = std::make_unique<ProcessLauncher>(loop, log, LauncherOptions{});
      launcher->take_over(std::move(each));
      launcher->on_exit([this, place = former_.size()](SandboxId number, const Exit& exit) {
        exited(place, number, exit);
      });
      former_.push_back(std::move(launcher));
    }
  }

  ~SucceedingLauncher() override { loop_.cancel(reaper_); }

  void on_exit(OnExit callback) override {
    on_exit_ = callback;
    present_->on_exit(std::move(callback));
  }
  void on_zygote(OnZygote callback) override { present_->on_zygote(std::move(callback)); }
  void launch(LaunchPlan plan, OnStarted callback) override {
    present_->launch(std::move(plan), std::move(callback));
  }

  void ready(SandboxId sandbox) override {
    const Place place = place_of(sandbox);
    place.launcher.ready(place.number);
  }
  void kill(SandboxId sandbox) override {
    const Place place = place_of(sandbox);
    place.launcher.kill(place.number);
  }
  void terminate(SandboxId sandbox) override {
    const Place place = place_of(sandbox);
    place.launcher.terminate(place.number);
  }
  void usage(SandboxId sandbox, OnUsage callback) override {
    const Place place = place_of(sandbox);
    place.launcher.usage(place.number, std::move(callback));
  }
  void sockets(SandboxId sandbox, uint32_t count, OnSockets callback) override {
    const Place place = place_of(sandbox);
    place.launcher.sockets(place.number, count, std::move(callback));
  }

  std::vector<HandedOverLauncher> hand_over(const std::vector<SandboxId>& kept) override {
    on_exit_ = {};
    std::vector<HandedOverLauncher> all = present_->hand_over(kept);
    for (size_t place = 0; place < former_.size(); ++place) {
      if (former_[place] == nullptr) continue;
      std::vector<SandboxId> numbers;
      std::unordered_map<SandboxId, SandboxId> names;
      for (const SandboxId each : kept) {
        const auto found = adopted_.find(each);
        if (found == adopted_.end() || found->second.former != place) continue;
        numbers.push_back(found->second.number);
        names[found->second.number] = each;
      }
      for (HandedOverLauncher& launcher : former_[place]->hand_over(numbers)) {
        for (HandedOverLauncher::Kept& each : launcher.kept) each.sandbox = names.at(each.number);
        all.push_back(std::move(launcher));
      }
    }
    return all;
  }

  bool adopt(SandboxId sandbox, size_t former, SandboxId number) override {
    if (former >= former_.size() || former_[former] == nullptr || !former_[former]->has(number)) {
      return false;
    }
    return adopted_.emplace(sandbox, Adopted{former, number}).second;
  }

  void end_unadopted() override {
    for (size_t place = 0; place < former_.size(); ++place) {
      if (former_[place] == nullptr) continue;
      std::vector<SandboxId> numbers;
      for (const auto& [sandbox, adopted] : adopted_) {
        if (adopted.former == place) numbers.push_back(adopted.number);
      }
      former_[place]->kill_others(numbers);
    }
    reap_soon();
  }

  const Capabilities& capabilities() const override { return present_->capabilities(); }

 private:
  struct Adopted {
    size_t former;
    SandboxId number;
  };
  struct Place {
    ProcessLauncher& launcher;
    SandboxId number;
  };

  Place place_of(SandboxId sandbox) const {
    const auto found = adopted_.find(sandbox);
    if (found == adopted_.end()) return {*present_, sandbox};
    return {*former_[found->second.former], found->second.number};
  }

  void exited(size_t place, SandboxId number, const Exit& exit) {
    reap_soon();
    const auto found = std::ranges::find_if(adopted_, [&](const auto& each) {
      return each.second.former == place && each.second.number == number;
    });
    if (found == adopted_.end()) return;
    const SandboxId sandbox = found->first;
    // A kill that comes now goes to the present one, which does not know it.
    adopted_.erase(found);
    if (on_exit_) on_exit_(sandbox, exit);
  }

  // One of them may be what calls.
  void reap_soon() {
    loop_.cancel(reaper_);
    reaper_ = loop_.call_after(Duration(0), [this] {
      for (auto& each : former_) {
        if (each != nullptr && each->is_empty()) each.reset();
      }
    });
  }

  loop::EventLoop& loop_;
  std::unique_ptr<ProcessLauncher> present_;
  std::vector<std::unique_ptr<ProcessLauncher>> former_;  // null: it has ended
  std::unordered_map<SandboxId, Adopted> adopted_;
  loop::TimerId reaper_;
  OnExit on_exit_;
};

}  // namespace

Result<std::unique_ptr<Launcher>> start_launcher(loop::EventLoop& loop, LogSink& log,
                                                 LauncherOptions options,
                                                 std::vector<HandedOverLauncher> former) {
  auto launcher = std::make_unique<ProcessLauncher>(loop, log, std::move(options));
  RETURN_IF_ERROR(launcher->start());
  if (former.empty()) return std::unique_ptr<Launcher>(std::move(launcher));
  return std::unique_ptr<Launcher>(
      std::make_unique<SucceedingLauncher>(loop, log, std::move(launcher), std::move(former)));
}

}  // namespace lambent::sandbox
