#include "tests/scenarios/batches/stage.h"

namespace lambent::batch_scenario {

using scenario::in_words;

// size 8 | wait 5ms | slo 20ms | calls 4 | payload 1MiB | waiting 10
bool Given::read(Words& words) {
  if (!words.take("batches")) return false;
  while (!words.done()) {
    if (words.take("size")) {
      limits_.batch.most_elements = words.count();
    } else if (words.take("wait")) {
      limits_.batch.most_wait = words.duration();
    } else if (words.take("slo")) {
      limits_.batch.slo = words.duration();
    } else if (words.take("calls")) {
      limits_.calls = words.count();
    } else if (words.take("payload")) {
      limits_.payload = words.bytes();
    } else if (words.take("waiting")) {
      limits_.waiting = words.count();
    } else {
      throw Failure("'" + words.take_any() + "' has no meaning here");
    }
  }
  return true;
}

void Stage::play(Words& words) {
  const Instant at(words.duration());
  if (at < now_) throw Failure("it is " + in_words(now_.time_since_epoch()) + " already");
  pass_until(at);
  expect_nothing_untold();
  now_ = at;
  if (words.take("call")) {
    play_call(words);
  } else if (words.take("gone")) {
    const std::string name = words.take_any();
    if (!queue_.remove(ids_.at(name))) throw Failure(name + " does not wait");
  } else if (words.take("ended")) {
    if (!queue_.is_running()) throw Failure("nothing runs");
    queue_.ended(now_, !words.take("one-by-one"));
  } else {
    throw Failure("events are call, gone and ended");
  }
  if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
  begin();
}

// call NAME ... [elements 2] [by-itself] [payload 1KiB] [waits since 2ms]
void Stage::play_call(Words& words) {
  batching::QueuedCall call{.since = now_, .elements = 1};
  std::vector<std::string> made;
  while (!words.done()) {
    if (words.take("elements")) {
      call.elements = words.count();
    } else if (words.take("by-itself")) {
      call.elements = 0;
    } else if (words.take("payload")) {
      call.payload = words.bytes();
    } else if (words.take("waits")) {
      words.expect("since");
      call.since = Instant(words.duration());
    } else {
      made.push_back(words.take_any());
    }
  }
  for (const std::string& name : made) {
    call.id = {1, ids_.size() + 1};
    if (!ids_.emplace(name, call.id).second) throw Failure(name + " is called twice");
    names_[call.id] = name;
    if (!queue_.add(call)) untold_.push_back("alone " + name);
  }
}

void Stage::pass_until(Instant time) {
  while (again_ && *again_ <= time) {
    now_ = *again_;
    begin();
  }
}

void Stage::begin() {
  const auto next = queue_.next(now_);
  again_ = next.again;
  if (next.calls.empty()) return;
  std::string run = "run";
  for (const InvocationId call : next.calls) run += " " + names_.at(call);
  untold_.push_back(run + " at " + in_words(now_.time_since_epoch()));
}

// The line is compared with what happened in words; the story may leave out its last words.
void Stage::expect(Words& words) {
  const std::string expected = words.rest();
  if (expected == "nothing") return expect_nothing_untold();
  if (untold_.empty() && again_) pass_until(*again_);
  if (untold_.empty()) throw Failure("nothing more happened");
  const std::string actual = untold_.front();
  if (actual != expected && !actual.starts_with(expected + " at ")) {
    throw Failure("what happened: " + actual);
  }
  untold_.pop_front();
}

void Stage::end() const {
  expect_nothing_untold();
  if (!queue_.is_idle()) throw Failure("the story ends before the calls");
}

void Stage::expect_nothing_untold() const {
  if (untold_.empty()) return;
  throw Failure("before this line, the story does not tell: " + untold_.front());
}

}  // namespace lambent::batch_scenario
