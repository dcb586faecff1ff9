#include "tests/scenarios/asynchronous/given.h"

namespace lambent::asynchronous_scenario {

bool Given::read(Words& words) {
  if (words.take("worker")) {
    if (words.take("retries")) {
      of_worker_.retries = static_cast<unsigned>(words.count());
    } else {
      words.expect("retry-delay");
      of_worker_.first_delay = words.duration();
    }
  } else if (words.take("retries")) {
    settings_.retries = static_cast<double>(words.count());
  } else if (words.take("max-age")) {
    settings_.max_age_s = to_seconds(words.duration());
  } else if (words.take("on-success")) {
    settings_.on_success = words.take_any();
  } else if (words.take("on-failure")) {
    settings_.on_failure = words.take_any();
  } else if (words.take("after")) {
    chain_ = static_cast<unsigned>(words.count());
    words.expect("destinations");
  } else {
    return false;
  }
  if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
  return true;
}

}  // namespace lambent::asynchronous_scenario
