// Stage: plays a scaler scenario, and compares what is started and stopped with what the story
// expects. Used by the runner; one thread.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "tests/scenarios/scaler/given.h"

namespace lambent::scaler_scenario {

class Stage {
 public:
  explicit Stage(const Given& given);

  // "at TIME EVENT ...": whatever was decided until then must have been expected.
  void play(Words& words);
  // "expect ..."
  void expect(Words& words);
  // Everything was expected.
  void end() const { expect_nothing_untold(); }

 private:
  void look();
  void start(scheduling::ScalerStep::Start start);
  void stop(uint64_t instance);
  scheduling::ScaledInstance& named(uint64_t id);
  void expect_nothing_untold() const;

  const Given given_;
  scheduling::InflessScaler scaler_;
  std::vector<scheduling::ScaledInstance> instances_;
  std::vector<uint32_t> devices_of_;  // by instance, from 1
  std::vector<scheduling::ScalerDevice> devices_;
  std::deque<std::string> untold_;  // not expected yet
  Instant now_{};
  Instant again_ = kNever;
};

}  // namespace lambent::scaler_scenario
