#include "decide/workflow/run.h"

#include <map>
#include <random>
#include <set>

#include "decide/workflow/testing/testing.h"

namespace lambent::workflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// A run, and what it asked for.
class Driver {
 public:
  Driver(std::shared_ptr<const Workflow> workflow, const Value& input, RunLimits limits = {})
      : run(std::move(workflow), "traffic", limits) {
    take(run.start({input, Bytes(10)}));
  }

  std::vector<std::string> open() const {
    std::vector<std::string> labels;
    for (const Call& call : calls) labels.push_back(run.label(call.key));
    return labels;
  }
  void end(const std::string& label, CallEnd end) {
    const auto found = std::find_if(calls.begin(), calls.end(),
                                    [&](const Call& call) { return run.label(call.key) == label; });
    ASSERT_NE(found, calls.end()) << label;
    const CallKey key = found->key;
    calls.erase(found);
    take(run.ended(key, std::move(end)));
  }
  void answer(const std::string& label, Value value) {
    end(label, CallResult{std::move(value), Bytes(10)});
  }
  void fail(const std::string& label, Failure failure) { end(label, std::move(failure)); }
  std::string input_of(const std::string& label) const {
    for (const Call& call : calls) {
      if (run.label(call.key) == label) return to_text(call.input);
    }
    return "no such call";
  }
  std::string output() const {
    return outcome && std::holds_alternative<Value>(*outcome) ? to_text(std::get<Value>(*outcome))
                                                              : "none";
  }
  Failure failure() const {
    return outcome && std::holds_alternative<Failure>(*outcome) ? std::get<Failure>(*outcome)
                                                                : Failure{};
  }

  Run run;
  std::vector<Call> calls;
  std::optional<RunOutcome> outcome;
  int outcomes = 0;
  size_t steps = 0;

 private:
  void take(RunStep step) {
    for (;; step = run.next()) {
      ++steps;
      if (step.call) calls.push_back(std::move(*step.call));
      if (step.outcome) {
        outcome = std::move(step.outcome);
        ++outcomes;
      }
      if (!step.more) return;
    }
  }
};

const Failure kDied{.message = "the sandbox died",
                    .type = "Runtime.ExitError",
                    .code = ErrorCode::kInternal,
                    .of_place = true};
const Failure kRaised{.message = "ValueError: seven", .type = "ValueError"};

constexpr const char* kDiamond = R"(
  {"name": "a", "function": "f", "input": {"n": "$input.n"}},
  {"name": "b", "function": "f", "input": "$a"},
  {"name": "c", "function": "f", "input": ["$a.x", 1]},
  {"name": "d", "function": "f", "input": {"b": "$b", "c": "$c"}})";

TEST(Run, ComponentsBeginWhenWhatTheyNeedHasEnded) {
  Driver run(workflow_of(kDiamond), {{"n", 5}});
  EXPECT_THAT(run.open(), ElementsAre("a"));
  EXPECT_EQ(run.input_of("a"), R"({"n":5})");
  run.answer("a", {{"x", 6}});
  EXPECT_THAT(run.open(), ElementsAre("b", "c"));
  EXPECT_EQ(run.input_of("c"), "[6,1]");
  run.answer("c", "from c");
  EXPECT_THAT(run.open(), ElementsAre("b"));
  run.answer("b", nullptr);
  EXPECT_EQ(run.input_of("d"), R"({"b":null,"c":"from c"})");
  run.answer("d", {1, 2});
  EXPECT_EQ(run.output(), "[1,2]");
  EXPECT_EQ(run.outcomes, 1);
  EXPECT_TRUE(run.run.over());
}

constexpr const char* kFaces = R"(
  {"name": "detect", "function": "f"},
  {"name": "faces", "function": "g", "for_each": "$detect.boxes",
   "input": {"box": "$item", "n": "$index"}})";

