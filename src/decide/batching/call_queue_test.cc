#include "decide/batching/call_queue.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

namespace lambent::batching {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Instant kStart = Instant() + seconds(100);

InvocationId id(uint64_t number) { return {1, number}; }
QueuedCall call(uint64_t number, uint64_t elements = 1, Bytes payload = Bytes(10)) {
  return {id(number), kStart, elements, payload};
}

TEST(CallQueue, WhatComesDuringARunIsTheNextBatch) {
  CallQueue queue({.batch = {.most_elements = 4}});
  EXPECT_TRUE(queue.add(call(1)));
  EXPECT_THAT(queue.next(kStart).calls, ElementsAre(id(1)));
  for (uint64_t i = 2; i <= 7; ++i) EXPECT_TRUE(queue.add(call(i)));
  EXPECT_THAT(queue.next(kStart).calls, IsEmpty()) << "one is under way";
  queue.ended(kStart + milliseconds(1), true);
  EXPECT_THAT(queue.next(kStart + milliseconds(1)).calls, ElementsAre(id(2), id(3), id(4), id(5)));
  queue.ended(kStart + milliseconds(2), true);
  EXPECT_THAT(queue.next(kStart + milliseconds(2)).calls, ElementsAre(id(6), id(7)));
  queue.ended(kStart + milliseconds(3), true);
  EXPECT_TRUE(queue.is_idle());
}

TEST(CallQueue, AnIdleFunctionWaitsForOthersNoLongerThanItMay) {
  CallQueue queue({.batch = {.most_elements = 4, .most_wait = milliseconds(5)}});
  queue.add(call(1));
  CallQueue::Next next = queue.next(kStart);
  EXPECT_THAT(next.calls, IsEmpty());
  EXPECT_EQ(next.again, kStart + milliseconds(5));
  queue.add(call(2));
  next = queue.next(kStart + milliseconds(5));
  EXPECT_THAT(next.calls, ElementsAre(id(1), id(2)));
  EXPECT_EQ(next.again, std::nullopt);
}

TEST(CallQueue, ACallThatHasWaitedElsewhereComesFirstAndWaitsNoLonger) {
  CallQueue queue({.batch = {.most_elements = 4, .most_wait = milliseconds(5)}});
  queue.add(call(1));
  queue.add({id(2), kStart - milliseconds(3), 1, Bytes(1)});
  queue.add(call(3));
  EXPECT_EQ(queue.next(kStart).again, kStart + milliseconds(2));
  EXPECT_THAT(queue.next(kStart + milliseconds(2)).calls, ElementsAre(id(2), id(1), id(3)));
}

TEST(CallQueue, ACallWithoutElementsRunsByItselfAndHoldsUpNoBatch) {
  CallQueue queue({.batch = {.most_elements = 4, .most_wait = seconds(1)}});
  queue.add(call(1, 0));
  queue.add(call(2));
  queue.add(call(3, 0));
  queue.add(call(4));
  EXPECT_THAT(queue.next(kStart).calls, ElementsAre(id(1))) << "it waits for no others";
  queue.ended(kStart, true);
  EXPECT_THAT(queue.next(kStart).calls, ElementsAre(id(2), id(4)))
      << "one that cannot join them waits: they do not wait for more";
  queue.ended(kStart, true);
  EXPECT_THAT(queue.next(kStart).calls, ElementsAre(id(3)));
}

TEST(CallQueue, ABatchIsBoundedByCallsAndBytesToo) {
  CallQueue queue(
      {.batch = {.most_elements = 16, .most_wait = seconds(1)}, .calls = 3, .payload = Bytes(100)});
  for (uint64_t i = 1; i <= 4; ++i) queue.add(call(i));
  EXPECT_THAT(queue.next(kStart).calls, ElementsAre(id(1), id(2), id(3)));
  queue.ended(kStart, true);
  queue.add(call(5, 1, Bytes(95)));
  EXPECT_THAT(queue.next(kStart).calls, ElementsAre(id(4)));
  queue.ended(kStart, true);
  queue.add(call(6, 1, Bytes(200)));
  EXPECT_THAT(queue.next(kStart).calls, ElementsAre(id(5)));
  queue.ended(kStart, true);
  EXPECT_THAT(queue.next(kStart).calls, ElementsAre(id(6)))
      << "larger than a batch, but it may run";
}

TEST(CallQueue, WhereNoOtherMayJoinACallWaitsForNone) {
  CallQueue queue(
      {.batch = {.most_elements = 16, .most_wait = seconds(1)}, .calls = 3, .payload = Bytes(100)});
  queue.add(call(1, 1, Bytes(100)));
  EXPECT_THAT(queue.next(kStart).calls, ElementsAre(id(1))) << "as many bytes as a batch has";
  queue.ended(kStart, true);
  queue.add(call(2));
  queue.add(call(3));
  EXPECT_EQ(queue.next(kStart).again, kStart + seconds(1)) << "a third may still come";
  queue.add(call(4));
  EXPECT_THAT(queue.next(kStart).calls, ElementsAre(id(2), id(3), id(4)));
}

TEST(CallQueue, WhereABatchIsOneCallNoneWaits) {
  CallQueue queue({.batch = {.most_elements = 16, .most_wait = seconds(1)}, .calls = 1});
  queue.add(call(1));
  EXPECT_THAT(queue.next(kStart).calls, ElementsAre(id(1)));
}

TEST(CallQueue, BeyondItsLimitsACallDoesNotWait) {
  CallQueue queue({.batch = {.most_elements = 4}, .waiting = 2, .waiting_payload = Bytes(15)});
  EXPECT_TRUE(queue.add(call(1, 1, Bytes(100)))) << "it runs at once";
  queue.next(kStart);
  EXPECT_TRUE(queue.add(call(2)));
  EXPECT_FALSE(queue.add(call(3))) << "20 bytes";
  EXPECT_TRUE(queue.add(call(4, 1, Bytes(1))));
  EXPECT_FALSE(queue.add(call(5, 1, Bytes(1)))) << "a third";
  EXPECT_TRUE(queue.remove(id(2)));
  EXPECT_FALSE(queue.remove(id(2)));
  EXPECT_TRUE(queue.add(call(6)));
  queue.ended(kStart, true);
  EXPECT_THAT(queue.next(kStart).calls, ElementsAre(id(4), id(6)));
}

TEST(CallQueue, BatchesGrowWhileTheSloAllows) {
  CallQueue queue({.batch = {.most_elements = 8, .slo = milliseconds(20)}});
  Instant now = kStart;
  uint64_t last = 0;
  std::vector<size_t> sizes;
  // A run takes 1 ms for each call, and ten always wait.
  for (int i = 0; i < 12; ++i) {
    while (queue.waiting() < 10) queue.add({id(++last), now, 1, Bytes(1)});
    const auto calls = queue.next(now).calls;
    sizes.push_back(calls.size());
    now += milliseconds(1) * static_cast<int64_t>(calls.size());
    queue.ended(now, true);
  }
  EXPECT_EQ(sizes.front(), 1u);
  EXPECT_EQ(sizes.back(), 8u);
  EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
  queue.add({id(++last), now, 1, Bytes(1)});
  queue.next(now);
  queue.ended(now + milliseconds(11), false);
  while (queue.waiting() < 10) queue.add({id(++last), now, 1, Bytes(1)});
  EXPECT_EQ(queue.next(now).calls.size(), 8u) << "calls that were made one by one say nothing";
  queue.ended(now + milliseconds(11), true);
  while (queue.waiting() < 10) queue.add({id(++last), now, 1, Bytes(1)});
  EXPECT_EQ(queue.next(now).calls.size(), 4u);
}

// Whatever comes in whatever order: each call runs once or is removed, and no batch is too large.
TEST(CallQueue, NoCallIsLostOrRunTwice) {
  CallQueue queue(
      {.batch = {.most_elements = 6, .most_wait = milliseconds(3), .slo = milliseconds(10)},
       .calls = 4,
       .payload = Bytes(60),
       .waiting = 20});
  uint64_t state = 7;
  const auto random = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  Instant now = kStart;
  uint64_t last = 0;
  std::map<InvocationId, QueuedCall> there;
  for (int i = 0; i < 20'000; ++i) {
    now += microseconds(static_cast<int64_t>(random(2'000)));
    switch (random(4)) {
      case 0:
      case 1: {
        const QueuedCall made{id(++last), now, random(4), Bytes(random(40))};
        if (queue.add(made)) there[made.id] = made;
        break;
      }
      case 2: {
        if (queue.is_running()) {
          queue.ended(now, random(5) > 0);
          break;
        }
        const auto next = queue.next(now);
        ASSERT_EQ(next.calls.empty() && !there.empty(), next.again.has_value());
        if (next.again) {
          ASSERT_GT(*next.again, now);
        }
        uint64_t elements = 0;
        Bytes payload;
        for (const InvocationId each : next.calls) {
          const auto found = there.find(each);
          ASSERT_NE(found, there.end());
          if (next.calls.size() > 1) {
            ASSERT_GT(found->second.elements, 0u);
          }
          elements += found->second.elements;
          payload += found->second.payload;
          there.erase(found);
        }
        ASSERT_LE(next.calls.size(), 4u);
        if (next.calls.size() > 1) {
          ASSERT_LE(elements, 6u);
          ASSERT_LE(payload, Bytes(60));
        }
        break;
      }
      default:
        if (!there.empty() && random(3) == 0) {
          const InvocationId gone = there.begin()->first;
          ASSERT_TRUE(queue.remove(gone));
          there.erase(gone);
        }
    }
    ASSERT_EQ(queue.waiting(), there.size());
  }
}

}  // namespace
}  // namespace lambent::batching
