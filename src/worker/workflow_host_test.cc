#include "worker/workflow_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "base/sealed_memory.h"
#include "workflow/graph_json.h"

namespace lambent::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NoLog final : public LogSink {
 public:
  void write(LogLevel, std::string_view, std::initializer_list<LogField>) override {}
};

// Workflows whose functions are the test: it sees each call and ends it.
class WorkflowHostTest : public testing::Test {
 protected:
  struct Call {
    InvocationRequest request;
    WorkflowHost::Done done;
  };

  void SetUp() override { make_host({}); }
  void make_host(WorkflowHost::Limits limits) {
    WorkflowHost::Events events;
    events.submit = [this](InvocationRequest request, WorkflowHost::Done done) {
      const auto found = specs.find(request.function.name);
      if (found == specs.end()) {
        return done(
            Error{ErrorCode::kNotFound, "function '" + request.function.name + "' does not exist"});
      }
      if (found->second.kind == FunctionKind::kWorkflow) {
        inner_done[request.id] = std::move(done);
        return host->start(request, found->second);
      }
      if (immediate) return done(succeeded(request.id, request.payload));
      calls.push_back({std::move(request), std::move(done)});
    };
    events.forget = [this](InvocationId id) { forgotten.insert(id); };
    events.find_function = [this](const FunctionName& name) {
      const auto found = specs.find(name.name);
      return found != specs.end() ? &found->second : nullptr;
    };
    events.stopping = [this] { return stopping; };
    events.on_end = [this](WorkflowEnd end) {
      const auto inner = inner_done.find(end.invocation);
      if (inner == inner_done.end()) return ends.push_back(std::move(end));
      const auto done = std::move(inner->second);
      inner_done.erase(inner);
      InvocationResult result;
      result.id = end.invocation;
      result.outcome = end.outcome;
      result.payload = end.payload;
      result.error_type = end.error_type;
      result.error = end.error;
      done(std::move(result));
    };
    events.on_output = [this](FunctionId, std::string_view text) { output += text; };
    host = std::make_unique<WorkflowHost>(loop, random, &objects, std::move(events), limits);
  }

  void function(const std::string& name, FunctionKind kind = FunctionKind::kHandler) {
    FunctionSpec& spec = specs[name];
    spec.id = FunctionId(static_cast<uint32_t>(specs.size()));
    spec.name = {kDefaultTenant, name};
    spec.kind = kind;
    spec.timeout = seconds(30);
  }
  void workflow(const std::string& name, const std::string& components,
                const std::string& output = "") {
    function(name, FunctionKind::kWorkflow);
    auto graph = workflow::parse_workflow(R"({"components": [)" + components + "]" +
                                          (output.empty() ? "" : R"(, "output": )" + output) + "}");
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    host->put(specs[name].id, std::make_shared<const workflow::Workflow>(std::move(graph).value()));
  }
  InvocationId start(const std::string& name, const std::string& payload,
                     InvocationKind kind = InvocationKind::kSynchronous) {
    InvocationRequest request;
    request.id = new_invocation_id(random);
    request.function = {kDefaultTenant, name};
    request.payload = payload;
    request.kind = kind;
    host->start(request, specs.at(name));
    return request.id;
  }

