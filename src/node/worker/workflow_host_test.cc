// Runs of workflows: their calls, how they fail, and their limits.
#include "node/worker/testing/workflow_testing.h"

namespace lambent::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kFaces = R"(
  {"name": "detect", "function": "f", "input": {"image": "$input.image"}},
  {"name": "faces", "function": "f", "for_each": "$detect"})";

TEST_F(WorkflowHostTest, CallsAreInvocationsOfTheSameTenantAndTheirEndsTheOutput) {
  function("f");
  workflow("traffic", kFaces);
  const InvocationId id = start("traffic", R"({"image": "i"})");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].request.function, (FunctionName{kDefaultTenant, "f"}));
  EXPECT_EQ(calls[0].request.payload, R"({"image":"i"})");
  EXPECT_TRUE(calls[0].request.within_run);
  EXPECT_EQ(host->counts(specs["traffic"].id).running, 1u);
  answer(0, "[1, 2]");
  ASSERT_EQ(calls.size(), 2u);
  clock.advance(milliseconds(5));
  answer(1, "\"two\"");
  InvocationResult cold = succeeded(calls[0].request.id, "\"one\"");
  cold.start = StartClass::kCold;
  cold.device = DeviceId(1);
  end(0, std::move(cold));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].id, id);
  EXPECT_EQ(ends[0].outcome, Outcome::kSucceeded);
  EXPECT_EQ(ends[0].payload, R"(["one","two"])");
  EXPECT_EQ(ends[0].start, StartClass::kCold);
  EXPECT_EQ(ends[0].phases.run, milliseconds(5));
  // Where the time went, for each call.
  EXPECT_THAT(output,
              HasSubstr("faces[0]  at 0.0 ms, took 5.0 ms (queue 0.0, run 0.0)  cold  gpu 0"));
  EXPECT_THAT(ends[0].log_tail, HasSubstr("Calls: 3"));
  EXPECT_EQ(host->live(), 0u);
  EXPECT_EQ(host->counts(specs["traffic"].id).completed, 1u);
}

TEST_F(WorkflowHostTest, WhatARunWillCallIsToldOfInTime) {
  for (const char* name : {"first", "second", "third", "warm"}) function(name);
  workflow("chain", R"({"name": "a", "function": "first"},
    {"name": "b", "function": "second", "after": ["a"]},
    {"name": "w", "function": "warm", "after": ["a"]},
    {"name": "c", "function": "third", "after": ["b"]})");
  prospects["first"] = {.takes = seconds(10), .start = seconds(3), .needs_start = true};
  prospects["second"] = {.takes = seconds(2), .start = seconds(4), .needs_start = true};
  prospects["third"] = {.takes = seconds(1), .start = seconds(4), .needs_start = true};
  const auto pass = [this](Duration time) {
    clock.advance(time);
    loop.run_once(Duration(0));
  };
  start("chain", "{}");
  pass(seconds(5));
  EXPECT_THAT(foreseen, ElementsAre()) << "b comes after 10 s, and its start takes 4";
  pass(seconds(1));
  EXPECT_THAT(foreseen, ElementsAre("second"));
  pass(seconds(2));
  EXPECT_THAT(foreseen, ElementsAre("second", "third")) << "which comes after 12 s";
  // a is done sooner than it mostly is: what was told stays told, and what began is told no more.
  answer(0, "1");
  prospects["third"].needs_start = false;
  pass(seconds(10));
  EXPECT_THAT(foreseen, ElementsAre("second", "third"));
  answer(0, "1");
  answer(0, "1");
  answer(0, "1");
  EXPECT_EQ(ends.size(), 1u);

  // A run that ends tells of nothing more.
  foreseen.clear();
  start("chain", "{}");
  fail(0, "ValueError", false);
  pass(seconds(60));
  EXPECT_THAT(foreseen, ElementsAre());
  EXPECT_EQ(host->live(), 0u);
}

