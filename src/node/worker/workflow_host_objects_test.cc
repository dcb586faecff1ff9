// Objects that the values of runs name: how long they stay, and with whom they go.
#include "node/worker/testing/workflow_testing.h"

namespace lambent::worker {
namespace {

using testing::HasSubstr;

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
  EXPECT_EQ(
      calls[0].request.payload,
      R"({"inputs":[{"data":[1,2],"name":"x"}],"parameters":{"keep":"device","object":true}})");
  const std::string made = make_object(0, 0);
  answer(0, kernel_answer(made));
  EXPECT_THAT(calls[0].request.payload, HasSubstr(R"("parameters":{"object":")" + made));
  // It neither goes by itself nor by a request while the run needs it.
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

TEST_F(WorkflowHostTest, ObjectsThatAStepMadeElsewhereAreNeededByTheNextAndGoWithTheRun) {
  function("large");
  function("f");
  function_of_others("large");
  const InvocationId there{9, 9};
  const std::string made = to_string(ObjectId{there, 0});
  const auto run = [&](const std::string& name) {
    start(name, "{}");
    calls_elsewhere.back().done(succeeded(there, R"({"object":")" + made + "\"}"));
    ASSERT_EQ(calls.size(), 1u);
    // So that it is brought before the call is queued.
    EXPECT_EQ(calls[0].request.needs, std::vector<ObjectId>{*object_id_from_string(made)});
    EXPECT_TRUE(removed_elsewhere.empty());
    answer(0, "1");
  };
  const std::string components = R"({"name": "a", "function": "large"},
    {"name": "b", "function": "f", "input": {"of": "$a"}})";
  workflow("keeps", components, R"({"kept": "$a"})");
  run("keeps");
  EXPECT_TRUE(removed_elsewhere.empty());
  workflow("passes", components, "\"$b\"");
  run("passes");
  EXPECT_EQ(removed_elsewhere, std::set<ObjectId>{*object_id_from_string(made)});
  EXPECT_EQ(ends.size(), 2u);
}

TEST_F(WorkflowHostTest, OnlyWhatKernelsOfTheSameExecutorsReadStaysOnTheDevice) {
  function("kernel", FunctionKind::kKernel);
  function("apart", FunctionKind::kKernel);
  specs["apart"].gpu.domain = "apart";
  function("f");
  const auto asks_to_keep = [this](const std::string& name) {
    start(name, R"({"x": 1})");
    const std::string payload = calls.back().request.payload;
    fail(calls.size() - 1, "Kernel.Fault", false);
    return payload.find(R"("keep":"device")") != std::string::npos;
  };
  const std::string first = R"({"name": "k", "function": "kernel", "input": {"x": "$input.x"}})";
  const auto chain = [&](const std::string& name, const std::string& reader,
                         const std::string& output = "1") {
    workflow(name,
             first + R"(, {"name": "l", "function": ")" + reader + R"(", "input": {"x": "$k.y"}})",
             output);
  };
  chain("inner", "kernel");
  EXPECT_TRUE(asks_to_keep("inner"));
  chain("given", "kernel", R"("$k.y")");
  EXPECT_FALSE(asks_to_keep("given"));
  chain("handled", "f");
  EXPECT_FALSE(asks_to_keep("handled"));
  chain("elsewhere", "apart");
  EXPECT_FALSE(asks_to_keep("elsewhere"));
  workflow("unread", first + R"(, {"name": "l", "function": "kernel", "after": ["k"]})", "1");
  EXPECT_FALSE(asks_to_keep("unread"));
}

// A kernel and a handler read what k makes.
constexpr const char* kKernelAndHandler = R"(
  {"name": "k", "function": "kernel", "input": {"x": "$input.x"}},
  {"name": "l", "function": "kernel", "input": {"x": "$k.y"}},
  {"name": "h", "function": "f", "input": {"of": "$k.y"}})";

TEST_F(WorkflowHostTest, WhatAHandlerReadsTooStaysOnTheDeviceAndIsBroughtForIt) {
  std::vector<ObjectId> brought_to_host;
  objects.bring_from_devices([&](TenantId, ObjectId object) { brought_to_host.push_back(object); });
  function("kernel", FunctionKind::kKernel);
  function("f");
  workflow("both", kKernelAndHandler, R"("$h")");
  start("both", R"({"x": [1, 2]})");
  EXPECT_THAT(calls.at(0).request.payload, HasSubstr(R"("keep":"device")"));
  const ObjectId made{calls[0].request.id, 0};
  ASSERT_TRUE(objects.store_on_device(kDefaultTenant, made, raw_tensor(Bytes(4))).ok());
  answer(0, kernel_answer(to_string(made)));
  EXPECT_EQ(brought_to_host, std::vector<ObjectId>{made});
  ASSERT_EQ(calls.size(), 1u) << "the kernel waits for nothing, the handler for the host";
  EXPECT_EQ(calls[0].request.function.name, "kernel");
  ASSERT_TRUE(*objects.came(kDefaultTenant, made, *sealed_memory("abcd")));
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[1].request.function.name, "f");
  answer(0, R"({"outputs":[]})");
  answer(0, "1");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].payload, "1");
  EXPECT_EQ(objects_left(), 0u);
}

