#include "sim/simulator/faulty_world.h"

#include <algorithm>
#include <utility>

#include "sim/simulator/event_text.h"
#include "sim/simulator/faulty_run.h"

namespace lambent::simulator {

using dispatch::Action;
using dispatch::Event;

namespace {

// No world has come near this many; one that does goes in circles.
constexpr uint64_t kMostEvents = 1'000'000;

}  // namespace

FaultyRun::FaultyRun(const FaultyWorldOptions& options)
    : options_(options),
      scene_(make_faulty_scene(options.seed)),
      random_(~options.seed),
      chances_(random_, options.without),
      dispatcher_(scene_.dispatch, make_policy()),
      invariants_(dispatcher_, invariant_options()) {
  devices_.resize(scene_.dispatch.fleet.devices.size());
  if (scene_.arrivals.size() > options.most_arrivals) {
    scene_.arrivals.resize(options.most_arrivals);
  }
  span_ = scene_.arrivals.empty() ? Duration(0)
                                  : scene_.arrivals.back().at.time_since_epoch() + seconds(5);
}

FaultyWorldResult FaultyRun::run() {
  for (const FaultyScene::Function& function : scene_.functions) {
    give(dispatch::FunctionRegistered{function.profile});
  }
  for (const FaultyScene::Arrival& arrival : scene_.arrivals) {
    timeline_.at(arrival.at, [this, arrival] { arrive(arrival); });
  }
  plan_incidents();
  timeline_.at(Instant(span_), [this] { keep_no_instances(); });
  timeline_.at(Instant(seconds(1)), [this] { read_devices(); });
  while (!invariants_.violation() && !(timeline_.next() == kNever && wake_ == kNever)) {
    if (invariants_.events() > kMostEvents) {
      result_.violation = {Invariant::kEndlessWait, "the world does not come to rest"};
      break;
    }
    step();
  }
  if (!result_.violation) invariants_.check_at_rest();
  if (!result_.violation) result_.violation = invariants_.violation();
  result_.at = timeline_.now();
  result_.faults = chances_.counts();
  result_.policy = scene_.policy;
  result_.events = invariants_.events();
  result_.counters = dispatcher_.counters();
  result_.log_hash = dispatcher_.log_hash();
  return std::move(result_);
}

std::unique_ptr<scheduling::Policy> FaultyRun::make_policy() const {
  if (options_.policy) return options_.policy();
  return std::move(scheduling::make_policy(scene_.policy, scene_.policy_options)).value();
}

InvariantOptions FaultyRun::invariant_options() const {
  InvariantOptions invariants{.limits = scene_.dispatch};
  make_policy()->adapt(invariants.limits.fleet);
  if (scene_.policy.starts_with("mqfq") || scene_.policy == "density") {
    invariants.over_run = scene_.policy_options.mqfq.over_run;
    const bool adapts = scene_.policy == "density" && scene_.policy_options.density.adapts;
    if (adapts) *invariants.over_run *= scheduling::kMostOverRuns;
    invariants.waiting_holds_global = adapts && scene_.policy_options.density.weighs_queue;
  }
  invariants.one_batch_per_function = scene_.policy == "batch";
  invariants.may_idle = scene_.policy == "exclusive";
  if (options_.tell) options_.tell(invariants);
  return invariants;
}

void FaultyRun::step() {
  if (wake_ >= timeline_.next()) return timeline_.run_next();
  timeline_.pass_until(wake_);
  wake_ = kNever;
  give(dispatch::TimerFired{});
}

void FaultyRun::give(const Event& event) {
  std::vector<Action> actions;
  dispatcher_.handle(event, timeline_.now(), actions);
  if (options_.trace_length > 0) trace(event, actions);
  if (options_.distort) {
    std::vector<Action> shown = actions;
    options_.distort(event, shown);
    invariants_.check(event, timeline_.now(), shown);
  } else {
    invariants_.check(event, timeline_.now(), actions);
  }
  if (options_.twin_period > 0) give_twin(event);
  for (const Action& action : actions) {
    std::visit([this](const auto& one) { perform(one); }, action);
  }
}

void FaultyRun::give_twin(const Event& event) {
  const auto make = [this] {
    return std::make_unique<dispatch::Dispatcher>(scene_.dispatch, make_policy());
  };
  if (twin_ == nullptr) twin_ = make();
  std::vector<Action> actions;
  twin_->handle(event, timeline_.now(), actions);
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

void FaultyRun::trace(const Event& event, const std::vector<Action>& actions) {
  char at[32];
  std::snprintf(at, sizeof(at), "%12.6f  ", to_seconds(timeline_.now().time_since_epoch()));
  std::string text = at + in_words(event);
  for (const Action& action : actions) text += "\n                -> " + in_words(action);
  result_.trace.push_back(std::move(text));
  if (result_.trace.size() > options_.trace_length) result_.trace.pop_front();
}

void FaultyRun::report(const Event& event) {
  Duration delay = up_to(random_, milliseconds(2));
  if (chances_.occurs(Fault::kLateMessage)) delay += up_to(random_, seconds(20));
  timeline_.after(delay, [this, event] { give(event); });
  if (!chances_.occurs(Fault::kDuplicateMessage)) return;
  timeline_.after(delay + up_to(random_, seconds(30)), [this, event] { give(event); });
}

void FaultyRun::perform(const dispatch::WakeAt& action) {
  wake_ = action.instant;
  if (wake_ != kNever && chances_.occurs(Fault::kLateTimer)) wake_ += up_to(random_, seconds(5));
}

FaultyWorldResult run_faulty_world(const FaultyWorldOptions& options) {
  return FaultyRun(options).run();
}

}  // namespace lambent::simulator
