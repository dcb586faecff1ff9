#include "simulator/faulty_world.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <utility>

#include "simulator/event_words.h"
#include "simulator/faulty_scene.h"

namespace lambent::simulator {
namespace {

using dispatch::Action;
using dispatch::Event;

// No world has come near this many; one that does goes in circles.
constexpr uint64_t kMostEvents = 1'000'000;
constexpr std::string_view kPlatformFailure = "Sandbox.Failure";

// How often each kind happens: of those to which it could happen, or for incidents (devices, the
// clock, people) how many there are in a world.
std::array<double, kFaults> draw_chances(Random& random, const FaultyWorldOptions& options) {
  std::array<double, kFaults> chances{};
  for (size_t i = 0; i < kFaults; ++i) {
    constexpr double kIntensities[] = {0, 0.02, 0.05, 0.2};
    chances[i] = kIntensities[random.below(std::size(kIntensities))];
    if (options.without[i]) chances[i] = 0;
  }
  return chances;
}

class World {
 public:
  explicit World(const FaultyWorldOptions& options)
      : options_(options),
        scene_(make_faulty_scene(options.seed)),
        random_(~options.seed),
        chances_(draw_chances(random_, options)),
        dispatcher_(scene_.dispatch, make_policy()),
        invariants_(dispatcher_, invariant_options()) {
    devices_.resize(scene_.dispatch.fleet.devices.size());
    if (scene_.arrivals.size() > options.most_arrivals) {
      scene_.arrivals.resize(options.most_arrivals);
    }
    span_ = scene_.arrivals.empty() ? Duration(0)
                                    : scene_.arrivals.back().at.time_since_epoch() + seconds(5);
  }

  FaultyWorldResult run() {
    for (const FaultyScene::Function& function : scene_.functions) {
      give(dispatch::FunctionRegistered{function.profile});
    }
    for (const FaultyScene::Arrival& arrival : scene_.arrivals) {
      push(arrival.at, [this, arrival] { arrive(arrival); });
    }
    plan_incidents();
    push(Instant(seconds(1)), [this] { read_devices(); });
    while (!invariants_.violation() && !(due_.empty() && wake_ == kNever)) {
      if (invariants_.events() > kMostEvents) {
        result_.violation = {Invariant::kEndlessWait, "the world does not come to rest"};
        break;
      }
      step();
    }
    if (!result_.violation) invariants_.check_at_rest();
    if (!result_.violation) result_.violation = invariants_.violation();
    result_.at = now_;
    result_.policy = scene_.policy;
    result_.events = invariants_.events();
    result_.counters = dispatcher_.counters();
    result_.log_hash = dispatcher_.log_hash();
    return std::move(result_);
  }

