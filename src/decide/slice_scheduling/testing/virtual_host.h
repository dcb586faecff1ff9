// VirtualHost: does in virtual time what the slice dispatcher asks for, and holds it to its
// promises after every event. For tests of policies, of this module and others.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "core/base/random.h"
#include "decide/slice_scheduling/slice_dispatcher.h"
#include "decide/slice_scheduling/testing/testing.h"

namespace lambent::slice_scheduling::testing {

// Chance, if a test wants it: how often what is asked for goes wrong, and how long it takes.
struct HostChances {
  double start_fails = 0;
  double job_kills = 0;   // the instance ends under it
  double least_pace = 1;  // what a job takes over what its placement says
  double most_pace = 1;
};

// Starts, loads, runs and stops as it is asked to, in virtual time.
class VirtualHost {
 public:
  struct Outcome {
    std::optional<Error> error;
    Instant when{};
  };

  VirtualHost(std::unique_ptr<SlicePolicy> policy, SliceDispatcherOptions options = {},
              uint64_t seed = 1)
      : options_(options), dispatcher_(std::move(policy), options), random_(seed) {}

  // An event now.
  void give(const Event& event) {
    ++events_;
    actions_.clear();
    if (const auto* submitted = std::get_if<RequestSubmitted>(&event)) note(*submitted);
    if (const auto* lost = std::get_if<SliceLost>(&event)) lose(lost->slice);
    dispatcher_.handle(event, now_, actions_);
    for (const Action& action : std::vector<Action>(actions_)) {
      std::visit([this](const auto& each) { perform(each); }, action);
    }
    if (!policy_may_err) {
      EXPECT_EQ(dispatcher_.policy_errors(), 0U) << dispatcher_.last_policy_error();
    }
    // What comes back from instances that ended is queued beyond the limit.
    expect_sound(world(), options_.most_queued + most_running_ + acknowledged_);
  }
  void add_slices(const std::vector<unsigned>& computes) {
    for (const unsigned compute : computes) give(SliceAdded{slice_of(++last_slice_, compute)});
  }
  InvocationId submit(FunctionId function) {
    const InvocationId request{1, ++last_request_};
    give(RequestSubmitted{request, function});
    return request;
  }
  // Events come to pass until then, in their order.
  void run_until(Instant until) {
    while (!coming_.empty() && coming_.begin()->first <= until) {
      const auto next = coming_.begin();
      now_ = std::max(now_, next->first);
      const Event event = next->second;
      if (wake_ == next) wake_.reset();
      coming_.erase(next);
      if (is_stale(event)) continue;
      note_coming(event);
      give(event);
    }
    now_ = std::max(now_, until);
  }
  void run_for(Duration duration) { run_until(now_ + duration); }
  // The instance ends by itself now.
  void kill(InstanceId id) {
    if (!instances_.contains(id)) return;
    end(id);
    give(InstanceEnded{id, {ErrorCode::kUnavailable, "it crashed"}});
  }
  // The instance says that it ends, and does so a little later.
  void kill_slowly(InstanceId id) {
    if (!is_there(id)) return;
    instances_.at(id).ended = instances_.at(id).ending = true;
    later(milliseconds(50), InstanceEnded{id, {ErrorCode::kUnavailable, "it crashed"}});
    give(InstanceEnding{id});
  }

  std::optional<DeviceId> bad;  // nothing starts on that slice
  bool policy_may_err = false;
  const SliceDispatcher& dispatcher() const { return dispatcher_; }
  Instant now() const { return now_; }
  const SliceWorld& world() const { return dispatcher_.world(); }
  size_t events() const { return events_; }
  HostChances& chances() { return chances_; }
  const std::map<InvocationId, FunctionId>& submitted() const { return submitted_; }
  const std::map<InvocationId, Outcome>& outcomes() const { return outcomes_; }
  // Requests of each function in the order in which they were completed without an error.
  const std::vector<InvocationId>& served(FunctionId function) { return served_[function]; }
  // All actions of a kind so far, in words, such as "start 1 2" for instance 1 of function 2.
  const std::vector<std::string>& story() const { return story_; }
  size_t starts_with_replicas() const { return starts_with_replicas_; }
  // The most requests that any job had.
  size_t largest_job() const { return largest_job_; }
  // Jobs beside which none is to be at work.
  const std::set<JobId>& given_alone() const { return given_alone_; }
  std::vector<const Instance*> instances_of(FunctionId function) const {
    std::vector<const Instance*> found;
    for (const auto& [id, instance] : world().instances) {
      if (instance.function == function && !instance.retiring) found.push_back(&instance);
    }
    return found;
  }

