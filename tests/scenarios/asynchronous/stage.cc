#include "tests/scenarios/asynchronous/stage.h"

namespace lambent::asynchronous_scenario {

using asynchronous::End;
using asynchronous::FollowUp;
using scenario::in_words;

namespace {

End read_end(Words& words) {
  if (words.take("succeeds")) return End::kSucceeded;
  if (words.take("fails")) return End::kFailed;
  words.expect("is");
  if (words.take("put-off")) return End::kPutOff;
  if (words.take("refused")) return End::kRefused;
  if (words.take("too-old")) return End::kExpired;
  words.expect("cancelled");
  return End::kCancelled;
}

}  // namespace

void Stage::play(Words& words) {
  if (untold_) throw Failure("before this line, the story does not tell: " + *untold_);
  const Duration at = words.duration();
  if (at < now_) throw Failure("it is " + in_words(now_) + " already");
  if (over_) throw Failure("it is over");
  now_ = at;
  const End end = read_end(words);
  if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
  if (at < due_ && end != End::kCancelled) {
    throw Failure("its next run is due at " + in_words(due_));
  }
  const FollowUp follow_up = decide(end, {.runs = runs_, .put_off = put_off_, .age = now_}, rules_);
  put_off_ = follow_up.runs == runs_ ? put_off_ + 1 : 0;
  runs_ = follow_up.runs;
  over_ = !follow_up.again_in;
  if (follow_up.again_in) due_ = now_ + *follow_up.again_in;
  untold_ = describe(follow_up);
}

// "run 2 at 60s" | "over after 3 runs, RetriesExhausted, alarm is told"
std::string Stage::describe(const FollowUp& follow_up) const {
  if (follow_up.again_in) {
    return "run " + std::to_string(runs_ + 1) + " at " + in_words(due_);
  }
  std::string text = "over after " + std::to_string(runs_) + (runs_ == 1 ? " run" : " runs");
  if (!follow_up.condition) return text + ", cancelled";
  text += ", " + std::string(name_of(*follow_up.condition));
  const std::string& name = destination_of(settings_, *follow_up.condition);
  if (name.empty()) return text;
  return text + ", " + name + (asynchronous::may_lead_on(chain_) ? " is told" : " ends the chain");
}

void Stage::expect(Words& words) {
  const std::string expected = words.rest();
  if (!untold_) throw Failure("nothing more happened");
  if (*untold_ != expected) throw Failure("what happened: " + *untold_);
  untold_.reset();
}

void Stage::end() const {
  if (untold_) throw Failure("the story does not tell: " + *untold_);
  if (!over_) throw Failure("the story ends before the invocation");
}

}  // namespace lambent::asynchronous_scenario