 private:
  struct Due {
    Instant at{};
    uint64_t order = 0;  // of equal instants, the one made first
    std::function<void()> happen;
    bool operator>(const Due& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct Process {
    FunctionId function;
    uint32_t device = 0;
    bool alive = true, running = false;
    // Whether its memory is on the device, and what it does once it is.
    bool memory_in = true;
    std::function<void()> awaits_memory;
    uint64_t runs = 0;
    InvocationId invocation;
  };
  struct Device {
    bool lost = false, silent = false;
    Instant well_at{};
  };

  std::unique_ptr<scheduling::Policy> make_policy() const {
    if (options_.policy) return options_.policy();
    return std::move(scheduling::make_policy(scene_.policy, scene_.policy_options)).value();
  }
  InvariantOptions invariant_options() const {
    InvariantOptions invariants{.limits = scene_.dispatch};
    make_policy()->adapt(invariants.limits.fleet);
    if (scene_.policy.starts_with("mqfq") || scene_.policy == "density") {
      invariants.over_run = scene_.policy_options.mqfq.over_run;
    }
    invariants.one_batch_per_function = scene_.policy == "batch";
    invariants.may_idle = scene_.policy == "exclusive";
    if (options_.tell) options_.tell(invariants);
    return invariants;
  }

  // ---- Time

  void push(Instant at, std::function<void()> happen) {
    due_.push({std::max(at, now_), ++order_, std::move(happen)});
  }
  void after(Duration delay, std::function<void()> happen) {
    push(now_ + delay, std::move(happen));
  }

  void step() {
    if (due_.empty() || wake_ < due_.top().at) {
      now_ = std::max(now_, wake_);
      wake_ = kNever;
      give(dispatch::TimerFired{});
      return;
    }
    now_ = std::max(now_, due_.top().at);
    const std::function<void()> happen = due_.top().happen;
    due_.pop();
    happen();
  }

  // ---- Chance

  bool occurs(Fault fault) {
    const double chance = chances_[static_cast<size_t>(fault)];
    if (chance == 0 || random_.uniform() >= chance) return false;
    note(fault);
    return true;
  }
  void note(Fault fault) { ++result_.faults[static_cast<size_t>(fault)]; }

  // ---- Dispatch

  void give(const Event& event) {
    std::vector<Action> actions;
    dispatcher_.handle(event, now_, actions);
    if (options_.trace_length > 0) trace(event, actions);
    if (options_.distort) {
      std::vector<Action> shown = actions;
      options_.distort(event, shown);
      invariants_.check(event, now_, shown);
    } else {
      invariants_.check(event, now_, actions);
    }
    if (options_.twin_period > 0) give_twin(event);
    for (const Action& action : actions) {
      std::visit([this](const auto& one) { perform(one); }, action);
    }
  }

  void give_twin(const Event& event) {
    const auto make = [this] {
      return std::make_unique<dispatch::Dispatcher>(scene_.dispatch, make_policy());
    };
    if (twin_ == nullptr) twin_ = make();
    std::vector<Action> actions;
    twin_->handle(event, now_, actions);
    if (twin_->log_hash() != dispatcher_.log_hash()) {
      invariants_.violate(Invariant::kSnapshot, "one that was restored decides otherwise");
    }
    if (invariants_.events() % options_.twin_period != 0) return;
    const std::string bytes = twin_->snapshot();
    twin_ = make();
    if (!twin_->restore(bytes)) {
      invariants_.violate(Invariant::kSnapshot, "a snapshot is refused");
    }
  }

  void trace(const Event& event, const std::vector<Action>& actions) {
    char at[32];
    std::snprintf(at, sizeof(at), "%12.6f  ", to_seconds(now_.time_since_epoch()));
    std::string text = at + in_words(event);
    for (const Action& action : actions) text += "\n                -> " + in_words(action);
    result_.trace.push_back(std::move(text));
    if (result_.trace.size() > options_.trace_length) result_.trace.pop_front();
  }

  // A message of a sandbox, on its way to dispatch.
  void report(const Event& event) {
    Duration delay = up_to(random_, milliseconds(2));
    if (occurs(Fault::kLateMessage)) delay += up_to(random_, seconds(20));
    after(delay, [this, event] { give(event); });
    if (!occurs(Fault::kDuplicateMessage)) return;
    after(delay + up_to(random_, seconds(30)), [this, event] { give(event); });
  }

  void perform(const dispatch::StartSandbox& action) {
    const SandboxId id = action.sandbox;
    processes_[id] = {.function = action.function, .device = action.device.value};
    Duration start = function(action.function).start;
    if (occurs(Fault::kHangingStart)) return;
    if (occurs(Fault::kSlowStart)) start *= static_cast<int64_t>(between(random_, 2, 20));
    if (occurs(Fault::kFailedStart)) {
      after(start / 2, [this, id] { die(id, std::string(kPlatformFailure), false); });
    } else if (occurs(Fault::kInitCrash)) {
      after(start, [this, id] { die(id, "Runtime.ExitError", false); });
    } else {
      after(start, [this, id, start] {
        if (!processes_[id].alive || occurs(Fault::kLostMessage)) return;
        report(dispatch::SandboxReady{id, start / 3, start - start / 3});
      });
    }
  }

  void perform(const dispatch::StartInvocation& action) {
    const SandboxId id = action.sandbox;
    Process& process = processes_[id];
    if (!process.alive) return;
    process.running = true;
    process.invocation = action.invocation;
    const uint64_t run = ++process.runs;
    if (occurs(Fault::kUndelivered)) return die(id, "Runtime.ExitError", true);
    if (occurs(Fault::kHang)) return;
    Duration took = function(process.function).execution;
    took = up_to(random_, took) + took / 2;
    if (process.device == 0) took *= 2;
    // Most handlers need the device to get anywhere.
    if (!process.memory_in && random_.below(4) != 0) {
      process.awaits_memory = [this, id, run, took] {
        after(took, [this, id, run, took] { end_run(id, run, took); });
      };
      return;
    }
    const bool loads = action.start != StartClass::kWarm;
    if (loads && occurs(Fault::kFailedLoad)) {
      after(took / 4, [this, id] { die(id, "Runtime.OutOfMemory", false); });
      return;
    }
    if (loads && occurs(Fault::kSlowLoad)) took *= static_cast<int64_t>(between(random_, 2, 20));
    if (occurs(Fault::kCrash)) {
      after(took / 2, [this, id] { die(id, "Runtime.ExitError", false); });
      return;
    }
    after(took, [this, id, run, took] { end_run(id, run, took); });
  }

  void perform(const dispatch::StopSandbox& action) {
    const SandboxId id = action.sandbox;
    processes_[id].alive = false;
    Duration took = up_to(random_, milliseconds(50));
    if (occurs(Fault::kHangingStop)) took += up_to(random_, std::chrono::minutes(15));
    // This one is never lost: a process that exists is found out about in the end.
    after(took, [this, id] { report(dispatch::SandboxExited{id, {}, "Sandbox.Stopped"}); });
  }

  void perform(const dispatch::CompleteInvocation& action) { waiting_.erase(action.invocation); }

  void perform(const dispatch::WakeAt& action) {
    wake_ = action.instant;
    if (wake_ != kNever && occurs(Fault::kLateTimer)) wake_ += up_to(random_, seconds(5));
  }

  void perform(const dispatch::MoveMemoryIn& action) {
    move(action.sandbox, dispatch::MoveDirection::kIn);
  }
  void perform(const dispatch::MoveMemoryOut& action) {
    move(action.sandbox, dispatch::MoveDirection::kOut);
  }

  void move(SandboxId id, dispatch::MoveDirection direction) {
    if (!processes_[id].alive || occurs(Fault::kHangingMove)) return;
    Duration took = up_to(random_, milliseconds(300));
    if (occurs(Fault::kSlowMove)) took += up_to(random_, seconds(30));
    if (occurs(Fault::kMoveDeath)) {
      after(took / 2, [this, id] { die(id, "Runtime.ExitError", random_.below(4) == 0); });
      return;
    }
    dispatch::MemoryMoved moved{.sandbox = id, .direction = direction, .duration = took};
    moved.done = !occurs(Fault::kFailedMove);
    moved.moved = Bytes::mib(between(random_, 1, 8000));
    // Now and then more than it has.
    if (random_.below(2) == 0) moved.left = Bytes::mib(random_.below(random_.below(9) * 1000 + 1));
    after(took, [this, moved] { end_move(moved); });
  }

  // Of each move there is one answer: neither twice nor while another goes on.
  void end_move(const dispatch::MemoryMoved& moved) {
    Process& process = processes_[moved.sandbox];
    if (!process.alive) return;
    const bool in = moved.direction == dispatch::MoveDirection::kIn;
    process.memory_in = in == moved.done;
    if (process.memory_in && process.awaits_memory) {
      const auto goes_on = std::exchange(process.awaits_memory, nullptr);
      goes_on();
    }
    if (occurs(Fault::kLostMessage)) return;
    const Duration late = occurs(Fault::kLateMessage) ? up_to(random_, seconds(20)) : Duration(0);
    after(up_to(random_, milliseconds(2)) + late, [this, moved] { give(moved); });
  }

  // ---- Sandboxes

  void die(SandboxId id, const std::string& error_type, bool undelivered) {
    Process& process = processes_[id];
    if (!process.alive) return;
    process.alive = false;
    if (occurs(Fault::kLostMessage)) return;
    report(dispatch::SandboxExited{id, {ErrorCode::kUnknown, "it ended"}, error_type, undelivered});
  }

  void end_run(SandboxId id, uint64_t run, Duration took) {
    Process& process = processes_[id];
    if (!process.alive || !process.running || process.runs != run) return;
    process.running = false;
    const bool succeeded = !occurs(Fault::kHandlerError);
    if (!occurs(Fault::kLostMessage)) {
      report(dispatch::InvocationFinished{process.invocation, took, succeeded, Bytes(0)});
    }
    if (chances_[static_cast<size_t>(Fault::kIdleDeath)] < random_.uniform()) return;
    after(up_to(random_, seconds(20)), [this, id] {
      if (!processes_[id].alive || processes_[id].running) return;
      note(Fault::kIdleDeath);
      die(id, "Runtime.ExitError", false);
    });
  }

  // ---- Arrivals and incidents

  void arrive(const FaultyScene::Arrival& arrival) {
    const InvocationId id{arrival.function.value, ++result_.arrivals};
    waiting_.insert(id);
    give(dispatch::InvocationSubmitted{id, arrival.function, arrival.asynchronous});
    if (occurs(Fault::kCancellation)) {
      after(up_to(random_, seconds(10)), [this, id] { give(dispatch::InvocationCancelled{id}); });
    }
    if (occurs(Fault::kRepeatedSubmission)) {
      after(up_to(random_, seconds(3)), [this, id, arrival] {
        if (!waiting_.contains(id)) return;
        give(dispatch::InvocationSubmitted{id, arrival.function, arrival.asynchronous});
      });
    }
  }

  void plan_incidents() {
    const auto plan = [this](Fault fault, uint64_t most, void (World::*happen)()) {
      if (chances_[static_cast<size_t>(fault)] == 0) return;
      for (uint64_t i = between(random_, 1, most); i > 0; --i) {
        ++incidents_left_;
        push(Instant(up_to(random_, span_)), [this, fault, happen] {
          --incidents_left_;
          note(fault);
          (this->*happen)();
        });
      }
    };
    plan(Fault::kLostDevice, 3, &World::lose_device);
    plan(Fault::kSilentDevice, 4, &World::silence_device);
    plan(Fault::kClockStep, 2, &World::step_clock);
    plan(Fault::kRedeploy, 6, &World::redeploy);
    plan(Fault::kStaleDeploy, 2, &World::deploy_stale);
    plan(Fault::kRemoval, 3, &World::remove_function);
    plan(Fault::kStrayMessage, 10, &World::send_stray);
    plan(Fault::kEarlyTimer, 10, &World::fire_early);
    // Not in all worlds that could, for little happens after it.
    if (chances_[static_cast<size_t>(Fault::kDrain)] > 0.1) plan(Fault::kDrain, 1, &World::drain);
  }

  void lose_device() {
    const uint32_t index = static_cast<uint32_t>(random_.below(devices_.size()));
    devices_[index].lost = true;
    devices_[index].well_at = now_ + up_to(random_, std::chrono::minutes(2));
    // Some of its sandboxes die, some hang, some do not notice.
    for (auto& [id, process] : processes_) {
      if (process.device != index + 1 || !process.alive) continue;
      const uint64_t fate = random_.below(3);
      if (fate == 0) {
        after(up_to(random_, seconds(1)), [this, id = id] { die(id, "Runtime.ExitError", false); });
      }
      if (fate == 1) ++process.runs;
    }
    read_device(index);
  }

  void silence_device() {
    const uint32_t index = static_cast<uint32_t>(random_.below(devices_.size()));
    devices_[index].silent = true;
    devices_[index].well_at = now_ + up_to(random_, seconds(20));
    read_device(index);
  }

  void read_device(uint32_t index) {
    Device& device = devices_[index];
    if (device.well_at <= now_) device = {};
    give(dispatch::DeviceReading{.device = scene_.dispatch.fleet.devices[index].id,
                                 .utilisation = random_.uniform(),
                                 .healthy = !device.lost && !device.silent,
                                 .lost = device.lost});
  }

  void read_devices() {
    bool all_well = true;
    for (uint32_t i = 0; i < devices_.size(); ++i) {
      read_device(i);
      all_well = all_well && !devices_[i].lost && !devices_[i].silent;
    }
    // After a step of the clock, incidents may still be to come.
    const bool over = now_.time_since_epoch() > span_ && incidents_left_ == 0;
    if (all_well && over && (waiting_.empty() || dispatcher_.draining())) return;
    after(seconds(1), [this] { read_devices(); });
  }

  void step_clock() { now_ += seconds(between(random_, 60, 1200)); }

  FaultyScene::Function& some_function() {
    return scene_.functions[random_.below(scene_.functions.size())];
  }
  FaultyScene::Function& function(FunctionId id) { return scene_.functions[id.value - 1]; }

  void redeploy() {
    dispatch::FunctionProfile& profile = some_function().profile;
    ++profile.revision;
    draw_profile(random_, profile);
    give(dispatch::FunctionRegistered{profile});
  }

  void deploy_stale() {
    dispatch::FunctionProfile profile = some_function().profile;
    if (removed_.contains(profile.id)) return;
    profile.revision = 0;
    give(dispatch::FunctionRegistered{profile});
  }

  void remove_function() {
    const FunctionId id = some_function().profile.id;
    removed_.insert(id);
    give(dispatch::FunctionRemoved{id});
    if (random_.below(3) == 0) return;
    after(up_to(random_, seconds(30)), [this, id] {
      dispatch::FunctionProfile& profile = function(id).profile;
      removed_.erase(id);
      ++profile.revision;
      draw_profile(random_, profile);
      give(dispatch::FunctionRegistered{profile});
    });
  }

  void send_stray() {
    const SandboxId sandbox{random_.below(2) == 0 ? 1'000'000 : 1 + random_.below(20)};
    switch (random_.below(6)) {
      case 5:
        // Of those that exist, only their own keeper tells of moves.
        return give(dispatch::MemoryMoved{SandboxId{1'000'000}, dispatch::MoveDirection::kOut});
      case 0:
        return give(dispatch::SandboxReady{sandbox, seconds(1), seconds(1)});
      case 1:
        // Nobody else may say of a sandbox that it is gone.
        return give(dispatch::SandboxExited{SandboxId{1'000'000}, {}, ""});
      case 2:
        return give(dispatch::InvocationFinished{{77, random_.next()}, seconds(1), true, {}});
      case 3:
        return give(dispatch::DeviceReading{.device = DeviceId{99}, .lost = true});
      default:
        return give(dispatch::FunctionRemoved{FunctionId{999}});
    }
  }

  void fire_early() { give(dispatch::TimerFired{}); }
  void drain() { give(dispatch::DrainStarted{}); }

  const FaultyWorldOptions& options_;
  FaultyScene scene_;
  SeededRandom random_;
  std::array<double, kFaults> chances_;
  dispatch::Dispatcher dispatcher_;
  std::unique_ptr<dispatch::Dispatcher> twin_;
  Invariants invariants_;
  FaultyWorldResult result_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::map<SandboxId, Process> processes_;
  std::set<InvocationId> waiting_;
  std::set<FunctionId> removed_;
  std::vector<Device> devices_;
  Duration span_{};
  Instant wake_ = kNever;
  Instant now_{};
  uint64_t order_ = 0;
  uint64_t incidents_left_ = 0;
};

}  // namespace

FaultyWorldResult run_faulty_world(const FaultyWorldOptions& options) {
  return World(options).run();
}

}  // namespace lambent::simulator