TEST_F(WorkflowHostTest, WhatIsLostOnItsWayToAHandlerIsMadeAgainBeforeThatIsCalled) {
  objects.bring_from_devices([](TenantId, ObjectId) {});
  function("kernel", FunctionKind::kKernel);
  function("f");
  workflow("both", kKernelAndHandler, R"("$h")");
  start("both", R"({"x": [1, 2]})");
  const ObjectId first{calls.at(0).request.id, 0};
  ASSERT_TRUE(objects.store_on_device(kDefaultTenant, first, raw_tensor(Bytes(4))).ok());
  answer(0, kernel_answer(to_string(first)));
  answer(0, R"({"outputs":[]})");
  ASSERT_TRUE(calls.empty());
  objects.lose(kDefaultTenant, first, Error{ErrorCode::kDataLoss, "its executor ended"});
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_THAT(calls[0].request.payload, HasSubstr(R"("data":[1,2])"));
  const std::string second = make_object(0, 0);
  answer(0, kernel_answer(second));
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].request.function.name, "f");
  EXPECT_THAT(calls[0].request.payload, HasSubstr(second));
  answer(0, "1");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kSucceeded);
  EXPECT_EQ(objects_left(), 0u);
}

TEST_F(WorkflowHostTest, ARunThatEndsWhileAHandlerWaitsForTheHostLeavesNothing) {
  objects.bring_from_devices([](TenantId, ObjectId) {});
  function("kernel", FunctionKind::kKernel);
  function("f");
  workflow("both", kKernelAndHandler, R"("$h")");
  start("both", R"({"x": [1, 2]})");
  const ObjectId made{calls.at(0).request.id, 0};
  ASSERT_TRUE(objects.store_on_device(kDefaultTenant, made, raw_tensor(Bytes(4))).ok());
  answer(0, kernel_answer(to_string(made)));
  clock.advance(seconds(30));
  loop.run_once(Duration(0));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].error_type, "Sandbox.Timeout");
  EXPECT_FALSE(objects.is_waited_for(kDefaultTenant, made));
  answer(0, R"({"outputs":[]})");
  EXPECT_TRUE(calls.empty());
  EXPECT_EQ(objects_left(), 0u);
}

TEST_F(WorkflowHostTest, WhatInnerWorkflowsOfKernelsReadStaysOnTheDevice) {
  function("kernel", FunctionKind::kKernel);
  function("apart", FunctionKind::kKernel);
  specs["apart"].gpu.domain = "apart";
  function("f");
  const auto component = [](const std::string& name, const std::string& callee,
                            const std::string& input) {
    return R"({"name": ")" + name + R"(", "function": ")" + callee + R"(", "input": {"x": ")" +
           input + "\"}}";
  };
  const std::string reads = component("r", "kernel", "$input.x");
  workflow("reads", reads);
  workflow("reads_twice", component("n", "reads", "$input.x") + "," + reads);
  workflow("returns", reads, R"("$input.x")");
  workflow("ignores", R"({"name": "r", "function": "kernel", "input": {"x": 1}})");
  workflow("with_handler", reads + "," + component("h", "f", "$r.y"));
  workflow("elsewhere", component("r", "apart", "$input.x"));
  const auto keeps = [&](const std::string& inner) {
    workflow("outer",
             component("k", "kernel", "$input.x") + R"(, {"name": "i", "function": ")" + inner +
                 R"(", "for_each": [1, 2], "input": {"x": "$k.y"}})",
             "1");
    start("outer", R"({"x": 1})");
    const std::string payload = calls.back().request.payload;
    fail(calls.size() - 1, "Kernel.Fault", false);
    return payload.find(R"("keep":"device")") != std::string::npos;
  };
  EXPECT_TRUE(keeps("reads"));
  EXPECT_TRUE(keeps("reads_twice"));
  for (const char* inner : {"returns", "ignores", "with_handler", "elsewhere", "absent"}) {
    EXPECT_FALSE(keeps(inner)) << inner;
  }
  // The look into one that calls itself ends.
  workflow("reads", component("r", "reads", "$input.x"));
  EXPECT_FALSE(keeps("reads"));
}

