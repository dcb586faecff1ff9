// Stage: the life of one asynchronous invocation, as a scenario tells it: how its runs end, and
// what follows. It is submitted at 0s. Used by the runner; one thread.
#pragma once

#include <optional>
#include <string>

#include "tests/scenarios/asynchronous/given.h"

namespace lambent::asynchronous_scenario {

class Stage {
 public:
  explicit Stage(const Given& given)
      : rules_(given.rules()), settings_(given.settings()), chain_(given.chain()) {}

  void play(Words& words);
  void expect(Words& words);
  void end() const;

 private:
  std::string describe(const asynchronous::FollowUp& follow_up) const;

  const asynchronous::Rules rules_;
  const AsyncSettings settings_;
  const unsigned chain_;
  Duration now_{};
  Duration due_{};  // of its next run
  unsigned runs_ = 0;
  unsigned put_off_ = 0;
  bool over_ = false;
  std::optional<std::string> untold_;
};

}  // namespace lambent::asynchronous_scenario