 private:
  struct Running {
    pipeline::Placement placement;
    FunctionId function;
    bool loaded = false;
    bool on_slice = true;  // all but an unloaded one
    bool ended = false;    // of which the dispatcher is yet to be told
    bool ending = false;   // ... but knows that it will come
    Instant busy_until{};
    Instant last_finish{};
    std::map<JobId, std::vector<InvocationId>> jobs;
  };

  void note(const RequestSubmitted& event) {
    submitted_.emplace(event.request, event.function);
    if (event.acknowledged) ++acknowledged_;
  }

  bool is_stale(const Event& event) const {
    if (const auto* finished = std::get_if<JobFinished>(&event)) {
      return !jobs_.contains(finished->job);
    }
    if (const auto* ready = std::get_if<InstanceReady>(&event)) {
      return !is_there(ready->instance);
    }
    if (const auto* unloaded = std::get_if<InstanceUnloaded>(&event)) {
      return !is_there(unloaded->instance);
    }
    if (const auto* ended = std::get_if<InstanceEnded>(&event)) {
      return !instances_.contains(ended->instance);
    }
    return false;
  }
  bool is_there(InstanceId id) const {
    const auto found = instances_.find(id);
    return found != instances_.end() && !found->second.ended;
  }
  void note_coming(const Event& event) {
    if (const auto* finished = std::get_if<JobFinished>(&event)) {
      const InstanceId id = jobs_.at(finished->job);
      auto& mine = instances_.at(id).jobs;
      EXPECT_EQ(mine.begin()->first, finished->job) << "jobs pass in the order they were given";
      running_requests_ -= mine.at(finished->job).size();
      mine.erase(finished->job);
      jobs_.erase(finished->job);
    } else if (const auto* ready = std::get_if<InstanceReady>(&event)) {
      instances_.at(ready->instance).loaded = true;
    } else if (const auto* unloaded = std::get_if<InstanceUnloaded>(&event)) {
      instances_.at(unloaded->instance).on_slice = false;
    } else if (const auto* ended = std::get_if<InstanceEnded>(&event)) {
      end(ended->instance);
    }
  }
  void end(InstanceId id) {
    for (const auto& [job, requests] : instances_.at(id).jobs) {
      jobs_.erase(job);
      running_requests_ -= requests.size();
    }
    instances_.erase(id);
  }
  void lose(DeviceId slice) {
    for (auto& [id, running] : instances_) {
      const auto& mine = running.placement.slices;
      if (std::find(mine.begin(), mine.end(), slice) == mine.end()) continue;
      running.ended = true;
      later(milliseconds(5), InstanceEnded{id, {ErrorCode::kUnavailable, "its slice is gone"}});
    }
  }
  void later(Duration in, Event event) { coming_.emplace(now_ + in, std::move(event)); }
  double pace() {
    return chances_.least_pace + random_.uniform() * (chances_.most_pace - chances_.least_pace);
  }

