#include "gpu/forward_server/answers.h"

#include <gtest/gtest.h>

#include <array>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

class AnswersTest : public PartsTest {
 protected:
  static Call in_slot(uint16_t slot) {
    Call call = call_of(kQueryStream, {});
    call.slot = slot;
    return call;
  }
};

TEST_F(AnswersTest, ASlotCanBeNamedAgainOnlyOnceItsCallWasAnswered) {
  const Call call = in_slot(3);
  EXPECT_TRUE(answers_.expect(call));
  EXPECT_FALSE(answers_.expect(call));
  answers_.answer(call, CUDA_SUCCESS);
  EXPECT_TRUE(answers_.expect(call));
}

TEST_F(AnswersTest, AChunkCanBeNamedAgainOnlyOnceItWasReleased) {
  const Call call = call_of(kCopyIn, {0, 0, 5, 0});
  EXPECT_TRUE(answers_.expect(call));
  EXPECT_FALSE(answers_.expect(call));
  answers_.release_chunk(5, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(pages_.chunks[5].done.load(), 1U);
  EXPECT_EQ(pages_.chunks[5].result.load(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(answers_.expect(call));
}

TEST_F(AnswersTest, AnAnswerHasItsValuesAndCountsForItsSlotAlone) {
  const std::array<uint64_t, 2> values = {7, 9};
  answers_.answer(in_slot(4), CUDA_SUCCESS, values);
  answers_.answer(in_slot(4), CUDA_ERROR_NOT_FOUND, {11});
  EXPECT_EQ(pages_.slots[4].answered.load(), 2U);
  EXPECT_EQ(pages_.slots[4].result, CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(pages_.slots[4].values[0], 11U);
  EXPECT_EQ(pages_.slots[4].values[1], 9U);
  EXPECT_EQ(pages_.slots[5].answered.load(), 0U);
}

TEST_F(AnswersTest, TheFirstFailureThatWasNotedIsAnsweredOnce) {
  answers_.note(CUDA_SUCCESS);
  answers_.note(CUDA_ERROR_NOT_FOUND);
  answers_.note(CUDA_ERROR_INVALID_HANDLE);
  answers_.answer(in_slot(1), CUDA_SUCCESS);  // not by a call that does not wait for earlier ones
  EXPECT_EQ(pages_.slots[1].result, CUDA_SUCCESS);
  answers_.answer_with_earlier(in_slot(1), CUDA_ERROR_NOT_READY);  // nor by one that fails itself
  EXPECT_EQ(pages_.slots[1].result, CUDA_ERROR_NOT_READY);
  answers_.answer_with_earlier(in_slot(1), CUDA_SUCCESS);
  EXPECT_EQ(pages_.slots[1].result, CUDA_ERROR_NOT_FOUND);
  answers_.answer_with_earlier(in_slot(1), CUDA_SUCCESS);
  EXPECT_EQ(pages_.slots[1].result, CUDA_SUCCESS);
}

TEST_F(AnswersTest, AFailureThatIsForgottenIsNotAnswered) {
  answers_.note(CUDA_ERROR_NOT_FOUND);
  answers_.forget_noted();
  answers_.answer_with_earlier(in_slot(1), CUDA_SUCCESS);
  EXPECT_EQ(pages_.slots[1].result, CUDA_SUCCESS);
}

TEST_F(AnswersTest, AResultOfABrokenContextIsNotBelievedWhileTheContextIsWhole) {
  EXPECT_EQ(answers_.check(CUDA_ERROR_ILLEGAL_ADDRESS), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(answers_.broken(), CUDA_SUCCESS);
}

}  // namespace
}  // namespace lambent::forward_server