  static InvocationResult succeeded(InvocationId id, std::string payload) {
    InvocationResult result;
    result.id = id;
    result.payload = std::move(payload);
    return result;
  }
  void end(size_t index, InvocationResult result) {
    Call call = std::move(calls.at(index));
    calls.erase(calls.begin() + static_cast<long>(index));
    call.done(std::move(result));
  }
  void answer(size_t index, std::string payload) {
    end(index, succeeded(calls.at(index).request.id, std::move(payload)));
  }
  void fail(size_t index, const std::string& type, bool of_place) {
    InvocationResult result;
    result.id = calls.at(index).request.id;
    result.outcome = Outcome::kFunctionError;
    result.error_type = type;
    result.payload = R"({"errorMessage":"it broke","errorType":")" + type + "\"}";
    if (of_place) result.error = Error{ErrorCode::kInternal, "it broke"};
    end(index, std::move(result));
  }
  // An object that this call makes.
  std::string make_object(size_t index, uint32_t number) {
    const ObjectId id{calls.at(index).request.id, number};
    EXPECT_TRUE(
        objects.store(kDefaultTenant, id, raw_tensor(Bytes(4)), *sealed_memory("abcd")).ok());
    return to_string(id);
  }
  // Until nothing more comes by itself.
  void drain() {
    for (int i = 0; i < 2000 && host->live() > 0; ++i) loop.run_once(Duration(0));
  }
  size_t objects_left() const { return objects.list(kDefaultTenant, std::nullopt, 100).size(); }

  FakeClock clock;
  loop::EventLoop loop{clock};
  SeededRandom random{7};
  NoLog log;
  objects::ObjectStore objects{loop, log, [](auto, auto) { return false; }, {}};
  std::map<std::string, FunctionSpec> specs;
  std::map<InvocationId, WorkflowHost::Done> inner_done;
  std::vector<Call> calls;
  std::set<InvocationId> forgotten;
  std::vector<WorkflowEnd> ends;
  std::string output;
  bool immediate = false;
  bool stopping = false;
  std::unique_ptr<WorkflowHost> host;
};

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
  EXPECT_EQ(ends[0].invocation, id);
  EXPECT_EQ(ends[0].outcome, Outcome::kSucceeded);
  EXPECT_EQ(ends[0].payload, R"(["one","two"])");
  EXPECT_EQ(ends[0].start, StartClass::kCold);
  EXPECT_EQ(ends[0].execution, milliseconds(5));
  // Where the time went, for each call.
  EXPECT_THAT(output,
              HasSubstr("faces[0]  at 0.0 ms, took 5.0 ms (queue 0.0, run 0.0)  cold  gpu 0"));
  EXPECT_THAT(ends[0].log_tail, HasSubstr("Calls: 3"));
  EXPECT_EQ(host->live(), 0u);
  EXPECT_EQ(host->counts(specs["traffic"].id).completed, 1u);
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
  EXPECT_EQ(json_of(*running),
            R"({"calls":[{"at_ms":0.0,"component":"detect","function":"f","gpu":0,"init_ms":0.0,)"
            R"("invocation":")" +
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
  for (size_t i = 0; i < WorkflowHost::kKeptTraces; ++i) start("traffic", R"({"image": []})");
  EXPECT_EQ(host->trace(kDefaultTenant, id).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(host->trace(kDefaultTenant, ends.back().invocation).ok());
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
  make_host({.live = 1, .waiting = 1});
  function("f");
  workflow("one", R"({"name": "a", "function": "f"})");
  start("one", "1");
  start("one", "2");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kRejected);
  EXPECT_EQ(ends[0].error->code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(host->has_room());
  start("one", "3", InvocationKind::kAsynchronous);
  EXPECT_FALSE(host->has_room());
  EXPECT_EQ(host->counts(specs["one"].id).waiting, 1u);
  EXPECT_EQ(calls.size(), 1u);
  answer(0, "1");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].request.payload, "3");
  answer(0, "3");
  EXPECT_EQ(ends.at(2).payload, "3");
  EXPECT_EQ(host->counts(specs["one"].id).waiting, 0u);
  EXPECT_EQ(host->counts(specs["one"].id).running, 0u);
}

constexpr const char* kKernels = R"(
  {"name": "k", "function": "kernel", "input": {"x": "$input.x"}},
  {"name": "l", "function": "kernel", "input": {"x": "$k.y"}, "inline": true})";

std::string kernel_answer(const std::string& object) {
  return R"({"outputs":[{"name":"y","datatype":"BYTES","shape":[4],"parameters":{"object":")" +
         object + R"("}}]})";
}

