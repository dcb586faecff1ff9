#include "tests/scenarios/workflows/stage.h"

namespace lambent::workflow_scenario {

using scenario::in_words;
using workflow::Call;
using workflow::CallEnd;
using workflow::CallResult;
using workflow::RunOutcome;
using workflow::RunStep;

namespace {

constexpr const char* kWith = " with ";

// What comes after "with" is a value: its spaces and the order of its keys do not matter.
std::string with_value_in_order(const std::string& text) {
  const bool has_value = text.starts_with("call ") || text.starts_with("succeeded ");
  const size_t with = has_value ? text.find(kWith) : std::string::npos;
  if (with == std::string::npos) return text;
  const size_t value = with + std::string(kWith).size();
  return text.substr(0, value) + workflow::to_text(value_of(text.substr(value)));
}

CallResult result_of(Value value) {
  const Bytes size = workflow::memory_of(value);
  return {std::move(value), size};
}

}  // namespace

Stage::Stage(const Given& given) : run_(given.workflow(), given.name(), given.limits()) {}

void Stage::play(Words& words) {
  expect_nothing_untold();
  const Instant at(words.duration());
  if (at < now_) throw Failure("it is " + in_words(now_.time_since_epoch()) + " already");
  now_ = at;
  const std::string subject = words.take_any();
  if (subject == "start") {
    words.expect("with");
    if (std::exchange(started_, true)) throw Failure("the run was started already");
    started_at_ = now_;
    take(run_.start(result_of(value_of(words.rest()))));
  } else {
    play_end(subject, words);
  }
  if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
}

// LABEL returns VALUE | LABEL raises TYPE saying MESSAGE | LABEL crashes [without-effects]
void Stage::play_end(const std::string& label, Words& words) {
  const auto found = calls_.find(label);
  if (found == calls_.end()) throw Failure("no call '" + label + "' is under way");
  CallEnd end;
  if (words.take("returns")) {
    end = result_of(value_of(words.rest()));
  } else if (words.take("raises")) {
    workflow::Failure failure{.type = words.take_any()};
    words.expect("saying");
    failure.message = words.rest();
    end = failure;
  } else if (words.take("crashes")) {
    end = workflow::Failure{.message = "the sandbox died",
                            .type = "Runtime.ExitError",
                            .code = ErrorCode::kInternal,
                            .of_place = true,
                            .without_effects = words.take("without-effects")};
  } else {
    throw Failure("a call returns, raises or crashes");
  }
  const workflow::CallKey key = found->second;
  calls_.erase(found);
  take(run_.ended(key, std::move(end)));
}

void Stage::take(RunStep step) {
  for (;; step = run_.next()) {
    if (step.call) {
      const std::string label = run_.label(step.call->key);
      if (!calls_.emplace(label, step.call->key).second) throw Failure(label + " is called twice");
      untold_.push_back(describe(*step.call));
    }
    if (step.outcome) untold_.push_back(describe(*step.outcome));
    if (!step.more) return;
  }
}

// The line is compared with what happened in words; the story may leave out its last words.
void Stage::expect(Words& words) {
  const std::string expected = with_value_in_order(words.rest());
  if (expected == "nothing") return expect_nothing_untold();
  if (untold_.empty()) throw Failure("nothing more happened");
  const std::string actual = untold_.front();
  if (actual != expected && !actual.starts_with(expected + " ")) {
    throw Failure("what happened: " + actual);
  }
  untold_.pop_front();
}

void Stage::end() const {
  expect_nothing_untold();
  if (!run_.over()) throw Failure("the story ends before the run");
}

void Stage::expect_nothing_untold() const {
  if (untold_.empty()) return;
  throw Failure("before this line, the story does not tell: " + untold_.front());
}

std::string Stage::describe(const Call& call) const {
  return "call " + run_.label(call.key) + " of " +
         run_.workflow().components[call.key.component].function +
         (call.attempt > 1 ? " attempt " + std::to_string(call.attempt) : "") + kWith +
         workflow::to_text(call.input);
}

std::string Stage::describe(const RunOutcome& outcome) const {
  const std::string after = " after " + in_words(now_ - started_at_);
  if (const auto* failure = std::get_if<workflow::Failure>(&outcome)) {
    return "failed" + after + " " + failure->type + " saying " + failure->message;
  }
  return "succeeded" + after + kWith + workflow::to_text(std::get<Value>(outcome));
}

}  // namespace lambent::workflow_scenario