TEST_F(WorkflowHostTest, AStepThatThisNodeCannotHoldIsAnotherNodesAndNoOther) {
  function("f");
  function("large");
  function_of_others("large");
  workflow("chain", R"({"name": "a", "function": "f", "input": "$input"},
    {"name": "b", "function": "large", "input": "$a"}, {"name": "c", "function": "f", "input": "$b"})");
  full = {"large"};  // here, which is not asked
  start("chain", "1", InvocationKind::kAsynchronous);
  answer(0, "2");
  ASSERT_EQ(calls_elsewhere.size(), 1u);
  const InvocationRequest& there = calls_elsewhere[0].request;
  EXPECT_EQ(there.function.name, "large");
  EXPECT_EQ(there.payload, "2");
  EXPECT_TRUE(there.acknowledged);
  EXPECT_TRUE(calls.empty());
  InvocationResult result = succeeded(InvocationId{9, 9}, "3");
  result.phases.run = milliseconds(4);
  calls_elsewhere[0].done(std::move(result));
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].request.payload, "3");
  answer(0, "4");
  EXPECT_EQ(ends.at(0).payload, "4");
  EXPECT_EQ(host->live(), 0u);
}

// It was deployed at another node, and the run came here before it.
TEST_F(WorkflowHostTest, AStepWhoseFunctionIsOnItsWayWaitsForItAndNotForEver) {
  elsewhere = {.may_come = [] { return true; }};
  workflow("one", R"({"name": "a", "function": "f", "input": "$input"})");
  start("one", "1");
  EXPECT_TRUE(ends.empty());
  function("f");
  clock.advance(seconds(1));
  loop.run_once(Duration(0));
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].request.payload, "1");
  answer(0, "2");
  EXPECT_EQ(ends.at(0).payload, "2");

  workflow("none", R"({"name": "a", "function": "g"})");
  start("none", "1");
  for (int second = 0; second < 5; ++second) {
    ASSERT_EQ(ends.size(), 1u);
    clock.advance(seconds(1));
    loop.run_once(Duration(0));
  }
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[1].error_type, "Workflow.CallRejected");
  EXPECT_EQ(host->parked(), 0u);
}

TEST_F(WorkflowHostTest, ARunThatEndsForgetsItsStepElsewhereThere) {
  function("f");
  function("large");
  function_of_others("large");
  workflow("both", R"({"name": "a", "function": "large"}, {"name": "b", "function": "f"})");
  start("both", "{}");
  const InvocationId there = calls_elsewhere.at(0).request.id;
  const InvocationId here = calls.at(0).request.id;
  clock.advance(seconds(30));
  loop.run_once(Duration(0));
  EXPECT_EQ(ends.at(0).error_type, "Sandbox.Timeout");
  EXPECT_EQ(forgotten_elsewhere, std::set<InvocationId>{there});
  EXPECT_EQ(forgotten, std::set<InvocationId>{here});
}

TEST_F(WorkflowHostTest, ARunTellsWhereItsTimeWent) {
  function("f");
  workflow("traffic", kFaces);
  const InvocationId id = start("traffic", R"({"image": "i"})");
  clock.advance(milliseconds(2));
  InvocationResult detected = succeeded(calls[0].request.id, "[1]");
  const std::string call = to_string(detected.id);
  detected.device = DeviceId(1);
  detected.start = StartClass::kGpuCold;
  detected.wait_reason = "no_token";
  detected.phases = {.queue = microseconds(1250), .run = microseconds(750)};
  end(0, std::move(detected));
  const auto running = host->trace(kDefaultTenant, id);
  ASSERT_TRUE(running.ok());
  EXPECT_EQ(
      json_of(*running),
      R"({"calls":[{"at_ms":0.0,"component":"detect","device":"0","function":"f","gpu":0,"gpus":["0"],)"
      R"("init_ms":0.0,"invocation":")" +
          call +
          R"(","memory_ms":0.0,"queue_ms":1.25,"run_ms":0.75,"sandbox_ms":0.0,)"
          R"("start":"gpu_cold","took_ms":2.0,"wait_reason":"no_token"}],"calls_ended":1,)"
          R"("function":"traffic","invocation":")" +
          to_string(id) + R"(","state":"running","took_ms":2.0})");
  fail(0, "ValueError", false);
  const auto ended = host->trace(kDefaultTenant, id);
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->state, "function_error");
  EXPECT_EQ(ended->calls.at(1).failure, "ValueError: it broke");
  EXPECT_EQ(host->trace(TenantId(2), id).error().code, ErrorCode::kNotFound);
  // The last ones are remembered.
  immediate = true;
  for (size_t i = 0; i < RunTraces::kMost; ++i) start("traffic", R"({"image": []})");
  EXPECT_EQ(host->trace(kDefaultTenant, id).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(host->trace(kDefaultTenant, ends.back().id).ok());
}

