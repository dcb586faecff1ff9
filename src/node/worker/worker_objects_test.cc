// What invocations need and make: the worker waits for objects before dispatch hears of a call.
#include "core/base/sealed_memory.h"
#include "core/domain/limits.h"
#include "core/domain/stopping.h"
#include "node/worker/limits.h"
#include "node/worker/testing/worker_testing.h"

namespace lambent::worker {
namespace {

using testing::HasSubstr;

// An object that exists.
ObjectId put_object(objects::ObjectStore& objects, uint32_t number, const std::string& bytes) {
  const ObjectId id{{1, 1}, number};
  EXPECT_TRUE(
      objects.store(kDefaultTenant, id, raw_tensor(Bytes(bytes.size())), *sealed_memory(bytes))
          .ok());
  return id;
}

std::string bytes_of(objects::ObjectStore& objects, ObjectId id) {
  std::string bytes = "nothing yet";
  objects.open(kDefaultTenant, id, Instant{}, [&](Result<objects::OpenedObject> opened) {
    bytes = opened.ok() ? *read_memory(opened->memfd.get(), Bytes(0), opened->size)
                        : to_string(opened.error());
  });
  return bytes;
}

TEST_F(WorkerTest, AnInvocationWaitsForWhatAnotherMakes) {
  deploy("f");
  deploy("g");
  hold_events();
  InvocationRequest first = request_for("f", "1");
  first.outputs = 1;
  const ObjectId made{first.id, 0};
  submit(std::move(first));
  ASSERT_TRUE(until([&] { return held.size() == 1; }));
  InvocationRequest second = request_for("g", "2");
  second.needs = {made, put_object(objects, 0, "x"), made};
  const auto waiting = submit(std::move(second));
  settle();
  EXPECT_EQ(waiting->answers, 0);
  EXPECT_EQ(held.size(), 1U);
  answer_held(0, "the result");
  ASSERT_TRUE(until([&] { return held.size() == 2; }));
  EXPECT_EQ(bytes_of(objects, made), "the result");
  EXPECT_EQ(objects.status(kDefaultTenant, made)->references, 1U);
  answer_held(1, "done");
  EXPECT_EQ(await(waiting).payload, "done");
  EXPECT_EQ(objects.status(kDefaultTenant, made)->references, 0U);
}

TEST_F(WorkerTest, WhatAFunctionAnswersLivesAsLongAsItsInvocationSays) {
  deploy("f");
  for (const auto& [said, lives] : {std::pair(std::optional<Duration>(seconds(5)), seconds(5)),
                                    std::pair(std::optional<Duration>(), seconds(3600))}) {
    InvocationRequest request = request_for("f", "1");
    request.outputs = 1;
    request.time_to_live = said;
    const ObjectId made{request.id, 0};
    await(submit(std::move(request)));
    const auto status = objects.status(kDefaultTenant, made);
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status->expires - status->created, lives);
  }
}

TEST_F(WorkerTest, AFailureReachesTheEndOfTheChainWithItsCause) {
  deploy("f");
  launcher.script = [](FakeRuntime& runtime, const Event& event) {
    runtime.fail(event, R"({"errorMessage":"seven is no prime"})", "ValueError");
  };
  InvocationRequest request = request_for("f", "1");
  request.outputs = 1;
  ObjectId last{request.id, 0};
  submit(std::move(request));
  std::vector<std::shared_ptr<Submission>> chain;
  for (int i = 0; i < 1000; ++i) {
    InvocationRequest next = request_for("f", "2");
    next.needs = {last};
    next.outputs = 1;
    last = {next.id, 0};
    chain.push_back(submit(std::move(next)));
  }
  ASSERT_TRUE(until([&] { return chain.back()->answers == 1; }));
  EXPECT_EQ(chain[0]->result().outcome, Outcome::kRejected);
  EXPECT_THAT(chain[0]->result().error->message, HasSubstr(".0: function 'f' failed: "));
  EXPECT_THAT(chain[0]->result().error->message, HasSubstr("seven is no prime"));
  EXPECT_THAT(chain.back()->result().error->message, HasSubstr("seven is no prime"));
  EXPECT_LT(chain.back()->result().error->message.size(), 1200U);
  EXPECT_THAT(bytes_of(objects, last), HasSubstr("seven is no prime"));
  EXPECT_EQ(objects.statistics().expected, 0U);
}

TEST_F(WorkerTest, WhatCannotBeNeededIsRefusedAtOnce) {
  deploy("f");
  InvocationRequest unknown = request_for("f", "1");
  unknown.needs = {ObjectId{{9, 9}, 9}};
  const auto refused = submit(std::move(unknown));
  ASSERT_EQ(refused->answers, 1);
  EXPECT_EQ(refused->answer->error().code, ErrorCode::kNotFound);
  EXPECT_THAT(refused->answer->error().message, HasSubstr("needs 00000000-0000-0009"));
  InvocationRequest greedy = request_for("f", "1");
  greedy.outputs = limits::kOutputs + 1;
  EXPECT_EQ(submit(std::move(greedy))->answer->error().code, ErrorCode::kInvalidArgument);
  InvocationRequest many = request_for("f", "1");
  for (uint32_t i = 0; i <= limits::kNeeds; ++i) many.needs.push_back(put_object(objects, i, "x"));
  EXPECT_EQ(submit(std::move(many))->result().error->code, ErrorCode::kInvalidArgument);
}

TEST_F(WorkerTest, AClientThatLeavesEndsItsWaitForObjects) {
  deploy("f");
  const ObjectId object{{1, 1}, 7};
  ASSERT_TRUE(objects.expect(kDefaultTenant, object).ok());
  InvocationRequest request = request_for("f", "1");
  request.needs = {object};
  const InvocationId id = request.id;
  const auto waiting = submit(std::move(request));
  worker->forget(id);
  EXPECT_EQ(waiting->result().error->code, ErrorCode::kCancelled);
  EXPECT_EQ(objects.status(kDefaultTenant, object)->references, 0U);
  EXPECT_EQ(objects.statistics().waiting, 0U);
}

TEST_F(WorkerTest, WaitingForObjectsEndsAfterAnHourOrWhenTheWorkerStops) {
  deploy("f");
  const ObjectId object{{1, 1}, 7};
  ASSERT_TRUE(objects.expect(kDefaultTenant, object).ok());
  InvocationRequest request = request_for("f", "1");
  request.needs = {object};
  const auto late = submit(request);
  clock.advance(limits::kNeedsTimeout);
  ASSERT_TRUE(until([&] { return late->answers == 1; }));
  EXPECT_EQ(late->result().error->code, ErrorCode::kDeadlineExceeded);
  request.id = new_invocation_id(random);
  const auto stopped = submit(request);
  request.id = new_invocation_id(random);
  request.within_run = true;
  const auto step = submit(request);
  bool drained = false;
  worker->drain([&] { drained = true; });
  EXPECT_EQ(stopped->result().error, stopping_error(false)) << "another node may run it";
  EXPECT_EQ(step->result().error, stopping_error(true));
  ASSERT_TRUE(until([&] { return drained; }));
}

TEST_F(WorkerTest, OnlySoManyInvocationsWaitForObjects) {
  deploy("f");
  const ObjectId object{{1, 1}, 7};
  ASSERT_TRUE(objects.expect(kDefaultTenant, object).ok());
  InvocationRequest request = request_for("f", "1");
  request.needs = {object};
  for (size_t i = 0; i < limits::kInvocationsWaiting; ++i) {
    request.id = new_invocation_id(random);
    submit(request);
  }
  request.id = new_invocation_id(random);
  EXPECT_EQ(submit(request)->result().error->code, ErrorCode::kResourceExhausted);
  // One that needs nothing, or only objects that exist, does not wait.
  InvocationRequest future = request_for("f", "2");
  future.outputs = 1;
  EXPECT_EQ(await(submit(std::move(future))).outcome, Outcome::kSucceeded);
  InvocationRequest ready = request_for("f", "3");
  ready.needs = {put_object(objects, 0, "x")};
  EXPECT_EQ(await(submit(std::move(ready))).outcome, Outcome::kSucceeded);
}

TEST_F(WorkerTest, ARepeatGetsItsAnswerThoughItsObjectsAreGone) {
  deploy("f");
  for (const auto kind : {InvocationKind::kSynchronous, InvocationKind::kAsynchronous}) {
    const ObjectId object = put_object(objects, 0, "x");
    InvocationRequest request = request_for("f", "1");
    request.kind = kind;
    request.idempotency_key = "sdk-4";
    request.needs = {object};
    const InvocationId first = await(submit(request)).id;
    ASSERT_TRUE(until([&] { return objects.status(kDefaultTenant, object)->references == 0; }));
    ASSERT_TRUE(objects.remove(kDefaultTenant, object).ok());
    request.id = new_invocation_id(random);
    EXPECT_EQ(await(submit(request)).id, first);
    // Another request is refused as ever.
    request.id = new_invocation_id(random);
    request.idempotency_key = "sdk-5";
    const auto refused = submit(request);
    ASSERT_TRUE(until([&] { return refused->answers == 1; }));
    EXPECT_EQ(refused->answer->error().code, ErrorCode::kNotFound);
  }
}

TEST_F(WorkerTest, AnAsynchronousInvocationWhoseObjectsWereLostSaysSo) {
  deploy("f");
  const ObjectId object{{1, 1}, 7};
  ASSERT_TRUE(objects.expect(kDefaultTenant, object).ok());
  InvocationRequest request = request_for("f", "1");
  request.kind = InvocationKind::kAsynchronous;
  request.needs = {object};
  const InvocationId id = request.id;
  const auto accepted = submit(std::move(request));
  ASSERT_TRUE(until([&] { return accepted->answers == 1; }));
  // As after a restart: the next worker knows the invocation, but not the object.
  worker.reset();
  objects.fail(kDefaultTenant, object, {ErrorCode::kInternal, "gone"});
  start_worker();
  std::optional<InvocationResult> result;
  ASSERT_TRUE(until([&] {
    worker->async_result(kDefaultTenant, id, [&](Result<std::optional<InvocationResult>> found) {
      if (found.ok()) result = *found;
    });
    return result.has_value();
  }));
  EXPECT_EQ(result->outcome, Outcome::kRejected);
  EXPECT_THAT(result->error->message, HasSubstr("needs 00000000-0000-0001"));
}

}  // namespace
}  // namespace lambent::worker