TEST_F(WorkflowHostTest, WhatInnerWorkflowsLackIsMadeAgain) {
  function("kernel", FunctionKind::kKernel);
  workflow("inner", R"({"name": "r", "function": "kernel", "input": {"x": "$input.x"}})");
  workflow("outer", R"({"name": "k", "function": "kernel", "input": {"x": "$input.x"}},
    {"name": "i", "function": "inner", "for_each": [1, 2], "input": {"x": "$k.y"}})",
           "1");
  start("outer", R"({"x": [1, 2]})");
  const ObjectId first{calls.at(0).request.id, 0};
  ASSERT_TRUE(objects.expect(kDefaultTenant, first).ok());
  answer(0, kernel_answer(to_string(first)));
  ASSERT_EQ(calls.size(), 2u);
  objects.fail(kDefaultTenant, first, Error{ErrorCode::kDataLoss, "its executor ended"});
  fail(0, "Object.Failed", false);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_THAT(calls[1].request.payload, HasSubstr(R"("data":[1,2])"));
  const std::string second = make_object(1, 0);
  answer(1, kernel_answer(second));
  // The other one fails only now, when that has been made again.
  fail(0, "Object.Failed", false);
  ASSERT_EQ(calls.size(), 2u);
  for (const size_t each : {0, 0}) {
    EXPECT_THAT(calls[each].request.payload, HasSubstr(second));
    answer(each, R"({"outputs":[]})");
  }
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kSucceeded);
  EXPECT_EQ(objects_left(), 0u);
}

TEST_F(WorkflowHostTest, AnObjectThatWentWithItsExecutorIsMadeAgain) {
  function("kernel", FunctionKind::kKernel);
  workflow("chain", kKernels);
  start("chain", R"({"x": [1, 2]})");
  const ObjectId first{calls.at(0).request.id, 0};
  ASSERT_TRUE(objects.expect(kDefaultTenant, first).ok());
  answer(0, kernel_answer(to_string(first)));
  objects.fail(kDefaultTenant, first, Error{ErrorCode::kDataLoss, "its executor ended"});
  fail(0, "Object.Failed", false);
  // The step before, and then this one with what that made.
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_THAT(calls[0].request.payload, HasSubstr(R"("data":[1,2])"));
  const std::string second = make_object(0, 0);
  answer(0, kernel_answer(second));
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_THAT(calls[0].request.payload, HasSubstr(second));
  answer(0, R"({"outputs":[{"name":"y","datatype":"FP32","shape":[1],"data":[3]}]})");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kSucceeded);
  EXPECT_EQ(objects_left(), 0u);
}

// The other node asks for what the step needs before it runs, and does not find it.
TEST_F(WorkflowHostTest, AnObjectThatIsLostBeforeAStepElsewhereIsMadeAgainAndItsCopiesGo) {
  function("kernel", FunctionKind::kKernel);
  function("large", FunctionKind::kKernel);
  function_of_others("large");
  workflow("chain", R"({"name": "k", "function": "kernel", "input": {"x": "$input.x"}},
    {"name": "l", "function": "large", "input": {"x": "$k.y"}})",
           "1");
  start("chain", R"({"x": [1, 2]})");
  const ObjectId first{calls.at(0).request.id, 0};
  ASSERT_TRUE(objects.expect(kDefaultTenant, first).ok());
  answer(0, kernel_answer(to_string(first)));
  ASSERT_EQ(calls_elsewhere.size(), 1u);
  EXPECT_EQ(calls_elsewhere[0].request.needs, std::vector<ObjectId>{first});
  objects.fail(kDefaultTenant, first, Error{ErrorCode::kDataLoss, "its executor ended"});
  calls_elsewhere[0].done(Error{ErrorCode::kFailedPrecondition, "there is no such object"});
  ASSERT_EQ(calls.size(), 1u) << "the step before";
  const std::string second = make_object(0, 0);
  answer(0, kernel_answer(second));
  ASSERT_EQ(calls_elsewhere.size(), 2u);
  calls_elsewhere[1].done(succeeded(calls_elsewhere[1].request.id, R"({"outputs":[]})"));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kSucceeded);
  EXPECT_EQ(objects_left(), 0u);
  EXPECT_TRUE(removed_elsewhere.contains(*object_id_from_string(second)));
}