TEST(Run, AListThatIsKnownOnlyThenBecomesOneCallForEachElement) {
  Driver run(workflow_of(kFaces, R"({"all": "$faces", "second": "$faces[1]"})"), nullptr);
  run.answer("detect", {{"boxes", {"x", "y", "z"}}});
  EXPECT_THAT(run.open(), ElementsAre("faces[0]", "faces[1]", "faces[2]"));
  EXPECT_EQ(run.input_of("faces[1]"), R"({"box":"y","n":1})");
  run.answer("faces[2]", 2);
  run.answer("faces[0]", 0);
  run.answer("faces[1]", 1);
  EXPECT_EQ(run.output(), R"({"all":[0,1,2],"second":1})");
}

TEST(Run, AnEmptyListAndNullAreNoCalls) {
  for (const Value& boxes : {Value::array(), Value()}) {
    Driver run(workflow_of(kFaces), nullptr);
    run.answer("detect", {{"boxes", boxes}});
    EXPECT_EQ(run.output(), "[]");
  }
}

TEST(Run, WhatIsNoListOrTooLongFailsTheRun) {
  Driver object(workflow_of(kFaces), nullptr);
  object.answer("detect", {{"boxes", {{"a", 1}}}});
  EXPECT_EQ(object.failure().message,
            "component faces of traffic failed: for_each: a list is expected, this is an object");
  Driver wide(workflow_of(kFaces), nullptr, {.fan_out = 2});
  wide.answer("detect", {{"boxes", {1, 2, 3}}});
  EXPECT_EQ(wide.failure().message,
            "component faces of traffic failed: for_each: the list has 3 elements; at most 2 are "
            "taken");
  EXPECT_EQ(wide.failure().code, ErrorCode::kResourceExhausted);
  Driver most(workflow_of(kFaces), nullptr);
  most.answer("detect", {{"boxes", Value(limits::kFanOut, Value(0))}});
  EXPECT_EQ(most.calls.size(), limits::kCallsInFlight);
}

TEST(Run, OnlySoManyCallsAreInFlight) {
  Driver run(workflow_of(kFaces), nullptr, {.in_flight = 2});
  run.answer("detect", {{"boxes", {1, 2, 3, 4}}});
  EXPECT_THAT(run.open(), ElementsAre("faces[0]", "faces[1]"));
  run.answer("faces[1]", 0);
  EXPECT_THAT(run.open(), ElementsAre("faces[0]", "faces[2]"));
}

TEST(Run, WhatIsNotWantedIsNullAndWhatNeedsItStillRuns) {
  const auto workflow = workflow_of(R"(
    {"name": "a", "function": "f", "when": "$input.deep"},
    {"name": "b", "function": "f", "input": {"a": "$a.anything"}},
    {"name": "c", "function": "f", "when": "$a"})",
                                    R"(["$a", "$b", "$c"])");
  Driver run(workflow, {{"deep", false}});
  EXPECT_THAT(run.open(), ElementsAre("b"));
  EXPECT_EQ(run.input_of("b"), R"({"a":null})");
  run.answer("b", 1);
  EXPECT_EQ(run.output(), "[null,1,null]");
  Driver none(workflow_of(R"({"name": "a", "function": "f", "when": "$input"})"), false);
  EXPECT_EQ(none.output(), "null");
}

TEST(Run, AConditionOnTheElementLeavesHolesInTheList) {
  const auto workflow = workflow_of(R"(
    {"name": "a", "function": "f", "for_each": "$input",
     "when": {"ref": "$item", "op": ">", "value": 1}})");
  Driver run(workflow, {1, 2, 3});
  EXPECT_THAT(run.open(), ElementsAre("a[1]", "a[2]"));
  run.answer("a[1]", "two");
  run.answer("a[2]", "three");
  EXPECT_EQ(run.output(), R"([null,"two","three"])");
  Driver none(workflow, {0, 1});
  EXPECT_EQ(none.output(), "[null,null]");
  Driver wrong(workflow, {0, "x"});
  EXPECT_EQ(wrong.failure().message,
            "component a[1] of traffic failed: when: $item is text and cannot be put in an order "
            "with a number");
}

