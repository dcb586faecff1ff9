#include "gpu/cuda_abi/own_stream.h"

#include <gtest/gtest.h>

#include <utility>

namespace lambent {
namespace {

const CUstream kSome = reinterpret_cast<CUstream>(0x1000);

TEST(OwnStream, TheNullStreamAloneMeansTheThreadsOwn) {
  EXPECT_EQ(own_stream(CUstream{nullptr}), CU_STREAM_PER_THREAD);
  EXPECT_EQ(own_stream(CU_STREAM_LEGACY), CU_STREAM_LEGACY);
  EXPECT_EQ(own_stream(kSome), kSome);
}

TEST(OwnStream, ALaunchSeesACopyOfItsConfiguration) {
  CUlaunchConfig given{};
  given.gridDimX = 7;
  const auto own = own_stream(&std::as_const(given));
  const CUlaunchConfig* seen = own;
  EXPECT_EQ(seen->gridDimX, 7u);
  EXPECT_EQ(seen->hStream, CU_STREAM_PER_THREAD);
  EXPECT_EQ(given.hStream, nullptr);
  given.hStream = kSome;
  EXPECT_EQ(static_cast<const CUlaunchConfig*>(own_stream(&std::as_const(given)))->hStream, kSome);
}

TEST(OwnStream, AnInstantiationWritesIntoTheCallersStructureWhoseStreamIsPutBack) {
  CUDA_GRAPH_INSTANTIATE_PARAMS given{};
  const auto instantiate = [](CUDA_GRAPH_INSTANTIATE_PARAMS* seen, CUstream expected) {
    EXPECT_EQ(seen->hUploadStream, expected);
    seen->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
  };
  instantiate(own_stream(&given), CU_STREAM_PER_THREAD);
  EXPECT_EQ(given.hUploadStream, nullptr);
  EXPECT_EQ(given.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  given.hUploadStream = kSome;
  instantiate(own_stream(&given), kSome);
  EXPECT_EQ(given.hUploadStream, kSome);
}

TEST(OwnStream, ANullStructureStaysNull) {
  const CUlaunchConfig* config = nullptr;
  EXPECT_EQ(static_cast<const CUlaunchConfig*>(own_stream(config)), nullptr);
  CUDA_GRAPH_INSTANTIATE_PARAMS* parameters = nullptr;
  EXPECT_EQ(static_cast<CUDA_GRAPH_INSTANTIATE_PARAMS*>(own_stream(parameters)), nullptr);
}

}  // namespace
}  // namespace lambent
