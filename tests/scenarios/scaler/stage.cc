#include "tests/scenarios/scaler/stage.h"

#include <algorithm>
#include <cstdio>

namespace lambent::scaler_scenario {

using scenario::in_words;
using scheduling::ScaledInstance;
using scheduling::ScalerStep;

Stage::Stage(const Given& given)
    : given_(given), scaler_(given.shapes(), given.options()), devices_(given.devices()) {
  if (given.shapes().empty()) throw Failure("an instance needs a shape");
}

void Stage::play(Words& words) {
  expect_nothing_untold();
  const Instant at(words.duration());
  if (at < now_) throw Failure("it is " + in_words(now_.time_since_epoch()) + " already");
  now_ = at;
  const std::string event = words.take_any();
  if (event == "calls") {
    const uint64_t count = words.count();
    const Duration every = words.take("every") ? words.duration() : Duration(0);
    for (uint64_t i = 0; i < count; ++i) {
      scaler_.arrived(now_);
      if (i + 1 < count) now_ += every;
    }
  } else if (event == "idle") {
    for (ScaledInstance& one : instances_) {
      if (one.busy) throw Failure("an instance is busy");
    }
    scaler_.idle(now_);
  } else if (event == "busy") {
    named(words.count()).busy = true;
  } else if (event == "rests") {
    ScaledInstance& one = named(words.count());
    one.busy = false;
    one.idle_since = now_;
  } else if (event == "look") {
    look();
  } else {
    throw Failure("there is no event '" + event + "'");
  }
  if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
}

void Stage::look() {
  const ScalerStep step = scaler_.step(instances_, devices_, now_);
  for (const ScalerStep::Start& one : step.starts) start(one);
  for (const uint64_t id : step.stops) stop(id);
  if (step.unserved > 0) {
    char text[64];
    std::snprintf(text, sizeof(text), "unserved %g", step.unserved);
    untold_.emplace_back(text);
  }
  again_ = step.again;
}

void Stage::start(ScalerStep::Start start) {
  devices_of_.push_back(start.device);
  const uint64_t id = devices_of_.size();
  instances_.push_back({.id = id, .shape = start.shape, .busy = false, .idle_since = now_});
  scheduling::ScalerDevice& device = devices_[start.device];
  device.share -= given_.shapes()[start.shape].share;
  device.free -= given_.shapes()[start.shape].memory + device.weights;
  device.weights = Bytes(0);
  untold_.push_back("start instance " + std::to_string(id) + " as " + given_.names()[start.shape] +
                    " on device " + std::to_string(start.device + 1));
}

void Stage::stop(uint64_t id) {
  const ScaledInstance& one = named(id);
  scheduling::ScalerDevice& device = devices_[devices_of_[id - 1]];
  device.share += given_.shapes()[one.shape].share;
  device.free += given_.shapes()[one.shape].memory;
  std::erase_if(instances_, [id](const ScaledInstance& other) { return other.id == id; });
  untold_.push_back("stop instance " + std::to_string(id));
}

void Stage::expect(Words& words) {
  if (words.take("look-again")) {
    const std::string expected = words.take("never") ? "never" : in_words(words.duration());
    const std::string actual = again_ == kNever ? "never" : in_words(again_.time_since_epoch());
    if (actual != expected) throw Failure("it looks again: " + actual);
    return;
  }
  const std::string expected = words.rest();
  if (expected == "nothing") return expect_nothing_untold();
  if (untold_.empty()) throw Failure("nothing more happened");
  const std::string actual = untold_.front();
  if (actual != expected && !actual.starts_with(expected + " ")) {
    throw Failure("what happened: " + actual);
  }
  untold_.pop_front();
}

ScaledInstance& Stage::named(uint64_t id) {
  const auto found = std::ranges::find(instances_, id, &ScaledInstance::id);
  if (found == instances_.end()) throw Failure("there is no instance " + std::to_string(id));
  return *found;
}

void Stage::expect_nothing_untold() const {
  if (untold_.empty()) return;
  throw Failure("before this line, the story does not tell: " + untold_.front());
}

}  // namespace lambent::scaler_scenario
