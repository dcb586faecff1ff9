#include "gpu/executor/answer_writer.h"

#include "gpu/executor/testing/parts_testing.h"

namespace lambent::executor {
namespace {

class AnswerWriterTest : public ExecutorParts {
 protected:
  void SetUp() override {
    ExecutorParts::SetUp();
    if (!IsSkipped()) writer_ = std::make_unique<AnswerWriter>(loop_, *context_, *to_host_);
  }
  void TearDown() override {
    writer_.reset();
    request_.reset();
    ExecutorParts::TearDown();
  }
  // A request for affine() whose kernels have run, on as many ones; y is an object or a value.
  void run(size_t count, bool as_object = false) {
    const RequestedInstance instance = load(++instances_, affine(count));
    request_ = std::make_unique<RequestUnderWay>(1, instance, *store_, *contents_, nullptr,
                                                 [](CUresult) {});
    RequestUnderWay& request = *request_;
    request.request = raw(instance, std::vector<int>(count, 1));
    request.request.outputs.at(0).as_object = as_object;
    request.request.raw = !as_object;
    ASSERT_TRUE(request.buffers.gather(request.request, false).ok());
    ASSERT_TRUE(request.buffers.place().ok());
    const auto pieces = request.buffers.queue_inputs(request.request);
    ASSERT_TRUE(pieces.ok());
    for (const TransferPiece& piece : *pieces) {
      ASSERT_EQ((*driver_)->memcpy_h_to_d(piece.device, piece.pointer, piece.size.count),
                CUDA_SUCCESS);
    }
    request.run.begin(request.buffers.addresses());
    ASSERT_TRUE(request.run.advance().ok());
    auto outputs = request.buffers.queue_outputs(request.request, {7, 1}, *kept_);
    ASSERT_TRUE(outputs.ok());
    request.outputs = std::move(*outputs);
    ASSERT_TRUE(instance.loaded.stream().synchronize().ok());
  }
  // None: it did not come.
  std::optional<Result<AnswerWriter::Answer>> write() {
    std::optional<Result<AnswerWriter::Answer>> got;
    writer_->write(*request_,
                   [&](Result<AnswerWriter::Answer> answer) { got = std::move(answer); });
    turn_until([&] { return got.has_value(); });
    return got;
  }

  uint64_t instances_ = 0;
  std::unique_ptr<AnswerWriter> writer_;
  std::unique_ptr<RequestUnderWay> request_;
};

TEST_F(AnswerWriterTest, AShortAnswerIsThePayloadItself) {
  ASSERT_NO_FATAL_FAILURE(run(2));
  auto answer = write();
  ASSERT_TRUE(answer && answer->ok());
  EXPECT_EQ(ints_of((*answer)->payload), (std::vector<int>{4, 4}));
  EXPECT_FALSE((*answer)->file.valid());
}

TEST_F(AnswerWriterTest, ALongAnswerIsCopiedOverTheLinkAndLiesInAFile) {
  const size_t count = 1 << 18;  // 1 MiB
  ASSERT_NO_FATAL_FAILURE(run(count));
  ASSERT_FALSE(request_->outputs.are_inline);
  auto answer = write();
  ASSERT_TRUE(answer && answer->ok());
  ASSERT_TRUE((*answer)->file.valid());
  EXPECT_EQ(ints_of(ExecutorProcess::content_of((*answer)->file.get())),
            std::vector<int>(count, 4));
}

TEST_F(AnswerWriterTest, ObjectsShortAndLongAreSealedInTheirFiles) {
  for (const size_t count : {size_t{2}, size_t{1} << 18}) {
    ASSERT_NO_FATAL_FAILURE(run(count, true));
    const auto answer = write();
    ASSERT_TRUE(answer && answer->ok());
    const OwnedFd& file = request_->outputs.all.at(0).file;
    const auto size = check_sealed(file.get());
    ASSERT_TRUE(size.ok()) << to_string(size.error());
    EXPECT_EQ(*size, Bytes(count * sizeof(int)));
    EXPECT_EQ(ints_of(ExecutorProcess::content_of(file.get())), std::vector<int>(count, 4));
    request_.reset();
  }
}

TEST_F(AnswerWriterTest, MemoryThatWasPreparedIsWhatAnObjectIsWrittenTo) {
  const size_t count = 1 << 18;
  ASSERT_NO_FATAL_FAILURE(run(count, true));
  WantedOutput& output = request_->outputs.all.at(0);
  writer_->prepare(*request_);
  ASSERT_TRUE(output.early.has_value());
  const int prepared = output.early->file();
  const auto answer = write();
  ASSERT_TRUE(answer && answer->ok());
  EXPECT_FALSE(output.early.has_value());
  EXPECT_EQ(output.file.get(), prepared);
  EXPECT_EQ(*check_sealed(output.file.get()), Bytes(count * sizeof(int)));
  EXPECT_EQ(ints_of(ExecutorProcess::content_of(output.file.get())), std::vector<int>(count, 4));
}

TEST_F(AnswerWriterTest, ShortObjectsAndValuesNeedNoPreparation) {
  for (const bool as_object : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(run(as_object ? 2 : 1 << 18, as_object));
    writer_->prepare(*request_);
    EXPECT_FALSE(request_->outputs.all.at(0).early.has_value());
    request_.reset();
  }
}

TEST_F(AnswerWriterTest, TheAnswerOfARemovedInstanceIsNotEncoded) {
  ASSERT_NO_FATAL_FAILURE(run(2));
  request_->run.withdraw();
  const auto answer = write();
  ASSERT_TRUE(answer && answer->ok());
  EXPECT_EQ((*answer)->payload, "");
}

}  // namespace
}  // namespace lambent::executor
