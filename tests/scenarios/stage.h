// Stage: plays the events of a scenario on a Dispatcher and holds what it did against what the
// story expects. Used by the runner.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "decide/dispatch/dispatcher.h"
#include "tests/scenarios/given.h"
#include "tests/scenarios/words.h"

namespace lambent::scenario {

class Stage {
 public:
  explicit Stage(const Given& given);

  // "at TIME EVENT ..."; every action of the events before must have been expected.
  void play(Words& words);
  // "expect ..."
  void expect(Words& words);
  // Fails if an action is left that the story does not tell.
  void expect_nothing_more() const;

 private:
  void play_submit(Words& words);
  void play_moved(Words& words);
  void give(const dispatch::Event& event);
  bool expect_state(Words& words);
  void expect_action(Words& words);

  // An action in the words of the scenario language, WakeAt aside.
  std::string describe(const dispatch::Action& action) const;
  dispatch::FunctionProfile& function(const std::string& name);
  std::string name_of_function(FunctionId id) const;
  dispatch::TenantChanged& tenant(const std::string& name);
  void expect_tenant(Words& words);
  InvocationId invocation(const std::string& name) const;
  std::string name_of_invocation(InvocationId id) const;

  std::map<std::string, dispatch::FunctionProfile> functions_;
  std::map<std::string, dispatch::TenantChanged> tenants_;
  std::unique_ptr<dispatch::Dispatcher> dispatcher_;
  std::map<std::string, InvocationId> invocations_;
  std::map<InvocationId, std::string> names_;
  std::deque<dispatch::Action> actions_;  // not expected yet
  Instant wake_ = kNever;
  Instant now_{};
};

}  // namespace lambent::scenario
