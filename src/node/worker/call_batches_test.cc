#include "node/worker/call_batches.h"

#include <gmock/gmock.h>

#include <set>

#include "decide/kernel_graph/batch_payload.h"

namespace lambent::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Invocations are the test's: it sees each and ends it.
class CallBatchesTest : public ::testing::Test {
 protected:
  struct Made {
    InvocationRequest request;
    CallBatches::Done done;
  };
  struct Answer {
    InvocationId id;  // of the invocation that answered
    std::string text;
  };

  void SetUp() override {
    spec_.id = FunctionId(1);
    spec_.name = {kDefaultTenant, "f"};
    spec_.code_sha256 = "one";
    model_.outputs = {{"y", DataType::kFp32, {-1, 2}}};
    model_.most_elements = 8;
    model_.batches.emplace();
    make({});
  }
  void make(CallBatches::Limits limits) {
    CallBatches::Uses uses{
        .loop = loop_,
        .random = random_,
        .describe =
            [this](const FunctionSpec&, CallBatches::Described done) {
              ++described_;
              if (!is_slow_) return done(model_);
              slow_.push_back(std::move(done));
            },
        .submit =
            [this](InvocationRequest request, CallBatches::Done done) {
              if (refusal_) return done(*refusal_);
              made_.push_back({std::move(request), std::move(done)});
            },
        .forget = [this](InvocationId id) { forgotten_.push_back(id); },
        .on_batch = [this](const FunctionName&, size_t calls) { counted_.push_back(calls); }};
    batches_ = std::make_unique<CallBatches>(std::move(uses), limits);
  }

  static InvocationId id(uint64_t number) { return {1, number}; }
  void call(uint64_t number, uint64_t elements = 1, bool by_value = false) {
    InvocationRequest request;
    request.id = id(number);
    request.function = spec_.name;
    request.payload = "call " + std::to_string(number);
    request.acknowledged = number % 2 == 0;
    batches_->submit(spec_, {std::move(request), elements, by_value,
                             [this, number](Result<InvocationResult> result) {
                               answers_[number] = text_of(result);
                               if (on_answer_) on_answer_(number);
                             }});
  }
  Answer text_of(const Result<InvocationResult>& result) {
    if (!result.ok()) return {{}, result.error().message};
    if (result->error) return {result->id, result->error->message};
    queued_.push_back(result->phases.queue);
    return {result->id, result->payload};
  }
  // What the calls of an invocation brought.
  static std::vector<std::string> parts(const Made& made) {
    const auto& request = made.request;
    if (request.content_type != kernel_graph::kBatchContentType) return {request.payload};
    std::vector<std::string> texts;
    for (const auto& part : *kernel_graph::split_batch(request.payload, 100)) {
      texts.emplace_back(part.payload);
    }
    return texts;
  }
  // Each call is answered with what it brought.
  void answer(size_t index) {
    Made made = std::move(made_.at(index));
    made_.erase(made_.begin() + static_cast<ptrdiff_t>(index));
    InvocationResult result;
    result.id = made.request.id;
    result.payload = made.request.payload;
    made.done(std::move(result));
  }
  void fail(size_t index, Outcome outcome) {
    Made made = std::move(made_.at(index));
    made_.erase(made_.begin() + static_cast<ptrdiff_t>(index));
    InvocationResult result;
    result.id = made.request.id;
    result.outcome = outcome;
    result.error = Error{ErrorCode::kInternal, "it broke"};
    made.done(std::move(result));
  }
  std::vector<uint64_t> answered() const {
    std::vector<uint64_t> numbers;
    for (const auto& [number, text] : answers_) numbers.push_back(number);
    return numbers;
  }

  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  SeededRandom random_{7};
  FunctionSpec spec_;
  ModelDescription model_;
  int described_ = 0;
  bool is_slow_ = false;
  std::vector<CallBatches::Described> slow_;
  std::optional<Error> refusal_;
  std::vector<Made> made_;
  std::map<uint64_t, Answer> answers_;
  std::vector<Duration> queued_;
  std::function<void(uint64_t number)> on_answer_;
  std::vector<InvocationId> forgotten_;
  std::vector<size_t> counted_;
  std::unique_ptr<CallBatches> batches_;
};

// As a run of a workflow that ends with the first outcome and forgets its other calls.
TEST_F(CallBatchesTest, AnAnswerMayHaveTheOthersOfItsBatchForgotten) {
  on_answer_ = [this](uint64_t number) {
    if (number == 2) batches_->forget(id(3));
  };
  for (const Outcome outcome : {Outcome::kSucceeded, Outcome::kRejected, Outcome::kFunctionError}) {
    for (uint64_t i = 1; i <= 3; ++i) call(i);
    answer(0);
    ASSERT_EQ(made_.size(), 1u);
    if (outcome == Outcome::kSucceeded) answer(0);
    if (outcome != Outcome::kSucceeded) fail(0, outcome);
    while (!made_.empty()) answer(0);
    EXPECT_THAT(answered(), ElementsAre(1, 2, 3)) << name_of(outcome);
    EXPECT_EQ(batches_->waiting(), 0u);
    answers_.clear();
    loop_.run_once(Duration(0));
  }
}

