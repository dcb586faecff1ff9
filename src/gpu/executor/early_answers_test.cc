#include "gpu/executor/early_answers.h"

#include "gpu/executor/testing/parts_testing.h"

namespace lambent::executor {
namespace {

class EarlyAnswersTest : public ExecutorParts {
 protected:
  void SetUp() override {
    ExecutorParts::SetUp();
    if (!IsSkipped()) early_.emplace(*connection_, clock_);
  }
  void TearDown() override {
    request_.reset();
    ExecutorParts::TearDown();
  }
  // Has the device done all of a request for affine() of so many values, but its answer.
  void run(size_t count, const std::string& outputs = R"([{"name": "y"}])") {
    const RequestedInstance instance = load(++instances_, affine(count));
    std::string values;
    for (size_t i = 0; i < count; ++i) values += (i == 0 ? "" : ", ") + std::to_string(i);
    request_ = std::make_unique<RequestUnderWay>(1, instance, *store_, *contents_, nullptr,
                                                 [](CUresult) {});
    RequestUnderWay& request = *request_;
    request.message.invocation = {7, 1};
    request.request = json(instance, R"({"inputs": [{"name": "x", "data": [)" + values +
                                         R"(]}], "outputs": )" + outputs + "}");
    ASSERT_TRUE(request.buffers.gather(request.request, false).ok());
    ASSERT_TRUE(request.buffers.place().ok());
    ASSERT_TRUE(request.buffers.queue_inputs(request.request).ok());
    request.run.begin(request.buffers.addresses());
    ASSERT_TRUE(request.run.advance().ok());
    auto outputs_queued = request.buffers.queue_outputs(request.request, {7, 1}, *kept_);
    ASSERT_TRUE(outputs_queued.ok());
    request.outputs = std::move(*outputs_queued);
    ASSERT_TRUE(instance.loaded.stream().synchronize().ok());
    EarlyAnswers::prepare(request);
  }

  uint64_t instances_ = 0;
  std::optional<EarlyAnswers> early_;
  std::unique_ptr<RequestUnderWay> request_;
};

TEST_F(EarlyAnswersTest, AShortAnswerByValueIsSentAndItsInstanceNamedOnce) {
  ASSERT_NO_FATAL_FAILURE(run(2));
  const auto unsent = early_->answer(*request_);
  ASSERT_TRUE(unsent.has_value());
  EXPECT_EQ(*unsent, "");
  const auto finished = sent<protocol::Finished>();
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->invocation, (InvocationId{7, 1}));
  EXPECT_NE(finished->payload.find("[1,4]"), std::string::npos) << finished->payload;
  EXPECT_EQ(early_->take_answered(), std::vector<SandboxId>{SandboxId(1)});
  EXPECT_TRUE(early_->take_answered().empty());
}

TEST_F(EarlyAnswersTest, AnswersThatAreLongOrMakeObjectsAreLeftToTheLoop) {
  ASSERT_NO_FATAL_FAILURE(run(8192));  // 32 KiB
  EXPECT_FALSE(early_->answer(*request_).has_value());
  request_.reset();
  ASSERT_NO_FATAL_FAILURE(run(2, R"([{"name": "y", "parameters": {"object": true}}])"));
  EXPECT_FALSE(early_->answer(*request_).has_value());
  EXPECT_TRUE(early_->take_answered().empty());
}

TEST_F(EarlyAnswersTest, ARequestThatFailsOrWhoseInstanceIsRemovedIsLeftToTheLoop) {
  ASSERT_NO_FATAL_FAILURE(run(2));
  request_->failure = Error{ErrorCode::kInternal, "a copy"};
  EXPECT_FALSE(early_->answer(*request_).has_value());
  request_->failure.reset();
  request_->run.withdraw();
  EXPECT_FALSE(early_->answer(*request_).has_value());
  EXPECT_TRUE(early_->take_answered().empty());
}

TEST_F(EarlyAnswersTest, AnAnswerThatTheSocketDoesNotTakeComesBack) {
  ASSERT_NO_FATAL_FAILURE(run(2));
  worker_.reset();
  const auto unsent = early_->answer(*request_);
  ASSERT_TRUE(unsent.has_value());
  EXPECT_TRUE(protocol::decode_executor_message(*unsent).ok());
  EXPECT_EQ(early_->take_answered().size(), 1u);
}

}  // namespace
}  // namespace lambent::executor