TEST(Run, TheFirstFailureEndsItAndNothingMoreIsCalled) {
  Driver run(workflow_of(kDiamond), {{"n", 5}});
  run.answer("a", {{"x", 6}});
  run.fail("c", kRaised);
  EXPECT_EQ(run.failure().message, "component c of traffic failed: ValueError: seven");
  EXPECT_EQ(run.failure().type, "ValueError");
  // What still ran may end as it likes.
  run.answer("b", 1);
  EXPECT_THAT(run.open(), IsEmpty());
  EXPECT_EQ(run.outcomes, 1);
}

TEST(Run, AReferenceToNothingIsToldWithItsPlace) {
  Driver run(workflow_of(kDiamond), {{"m", 5}});
  EXPECT_EQ(run.failure().message,
            "component a of traffic failed: input.n: $input.n: there is no key 'n'");
  EXPECT_EQ(run.failure().type, "Workflow.BadValue");
  Driver output(workflow_of(R"({"name": "a", "function": "f"})", R"({"x": ["$a.y"]})"), nullptr);
  output.answer("a", {{"z", 1}});
  EXPECT_EQ(output.failure().message,
            "the output of traffic: output.x[0]: $a.y: there is no key 'y'");
}

TEST(Run, OnlyIdempotentCallsAreMadeAgainAndOnlyWhenTheirPlaceFailed) {
  const auto once = workflow_of(R"({"name": "a", "function": "f"})");
  const auto again = workflow_of(R"({"name": "a", "function": "f", "idempotent": true})");
  Driver not_idempotent(once, nullptr);
  not_idempotent.fail("a", kDied);
  EXPECT_EQ(not_idempotent.outcomes, 1);
  Driver raised(again, nullptr);
  raised.fail("a", kRaised);
  EXPECT_EQ(raised.outcomes, 1);

  Driver died(again, {{"n", 1}});
  for (unsigned attempt = 1; attempt < limits::kAttempts; ++attempt) {
    EXPECT_EQ(died.calls.front().attempt, attempt);
    died.fail("a", kDied);
    EXPECT_EQ(died.outcomes, 0);
    EXPECT_EQ(died.input_of("a"), R"({"n":1})");
  }
  died.fail("a", kDied);
  EXPECT_EQ(died.failure().message, "component a of traffic failed: the sandbox died");

  Driver kernel(once, nullptr);
  Failure of_kernel = kDied;
  of_kernel.without_effects = true;
  kernel.fail("a", of_kernel);
  EXPECT_EQ(kernel.outcomes, 0);
  kernel.answer("a", 3);
  EXPECT_EQ(kernel.output(), "3");
}

TEST(Run, ValuesAreKeptUpToALimit) {
  Driver run(workflow_of(kDiamond), {{"n", 5}}, {.values = Bytes(25)});
  run.answer("a", {{"x", 6}});
  run.answer("b", 0);
  EXPECT_THAT(run.failure().message,
              HasSubstr("component b of traffic failed: the values of this"));
  EXPECT_EQ(run.failure().code, ErrorCode::kResourceExhausted);
}

TEST(Run, AListIsNotCopiedUnlessItIsMadeAndTheInputCounts) {
  // A list within the input is looked at where it lies; what a template makes is counted.
  const Value input = {std::string(500, 'x'), 2};
  const RunLimits limits{.values = Bytes(500)};
  Driver within(workflow_of(R"({"name": "a", "function": "f", "for_each": "$input"})"), input,
                limits);
  EXPECT_THAT(within.open(), ElementsAre("a[0]", "a[1]"));
  Driver made(workflow_of(R"({"name": "a", "function": "f", "for_each": ["$input", 1]})"), input,
              limits);
  EXPECT_THAT(made.failure().message, HasSubstr("the values of this run take more than"));
  Driver given(workflow_of(R"({"name": "a", "function": "f"})"), input, {.values = Bytes(9)});
  EXPECT_EQ(given.failure().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(given.failure().message, HasSubstr("the input of traffic takes more than"));
  EXPECT_THAT(given.open(), IsEmpty());
}

TEST(Run, OneStepIsLittleWork) {
  Driver run(workflow_of(R"({"name": "a", "function": "f", "for_each": "$input",
                             "when": {"ref": "$item", "op": "<", "value": 0}})"),
             Value(limits::kFanOut, Value(1)));
  EXPECT_EQ(run.outcomes, 1);
  EXPECT_GE(run.steps, limits::kFanOut / 16);
}

