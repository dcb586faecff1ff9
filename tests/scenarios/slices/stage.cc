#include "tests/scenarios/slices/stage.h"

#include <algorithm>

#include "decide/slice_scheduling/slice_wait.h"

namespace lambent::slice_scenario {

using scenario::in_words;
using slice_scheduling::Action;
using slice_scheduling::InstanceId;
using slice_simulator::Fault;

namespace {

// How long the clock runs for the next action before there is none.
constexpr Duration kLongestWait = std::chrono::hours(1);

std::string in_words_at(Instant instant) { return in_words(instant.time_since_epoch()); }

}  // namespace

Stage::Stage(const Given& given)
    : functions_(given.functions()),
      scene_(given.scene()),
      dispatcher_(given.policy(), {}),
      machine_(scene_,
               [this](const slice_scheduling::Event& event, Instant now) { handle(event, now); }) {
  for (const Slice& slice : scene_.slices) handle(slice_scheduling::SliceAdded{slice}, now_);
  for (const auto& function : scene_.functions) put(function->id);
}

void Stage::play(Words& words) {
  const Instant at(words.duration());
  if (at < now_) throw Failure("it is " + in_words_at(now_) + " already");
  run_until(at);
  expect_nothing_untold();
  const std::string verb = words.take_any();
  if (verb == "request") {
    play_request(words);
  } else if (verb == "cancel") {
    const std::string name = words.take_any();
    const auto found =
        std::ranges::find_if(requests_, [&](const auto& each) { return each.second.name == name; });
    if (found == requests_.end()) throw Failure("there is no request '" + name + "'");
    handle(slice_scheduling::RequestCancelled{found->first}, now_);
  } else if (verb == "crash") {
    words.expect("on");
    play_fault(words, Fault::Kind::kInstanceDeath);
  } else if (verb == "lose") {
    play_fault(words, Fault::Kind::kSliceLost);
  } else if (verb == "return") {
    play_fault(words, Fault::Kind::kSliceBack);
  } else if (verb == "redeploy") {
    put(function(words.take_any()));
  } else if (verb == "remove") {
    handle(slice_scheduling::FunctionRemoved{function(words.take_any())}, now_);
  } else if (verb == "drain") {
    handle(slice_scheduling::DrainStarted{}, now_);
  } else {
    throw Failure("'" + verb + "' is no event");
  }
  if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
}

// request F [xN] as NAME
void Stage::play_request(Words& words) {
  const FunctionId id = function(words.take_any());
  uint64_t times = 1;
  const bool numbered = !words.next_is("as");
  if (numbered) {
    const std::string word = words.take_any();
    if (word[0] != 'x') throw Failure("'" + word + "' has no meaning here");
    times = Words(word.substr(1)).count();
  }
  words.expect("as");
  const std::string base = words.take_any();
  for (uint64_t i = 1; i <= times; ++i) {
    const std::string name = numbered ? base + std::to_string(i) : base;
    for (const auto& [other, request] : requests_) {
      if (request.name == name) throw Failure("there is a request '" + name + "' already");
    }
    const InvocationId request{0, requests_.size() + 1};
    requests_[request] = {name, id, now_};
    handle(slice_scheduling::RequestSubmitted{request, id}, now_);
  }
}

void Stage::play_fault(Words& words, Fault::Kind kind) {
  words.expect("slice");
  machine_.inject({now_, kind, slice(words)}, now_);
}

void Stage::put(FunctionId id) {
  const auto found = std::ranges::find_if(scene_.functions,
                                          [&](const auto& function) { return function->id == id; });
  handle(slice_scheduling::FunctionPut{*found, true}, now_);
}

void Stage::run_until(Instant until) {
  while (step(until)) {
  }
  now_ = std::max(now_, until);
}

void Stage::run_to_next_action() {
  const Instant until = now_ + kLongestWait;
  while (untold_.empty() && step(until)) {
  }
}

// Lets happen what happens next; false: nothing does until then.
bool Stage::step(Instant until) {
  const Instant next = std::min(machine_.next(), wake_);
  if (next > until || next == kNever) return false;
  now_ = std::max(now_, next);
  if (wake_ <= now_) {
    wake_ = kNever;
    handle(slice_scheduling::TimerFired{}, now_);
  }
  machine_.run_until(now_);
  return true;
}

void Stage::handle(const slice_scheduling::Event& event, Instant now) {
  std::vector<Action> actions;
  dispatcher_.handle(event, now, actions);
  for (const Action& action : actions) {
    if (const auto* wake = std::get_if<slice_scheduling::WakeAt>(&action)) {
      wake_ = std::max(wake->when, now);
    } else {
      untold_.push_back({now, describe(action, now)});
    }
    machine_.perform(action, now);
  }
  if (dispatcher_.policy_errors() > 0) {
    throw Failure("the policy decided what cannot be: " + dispatcher_.last_policy_error());
  }
  if (!machine_.impossible().empty()) {
    throw Failure("no machine can do this: " + machine_.impossible().front());
  }
}

void Stage::expect(Words& words) {
  std::optional<Instant> at;
  if (words.take("at")) at = Instant(words.duration());
  if (!at && words.take("nothing")) return expect_nothing(words);
  if (!at && expect_state(words)) {
    if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
    return;
  }
  expect_action(words, at);
}

// nothing [until TIME]
void Stage::expect_nothing(Words& words) {
  if (words.take("until")) {
    const Instant until(words.duration());
    if (until <= now_) throw Failure("it is " + in_words_at(now_) + " already");
    run_until(until);
  }
  if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
  if (untold_.empty()) return;
  throw Failure("what happened at " + in_words_at(untold_.front().at) + ": " +
                untold_.front().words);
}

// The line is compared with the action in words; the story may leave out its last words.
void Stage::expect_action(Words& words, std::optional<Instant> at) {
  std::string expected = words.take_any();
  while (!words.done()) expected += " " + words.take_any();
  run_to_next_action();
  if (untold_.empty()) throw Failure("nothing more happens");
  const Told told = untold_.front();
  const bool same_words = told.words == expected || told.words.starts_with(expected + " ");
  const bool same_time = !at || in_words_at(*at) == in_words_at(told.at);
  if (!same_words || !same_time) {
    throw Failure("what happened at " + in_words_at(told.at) + ": " + told.words);
  }
  untold_.pop_front();
}

bool Stage::expect_state(Words& words) {
  std::string actual;
  if (words.take("slice")) {
    actual = state_of_slice(slice(words));
  } else if (words.take("instance")) {
    actual = state_of_instance(InstanceId(words.count()));
  } else if (words.take("queued")) {
    const auto* state = dispatcher_.world().find(function(words.take_any()));
    actual = std::to_string(state == nullptr ? 0 : state->queue.size());
  } else if (words.take("waits")) {
    const auto* state = dispatcher_.world().find(function(words.take_any()));
    if (state == nullptr) throw Failure("this function was removed");
    actual = slice_scheduling::name_of(wait_of(dispatcher_.world(), *state).reason);
  } else {
    return false;
  }
  std::string expected = words.take_any();
  while (!words.done()) expected += " " + words.take_any();
  if (actual != expected) throw Failure("it is " + actual);
  return true;
}

void Stage::end() const {
  expect_nothing_untold();
  for (const auto& [id, request] : requests_) {
    if (!request.completed) throw Failure("the story ends before request " + request.name);
  }
}

void Stage::expect_nothing_untold() const {
  if (untold_.empty()) return;
  throw Failure("before this line, the story does not tell what happened at " +
                in_words_at(untold_.front().at) + ": " + untold_.front().words);
}

}  // namespace lambent::slice_scenario
