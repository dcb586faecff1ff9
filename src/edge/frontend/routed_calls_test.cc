#include "edge/frontend/routed_calls.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/base/time.h"
#include "core/http/forward_words.h"
#include "edge/frontend/outcome_headers.h"
#include "edge/frontend/testing/fake_access.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

// Keeps what is routed until the test says what becomes of it.
class Nodes final : public http::ForwardService {
 public:
  std::vector<http::ForwardCall> routed;

  Result<std::optional<Forwarded>> forwarded_by(const http::Request&) const override {
    return std::optional<Forwarded>();
  }
  void take(http::Request&) override {}
  void route(http::ForwardCall call) override { routed.push_back(std::move(call)); }
  void catch_up(const FunctionName&, std::function<void(Result<void>)> then) override { then({}); }
  void changed() override {}
  std::string self() const override { return "a"; }
  std::vector<Peer> peers() const override { return {}; }
  void ask(const std::string&, Question, Duration,
           std::function<void(Result<http::Response>)>) override {}
};

class RoutedCallsTest : public ::testing::Test {
 protected:
  void SetUp() override { service.functions[{kDefaultTenant, "f"}].name = {kDefaultTenant, "f"}; }

  InvocationRequest request(InvocationKind kind = InvocationKind::kSynchronous) {
    InvocationRequest made;
    made.id = InvocationId{1, ++numbers};
    made.function = {kDefaultTenant, "f"};
    made.kind = kind;
    made.payload = R"({"n": 1})";
    return made;
  }
  void submit(InvocationRequest made) {
    calls.submit(std::move(made),
                 [this](Result<InvocationResult> result) { results.push_back(std::move(result)); });
  }
  // As another node answers.
  void answer(const InvocationResult& result) {
    http::Response response;
    add_outcome(response.headers, result);
    response.body = result.payload;
    answer(std::move(response));
  }
  void answer(http::Response response) {
    http::ForwardCall call = std::move(nodes.routed.front());
    nodes.routed.erase(nodes.routed.begin());
    call.responder.send(std::move(response));
  }
  // As the cluster refuses.
  void refuse(const Error& error) { answer(nodes.routed.front().response_of(error)); }

  FakeClock clock;
  loop::EventLoop loop{clock};
  Nodes nodes;
  FakeService service;
  FakeAccess access;
  RoutedCalls calls{{loop, nodes, service, access}};
  std::vector<Result<InvocationResult>> results;
  uint64_t numbers = 0;
};

TEST_F(RoutedCallsTest, ACallIsAnInvokeOfItsTenantAndTheAnswerItsResult) {
  InvocationRequest made = request();
  made.trace_id = "Root=1-2-3";
  made.needs = {ObjectId{InvocationId{5, 6}, 7}};
  submit(made);
  ASSERT_EQ(nodes.routed.size(), 1u);
  const http::ForwardCall& call = nodes.routed[0];
  EXPECT_EQ(call.destination, http::Destination::kAnyNode);
  EXPECT_EQ(call.function, made.function);
  EXPECT_EQ(call.request.method, "POST");
  EXPECT_EQ(call.request.target, "/2015-03-31/functions/f/invocations");
  EXPECT_EQ(call.request.body, made.payload);
  EXPECT_EQ(call.request.headers.get("X-Amzn-Trace-Id"), "Root=1-2-3");
  EXPECT_EQ(call.request.headers.get("X-Lambent-Needs"), to_string(made.needs[0]));
  InvocationResult there;
  there.id = InvocationId{8, 9};
  there.payload = "2";
  there.start = StartClass::kCold;
  there.phases.run = milliseconds(5);
  answer(there);
  ASSERT_EQ(results.size(), 1u);
  ASSERT_TRUE(results[0].ok());
  EXPECT_EQ(results[0]->id, there.id);
  EXPECT_EQ(results[0]->payload, "2");
  EXPECT_EQ(results[0]->start, StartClass::kCold);
  EXPECT_EQ(results[0]->phases.run, milliseconds(5));
}

TEST_F(RoutedCallsTest, AFailureOfThePlaceIsToldFromTheFunctionsOwn) {
  InvocationResult failed;
  failed.outcome = Outcome::kFunctionError;
  failed.error_type = "Sandbox.Failure";
  failed.payload = R"({"errorType":"Sandbox.Failure"})";
  submit(request());
  answer(failed);
  EXPECT_EQ(results.at(0)->outcome, Outcome::kFunctionError);
  EXPECT_FALSE(results[0]->error) << "the function may say so itself";
  failed.error = Error{ErrorCode::kUnavailable, "its executor died"};
  submit(request());
  answer(failed);
  ASSERT_TRUE(results.at(1)->error);
  EXPECT_EQ(results[1]->error->code, ErrorCode::kUnavailable);
}

TEST_F(RoutedCallsTest, ANodeThatWasLostWithACallIsAFailureOfItsPlaceAndARefusalIsARefusal) {
  submit(request());
  refuse({ErrorCode::kUnavailable, "NodeLost: " + std::string(http::kMayHaveRun)});
  ASSERT_TRUE(results.at(0).ok());
  EXPECT_EQ(results[0]->outcome, Outcome::kFunctionError);
  EXPECT_EQ(results[0]->error_type, "Sandbox.Failure");
  EXPECT_TRUE(results[0]->error);
  submit(request());
  refuse({ErrorCode::kFailedPrecondition, "no node of the cluster has the GPUs"});
  ASSERT_FALSE(results.at(1).ok());
  EXPECT_EQ(results[1].error().code, ErrorCode::kFailedPrecondition);
  // An answer that is cut off may have run too.
  submit(request());
  nodes.routed.clear();
  ASSERT_TRUE(results.at(2).ok());
  EXPECT_EQ(results[2]->error_type, "Sandbox.Failure");
}

