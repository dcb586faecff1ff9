#include "gpu/forward_server/events.h"

#include <gtest/gtest.h>

#include <bit>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

class EventsTest : public PartsTest {
 protected:
  uint64_t create(uint32_t flags = CU_EVENT_DEFAULT) {
    EXPECT_TRUE(ask(events_, kCreateEvent, {context_, flags}));
    EXPECT_EQ(result(), CUDA_SUCCESS);
    return value(0);
  }
  CUresult query(uint64_t event) {
    EXPECT_TRUE(ask(events_, kQueryEvent, {event}));
    return result();
  }
};

TEST_F(EventsTest, AStreamWaitsForWhatWasRecordedOnAnother) {
  const uint64_t first = create_stream(), second = create_stream(), event = create();
  const size_t gate = hold(first);
  EXPECT_TRUE(send(events_, kRecordEvent, {event, first}));
  EXPECT_TRUE(send(events_, kWaitEvent, {second, event}));
  EXPECT_EQ(query(event), CUDA_ERROR_NOT_READY);
  EXPECT_TRUE(ask(streams_, kQueryStream, {second}));
  EXPECT_EQ(result(), CUDA_ERROR_NOT_READY);
  open(gate);
  EXPECT_EQ(wait_for_stream(second), CUDA_SUCCESS);
  EXPECT_EQ(query(event), CUDA_SUCCESS);
}

TEST_F(EventsTest, WaitingForAnEventIsAnsweredOnceItHasHappened) {
  const uint64_t event = create();
  const size_t gate = hold(stream_);
  EXPECT_TRUE(send(events_, kRecordEvent, {event, stream_}));
  EXPECT_TRUE(ask(events_, kSynchronizeEvent, {event}));
  completions_.poll();
  EXPECT_FALSE(is_answered());
  open(gate);
  EXPECT_EQ(wait_for_answer(), CUDA_SUCCESS);
}

TEST_F(EventsTest, TheTimeBetweenTwoEventsIsAFloatsBits) {
  const uint64_t begin = create(), end = create();
  EXPECT_TRUE(send(events_, kRecordEvent, {begin, stream_}));
  EXPECT_TRUE(send(events_, kRecordEvent, {end, stream_}));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
  EXPECT_TRUE(ask(events_, kElapsedTime, {begin, end}));
  EXPECT_EQ(result(), CUDA_SUCCESS);
  EXPECT_GE(std::bit_cast<float>(static_cast<uint32_t>(value(0))), 0.0F);
  EXPECT_TRUE(ask(events_, kElapsedTime, {begin, end + 16}));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(EventsTest, AnEventForOtherProcessesOrWithoutAContextIsNotMade) {
  EXPECT_TRUE(
      ask(events_, kCreateEvent, {context_, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING}));
  EXPECT_EQ(result(), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_TRUE(ask(events_, kCreateEvent, {context_ + 1, 0}));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(EventsTest, TheEventsOfAContextGoWithItAndNoOther) {
  const uint64_t mine = create();
  EXPECT_TRUE(ask(streams_, kCreateContext, {}));
  const uint64_t other = value(0);
  EXPECT_TRUE(ask(events_, kCreateEvent, {other, 0}));
  const uint64_t others = value(0);
  events_.destroy_all_of(context_);
  EXPECT_EQ(events_.find(mine), nullptr);
  EXPECT_NE(events_.find(others), nullptr);
}

TEST_F(EventsTest, AnEventThatAGraphKeepsCountsUntilTheGraphReleasesIt) {
  constexpr uint64_t kMost = 1 << 16;
  const uint64_t destroyed = create(), of_context = create();
  ASSERT_TRUE(memory_.quotas.events.take(kMost - 2));
  SharedEvent first = *events_.find(destroyed), second = *events_.find(of_context);
  EXPECT_TRUE(send(events_, kDestroyEvent, {destroyed}));
  events_.destroy_all_of(context_);
  EXPECT_EQ(events_.find(destroyed), nullptr);
  EXPECT_EQ(events_.find(of_context), nullptr);
  EXPECT_FALSE(memory_.quotas.events.take());
  first = nullptr;
  EXPECT_TRUE(memory_.quotas.events.take());
  EXPECT_FALSE(memory_.quotas.events.take());
  second = nullptr;
  EXPECT_TRUE(memory_.quotas.events.take());
}

}  // namespace
}  // namespace lambent::forward_server