  void perform(const StartInstance& action) {
    story_.push_back("start " + std::to_string(action.instance.value) + " of " +
                     std::to_string(action.function.value));
    expect_slices_free(action.instance, action.placement.slices);
    if (action.placement.slices.size() > action.placement.partition.stage_processes()) {
      ++starts_with_replicas_;
    }
    instances_[action.instance] = {.placement = action.placement, .function = action.function};
    const Duration takes = milliseconds(300) + action.placement.load;
    const auto& slices = action.placement.slices;
    const bool fails = bad && std::find(slices.begin(), slices.end(), *bad) != slices.end();
    if (fails || random_.uniform() < chances_.start_fails) {
      later(takes, InstanceEnded{action.instance, {ErrorCode::kUnknown, "it does not start"}});
    } else {
      later(takes, InstanceReady{action.instance});
    }
  }
  void perform(const StopInstance& action) {
    story_.push_back("stop " + std::to_string(action.instance.value));
    if (!instances_.contains(action.instance)) return;
    EXPECT_TRUE(instances_.at(action.instance).jobs.empty());
    EXPECT_FALSE(instances_.at(action.instance).ending) << "it ends by itself";
    instances_.at(action.instance).loaded = false;
    later(milliseconds(20), InstanceEnded{action.instance, {ErrorCode::kCancelled, "stopped"}});
  }
  void perform(const UnloadInstance& action) {
    story_.push_back("unload " + std::to_string(action.instance.value));
    if (!is_there(action.instance)) return;
    Running& running = instances_.at(action.instance);
    EXPECT_TRUE(running.jobs.empty());
    EXPECT_TRUE(running.loaded);
    running.loaded = false;
    later(running.placement.load, InstanceUnloaded{action.instance});
  }
  void perform(const LoadInstance& action) {
    story_.push_back("load " + std::to_string(action.instance.value));
    if (!is_there(action.instance)) return;
    Running& running = instances_.at(action.instance);
    EXPECT_FALSE(running.on_slice);
    expect_slices_free(action.instance, running.placement.slices);
    running.on_slice = true;
    later(running.placement.load, InstanceReady{action.instance});
  }
  void expect_slices_free(InstanceId self, const std::vector<DeviceId>& slices) {
    for (const auto& [id, running] : instances_) {
      if (id == self || !running.on_slice) continue;
      for (const DeviceId each : running.placement.slices) {
        EXPECT_EQ(std::count(slices.begin(), slices.end(), each), 0)
            << "slice " << each.value << " is double-booked";
      }
    }
  }
  void perform(const GiveJob& action) {
    EXPECT_FALSE(action.requests.empty());
    if (const auto there = instances_.find(action.instance); there != instances_.end()) {
      EXPECT_FALSE(there->second.ending) << "a job for an instance that ends";
    }
    if (!is_there(action.instance)) return;
    Running& running = instances_.at(action.instance);
    EXPECT_TRUE(running.loaded) << "a job for an instance that is not loaded";
    for (const InvocationId request : action.requests) {
      EXPECT_FALSE(outcomes_.contains(request)) << "begun after its end";
      EXPECT_EQ(submitted_.at(request), running.function);
    }
    if (action.alone) given_alone_.insert(action.job);
    running.jobs.emplace(action.job, action.requests);
    jobs_.emplace(action.job, action.instance);
    running_requests_ += action.requests.size();
    most_running_ = std::max(most_running_, running_requests_);
    const double factor = pace();
    const auto times = [&](Duration each) { return from_seconds(to_seconds(each) * factor); };
    const pipeline::Placement& placement = running.placement;
    const size_t requests = action.requests.size();
    largest_job_ = std::max(largest_job_, requests);
    const Instant begin = std::max(now_, running.busy_until);
    running.busy_until = begin + times(placement.bottleneck_of(requests));
    const Instant finish =
        std::max(begin + times(placement.latency_of(requests)), running.last_finish);
    running.last_finish = finish;
    if (random_.uniform() < chances_.job_kills) {
      running.ended = true;
      later(milliseconds(1),
            InstanceEnded{action.instance, {ErrorCode::kUnavailable, "it crashed"}});
      return;
    }
    coming_.emplace(finish, JobFinished{action.job, finish - now_});
  }
  void perform(const CompleteRequest& action) {
    EXPECT_TRUE(submitted_.contains(action.request));
    EXPECT_FALSE(outcomes_.contains(action.request)) << "completed twice";
    outcomes_[action.request] = {action.error, now_};
    if (!action.error) served_[submitted_.at(action.request)].push_back(action.request);
  }
  void perform(const WakeAt& action) {
    EXPECT_GE(action.when, now_);
    if (wake_) coming_.erase(*wake_);
    wake_ = coming_.emplace(action.when, TimerFired{});
  }

  const SliceDispatcherOptions options_;
  SliceDispatcher dispatcher_;
  SeededRandom random_;
  HostChances chances_;
  Instant now_{};
  uint32_t last_slice_ = 0;
  uint64_t last_request_ = 0;
  size_t events_ = 0;
  size_t starts_with_replicas_ = 0;
  size_t running_requests_ = 0;
  size_t most_running_ = 0;
  size_t largest_job_ = 0;
  size_t acknowledged_ = 0;  // requests that no full queue may refuse
  std::vector<Action> actions_;
  std::multimap<Instant, Event> coming_;
  std::optional<std::multimap<Instant, Event>::iterator> wake_;  // among them
  std::map<InstanceId, Running> instances_;
  std::map<JobId, InstanceId> jobs_;
  std::set<JobId> given_alone_;
  std::map<InvocationId, FunctionId> submitted_;
  std::map<InvocationId, Outcome> outcomes_;
  std::map<FunctionId, std::vector<InvocationId>> served_;
  std::vector<std::string> story_;
};

}  // namespace lambent::slice_scheduling::testing