TEST_F(RoutedCallsTest, WhatWasPromisedWaitsForRoomAndNothingElseDoes) {
  const auto full = [] {
    InvocationResult result;
    result.outcome = Outcome::kRejected;
    http::Response response{.status = 429};
    add_outcome(response.headers, result);
    response.headers.add("x-lambent-code", "RESOURCE_EXHAUSTED");
    response.headers.add("retry-after-ms", "3000");
    response.body = R"({"Message": "too much waits"})";
    return response;
  };
  submit(request());
  answer(full());
  ASSERT_EQ(results.at(0)->outcome, Outcome::kRejected);
  EXPECT_EQ(results[0]->error->message, "too much waits");
  EXPECT_EQ(results[0]->retry_after, seconds(3));
  InvocationRequest promised = request();
  promised.acknowledged = true;
  submit(promised);
  answer(full());
  EXPECT_EQ(results.size(), 1u);
  clock.advance(seconds(2));
  loop.run_once(Duration(0));
  EXPECT_TRUE(nodes.routed.empty());
  clock.advance(seconds(1));
  loop.run_once(Duration(0));
  ASSERT_EQ(nodes.routed.size(), 1u);
  answer(InvocationResult{});
  EXPECT_EQ(results.size(), 2u);
}

TEST_F(RoutedCallsTest, OneThatRunsHereIsSubmittedHere) {
  const InvocationRequest made = request();
  submit(made);
  http::ForwardCall call = std::move(nodes.routed.at(0));
  call.here(std::move(call.request), std::move(call.responder));
  ASSERT_EQ(service.submitted.size(), 1u);
  EXPECT_EQ(service.submitted[0].id, made.id);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0]->payload, made.payload);
}

TEST_F(RoutedCallsTest, OneThatIsForgottenEndsThereAndIsAnsweredOnce) {
  const InvocationRequest made = request();
  submit(made);
  bool is_gone = false;
  nodes.routed.at(0).responder.on_disconnect([&] { is_gone = true; });
  calls.forget(made.id);
  EXPECT_TRUE(is_gone);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].error().code, ErrorCode::kCancelled);
  answer(InvocationResult{});
  calls.forget(made.id);
  EXPECT_EQ(results.size(), 1u);
  // One that runs here is forgotten here.
  service.hold = true;
  const InvocationRequest other = request();
  submit(other);
  http::ForwardCall call = std::move(nodes.routed.at(0));
  call.here(std::move(call.request), std::move(call.responder));
  calls.forget(other.id);
  EXPECT_EQ(service.forgotten, std::vector<InvocationId>{other.id});
}

TEST_F(RoutedCallsTest, AnEventIsAcceptedUnderTheOtherNodesIdAndFoundThere) {
  InvocationRequest made = request(InvocationKind::kAsynchronous);
  made.idempotency_key = "schedule:s:60";
  submit(made);
  const http::ForwardCall& call = nodes.routed.at(0);
  EXPECT_EQ(call.destination, http::Destination::kAnyNodeAndMore);
  EXPECT_EQ(call.request.headers.get("X-Amz-Invocation-Type"), "Event");
  EXPECT_EQ(call.request.headers.get("amz-sdk-invocation-id"), "schedule:s:60");
  http::Response accepted{.status = 202};
  accepted.headers.add("x-amzn-RequestId", to_string(InvocationId{8, 9}));
  answer(std::move(accepted));
  EXPECT_EQ(results.at(0)->id, (InvocationId{8, 9}));

  std::vector<Result<std::optional<InvocationResult>>> found;
  const auto ask = [&] {
    calls.async_result(kDefaultTenant, InvocationId{8, 9},
                       [&](auto result) { found.push_back(std::move(result)); });
  };
  ask();
  EXPECT_EQ(nodes.routed.at(0).destination, http::Destination::kWhoKnows);
  EXPECT_EQ(nodes.routed[0].request.target, "/v1/invocations/" + to_string(InvocationId{8, 9}));
  answer(http::Response{.status = 202});
  EXPECT_FALSE(found.at(0)->has_value());
  ask();
  InvocationResult rejected;
  rejected.outcome = Outcome::kRejected;
  answer(rejected);
  EXPECT_EQ((**found.at(1)).outcome, Outcome::kRejected);
  ask();
  answer(http::Response{.status = 404});
  EXPECT_FALSE(found.at(2).ok());
  // What is known here is not asked for.
  service.results[InvocationId{8, 9}] = InvocationResult{};
  ask();
  EXPECT_TRUE(found.at(3)->has_value());
  EXPECT_TRUE(nodes.routed.empty());
}

TEST_F(RoutedCallsTest, AnObjectIsRemovedFromAllNodes) {
  const ObjectId object{InvocationId{5, 6}, 7};
  calls.remove_object(kDefaultTenant, object);
  const http::ForwardCall& call = nodes.routed.at(0);
  EXPECT_EQ(call.destination, http::Destination::kAllWhoKnow);
  EXPECT_EQ(call.request.method, "DELETE");
  EXPECT_EQ(call.request.target, "/v1/objects/" + to_string(object));
  answer(http::Response{.status = 204});
}

TEST_F(RoutedCallsTest, WhatComesAfterItsEndIsNothing) {
  auto made = std::make_unique<RoutedCalls>(RoutedCalls::Uses{loop, nodes, service, access});
  int told = 0;
  made->submit(request(), [&](const auto&) { ++told; });
  made->submit(request(InvocationKind::kAsynchronous), [&](const auto&) { ++told; });
  made.reset();
  nodes.routed.clear();
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace lambent::frontend