TEST(Run, AConditionMayCompareWithWhatIsPutTogether) {
  Driver run(workflow_of(R"({"name": "a", "function": "f", "for_each": "$input",
                             "when": {"ref": "$item", "op": "==", "value": ["$input[0]", "x"]}})"),
             Value::parse(R"([1, [1, "x"], [2, "x"]])"));
  EXPECT_THAT(run.open(), ElementsAre("a[1]"));
  Driver each(workflow_of(R"({"name": "a", "function": "f", "for_each": "$input",
                              "when": {"ref": "$item", "op": "==", "value": ["$index"]}})"),
              Value::parse("[[0], [5], [2]]"));
  EXPECT_THAT(each.open(), ElementsAre("a[0]", "a[2]"));
}

TEST(Run, WhatIsPutTogetherHasALimit) {
  std::string list;
  for (int i = 0; i < 8; ++i) list += (i == 0 ? "" : ",") + std::string("\"$input\"");
  Driver run(workflow_of(R"({"name": "a", "function": "f", "input": [)" + list + "]}"),
             std::string(1 << 20, 'x'));
  EXPECT_THAT(run.failure().message, HasSubstr("what is put together is larger than"));
}

// Random workflows whose calls end in random order, one of them perhaps badly: each component is
// called once for each element and never before what it needs, and there is one outcome.
TEST(Run, RandomWorkflowsEndOnceInEveryOrder) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return random() % n; };
    const size_t count = 1 + below(8);
    std::string components;
    for (size_t i = 0; i < count; ++i) {
      std::string inputs;
      for (size_t j = 0; j < i; ++j) {
        if (below(3) == 0)
          inputs += (inputs.empty() ? "" : ",") + ("\"$c" + std::to_string(j) + "\"");
      }
      components += (i == 0 ? "" : ",") + std::string(R"({"name": "c)") + std::to_string(i) +
                    R"(", "function": "f", "input": [)" + inputs + "]" +
                    (below(3) == 0 ? R"(, "for_each": [1, 2, 3])" : "") +
                    (below(4) == 0 ? R"(, "when": "$input")" : "") + "}";
    }
    Driver run(workflow_of(components), below(2) == 0, {.in_flight = 1 + below(4)});
    const auto& parts = run.run.workflow().components;
    const bool fails = below(3) == 0;
    std::map<uint32_t, size_t> ended;
    std::set<CallKey> called;
    while (!run.calls.empty() && run.outcomes == 0) {
      for (const Call& call : run.calls) {
        called.insert(call.key);
        for (const uint32_t need : parts[call.key.component].needs) {
          const bool skipped = parts[need].when && ended[need] == 0;
          EXPECT_EQ(ended[need], skipped ? 0 : parts[need].for_each ? 3 : 1);
        }
      }
      const Call call = run.calls[below(run.calls.size())];
      ++ended[call.key.component];
      if (fails && below(5) == 0) {
        run.fail(run.run.label(call.key), kRaised);
      } else {
        run.answer(run.run.label(call.key), static_cast<int>(below(10)));
      }
    }
    EXPECT_EQ(run.outcomes, 1);
    size_t all = 0;
    for (const auto& [component, times] : ended) all += times;
    EXPECT_LE(all, called.size());
    if (run.failure().message.empty()) {
      EXPECT_EQ(all, called.size());
    }
  }
}

