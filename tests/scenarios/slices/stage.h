// Stage: plays a slice scenario on a SliceDispatcher over the simulated machine, and compares each
// action with what the story expects. Used by the runner; one thread.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decide/slice_scheduling/slice_dispatcher.h"
#include "sim/slice_simulator/machine.h"
#include "tests/scenarios/slices/given.h"
#include "tests/scenarios/words.h"

namespace lambent::slice_scenario {

class Stage {
 public:
  explicit Stage(const Given& given);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // "at TIME EVENT ...": the clock runs to then. Every action until then must have been expected.
  void play(Words& words);
  // "expect ...": the clock runs to the next action.
  void expect(Words& words);
  // Every action was expected, and every request has its outcome.
  void end() const;

 private:
  struct Told {
    Instant at{};
    std::string words;
  };
  struct Request {
    std::string name;
    FunctionId function;
    Instant submitted{};
    bool completed = false;
  };

  void play_request(Words& words);
  void play_fault(Words& words, slice_simulator::Fault::Kind kind);
  void put(FunctionId function);

  void run_until(Instant until);
  void run_to_next_action();
  bool step(Instant until);
  void handle(const slice_scheduling::Event& event, Instant now);

  void expect_nothing(Words& words);
  void expect_action(Words& words, std::optional<Instant> at);
  bool expect_state(Words& words);
  void expect_nothing_untold() const;

  // An action in the words of the scenario language; empty for a wake-up.
  std::string describe(const slice_scheduling::Action& action, Instant now);
  std::string describe(const slice_scheduling::StartInstance& start) const;
  std::string describe(const slice_scheduling::CompleteRequest& complete, Instant now);
  std::string state_of_slice(DeviceId slice) const;
  std::string state_of_instance(slice_scheduling::InstanceId instance) const;
  const pipeline::PipelineFunction& function(FunctionId id) const;
  FunctionId function(const std::string& name) const;
  std::string name_of(FunctionId id) const;
  DeviceId slice(Words& words) const;

  const std::map<std::string, FunctionId> functions_;
  const slice_simulator::Scene scene_;
  slice_scheduling::SliceDispatcher dispatcher_;
  slice_simulator::Machine machine_;
  std::map<InvocationId, Request> requests_;
  std::deque<Told> untold_;  // not expected yet
  Instant now_{};
  Instant wake_ = kNever;
};

}  // namespace lambent::slice_scenario
