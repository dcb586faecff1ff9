#include "gpu/forward_server/streams.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

class StreamsTest : public PartsTest {
 protected:
  CUresult query(uint64_t stream) {
    EXPECT_TRUE(ask(streams_, kQueryStream, {stream}));
    return result();
  }
};

TEST_F(StreamsTest, TheDefaultStreamWaitsForBlockingStreamsAndNotForOthers) {
  const size_t other = hold(create_stream(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
  const size_t blocking = hold(create_stream(CU_STREAM_DEFAULT));
  EXPECT_EQ(query(stream_), CUDA_ERROR_NOT_READY);
  open(blocking);
  EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
  open(other);
}

TEST_F(StreamsTest, ABlockingStreamWaitsForTheDefaultStreamOfItsContextAlone) {
  const uint64_t blocking = create_stream(CU_STREAM_DEFAULT);
  EXPECT_TRUE(ask(streams_, kCreateContext, {}));
  const size_t elsewhere = hold(value(1));
  CUstream used = nullptr;
  ASSERT_EQ(streams_.use(blocking, &used), CUDA_SUCCESS);
  EXPECT_EQ(wait_for_stream(blocking), CUDA_SUCCESS);
  const size_t gate = hold(stream_);
  ASSERT_EQ(streams_.use(blocking, &used), CUDA_SUCCESS);
  EXPECT_EQ(query(blocking), CUDA_ERROR_NOT_READY);
  open(gate);
  EXPECT_EQ(wait_for_stream(blocking), CUDA_SUCCESS);
  open(elsewhere);
}

TEST_F(StreamsTest, ADefaultStreamGoesOnlyWithItsContext) {
  EXPECT_EQ(streams_.destroy(stream_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_TRUE(streams_.has_context(context_));
  streams_.destroy_context(context_);
  EXPECT_FALSE(streams_.has_context(context_));
  EXPECT_EQ(query(stream_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_TRUE(streams_.contexts().empty());
}

TEST_F(StreamsTest, AStreamThatIsDestroyedIsListedUntilItsWorkIsOver) {
  const uint64_t stream = create_stream();
  const size_t gate = hold(stream);
  const size_t before = streams_.all().size();
  EXPECT_TRUE(send(streams_, kDestroyStream, {stream}));
  EXPECT_EQ(streams_.all().size(), before);
  EXPECT_EQ(query(stream), CUDA_ERROR_INVALID_HANDLE);
  open(gate);
  EXPECT_TRUE(poll_until([&] { return streams_.all().size() == before - 1; }));
}

TEST_F(StreamsTest, WaitingForAContextIsWaitingForItsStreamsAlone) {
  EXPECT_TRUE(ask(streams_, kCreateContext, {}));
  const uint64_t other = value(0);
  const size_t gate = hold(create_stream());
  EXPECT_TRUE(ask(streams_, kSynchronizeContext, {other}));
  EXPECT_EQ(result(), CUDA_SUCCESS);
  EXPECT_TRUE(ask(streams_, kSynchronizeContext, {context_}));
  completions_.poll();
  EXPECT_FALSE(is_answered());
  open(gate);
  EXPECT_EQ(wait_for_answer(), CUDA_SUCCESS);
  EXPECT_TRUE(ask(streams_, kSynchronizeContext, {other + 1}));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(StreamsTest, ThereAreSoManyContextsAndNoMore) {
  for (int i = 1; i < 64; ++i) {
    EXPECT_TRUE(ask(streams_, kCreateContext, {}));
    ASSERT_EQ(result(), CUDA_SUCCESS) << i;
  }
  EXPECT_TRUE(ask(streams_, kCreateContext, {}));
  EXPECT_EQ(result(), CUDA_ERROR_OUT_OF_MEMORY);
  const auto contexts = streams_.contexts();
  EXPECT_EQ(contexts.size(), 64U);
  EXPECT_EQ(std::count(contexts.begin(), contexts.end(), context_), 1);
}

TEST_F(StreamsTest, AStreamNeedsAContextAndFlagsThatAreKnown) {
  EXPECT_TRUE(ask(streams_, kCreateStream, {context_ + 1, 0, 0}));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_TRUE(ask(streams_, kCreateStream, {context_, 2, 0}));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamsTest, CallsOfOtherPartsAndTheEndOfAContextAreNotItsOwn) {
  EXPECT_FALSE(streams_.handle(call_of(kDestroyContext, {context_})));
  EXPECT_FALSE(streams_.handle(call_of(kRecordEvent, {})));
}

}  // namespace
}  // namespace lambent::forward_server
