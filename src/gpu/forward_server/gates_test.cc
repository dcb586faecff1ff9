#include "gpu/forward_server/gates.h"

#include <gtest/gtest.h>

#include <set>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

class GatesTest : public PartsTest {
 protected:
  bool is_held(uint64_t stream) {
    EXPECT_TRUE(ask(streams_, kQueryStream, {stream}));
    return result() == CUDA_ERROR_NOT_READY;
  }
};

TEST_F(GatesTest, AStreamWaitsAtAGateUntilItIsOpenedForItsTurn) {
  const uint64_t stream = create_stream();
  const size_t gate = hold(stream);
  EXPECT_TRUE(is_held(stream));
  gates_.open(gate, gates_.turn(gate) - 1);
  EXPECT_TRUE(is_held(stream));
  open(gate);
  EXPECT_EQ(wait_for_stream(stream), CUDA_SUCCESS);
}

TEST_F(GatesTest, OpeningAllOpensThemForAllTurnsSoFarButNotForTheNext) {
  const uint64_t one = create_stream(), other = create_stream();
  const size_t gate = hold(one);
  hold(other);
  gates_.open_all();
  EXPECT_EQ(wait_for_stream(one), CUDA_SUCCESS);
  EXPECT_EQ(wait_for_stream(other), CUDA_SUCCESS);
  gates_.give_back(gate);
  EXPECT_EQ(hold(one), gate);
  EXPECT_TRUE(is_held(one));
  open(gate);
}

TEST_F(GatesTest, ThereAreSoManyGatesAndNoMoreUntilOneIsGivenBack) {
  std::set<size_t> taken;
  std::set<CUdeviceptr> addresses;
  size_t gate = 0;
  while (taken.size() < 100'000 && gates_.take(&gate) == CUDA_SUCCESS) {
    taken.insert(gate);
    addresses.insert(gates_.address(gate));
  }
  EXPECT_EQ(taken.size(), 16U * 1024);
  EXPECT_EQ(addresses.size(), taken.size());
  EXPECT_EQ(gates_.take(&gate), CUDA_ERROR_OUT_OF_MEMORY);
  gates_.give_back(77);
  ASSERT_EQ(gates_.take(&gate), CUDA_SUCCESS);
  EXPECT_EQ(gate, 77U);
}

TEST_F(GatesTest, WhatWasReleasedCanStillBeToldToOpen) {
  size_t gate = 0;
  ASSERT_EQ(gates_.take(&gate), CUDA_SUCCESS);
  gates_.release();
  gates_.open_all();
  EXPECT_EQ(gates_.take(&gate), CUDA_SUCCESS);
}

}  // namespace
}  // namespace lambent::forward_server