TEST_F(CallBatchesTest, BeyondTheirBoundInAllCallsAreMadeByThemselves) {
  CallBatches::Limits limits;
  limits.all_payload = Bytes(15);  // of two
  make(limits);
  for (uint64_t i = 1; i <= 4; ++i) call(i);
  EXPECT_EQ(made_.size(), 2u) << "the first, and what is beyond those that wait";
  while (!made_.empty()) answer(0);
  EXPECT_THAT(answered(), ElementsAre(1, 2, 3, 4));
}

TEST_F(CallBatchesTest, CallsThatCameDuringOneAreOneInvocationAndEachHasItsAnswer) {
  call(1);
  ASSERT_EQ(made_.size(), 1u);
  EXPECT_EQ(made_[0].request.id, id(1)) << "one call is made as it came";
  EXPECT_EQ(made_[0].request.payload, "call 1");
  for (uint64_t i = 2; i <= 4; ++i) call(i, i == 3 ? 2 : 1);
  EXPECT_EQ(made_.size(), 1u);
  clock_.advance(milliseconds(3));
  answer(0);
  EXPECT_EQ(answers_[1].text, "call 1");
  ASSERT_EQ(made_.size(), 1u);
  EXPECT_THAT(parts(made_[0]), ElementsAre("call 2", "call 3", "call 4"));
  EXPECT_EQ(made_[0].request.function, spec_.name);
  EXPECT_TRUE(made_[0].request.acknowledged) << "one of them was";
  const InvocationId batch = made_[0].request.id;
  answer(0);
  EXPECT_THAT(answered(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(answers_[3].text, "call 3");
  EXPECT_EQ(answers_[3].id, batch) << "which made its objects";
  EXPECT_EQ(queued_.back(), milliseconds(3));
  EXPECT_THAT(counted_, ElementsAre(3));
  EXPECT_EQ(batches_->waiting(), 0u);
  EXPECT_EQ(described_, 1);
}

TEST_F(CallBatchesTest, AFailureOfABatchIsThatOfTheCallsThatFailByThemselves) {
  for (uint64_t i = 1; i <= 3; ++i) call(i);
  answer(0);
  fail(0, Outcome::kFunctionError);
  ASSERT_EQ(made_.size(), 2u);
  EXPECT_EQ(made_[0].request.id, id(2));
  EXPECT_EQ(made_[1].request.payload, "call 3");
  EXPECT_THAT(answered(), ElementsAre(1));
  fail(0, Outcome::kFunctionError);
  answer(0);
  EXPECT_EQ(answers_[2].text, "it broke");
  EXPECT_EQ(answers_[3].text, "call 3");
  loop_.run_once(Duration(0));
  call(4);
  ASSERT_EQ(made_.size(), 1u) << "the function is not taken for busy";
}

TEST_F(CallBatchesTest, WhatIsRefusedIsRefusedForAll) {
  for (uint64_t i = 1; i <= 3; ++i) call(i);
  answer(0);
  fail(0, Outcome::kRejected);
  EXPECT_THAT(made_, IsEmpty());
  EXPECT_EQ(answers_[2].text, "it broke");
  EXPECT_EQ(answers_[2].id, id(2));
  refusal_ = Error{ErrorCode::kUnavailable, "stopping"};
  loop_.run_once(Duration(0));
  for (uint64_t i = 4; i <= 6; ++i) call(i);
  for (int i = 0; i < 10; ++i) loop_.run_once(Duration(0));
  EXPECT_THAT(answered(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(answers_[6].text, "stopping");
}

TEST_F(CallBatchesTest, ACallThatNothingWaitsForLeavesTheOthers) {
  for (uint64_t i = 1; i <= 4; ++i) call(i);
  batches_->forget(id(3));
  EXPECT_EQ(answers_[3].text, "nothing waits for it any more");
  answer(0);
  ASSERT_EQ(made_.size(), 1u);
  EXPECT_THAT(parts(made_[0]), ElementsAre("call 2", "call 4"));
  const InvocationId batch = made_[0].request.id;
  batches_->forget(id(2));
  EXPECT_THAT(forgotten_, IsEmpty()) << "the other one is still wanted";
  fail(0, Outcome::kFunctionError);
  EXPECT_EQ(answers_[2].text, "nothing waits for it any more") << "it is not tried again";
  ASSERT_EQ(made_.size(), 1u);
  EXPECT_EQ(made_[0].request.id, id(4));
  batches_->forget(id(4));
  EXPECT_THAT(forgotten_, ElementsAre(id(4))) << "it is an invocation of its own now";
  EXPECT_NE(batch, id(4));
}

TEST_F(CallBatchesTest, ABatchThatNothingWaitsForIsForgotten) {
  for (uint64_t i = 1; i <= 3; ++i) call(i);
  answer(0);
  const InvocationId batch = made_.at(0).request.id;
  batches_->forget(id(2));
  batches_->forget(id(3));
  EXPECT_THAT(forgotten_, ElementsAre(batch));
  fail(0, Outcome::kRejected);
  EXPECT_EQ(batches_->waiting(), 0u);
}

TEST_F(CallBatchesTest, OnlyFunctionsWithBatchesHaveAny) {
  model_.batches.reset();
  for (uint64_t i = 1; i <= 3; ++i) call(i);
  EXPECT_EQ(made_.size(), 3u);
  EXPECT_EQ(described_, 1);
  // Other code may have.
  spec_.code_sha256 = "two";
  model_.batches.emplace();
  for (uint64_t i = 4; i <= 6; ++i) call(i);
  EXPECT_EQ(made_.size(), 4u);
  EXPECT_EQ(described_, 2);
}

TEST_F(CallBatchesTest, CallsWaitUntilItIsKnownAndMayBeForgottenMeanwhile) {
  is_slow_ = true;
  for (uint64_t i = 1; i <= 3; ++i) call(i);
  EXPECT_THAT(made_, IsEmpty());
  ASSERT_EQ(slow_.size(), 1u);
  batches_->forget(id(2));
  slow_[0](Error{ErrorCode::kResourceExhausted, "too much work for the disk"});
  ASSERT_EQ(made_.size(), 2u) << "they are made as they came";
  call(4);
  ASSERT_EQ(slow_.size(), 2u) << "it is asked again";
  slow_[1](model_);
  EXPECT_EQ(made_.size(), 3u);
}

TEST_F(CallBatchesTest, AnIdleFunctionWaitsForOthersAsLongAsItSays) {
  model_.batches->most_wait = milliseconds(5);
  call(1);
  clock_.advance(milliseconds(2));
  call(2);
  loop_.run_once(Duration(0));
  EXPECT_THAT(made_, IsEmpty());
  clock_.advance(milliseconds(3));
  loop_.run_once(Duration(0));
  ASSERT_EQ(made_.size(), 1u);
  EXPECT_THAT(parts(made_[0]), ElementsAre("call 1", "call 2"));
}

TEST_F(CallBatchesTest, WhatCannotJoinOthersIsMadeByItself) {
  call(1);
  call(2, 0);  // of unknown size
  call(3, 9);  // too large
  call(4, 8);  // a whole batch
  call(5, 1);
  std::vector<std::vector<std::string>> runs;
  while (!made_.empty()) {
    runs.push_back(parts(made_[0]));
    answer(0);
  }
  EXPECT_THAT(runs, ElementsAre(ElementsAre("call 1"), ElementsAre("call 2"), ElementsAre("call 3"),
                                ElementsAre("call 4"), ElementsAre("call 5")));
  EXPECT_THAT(answered(), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(CallBatchesTest, AnswersByValueFitOneAnswer) {
  // Of an element 512 KiB, and six times as much as text.
  model_.outputs = {{"y", DataType::kFp32, {-1, 1 << 17}}};
  for (uint64_t i = 1; i <= 4; ++i) call(i, 1, i < 4);
  answer(0);
  EXPECT_THAT(parts(made_.at(0)), ElementsAre("call 2"));
  answer(0);
  EXPECT_THAT(parts(made_.at(0)), ElementsAre("call 3", "call 4")) << "an object takes no part";
}

TEST_F(CallBatchesTest, ObjectsToComeAndNamesOfVersionsAreOfOneCall) {
  call(1);
  InvocationRequest request;
  request.id = id(2);
  request.function = spec_.name;
  request.needs = {{{5, 6}, 0}};
  const auto ignore = [](Result<InvocationResult>) {};
  batches_->submit(spec_, {request, 1, false, ignore});
  request.needs.clear();
  request.function.name = "f:live";
  request.id = id(3);
  batches_->submit(spec_, {request, 1, false, ignore});
  EXPECT_EQ(made_.size(), 3u);
}

TEST_F(CallBatchesTest, BeyondItsLimitsACallIsMadeByItself) {
  make({.waiting = 2});
  for (uint64_t i = 1; i <= 5; ++i) call(i);
  ASSERT_EQ(made_.size(), 3u);
  EXPECT_EQ(made_[1].request.id, id(4));
  EXPECT_EQ(made_[2].request.id, id(5));
  answer(0);
  EXPECT_THAT(parts(made_.back()), ElementsAre("call 2", "call 3"));
}

TEST_F(CallBatchesTest, OfManyFunctionsTheIdleOnesAreForgotten) {
  make({.functions = 2});
  for (uint32_t i = 1; i <= 3; ++i) {
    spec_.id = FunctionId(i);
    call(i);
    answer(0);
  }
  EXPECT_EQ(described_, 3);
  spec_.id = FunctionId(1);
  call(4);
  EXPECT_EQ(described_, 4);
}

}  // namespace
}  // namespace lambent::worker
