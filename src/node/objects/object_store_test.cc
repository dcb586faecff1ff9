// Objects in memory: who may open them, who waits for them, how long they live.
#include "node/objects/limits.h"
#include "node/objects/testing/object_store_testing.h"

namespace lambent::objects {
namespace {

TEST_F(ObjectStoreTest, WhatWasStoredIsOpenedByItsTenantAlone) {
  ASSERT_TRUE(put(1, "hello").ok());
  EXPECT_EQ(get_now(1), "hello");
  std::string seen;
  get(1, seen, kNever, TenantId(2));
  EXPECT_EQ(seen.substr(0, 9), "NOT_FOUND");
}

TEST_F(ObjectStoreTest, WhatIsUnknownHereIsSoughtElsewhereOnce) {
  std::vector<ObjectId> sought;
  store_->seek_elsewhere([&](TenantId, ObjectId object) {
    sought.push_back(object);
    return Result<void>();
  });
  std::string first, second;
  get(1, first, loop_.now());
  get(1, second, loop_.now());
  EXPECT_EQ(first + second, "") << "they wait whatever their deadline";
  EXPECT_EQ(sought, std::vector<ObjectId>{id(1)});
  ASSERT_TRUE(put(1, "from afar").ok());
  EXPECT_EQ(first, "from afar");
  EXPECT_EQ(second, "from afar");
  EXPECT_EQ(get_now(1), "from afar");
  EXPECT_EQ(sought.size(), 1u);
}

TEST_F(ObjectStoreTest, WhatIsNowhereIsNotFoundAndSoughtAgainTheNextTime) {
  int sought = 0;
  store_->seek_elsewhere([&](TenantId, ObjectId) {
    ++sought;
    return Result<void>();
  });
  for (int i = 1; i <= 2; ++i) {
    std::string seen;
    get(1, seen, kNever);
    store_->not_elsewhere(kTenant, id(1), {ErrorCode::kNotFound, "no node has it"});
    EXPECT_EQ(seen, "NOT_FOUND: no node has it");
    EXPECT_EQ(sought, i);
  }
  EXPECT_EQ(store_->statistics().expected, 0u);
  EXPECT_FALSE(store_->status(kTenant, id(1)).ok());
  store_->not_elsewhere(kTenant, id(1), {ErrorCode::kNotFound, "no node has it"});
}

TEST_F(ObjectStoreTest, WhatIsExpectedHereOrHasFailedIsNotSought) {
  int sought = 0;
  store_->seek_elsewhere([&](TenantId, ObjectId) {
    ++sought;
    return Result<void>();
  });
  ASSERT_TRUE(store_->expect(kTenant, id(1)).ok());
  ASSERT_TRUE(store_->expect(kTenant, id(2)).ok());
  store_->fail(kTenant, id(2), {ErrorCode::kAborted, "crashed"});
  EXPECT_TRUE(store_->want(kTenant, id(1)).ok());
  EXPECT_EQ(get_now(2).substr(0, 7), "ABORTED");
  EXPECT_EQ(sought, 0);
  EXPECT_TRUE(store_->want(kTenant, id(3)).ok());
  EXPECT_EQ(sought, 1);
  EXPECT_TRUE(store_->is_sought(kTenant, id(3)));
  EXPECT_FALSE(store_->is_sought(kTenant, id(1)));
}

TEST_F(ObjectStoreTest, WhenTooMuchIsSoughtThatIsSaidAndNothingIsExpected) {
  store_->seek_elsewhere([](TenantId, ObjectId) {
    return Result<void>(Error{ErrorCode::kResourceExhausted, "too many"});
  });
  std::string seen;
  get(1, seen);
  EXPECT_EQ(seen, "RESOURCE_EXHAUSTED: too many");
  EXPECT_EQ(store_->want(kTenant, id(1)).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(store_->statistics().expected, 0u);
}

TEST_F(ObjectStoreTest, APeerThatNeverAnswersIsNotWaitedForLongerThanAWhile) {
  store_->seek_elsewhere([](TenantId, ObjectId) { return Result<void>(); });
  std::string seen;
  get(1, seen, loop_.now());
  pass(seconds(31));
  EXPECT_EQ(seen.substr(0, 17), "DEADLINE_EXCEEDED");
}

TEST_F(ObjectStoreTest, MemoryThatCouldChangeIsRefused) {
  auto memfd = new_memory(Bytes(5));
  const auto refused = store_->store(kTenant, id(1), raw_tensor(Bytes(5)), std::move(*memfd));
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  auto shorter = sealed_memory("1234567");
  const auto wrong =
      store_->store(kTenant, id(1), TensorType{DataType::kFp32, {2}}, std::move(*shorter));
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(wrong.error().message.find("FP32 [2] has 8 bytes"), std::string::npos);
  EXPECT_EQ(get_now(1).substr(0, 9), "NOT_FOUND");
}

TEST_F(ObjectStoreTest, ALifeMustHaveALength) {
  auto memfd = sealed_memory("x");
  EXPECT_EQ(store_->store(kTenant, id(1), raw_tensor(Bytes(1)), std::move(*memfd), Duration(0))
                .error()
                .code,
            ErrorCode::kInvalidArgument);
}

TEST_F(ObjectStoreTest, WhoAsksForAnExpectedObjectWaitsForIt) {
  ASSERT_TRUE(store_->expect(kTenant, id(1)).ok());
  std::string first, second, early;
  get(1, first);
  get(1, second, loop_.now() + seconds(5));
  get(1, early, loop_.now());
  EXPECT_EQ(early.substr(0, 17), "DEADLINE_EXCEEDED");
  EXPECT_EQ(store_->statistics().waiting, 2u);
  ASSERT_TRUE(put(1, "made").ok());
  EXPECT_EQ(first, "made");
  EXPECT_EQ(second, "made");
  EXPECT_EQ(store_->statistics().waiting, 0u);
  pass(seconds(6));
}

TEST_F(ObjectStoreTest, AWaitEndsAtItsDeadline) {
  ASSERT_TRUE(store_->expect(kTenant, id(1)).ok());
  std::string seen;
  get(1, seen, loop_.now() + seconds(5));
  pass(seconds(4));
  EXPECT_EQ(seen, "");
  pass(seconds(1));
  EXPECT_EQ(seen.substr(0, 17), "DEADLINE_EXCEEDED");
  ASSERT_TRUE(put(1, "late").ok());
  EXPECT_EQ(store_->statistics().timed_out, 1u);
}

TEST_F(ObjectStoreTest, ACancelledWaitHearsNothing) {
  ASSERT_TRUE(store_->expect(kTenant, id(1)).ok());
  std::string seen;
  const WaitId wait = get(1, seen);
  store_->cancel(wait);
  store_->cancel(wait);
  ASSERT_TRUE(put(1, "made").ok());
  EXPECT_EQ(seen, "");
}

TEST_F(ObjectStoreTest, AWaitMayBeCancelledByTheOneBeforeIt) {
  ASSERT_TRUE(store_->expect(kTenant, id(1)).ok());
  std::string second;
  WaitId wait = 0;
  store_->open(kTenant, id(1), kNever, [&](Result<OpenedObject>) { store_->cancel(wait); });
  wait = get(1, second);
  ASSERT_TRUE(put(1, "made").ok());
  EXPECT_EQ(second, "");
}

TEST_F(ObjectStoreTest, TheProducersFailureReachesThoseWhoWaitAndThoseWhoAskLater) {
  ASSERT_TRUE(store_->expect(kTenant, id(1)).ok());
  std::string seen;
  get(1, seen);
  store_->fail(kTenant, id(1), {ErrorCode::kInternal, "division by zero"});
  EXPECT_EQ(seen, "INTERNAL: division by zero");
  EXPECT_EQ(get_now(1), "INTERNAL: division by zero");
  EXPECT_EQ(put(1, "late").error().code, ErrorCode::kAlreadyExists);
  pass(seconds(10));
  EXPECT_NE(get_now(1).find("expired"), std::string::npos);
}

TEST_F(ObjectStoreTest, AwaitingNeedsNoBytes) {
  ASSERT_TRUE(store_->expect(kTenant, id(1)).ok());
  std::string seen;
  const auto there = [&](Result<TensorType> type) { seen = to_string(*type); };
  store_->await(kTenant, id(1), kNever, there);
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  EXPECT_EQ(seen, "BYTES [60]");
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  ASSERT_EQ(store_->status(kTenant, id(1))->place, ObjectPlace::kDisk);
  seen.clear();
  store_->await(kTenant, id(1), kNever, there);
  EXPECT_EQ(seen, "BYTES [60]");
  EXPECT_TRUE(disk_.idle());
}

TEST_F(ObjectStoreTest, OnlySoManyWait) {
  ASSERT_TRUE(store_->expect(kTenant, id(1)).ok());
  for (size_t i = 0; i < limits::kObjectWaits; ++i) {
    store_->await(kTenant, id(1), kNever, [](Result<TensorType>) {});
  }
  EXPECT_NE(
      [&] {
        std::string seen;
        get(1, seen);
        return seen;
      }()
          .find("too many wait"),
      std::string::npos);
}

TEST_F(ObjectStoreTest, ObjectsExpireUnlessTheyAreHeld) {
  ASSERT_TRUE(put(1, "one").ok());
  ASSERT_TRUE(put(2, "two").ok());
  ASSERT_TRUE(store_->hold(kTenant, id(2)).ok());
  std::string kept;
  store_->open(kTenant, id(1), kNever, [&](Result<OpenedObject> result) {
    pass(seconds(10));
    // What was opened stays readable.
    kept = *read_memory(result->memfd.get(), Bytes(0), result->size);
  });
  EXPECT_EQ(kept, "one");
  EXPECT_NE(get_now(1).find("has expired"), std::string::npos);
  EXPECT_EQ(get_now(2), "two");
  store_->release(kTenant, id(2));
  EXPECT_NE(get_now(2).find("has expired"), std::string::npos);
  EXPECT_EQ(store_->statistics().objects, 0u);
}

TEST_F(ObjectStoreTest, AnObjectLivesAsLongAsItIsTold) {
  auto memfd = sealed_memory("x");
  ASSERT_TRUE(
      store_->store(kTenant, id(1), raw_tensor(Bytes(1)), std::move(*memfd), seconds(30)).ok());
  pass(seconds(29));
  EXPECT_EQ(get_now(1), "x");
  pass(seconds(1));
  EXPECT_EQ(get_now(1).substr(0, 9), "NOT_FOUND");
}

}  // namespace
}  // namespace lambent::objects
