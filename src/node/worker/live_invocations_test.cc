#include "node/worker/live_invocations.h"

#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

constexpr FunctionId kFunction{3};

InvocationRequest request_of(uint64_t number, const std::string& payload) {
  InvocationRequest request;
  request.id = {1, number};
  request.payload = payload;
  return request;
}

TEST(LiveInvocations, CountThePayloadsOfEachFunctionUntilTheyAreTaken) {
  LiveInvocations live;
  live.add(request_of(1, "1234"), kFunction, "", nullptr);
  live.add(request_of(2, "12"), FunctionId(9), "", nullptr);
  EXPECT_EQ(live.payloads(), Bytes(6));
  EXPECT_EQ(live.payloads(kFunction), Bytes(4));
  EXPECT_EQ(live.payloads(FunctionId(1000)), Bytes(0));

  const LiveInvocation taken = live.take({1, 1});
  EXPECT_EQ(taken.request.payload, "1234");
  EXPECT_EQ(live.payloads(), Bytes(2));
  EXPECT_EQ(live.payloads(kFunction), Bytes(0));
  EXPECT_EQ(live.find({1, 1}), nullptr);
  EXPECT_NE(live.find({1, 2}), nullptr);
}

TEST(LiveInvocations, AreCountedByTheirFunctions) {
  LiveInvocations live;
  live.add(request_of(1, ""), kFunction, "", nullptr);
  live.add(request_of(2, ""), kFunction, "", nullptr);
  EXPECT_EQ(live.count(kFunction), 2u);
  (void)live.take({1, 1});
  EXPECT_EQ(live.count(kFunction), 1u);
  EXPECT_EQ(live.count(FunctionId(1000)), 0u);
}

TEST(LiveInvocations, CountAPayloadThatWasTakenOutOfItsRequestAsItCame) {
  LiveInvocations live;
  LiveInvocation& one = live.add(request_of(1, "1234"), kFunction, "", nullptr);
  one.request.payload.clear();  // as a backend does
  EXPECT_EQ(live.payloads(), Bytes(4));
  (void)live.take({1, 1});
  EXPECT_EQ(live.payloads(), Bytes(0));
}

TEST(LiveInvocations, CountAReleasedPayloadNoMore) {
  LiveInvocations live;
  LiveInvocation& one = live.add(request_of(1, "1234"), kFunction, "", nullptr);
  live.release_payload(one);
  EXPECT_EQ(live.payloads(kFunction), Bytes(0));
  (void)live.take({1, 1});
  EXPECT_EQ(live.payloads(), Bytes(0));
}

TEST(LiveInvocations, CountWhatArrivesLikeWhatIsThere) {
  LiveInvocations live;
  live.begin_arrival(kFunction, Bytes(5));
  live.begin_arrival(FunctionId(1), Bytes(1));
  EXPECT_EQ(live.arriving(), 2u);
  EXPECT_EQ(live.arriving(kFunction), 1u);
  EXPECT_EQ(live.payloads(kFunction), Bytes(5));
  live.end_arrival(kFunction, Bytes(5));
  EXPECT_EQ(live.arriving(), 1u);
  EXPECT_EQ(live.arriving(kFunction), 0u);
  EXPECT_EQ(live.payloads(), Bytes(1));
}

TEST(LiveInvocations, HaveTheKeyAndTheWaiterThatTheyWereAddedWith) {
  LiveInvocations live;
  int calls = 0;
  live.add(request_of(1, ""), kFunction, "key", [&](const auto&) { ++calls; });
  LiveInvocation taken = live.take({1, 1});
  EXPECT_EQ(taken.idempotency_key, "key");
  ASSERT_EQ(taken.waiters.size(), 1u);
  taken.waiters[0](InvocationResult{});
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(live.add(request_of(2, ""), kFunction, "", nullptr).waiters.empty());
}

}  // namespace
}  // namespace lambent::worker