TEST_F(WorkflowHostTest, WhatIsMissingOrNoJsonIsNamed) {
  function("f");
  workflow("traffic", R"({"name": "a", "function": "nobody"})");
  start("traffic", "{}");
  start("traffic", "{");
  workflow("other", R"({"name": "a", "function": "f"})");
  start("other", "{}");
  answer(0, "no json");
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends[0].error->message,
            "component a of traffic failed: NOT_FOUND: function 'nobody' does not exist");
  EXPECT_EQ(ends[0].error_type, "Workflow.CallRejected");
  EXPECT_EQ(ends[1].error->message, "the input: this is no JSON");
  EXPECT_EQ(ends[2].error->message, "component a of other failed: its answer: this is no JSON");
  EXPECT_EQ(ends[2].payload,
            R"({"errorMessage":"component a of other failed: its answer: this is no JSON",)"
            R"("errorType":"Workflow.BadValue"})");
}

TEST_F(WorkflowHostTest, AFailureEndsTheRunAndForgetsWhatIsUnderWay) {
  function("f");
  workflow("traffic", kFaces);
  start("traffic", R"({"image": 1})");
  answer(0, "[1, 2, 3]");
  const InvocationId first = calls[0].request.id;
  const InvocationId third = calls[2].request.id;
  fail(1, "ValueError", false);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].error->message, "component faces[1] of traffic failed: ValueError: it broke");
  EXPECT_EQ(ends[0].error_type, "ValueError");
  EXPECT_THAT(forgotten, testing::UnorderedElementsAre(first, third));
  // They may still end.
  answer(0, "1");
  answer(0, "3");
  EXPECT_EQ(ends.size(), 1u);
}

TEST_F(WorkflowHostTest, OnlyWhatDiedWithItsPlaceIsCalledAgain) {
  function("f");
  workflow("once", R"({"name": "a", "function": "f"})");
  workflow("again", R"({"name": "a", "function": "f", "idempotent": true})");
  start("once", "{}");
  fail(0, "Runtime.ExitError", true);
  EXPECT_EQ(ends.size(), 1u);
  start("again", "{}");
  const InvocationId first = calls[0].request.id;
  fail(0, "Runtime.ExitError", true);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_NE(calls[0].request.id, first);
  answer(0, "1");
  EXPECT_EQ(ends.at(1).payload, "1");
  EXPECT_THAT(ends[1].log_tail, HasSubstr("attempt 2"));
  // A handler may call its own error what it likes.
  start("again", "{}");
  fail(0, "Runtime.ExitError", false);
  EXPECT_EQ(ends.at(2).outcome, Outcome::kFunctionError);
  start("again", "{}");
  fail(0, "Sandbox.Timeout", true);
  EXPECT_EQ(ends.at(3).outcome, Outcome::kFunctionError);
}

TEST_F(WorkflowHostTest, ATimeOutEndsIt) {
  function("f");
  workflow("slow", R"({"name": "a", "function": "f"})");
  start("slow", "{}");
  clock.advance(seconds(30));
  loop.run_once(Duration(0));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].error_type, "Sandbox.Timeout");
  EXPECT_EQ(ends[0].error->code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(forgotten, ElementsAre(calls[0].request.id));
}

TEST_F(WorkflowHostTest, ACancelledRunIsRejected) {
  function("f");
  workflow("slow", R"({"name": "a", "function": "f"})");
  host->cancel(start("slow", "{}"), {ErrorCode::kCancelled, "the client went away"});
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kRejected);
  EXPECT_EQ(forgotten.size(), 1u);
}