Failure lost(std::vector<CallKey> keys) {
  return {.message = "object 1 is lost",
          .type = "Object.Failed",
          .code = ErrorCode::kDataLoss,
          .without_effects = true,
          .lost = std::move(keys)};
}

TEST(Run, WhatWasLostIsMadeAgainBeforeTheCallThatLacksIt) {
  Driver run(workflow_of(kDiamond), {{"n", 5}});
  run.answer("a", {{"x", 6}});
  run.answer("b", "b1");
  run.answer("c", "c1");
  // Both of them, and first what they were made of.
  run.fail("d", lost({{1, {}}, {2, {}}}));
  EXPECT_THAT(run.open(), UnorderedElementsAre("b", "c"));
  run.fail("b", lost({{0, {}}}));
  EXPECT_THAT(run.open(), UnorderedElementsAre("a", "c"));
  run.answer("c", "c2");
  EXPECT_THAT(run.open(), ElementsAre("a"));
  run.answer("a", {{"x", 7}});
  EXPECT_THAT(run.open(), ElementsAre("b"));
  EXPECT_EQ(run.input_of("b"), R"({"x":7})");
  run.answer("b", "b2");
  EXPECT_THAT(run.open(), ElementsAre("d"));
  EXPECT_EQ(run.input_of("d"), R"({"b":"b2","c":"c2"})");
  EXPECT_EQ(run.calls[0].attempt, 2U);
  run.answer("d", "done");
  EXPECT_EQ(run.output(), R"("done")");
  EXPECT_EQ(run.outcomes, 1);
}

TEST(Run, AnElementThatWasLostIsMadeAgainFromItsListAndOnceForAll) {
  constexpr const char* kBoth = R"(
    {"name": "k", "function": "f", "for_each": ["$input", 2], "input": "$item"},
    {"name": "l", "function": "f", "for_each": "$k", "input": ["$item", "$k[0]"]})";
  Driver run(workflow_of(kBoth), 1);
  run.answer("k[0]", 10);
  run.answer("k[1]", 20);
  run.fail("l[0]", lost({{0, 0}}));
  run.fail("l[1]", lost({{0, 0}, {0, 1}}));
  EXPECT_THAT(run.open(), UnorderedElementsAre("k[0]", "k[1]"));
  EXPECT_EQ(run.input_of("k[0]"), "1");
  EXPECT_EQ(run.input_of("k[1]"), "2");
  run.answer("k[0]", 11);
  EXPECT_THAT(run.open(), UnorderedElementsAre("k[1]", "l[0]"));
  EXPECT_EQ(run.input_of("l[0]"), "[11,11]");
  run.answer("k[1]", 21);
  EXPECT_EQ(run.input_of("l[1]"), "[21,11]");
  run.answer("l[0]", 1);
  run.answer("l[1]", 2);
  EXPECT_EQ(run.output(), "[1,2]");
}

TEST(Run, WhatIsLostEachTimeFailsTheRun) {
  Driver run(workflow_of(kDiamond), {{"n", 5}});
  run.answer("a", {{"x", 6}});
  for (unsigned attempt = 1; attempt < limits::kAttempts; ++attempt) {
    run.fail("b", lost({{0, {}}}));
    run.answer("a", {{"x", 6}});
  }
  run.fail("b", lost({{0, {}}}));
  EXPECT_EQ(run.failure().type, "Object.Failed");
  EXPECT_EQ(run.failure().message, "component b of traffic failed: object 1 is lost");
  EXPECT_EQ(run.outcomes, 1);
}

TEST(Run, WhatIsMadeAgainTakesTheRoomOfWhatItReplaces) {
  Driver run(workflow_of(kDiamond), {{"n", 5}});
  run.answer("a", {{"x", 6}});
  const Bytes before = run.run.size();
  run.fail("b", lost({{0, {}}}));
  run.end("a", CallResult{{{"x", 6}}, memory_of({{"x", 6}})});
  EXPECT_EQ(run.run.size(), before);
}

}  // namespace
}  // namespace lambent::workflow