TEST_F(WorkflowHostTest, KernelFunctionsHandObjectsOnWhichGoWithTheRun) {
  function("kernel", FunctionKind::kKernel);
  workflow("chain", kKernels);
  start("chain", R"({"x": [1, 2]})");
  EXPECT_EQ(calls[0].request.payload,
            R"({"inputs":[{"data":[1,2],"name":"x"}],"parameters":{"object":true}})");
  const std::string made = make_object(0, 0);
  answer(0, kernel_answer(made));
  EXPECT_THAT(calls[0].request.payload, HasSubstr(R"("parameters":{"object":")" + made));
  // It neither goes by itself nor by somebody's hand while the run needs it.
  ASSERT_TRUE(objects.remove(kDefaultTenant, *object_id_from_string(made)).ok());
  EXPECT_EQ(objects_left(), 1u);
  answer(0, R"({"outputs":[{"name":"y","datatype":"FP32","shape":[1],"data":[3]}]})");
  EXPECT_EQ(ends.at(0).payload, R"({"y":{"data":[3],"datatype":"FP32","shape":[1]}})");
  EXPECT_EQ(objects_left(), 0u);
}

TEST_F(WorkflowHostTest, ObjectsOfTheOutputStayAndThoseOfAFailureGo) {
  function("kernel", FunctionKind::kKernel);
  workflow("chain", kKernels, R"({"kept": "$k.y"})");
  start("chain", R"({"x": 1})");
  const std::string kept = make_object(0, 0);
  answer(0, kernel_answer(kept));
  answer(0, R"({"outputs":[]})");
  EXPECT_THAT(ends.at(0).payload, HasSubstr(kept));
  EXPECT_EQ(objects_left(), 1u);
  // Nothing holds it any more.
  ASSERT_TRUE(objects.remove(kDefaultTenant, *object_id_from_string(kept)).ok());
  EXPECT_EQ(objects_left(), 0u);

  start("chain", R"({"x": 1})");
  answer(0, kernel_answer(make_object(0, 0)));
  fail(0, "Kernel.Fault", true);
  EXPECT_EQ(ends.at(1).outcome, Outcome::kFunctionError);
  EXPECT_EQ(objects_left(), 0u);

  // One that is made when the run is over already.
  start("chain", R"({"x": 1})");
  clock.advance(seconds(30));
  loop.run_once(Duration(0));
  EXPECT_EQ(ends.at(2).error_type, "Sandbox.Timeout");
  answer(0, kernel_answer(make_object(0, 0)));
  EXPECT_EQ(objects_left(), 0u);
}

TEST_F(WorkflowHostTest, WhatItsValuesNameStaysWhileItRuns) {
  function("f");
  workflow("two",
           R"({"name": "a", "function": "f"}, {"name": "b", "function": "f", "input": "$a"})");
  const ObjectId given{new_invocation_id(random), 0};
  const ObjectId made{new_invocation_id(random), 0};
  const auto put = [&](ObjectId id) {
    ASSERT_TRUE(
        objects.store(kDefaultTenant, id, raw_tensor(Bytes(4)), *sealed_memory("abcd")).ok());
  };
  put(given);
  start("two", R"([{"object":")" + to_string(given) + R"("}, {"object": "nonsense"}])");
  put(made);
  answer(0, R"({"object":")" + to_string(made) + R"(","also":{"object":")" + to_string(given) +
                R"("}})");
  for (const ObjectId id : {given, made}) {
    ASSERT_TRUE(objects.remove(kDefaultTenant, id).ok());
    EXPECT_EQ(objects.status(kDefaultTenant, id)->references, 1u);
  }
  answer(0, "1");
  EXPECT_EQ(ends.size(), 1u);
  EXPECT_EQ(objects_left(), 0u);
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
  EXPECT_EQ(ends[0].invocation, large);
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
  make_host({.live = 1, .waiting = 5});
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

TEST_F(WorkflowHostTest, WhatIsKeptBeginsToLiveWithTheAnswer) {
  function("kernel", FunctionKind::kKernel);
  workflow("chain", kKernels, R"({"kept": "$k.y"})");
  specs["chain"].timeout = objects.options().time_to_live * 10;
  start("chain", R"({"x": 1})");
  const std::string kept = make_object(0, 0);
  answer(0, kernel_answer(kept));
  clock.advance(objects.options().time_to_live * 2);
  loop.run_once(Duration(0));
  answer(0, R"({"outputs":[]})");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kSucceeded);
  EXPECT_EQ(objects_left(), 1u);
}

TEST_F(WorkflowHostTest, AnInnerRunHandsItsObjectsToTheOneThatCalledIt) {
  function("kernel", FunctionKind::kKernel);
  function("f");
  workflow("inner", kKernels, R"(["$k.y"])");
  workflow("outer", R"({"name": "in", "function": "inner"},
                       {"name": "use", "function": "f", "input": "$in"})");
  start("outer", R"({"x": 1})");
  const std::string made = make_object(0, 0);
  answer(0, kernel_answer(made));
  answer(0, R"({"outputs":[]})");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_THAT(calls[0].request.payload, HasSubstr(made));
  EXPECT_EQ(objects_left(), 1u);
  answer(0, "1");
  EXPECT_EQ(ends.at(0).payload, "1");
  EXPECT_EQ(objects_left(), 0u);
}

}  // namespace
}  // namespace lambent::worker
