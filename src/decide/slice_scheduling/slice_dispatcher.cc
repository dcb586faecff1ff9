#include "decide/slice_scheduling/slice_dispatcher.h"

#include <algorithm>
#include <string>

#include "core/base/check.h"
#include "core/domain/stopping.h"
#include "decide/slice_scheduling/decision_rules.h"
#include "decide/slice_scheduling/slice_dispatcher_state.h"

namespace lambent::slice_scheduling {
namespace {

// A policy that has more to say after one event than this does not come to an end.
constexpr int kMostRounds = 100'000;

}  // namespace

SliceDispatcher::SliceDispatcher(std::unique_ptr<SlicePolicy> policy,
                                 SliceDispatcherOptions options)
    : state_(std::make_unique<State>(std::move(policy), options)) {}

SliceDispatcher::~SliceDispatcher() = default;

const SliceWorld& SliceDispatcher::world() const { return state_->world; }

std::string_view SliceDispatcher::policy_name() const { return state_->policy->name(); }

uint64_t SliceDispatcher::policy_errors() const { return state_->policy_errors; }

const std::string& SliceDispatcher::last_policy_error() const { return state_->last_policy_error; }

void SliceDispatcher::handle(const Event& event, Instant now, std::vector<Action>& actions) {
  State& state = *state_;
  CHECK(now >= state.now, "time ran backwards");
  state.now = state.world.now = now;
  state.actions = &actions;
  state.roll_window();
  std::visit([&](const auto& each) { state.on(each); }, event);
  if (!state.world.draining) state.decide();
  state.wake();
}

void SliceDispatcher::State::decide() {
  bool again = true;
  bool erred = false;
  const auto err = [&](std::string what) {
    erred = true;
    ++policy_errors;
    last_policy_error = std::string(policy->name()) + " " + std::move(what);
  };
  for (int round = 0; again; ++round) {
    again = false;
    ask_again.reset();
    if (round == kMostRounds) {
      err("does not come to an end");
      break;
    }
    decisions.clear();
    policy->decide(world, now, decisions);
    for (const Decision& decision : decisions) {
      if (const auto possible = validate(world, decision); !possible.ok()) {
        err("decided to " + to_string(decision) + ": " + possible.error().message);
        continue;
      }
      again = again || !std::holds_alternative<AskAgain>(decision);
      std::visit([&](const auto& each) { apply(each); }, decision);
    }
  }
  // It may be wiser when time has passed.
  if (erred) apply(AskAgain{now + options.window});
}

void SliceDispatcher::State::roll_window() {
  const Duration length = now - window_start;
  if (length < options.window) return;
  window_moves = false;
  for (auto& [id, instance] : world.instances) {
    Record& record = records.at(id);
    const Duration done = instance.busy - std::max(Duration::zero(), instance.busy_until - now);
    const Duration busy = done - record.busy_at_window_start;
    record.busy_at_window_start = done;
    instance.utilisation = std::clamp(to_seconds(busy) / to_seconds(length), 0.0, 1.0);
    if (instance.utilisation > 0 || instance.busy_until > now) window_moves = true;
  }
  for (auto& [id, function] : world.functions) {
    const auto count = arrivals.find(id);
    function.arrivals_per_s =
        count == arrivals.end() ? 0 : static_cast<double>(count->second) / to_seconds(length);
    if (function.arrivals_per_s > 0) window_moves = true;
  }
  arrivals.clear();
  ++world.windows;
  window_start = now;
}

void SliceDispatcher::State::wake() {
  std::optional<Instant> wanted;
  if (!world.draining) wanted = ask_again;
  if (window_moves && policy->reads_windows() &&
      (!wanted || window_start + options.window < *wanted)) {
    wanted = window_start + options.window;
  }
  // One that is too early does no harm, and is not worth an action.
  if (!wanted || *wanted == kNever || (wake_at && *wake_at <= *wanted)) return;
  wake_at = std::max(*wanted, now);
  act(WakeAt{*wake_at});
}

void SliceDispatcher::State::on(const TimerFired&) { wake_at.reset(); }

void SliceDispatcher::State::on(const DrainStarted&) {
  world.draining = true;
  ask_again.reset();
  for (auto& [id, function] : world.functions) complete_all_queued(function, stopping_error(true));
  for (auto& [id, instance] : world.instances) retire(instance);
}

void SliceDispatcher::State::on(const SliceAdded& event) {
  SliceState& state = world.slices[event.slice.id];
  state.slice = event.slice;
  state.lost = state.returns = false;
  ++world.slices_version;
}

void SliceDispatcher::State::on(const SliceLost& event) {
  const auto found = world.slices.find(event.slice);
  if (found == world.slices.end()) return;
  SliceState& state = found->second;
  state.lost = true;
  state.returns = event.returns;
  ++world.slices_version;
  std::vector<InstanceId> here = state.sharing;
  if (state.exclusive) here.push_back(*state.exclusive);
  if (here.empty() && !state.stays()) world.slices.erase(found);
  // The host ends them; until then they get no more jobs.
  for (const InstanceId id : here) world.instances.at(id).retiring = true;
}

void SliceDispatcher::State::apply(const AskAgain& decision) {
  if (!ask_again || decision.when < *ask_again) ask_again = decision.when;
}

}  // namespace lambent::slice_scheduling
