#include "decide/dispatch/queues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lambent::dispatch {
namespace {

using scheduling::WaitReason;

constexpr FunctionId kGpuFunction{1};
constexpr FunctionId kHostFunction{2};

InvocationId id(uint64_t n) { return {0, n}; }
Instant at(int second) { return Instant(seconds(second)); }

class QueuesTest : public testing::Test {
 protected:
  QueuesTest() {
    options_.longest_wait = seconds(10);
    flows_.resize(3);
    for (scheduling::Flow& flow : flows_) flow.registered = true;
    flow(kGpuFunction).device_memory = Bytes::gib(1);
  }
  scheduling::Flow& flow(FunctionId function) { return flows_[function.value]; }
  InvocationSlot add(uint64_t number, FunctionId function, int second, bool asynchronous = false) {
    queues_.add({id(number), function, asynchronous}, at(second));
    return *queues_.find(id(number));
  }
  WaitReason reason(uint64_t number) { return queues_[*queues_.find(id(number))].wait.reason(); }

  DispatchOptions options_;
  scheduling::Flows flows_;
  Queues queues_{options_, flows_};
};

TEST_F(QueuesTest, CountWhatWaitsByProcessorAndByClient) {
  add(1, kGpuFunction, 1);
  add(2, kGpuFunction, 1, true);
  add(3, kHostFunction, 1);
  EXPECT_EQ(queues_.queued(), 3u);
  EXPECT_EQ(queues_.queued_synchronous(), 2u);
  EXPECT_EQ(queues_.pending(Processor::kGpu), 2u);
  EXPECT_EQ(queues_.pending(Processor::kHost), 1u);
  EXPECT_EQ(flow(kGpuFunction).pending, 2u);
  EXPECT_EQ(flow(kGpuFunction).pending_synchronous, 1u);
}

TEST_F(QueuesTest, LeaveTheNextOneFirst) {
  const InvocationSlot first = add(1, kGpuFunction, 1);
  const InvocationSlot second = add(2, kGpuFunction, 2);
  queues_.leave(first, at(2));
  EXPECT_EQ(queues_.front(kGpuFunction), second);
  EXPECT_EQ(flow(kGpuFunction).oldest_since, at(2));
  EXPECT_EQ(queues_.in_flight(), 1u);
  queues_.remove(first);
  EXPECT_EQ(queues_.in_flight(), 0u);
  EXPECT_FALSE(queues_.find(id(1)));
}

TEST_F(QueuesTest, PutAnInvocationBackWhereItWas) {
  const InvocationSlot first = add(1, kGpuFunction, 1);
  add(2, kGpuFunction, 2);
  queues_.leave(first, at(2));
  queues_.put_back(first, true, at(3));
  EXPECT_EQ(queues_.front(kGpuFunction), first);
  EXPECT_EQ(flow(kGpuFunction).oldest_since, at(1));
  EXPECT_EQ(queues_.pending(Processor::kGpu), 2u);
}

TEST_F(QueuesTest, EndTheWaitOfAClientAndNoOther) {
  const InvocationSlot with_client = add(1, kGpuFunction, 1);
  add(2, kGpuFunction, 1, true);
  EXPECT_FALSE(queues_.any_expired(at(10)));
  ASSERT_TRUE(queues_.any_expired(at(11)));
  EXPECT_EQ(queues_.pop_expired(), with_client);
  EXPECT_FALSE(queues_.any_expired(at(1000)));
}

TEST_F(QueuesTest, LengthenTheWaitOnlyOfOneThatBeganToStart) {
  const InvocationSlot slot = add(1, kGpuFunction, 1);
  queues_.leave(slot, at(2));
  queues_.put_back(slot, false, at(5));
  EXPECT_EQ(queues_.deadline_of(slot), at(11));
  queues_.leave(slot, at(2));
  queues_.put_back(slot, true, at(5));
  EXPECT_EQ(queues_.deadline_of(slot), at(15));
}

TEST_F(QueuesTest, TimeARunByItsFunctionsTimeout) {
  const InvocationSlot slot = add(1, kGpuFunction, 1);
  queues_.leave(slot, at(2));
  flow(kGpuFunction).timeout = seconds(3);
  queues_.start_timeout(slot, at(2));
  EXPECT_EQ(queues_.earliest_deadline(kNever), at(5));
  flow(kGpuFunction).timeout = {};
  queues_.start_timeout(slot, at(2));
  EXPECT_EQ(queues_.earliest_deadline(kNever), kNever);
}

TEST_F(QueuesTest, AskWhyOnlyTheFirstOfEachQueueWaits) {
  add(1, kGpuFunction, 1);
  add(2, kGpuFunction, 1);
  ASSERT_TRUE(queues_.has_new_heads());
  queues_.note_wait_reasons(at(1), [](FunctionId) { return WaitReason::kNoToken; });
  EXPECT_EQ(reason(1), WaitReason::kNoToken);
  EXPECT_EQ(reason(2), WaitReason::kOwnQueue);
  EXPECT_FALSE(queues_.has_new_heads());
  queues_.leave(*queues_.find(id(1)), at(2));
  EXPECT_TRUE(queues_.has_new_heads());
}

TEST_F(QueuesTest, TellWhatAnInvocationWaitedForLongest) {
  const InvocationSlot first = add(1, kGpuFunction, 1);
  const InvocationSlot second = add(2, kGpuFunction, 1);
  queues_.note_wait_reasons(at(1), [](FunctionId) { return WaitReason::kNoToken; });
  queues_.leave(first, at(5));
  queues_.note_wait_reasons(at(5), [](FunctionId) { return WaitReason::kNoMemory; });
  EXPECT_EQ(queues_[second].wait.told(at(8)), WaitReason::kOwnQueue);
  EXPECT_EQ(queues_[second].wait.told(at(10)), WaitReason::kNoMemory);
  queues_.leave(second, at(8));
  EXPECT_EQ(queues_[second].wait.told(at(10)), WaitReason::kOwnQueue);
}

// What held up the first of a queue at first may be over, and something else hold it up.
TEST_F(QueuesTest, LookAgainAtWhatTheFirstOfAQueueWaitsFor) {
  const InvocationSlot first = add(1, kGpuFunction, 1);
  queues_.note_wait_reasons(at(1), [](FunctionId) { return WaitReason::kNoMemory; });
  const auto later = [](FunctionId) { return WaitReason::kBehindOthers; };
  queues_.look_at_a_head(at(1), later);
  EXPECT_EQ(reason(1), WaitReason::kNoMemory) << "it was just looked at";
  queues_.look_at_a_head(at(2), later);
  EXPECT_EQ(reason(1), WaitReason::kBehindOthers);
  EXPECT_EQ(queues_[first].wait.told(at(5)), WaitReason::kBehindOthers);
}

TEST_F(QueuesTest, CountTimeBehindOneThatCameBackAsTheirOwnQueue) {
  const InvocationSlot first = add(1, kGpuFunction, 1);
  const InvocationSlot second = add(2, kGpuFunction, 1);
  queues_.leave(first, at(2));
  queues_.note_wait_reasons(at(2), [](FunctionId) { return WaitReason::kNoToken; });
  queues_.put_back(first, true, at(4));
  queues_.note_wait_reasons(at(4), [](FunctionId) { return WaitReason::kNoToken; });
  EXPECT_EQ(reason(2), WaitReason::kOwnQueue);
  EXPECT_EQ(queues_[second].wait.told(at(9)), WaitReason::kOwnQueue);
}

// Two that come back at once, before one that was the first meanwhile.
TEST_F(QueuesTest, CountTimeBehindSeveralThatCameBackAsTheirOwnQueue) {
  const InvocationSlot first = add(1, kGpuFunction, 1);
  const InvocationSlot second = add(2, kGpuFunction, 1);
  add(3, kGpuFunction, 1);
  queues_.leave(first, at(2));
  queues_.leave(second, at(2));
  const auto reason_of = [](FunctionId) { return WaitReason::kNoToken; };
  queues_.note_wait_reasons(at(2), reason_of);
  queues_.put_back(second, true, at(4));
  queues_.put_back(first, true, at(4));
  queues_.note_wait_reasons(at(4), reason_of);
  EXPECT_EQ(reason(1), WaitReason::kNoToken);
  EXPECT_EQ(reason(2), WaitReason::kOwnQueue);
  EXPECT_EQ(reason(3), WaitReason::kOwnQueue);
}

TEST_F(QueuesTest, EndNoStretchForOneThatCameBackAndLeftAtOnce) {
  const InvocationSlot first = add(1, kGpuFunction, 1);
  const InvocationSlot second = add(2, kGpuFunction, 1);
  const auto reason_of = [](FunctionId) { return WaitReason::kNoToken; };
  queues_.leave(first, at(4));
  queues_.note_wait_reasons(at(4), reason_of);
  queues_.put_back(first, false, at(6));
  queues_.leave(first, at(6));
  queues_.remove(first);
  queues_.note_wait_reasons(at(6), reason_of);
  // Behind the first for three seconds, and then two and two for a token.
  EXPECT_EQ(queues_[second].wait.told(at(8)), WaitReason::kNoToken);
}

TEST_F(QueuesTest, LookAtTheFirstOfEachQueueInTurnForGpusAndWithout) {
  for (const FunctionId function : {kGpuFunction, kHostFunction}) add(function.value, function, 1);
  queues_.note_wait_reasons(at(1), [](FunctionId) { return WaitReason::kNoMemory; });
  std::vector<FunctionId> asked;
  for (int second = 2; second <= 16; second *= 2) {
    for (int i = 0; i < 2; ++i) {
      queues_.look_at_a_head(at(second), [&](FunctionId function) {
        asked.push_back(function);
        return WaitReason::kHostBusy;
      });
    }
  }
  EXPECT_EQ(asked.size(), 8u);
  EXPECT_EQ(std::ranges::count(asked, kHostFunction), 4);
  EXPECT_EQ(reason(2), WaitReason::kHostBusy);
}

TEST_F(QueuesTest, KnowWhichFlowsWaitForAGpuAndHaveAVariant) {
  add(1, kGpuFunction, 1);
  add(2, kHostFunction, 1);
  EXPECT_TRUE(queues_.waiting().contains(kGpuFunction));
  EXPECT_FALSE(queues_.waiting().contains(kHostFunction));
  EXPECT_TRUE(queues_.waiting_variants().empty());
  const Queues::Waiting waiting = queues_.uncount(kGpuFunction);
  flow(kGpuFunction).has_cpu_variant = true;
  queues_.count(kGpuFunction, waiting);
  EXPECT_TRUE(queues_.waiting_variants().contains(kGpuFunction));
}

TEST_F(QueuesTest, CountAFunctionElsewhereThatNeedsNoGpuAnyMore) {
  add(1, kGpuFunction, 1);
  const Queues::Waiting waiting = queues_.uncount(kGpuFunction);
  EXPECT_EQ(queues_.pending(Processor::kGpu), 0u);
  flow(kGpuFunction).device_memory = Bytes(0);
  queues_.count(kGpuFunction, waiting);
  EXPECT_EQ(queues_.pending(Processor::kHost), 1u);
  EXPECT_EQ(flow(kGpuFunction).pending_synchronous, 1u);
  EXPECT_TRUE(queues_.waiting().empty());
}

TEST_F(QueuesTest, RefuseWhatTheLimitsLeaveNoRoomForUnlessItWasAcknowledged) {
  options_.queued_per_function = 1;
  EXPECT_FALSE(queues_.overload_of({id(1), kGpuFunction}));
  add(1, kGpuFunction, 1);
  EXPECT_TRUE(queues_.overload_of({id(2), kGpuFunction}));
  EXPECT_FALSE(queues_.overload_of({id(2), kGpuFunction, true, true}));
  EXPECT_FALSE(queues_.overload_of({id(2), kHostFunction}));
}

TEST_F(QueuesTest, AreTheSameAfterARestore) {
  queues_.leave(add(1, kGpuFunction, 1), at(2));
  const InvocationSlot second = add(2, kGpuFunction, 2);
  const auto archive_all = [](StateArchive& archive, Queues& queues) {
    queues.archive(archive);
    queues.archive_pending(archive, Processor::kGpu);
    queues.archive_deadlines(archive);
  };
  std::string bytes;
  StateArchive writing(&bytes);
  archive_all(writing, queues_);

  Queues restored(options_, flows_);
  StateArchive reading{std::string_view(bytes)};
  archive_all(reading, restored);
  ASSERT_TRUE(reading.complete());
  restored.find_again();
  EXPECT_EQ(restored.queued(), 1u);
  EXPECT_EQ(restored.in_flight(), 1u);
  EXPECT_EQ(restored.pending(Processor::kGpu), 1u);
  EXPECT_EQ(restored.front(kGpuFunction), second);
  EXPECT_EQ(restored.deadline_of(second), at(12));
  EXPECT_TRUE(restored.waiting().contains(kGpuFunction));
}

}  // namespace
}  // namespace lambent::dispatch
