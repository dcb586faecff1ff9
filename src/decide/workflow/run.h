// Run: one run of a workflow as a state machine: it says which calls to make, takes how they end,
// and gives the outcome once. Pure: no clock, no thread, nothing called; driven by the worker on
// the loop thread, and by tests.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "decide/workflow/graph.h"
#include "decide/workflow/limits.h"
#include "decide/workflow/reference.h"

namespace lambent::workflow {

// One call of a run: a component, and which element of its for_each.
struct CallKey {
  uint32_t component = 0;
  std::optional<uint32_t> element;

  auto operator<=>(const CallKey&) const = default;
};

struct Call {
  CallKey key;
  unsigned attempt = 1;
  Value input;
};

// Why a call or a run failed.
struct Failure {
  std::string message;
  std::string type;  // as Lambda's errorType
  ErrorCode code = ErrorCode::kUnknown;
  // The place where it ran failed (its sandbox or executor), not what ran there.
  bool of_place = false;
  // What was called has no effect but its answer, so that it may be called again whatever the
  // component says.
  bool without_effects = false;
  // Calls of the run whose results are gone, and were among what this one was called with.
  std::vector<CallKey> lost = {};

  bool operator==(const Failure&) const = default;
};

struct CallResult {
  Value value;
  Bytes size;  // as it lies in memory (memory_of)
};
using CallEnd = std::variant<CallResult, Failure>;
using RunOutcome = std::variant<Value, Failure>;

struct RunLimits {
  size_t fan_out = limits::kFanOut;
  size_t in_flight = limits::kCallsInFlight;
  unsigned attempts = limits::kAttempts;
  Bytes values = limits::kValues;
};

// What to do now: this call, then next() if there is more, and with the outcome nothing.
struct RunStep {
  std::optional<Call> call;
  bool more = false;
  std::optional<RunOutcome> outcome;
};

class Run {
 public:
  // `name` is what failures call the workflow. Shared: the function may be deployed again while it
  // runs.
  Run(std::shared_ptr<const Workflow> workflow, std::string name, RunLimits limits = {});

  // First and once.
  RunStep start(CallResult input);
  // Goes on after a step that said there is more. One step is little work, so that others have
  // their turns between two.
  RunStep next() { return advance(); }
  // A call that a step asked for ended. After the outcome the ends of what still ran may come or
  // not: nothing follows from them.
  RunStep ended(const CallKey& key, CallEnd end);

  // The input of a call that a step asked for and that has not ended, once more.
  Result<Value> input_of(const CallKey& key) const;

  bool over() const { return over_; }
  // Of a run that has started: whether the component's calls are made, or will not be; whether they
  // have ended; and of how many components they have not.
  bool has_begun(uint32_t component) const { return progress_[component].begun; }
  bool has_ended(uint32_t component) const { return results_[component] != nullptr; }
  size_t unfinished() const { return unfinished_; }
  const Workflow& workflow() const { return *workflow_; }
  // "faces[3]".
  std::string label(const CallKey& key) const;
  // Of all values that it keeps.
  Bytes size() const { return size_; }

 private:
  struct Progress {
    uint32_t missing = 0;  // of its needs
    uint32_t left = 0;     // calls that have not ended
    bool begun = false;
    Value result;  // filled in bit by bit
    // Of the for_each: within the input or a result, which stay as they are, or made for it.
    const Value* items = nullptr;
    Value made_items;
    std::vector<uint32_t> needed_by;
  };
  struct Pending {
    CallKey key;
    unsigned attempt = 1;
  };

  // A component whose elements are being looked at, whether they are wanted.
  struct Selection {
    uint32_t component = 0;
    uint32_t next = 0;              // element
    std::optional<Condition> when;  // with what is the same for all elements filled in
  };

  // A number and what it is as a value, so that a scope can point at both.
  struct Element;

  RunStep advance();
  // These fail the run where something is wrong.
  void begin(uint32_t number);
  void begin_elements(uint32_t number);
  void select_element();
  bool may_call() const { return !pending_.empty() && running_.size() < limits_.in_flight; }
  void finish(uint32_t number);
  void fill(RunStep& step);
  // Whether the call is made again for what it failed of; first, what made the results that it
  // lost.
  bool tries_again(const CallKey& key, unsigned attempt, const Failure& failure);
  void made_again(const CallKey& key, CallResult result);
  // The list of a for_each; `made` holds it where it lies nowhere.
  Result<const Value*> items_of(uint32_t component, Value& made) const;
  void give_output();

  Scope scope_of(const Element& element) const;
  Result<bool> is_wanted(const CallKey& key, const Condition& when) const;
  // False: it was one too many, and the run has failed.
  bool keep(const CallKey& key, Bytes size);
  void fail(const CallKey& key, Failure failure);
  void fail(const CallKey& key, const Error& error);
  void conclude(RunOutcome outcome);

  const std::shared_ptr<const Workflow> workflow_;
  const std::string name_;
  const RunLimits limits_;
  std::vector<std::string> names_;
  Value input_;
  std::vector<Progress> progress_;
  std::vector<const Value*> results_;  // of those that ended
  std::deque<uint32_t> ready_;         // all that they need is there
  std::optional<Selection> selection_;
  std::deque<Pending> pending_;                        // calls that wait for their turn
  std::vector<std::pair<CallKey, unsigned>> running_;  // with their attempt
  // Calls that are made again because others lost their results, and those others, each with what
  // it still lacks.
  std::set<CallKey> making_again_;
  std::vector<std::pair<Pending, std::set<CallKey>>> lacking_;
  size_t unfinished_ = 0;
  Bytes size_;
  bool over_ = false;
  std::optional<RunOutcome> outcome_;  // until it was given
};

}  // namespace lambent::workflow