TEST_F(WorkflowHostTest, CallsOfKernelFunctionsSayHowManyElementsTheyBring) {
  function("kernel", FunctionKind::kKernel);
  function("f");
  workflow("chain", std::string(kKernels) + R"(, {"name": "h", "function": "f", "input": "$k"})");
  start("chain", R"({"x": {"datatype": "FP32", "shape": [3, 2], "data": [1, 2, 3, 4, 5, 6]}})");
  answer(0, kernel_answer(make_object(0, 0)));
  EXPECT_EQ(brought, (std::vector<std::pair<uint64_t, bool>>{{3, false}, {4, true}}));
  EXPECT_EQ(calls.size(), 2u) << "the handler is called as ever";
}

// As of calls that ran together: each has an object of the same invocation.
TEST_F(WorkflowHostTest, WhatOneOfSeveralCallsOfOneInvocationMadeIsMadeAgainByItsOwn) {
  function("kernel", FunctionKind::kKernel);
  workflow("each", R"({"name": "k", "function": "kernel", "for_each": [10, 11],
                       "input": {"x": "$item"}},
    {"name": "l", "function": "kernel", "for_each": "$k", "input": {"x": "$item.y"}})",
           "1");
  start("each", "{}");
  ASSERT_EQ(calls.size(), 2u);
  const InvocationId batch{8, 8};
  const ObjectId first{batch, 0}, second{batch, 1};
  ASSERT_TRUE(objects.expect(kDefaultTenant, first).ok());
  ASSERT_TRUE(
      objects.store(kDefaultTenant, second, raw_tensor(Bytes(4)), *sealed_memory("abcd")).ok());
  end(0, succeeded(batch, kernel_answer(to_string(first))));
  end(0, succeeded(batch, kernel_answer(to_string(second))));
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_THAT(calls[1].request.payload, HasSubstr(to_string(second)));
  objects.fail(kDefaultTenant, first, Error{ErrorCode::kDataLoss, "its executor ended"});
  fail(0, "Object.Failed", false);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_THAT(calls[1].request.payload, HasSubstr(R"("data":[10])")) << "and not the other";
  const std::string again = make_object(1, 0);
  answer(1, kernel_answer(again));
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_THAT(calls[1].request.payload, HasSubstr(again));
  answer(1, R"({"outputs":[]})");
  answer(0, R"({"outputs":[]})");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].outcome, Outcome::kSucceeded);
  EXPECT_EQ(objects_left(), 0u);
}

// A look into inner workflows is bounded: what reads there is then taken to read elsewhere.
TEST_F(WorkflowHostTest, TheLookIntoInnerWorkflowsEndsAfterSoManyComponents) {
  function("kernel", FunctionKind::kKernel);
  const auto wide = [this](const std::string& name, int components) {
    std::string all;
    for (int i = 0; i < components; ++i) {
      all += std::string(i == 0 ? "" : ",") + R"({"name": "c)" + std::to_string(i) +
             R"(", "function": "kernel", "input": {"x": "$input.x"}})";
    }
    workflow(name, all, "1");
  };
  const auto keeps = [this](const std::string& inner) {
    workflow("outer",
             R"({"name": "k", "function": "kernel", "input": {"x": "$input.x"}},
      {"name": "i", "function": ")" +
                 inner + R"(", "input": {"x": "$k.y"}},
      {"name": "j", "function": ")" +
                 inner + R"(", "input": {"x": "$k.y"}})",
             "1");
    start("outer", R"({"x": 1})");
    const std::string payload = calls.back().request.payload;
    fail(calls.size() - 1, "Kernel.Fault", false);
    return payload.find(R"("keep":"device")") != std::string::npos;
  };
  // Each inner one counts itself twice and its components twice: what they are, and what they read.
  wide("most", 249);
  EXPECT_TRUE(keeps("most"));
  wide("too_many", 250);
  EXPECT_FALSE(keeps("too_many"));
}

TEST_F(WorkflowHostTest, AnObjectOfTheCallerThatFailedFailsTheRun) {
  function("kernel", FunctionKind::kKernel);
  workflow("chain", kKernels);
  const ObjectId given{new_invocation_id(random), 0};
  ASSERT_TRUE(objects.expect(kDefaultTenant, given).ok());
  start("chain", R"({"x": {"object":")" + to_string(given) + R"("}})");
  objects.fail(kDefaultTenant, given, Error{ErrorCode::kInternal, "its maker broke"});
  fail(0, "Object.Failed", false);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].error_type, "Object.Failed");
}

}  // namespace
}  // namespace lambent::worker