TEST_F(WorkflowHostTest, AWorkerThatStopsLeavesItsRunsToTheNext) {
  function("f");
  workflow("traffic", kFaces);
  start("traffic", R"({"image": 1})");
  stopping = true;
  InvocationResult refused;
  refused.outcome = Outcome::kRejected;
  refused.error = Error{ErrorCode::kUnavailable, "the worker is stopping"};
  end(0, std::move(refused));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kRejected);
  EXPECT_EQ(ends[0].error->code, ErrorCode::kUnavailable);
}

TEST_F(WorkflowHostTest, ARunOutlivesItsFunction) {
  function("f");
  workflow("gone", R"({"name": "a", "function": "f"})");
  const FunctionId id = specs["gone"].id;
  start("gone", "{}");
  host->remove(id);
  EXPECT_EQ(host->counts(id).running, 1u);
  answer(0, "1");
  EXPECT_EQ(ends.at(0).payload, "1");
  EXPECT_EQ(host->counts(id).completed, 0u);  // nothing is remembered of it
  start("gone", "{}");
  EXPECT_EQ(ends.at(1).outcome, Outcome::kRejected);
  EXPECT_THAT(ends[1].error->message, HasSubstr("could not be read; deploy it again"));
}

TEST_F(WorkflowHostTest, WorkflowsCallWorkflowsOnlySoDeep) {
  workflow("self", R"({"name": "again", "function": "self"})");
  start("self", "{}");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kFunctionError);
  EXPECT_THAT(ends[0].error->message,
              testing::AllOf(testing::StartsWith("component again of self failed: component again"),
                             HasSubstr("workflows call each other more than 8 deep")));
  EXPECT_EQ(host->live(), 0u);
}

TEST_F(WorkflowHostTest, AFailureFarInsideIsToldByAllTheirNames) {
  function("f");
  workflow("inner", kFaces);
  workflow("outer", R"({"name": "part", "function": "inner", "idempotent": true})");
  start("outer", R"({"image": 1})");
  answer(0, "[7]");
  fail(0, "ValueError", false);
  EXPECT_EQ(ends.at(0).error->message,
            "component part of outer failed: component faces[0] of inner failed: ValueError: it "
            "broke");
  EXPECT_EQ(ends[0].error_type, "ValueError");
}

TEST_F(WorkflowHostTest, CallsThatEndAtOnceAreNoDeepRecursion) {
  function("f");
  workflow("inner", R"({"name": "a", "function": "f"})");
  workflow("wide", R"({"name": "all", "function": "inner", "for_each": "$input"})");
  immediate = true;
  start("wide", workflow::to_text(workflow::Value(workflow::limits::kFanOut, 5)));
  drain();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kSucceeded);
  EXPECT_EQ(ends[0].payload.size(), 2 * workflow::limits::kFanOut + 1);
  EXPECT_THAT(output, HasSubstr("744 more calls"));
}

TEST_F(WorkflowHostTest, BeyondTheLimitEventsWaitAndOthersAreRefused) {
  make_host({.live = 1});
  function("f");
  workflow("one", R"({"name": "a", "function": "f"})");
  start("one", "1");
  start("one", "2");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kRejected);
  EXPECT_EQ(ends[0].error->code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(ends[0].retry_after, seconds(1)) << "nothing is known of how long they take";
  start("one", "3", InvocationKind::kAsynchronous);
  EXPECT_EQ(host->waiting(), 1u);
  EXPECT_EQ(host->counts(specs["one"].id).waiting, 1u);
  EXPECT_EQ(calls.size(), 1u);
  clock.advance(seconds(7));
  answer(0, "1");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].request.payload, "3");
  start("one", "4");
  EXPECT_EQ(ends.at(2).retry_after, seconds(7)) << "as long as the one before had the place";
  answer(0, "3");
  EXPECT_EQ(ends.at(3).payload, "3");
  EXPECT_EQ(host->counts(specs["one"].id).waiting, 0u);
  EXPECT_EQ(host->counts(specs["one"].id).running, 0u);
}

