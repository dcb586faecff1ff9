// Stage: plays a workflow scenario on a Run, and compares the calls that it makes and its outcome
// with what the story expects. Used by the runner; one thread.
#pragma once

#include <deque>
#include <map>
#include <string>

#include "core/base/time.h"
#include "decide/workflow/run.h"
#include "tests/scenarios/words.h"
#include "tests/scenarios/workflows/given.h"

namespace lambent::workflow_scenario {

class Stage {
 public:
  explicit Stage(const Given& given);

  // "at TIME EVENT ...": every call until then must have been expected.
  void play(Words& words);
  // "expect ..."
  void expect(Words& words);
  // Every call was expected, and the run has its outcome.
  void end() const;

 private:
  void play_end(const std::string& label, Words& words);
  void take(workflow::RunStep step);
  void expect_nothing_untold() const;
  std::string describe(const workflow::Call& call) const;
  std::string describe(const workflow::RunOutcome& outcome) const;

  workflow::Run run_;
  std::map<std::string, workflow::CallKey> calls_;  // that have not ended, by their label
  std::deque<std::string> untold_;                  // not expected yet
  bool started_ = false;
  Instant started_at_{};
  Instant now_{};
};

}  // namespace lambent::workflow_scenario
