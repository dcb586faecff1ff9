#include "gpu/forward_server/image_upload.h"

#include <gtest/gtest.h>

#include <string>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

class ImageUploadTest : public PartsTest {};

TEST_F(ImageUploadTest, ThePartsOfAnImageAreTakenInTheirOrderAndOnce) {
  upload("one ");
  upload("two");
  EXPECT_EQ(upload_.take(), "one two");
  EXPECT_EQ(upload_.take(), "");
  memory_.give_back_upload(Bytes(7));
}

TEST_F(ImageUploadTest, WhatWasSentCountsUntilItIsReleased) {
  upload("image");
  EXPECT_FALSE(has_all_host_memory());
  upload_.release();
  EXPECT_TRUE(has_all_host_memory());
  EXPECT_EQ(upload_.take(), "");
}

TEST_F(ImageUploadTest, APartThatIsLongerThanAChunkIsRefusedAndItsChunkReleased) {
  EXPECT_TRUE(send(upload_, kUpload, {2, forward_ring::kChunkBytes + 1}));
  EXPECT_EQ(pages_.chunks[2].done.load(), 1U);
  EXPECT_EQ(pages_.chunks[2].result.load(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(upload_.take(), "");
  EXPECT_TRUE(has_all_host_memory());
}

TEST_F(ImageUploadTest, APartForWhichTheClientHasNoMemoryLeftIsRefused) {
  ASSERT_TRUE(memory_.take_upload(Bytes::mib(512)));
  EXPECT_TRUE(send(upload_, kUpload, {0, 1}));
  EXPECT_EQ(pages_.chunks[0].result.load(), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(wait_for_stream(stream_), CUDA_ERROR_OUT_OF_MEMORY);
  memory_.give_back_upload(Bytes::mib(512));
}

}  // namespace
}  // namespace lambent::forward_server