TEST_F(WorkflowHostTest, WhatWasAcknowledgedMakesItsCallsAsPartOfIt) {
  function("f");
  workflow("inner", R"({"name": "a", "function": "f"})");
  workflow("outer", R"({"name": "b", "function": "inner"})");
  start("outer", "1");
  start("outer", "2", InvocationKind::kAsynchronous);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_FALSE(calls[0].request.acknowledged);
  EXPECT_TRUE(calls[1].request.acknowledged);
  EXPECT_EQ(calls[1].request.kind, InvocationKind::kSynchronous);
}

TEST_F(WorkflowHostTest, CallsForWhichThereIsNoRoomWaitAndOthersGoOn) {
  function("f");
  function("g");
  workflow("each", R"({"name": "a", "function": "f", "for_each": "$input"},
                      {"name": "b", "function": "g"})");
  full = {"f"};
  start("each", "[1,2,3]", InvocationKind::kAsynchronous);
  ASSERT_EQ(calls.size(), 2u) << "one of f, since nothing was under way, and one of g";
  EXPECT_EQ(calls[0].request.payload, "1");
  EXPECT_EQ(calls[1].request.function.name, "g");
  EXPECT_EQ(host->parked(), 2u);
  start("each", "[4]");
  EXPECT_EQ(calls.size(), 4u) << "what was not acknowledged is for others to refuse";
  host->room_made();
  loop.run_once(Duration(0));
  EXPECT_EQ(calls.size(), 4u) << "there is none yet";
  full.clear();
  start("each", "[5]", InvocationKind::kAsynchronous);
  EXPECT_EQ(calls.size(), 5u) << "that of g; the other waits behind those that came before";
  EXPECT_EQ(host->parked(), 3u);
  clock.advance(seconds(1));
  loop.run_once(Duration(0));
  ASSERT_EQ(calls.size(), 8u) << "after a second it looks by itself";
  EXPECT_EQ(calls[5].request.payload, "2");
  EXPECT_EQ(calls[6].request.payload, "3");
  EXPECT_EQ(calls[7].request.payload, "5");
}

TEST_F(WorkflowHostTest, HoweverLittleRoomThereIsAllGetsDone) {
  function("f");
  workflow("inner", R"({"name": "a", "function": "f"})");
  workflow("outer", R"({"name": "b", "function": "inner", "for_each": "$input"})");
  full = {"f", "inner"};
  for (int i = 0; i < 3; ++i) start("outer", "[1,2,3]", InvocationKind::kAsynchronous);
  for (int turn = 0; turn < 1000 && host->live() > 0; ++turn) {
    ASSERT_LE(calls.size(), 1u);
    if (!calls.empty()) answer(0, "1");
    host->room_made();
    clock.advance(milliseconds(10));
    loop.run_once(Duration(0));
  }
  ASSERT_EQ(ends.size(), 3u);
  for (const auto& each : ends) EXPECT_EQ(each.payload, "[1,1,1]");
}

TEST_F(WorkflowHostTest, ARunThatEndsTakesItsWaitingCallsAlong) {
  function("f");
  workflow("each", R"({"name": "a", "function": "f", "for_each": "$input"})");
  full = {"f"};
  const InvocationId run = start("each", "[1,2,3]", InvocationKind::kAsynchronous);
  EXPECT_EQ(host->parked(), 2u);
  host->cancel(run, {ErrorCode::kCancelled, "no more"});
  EXPECT_EQ(host->parked(), 0u);
  EXPECT_EQ(forgotten.size(), 1u) << "the others were never made";
  full.clear();
  clock.advance(seconds(1));
  loop.run_once(Duration(0));
  EXPECT_EQ(calls.size(), 1u);
}

TEST_F(WorkflowHostTest, WhoIsRefusedHearsWhenThoseThatWaitWillHaveHadTheirPlaces) {
  make_host({.live = 1});
  function("f");
  workflow("one", R"({"name": "a", "function": "f"})");
  start("one", "1");
  clock.advance(seconds(7));
  answer(0, "1");
  start("one", "2");
  fail(0, "ValueError", false);  // at once, which says nothing of the others
  for (int i = 0; i < 3; ++i) start("one", "3", InvocationKind::kAsynchronous);
  start("one", "4");
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends[2].retry_after, seconds(21)) << "two wait, and one more has to go";
}

TEST_F(WorkflowHostTest, AllRunsTogetherKeepOnlySoMuchAndTheLargestFails) {
  make_host({.values = Bytes(1000)});
  function("f");
  workflow("two",
           R"({"name": "a", "function": "f"}, {"name": "b", "function": "f", "input": "$a"})");
  const InvocationId large = start("two", "1");
  start("two", "2");
  answer(0, "\"" + std::string(600, 'x') + "\"");
  answer(0, "\"" + std::string(400, 'y') + "\"");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].id, large);
  EXPECT_EQ(ends[0].error->code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(ends[0].error->message, HasSubstr("the values of all workflows together"));
  // The smaller one, whose answer it was, goes on.
  ASSERT_EQ(calls.size(), 2u);
  answer(1, "1");
  EXPECT_EQ(ends.at(1).outcome, Outcome::kSucceeded);
  // There is room again; the input counts as well.
  start("two", "\"" + std::string(2000, 'x') + "\"");
  EXPECT_EQ(ends.at(2).error->code, ErrorCode::kResourceExhausted);
  start("two", "1");
  answer(calls.size() - 1, "2");
  answer(calls.size() - 1, "3");
  EXPECT_EQ(ends.at(3).outcome, Outcome::kSucceeded);
}

TEST_F(WorkflowHostTest, WhatEndsAtOnceLeavesTheLoopItsTurns) {
  workflow("leaf", R"({"name": "a", "function": "nobody", "when": "$input"})");
  const std::string all = R"({"name": "all", "for_each": [0,0,0,0,0,0,0,0,0,0], "function": ")";
  workflow("third", all + "leaf\"}");
  workflow("second", all + "third\"}");
  workflow("first", all + "second\"}");
  bool had_a_turn = false;
  loop.call_after(Duration(0), [&] { had_a_turn = true; });
  start("first", "0");
  EXPECT_TRUE(ends.empty());
  loop.run_once(Duration(0));
  EXPECT_TRUE(had_a_turn);
  EXPECT_TRUE(ends.empty());
  // Its time is looked at whenever it goes on.
  clock.advance(seconds(30));
  drain();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].error_type, "Sandbox.Timeout");
  EXPECT_EQ(host->live(), 0u);
}

TEST_F(WorkflowHostTest, ARunAndThoseThatItCallsMakeOnlySoManyCalls) {
  make_host({.calls = 50});
  workflow("leaf", R"({"name": "a", "function": "nobody", "when": "$input"})");
  workflow("inner", R"({"name": "b", "for_each": [0,0,0,0,0,0,0,0,0,0], "function": "leaf"})");
  workflow("few", R"({"name": "c", "for_each": [0,0,0,0], "function": "inner"})");
  workflow("many", R"({"name": "c", "for_each": [0,0,0,0,0,0,0,0,0,0], "function": "inner"})");
  start("few", "0");
  drain();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kSucceeded);
  start("many", "0");
  drain();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[1].error_type, "Workflow.CallRejected");
  EXPECT_EQ(ends[1].error->code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(ends[1].error->message, HasSubstr("a workflow makes at most 50 calls"));
  EXPECT_EQ(host->live(), 0u);
}

TEST_F(WorkflowHostTest, WhatARunCallsNeedsNoPlaceOfItsOwn) {
  make_host({.live = 1});
  function("f");
  workflow("inner", R"({"name": "a", "function": "f"})");
  workflow("outer", R"({"name": "in", "function": "inner"})");
  for (int i = 0; i < 3; ++i) start("outer", "1", InvocationKind::kAsynchronous);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(calls.size(), 1u);
    answer(0, "7");
    ASSERT_EQ(ends.size(), i + 1);
    EXPECT_EQ(ends[i].payload, "7");
  }
}

}  // namespace
}  // namespace lambent::worker
