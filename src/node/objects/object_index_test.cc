#include "node/objects/object_index.h"
#include "node/objects/limits.h"

#include <gtest/gtest.h>

namespace lambent::objects {
namespace {

constexpr Instant kStart = Instant(seconds(1000));

ObjectKey key_of(uint32_t number, uint32_t tenant = 1) {
  return {TenantId(tenant), ObjectId{InvocationId{7, 7}, number}};
}

IndexOptions small() {
  IndexOptions options;
  options.memory = Bytes(100);
  options.disk = Bytes(200);
  options.tenant_quota = Bytes(250);
  options.time_to_live = seconds(10);
  return options;
}

class ObjectIndexTest : public testing::Test {
 protected:
  Result<void> add(uint32_t number, uint64_t size, uint32_t tenant = 1) {
    return index_.add(key_of(number, tenant), raw_tensor(Bytes(size)), Bytes(size), std::nullopt,
                      kStart);
  }
  // Adds it, after the disk took what had to go for it.
  void add_with_room(uint32_t number, uint64_t size, uint32_t tenant = 1) {
    for (const ObjectKey& key : index_.choose_spills(Bytes(size))) index_.spilled(key);
    ASSERT_TRUE(add(number, size, tenant).ok());
  }
  ObjectPlace place_of(uint32_t number) { return (*index_.find(key_of(number)))->place; }

  ObjectIndex index_{small()};
};

TEST_F(ObjectIndexTest, AnObjectIsThereOnceItWasAdded) {
  EXPECT_EQ(index_.find(key_of(1)).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(add(1, 10).ok());
  const ObjectStatus& status = **index_.find(key_of(1));
  EXPECT_EQ(status.state, ObjectState::kExists);
  EXPECT_EQ(status.size, Bytes(10));
  EXPECT_EQ(status.expires, kStart + seconds(10));
  EXPECT_EQ(index_.statistics().memory, Bytes(10));
}

TEST_F(ObjectIndexTest, ObjectsDoNotChange) {
  ASSERT_TRUE(add(1, 10).ok());
  EXPECT_EQ(add(1, 10).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(index_.expect(key_of(1), kStart).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(ObjectIndexTest, TenantsDoNotSeeEachOther) {
  ASSERT_TRUE(add(1, 10, 1).ok());
  EXPECT_EQ(index_.find(key_of(1, 2)).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(add(1, 10, 2).ok());
  EXPECT_EQ(index_.list(TenantId(1), std::nullopt, 10).size(), 1u);
}

TEST_F(ObjectIndexTest, AnExpectedObjectIsFulfilledOrFails) {
  ASSERT_TRUE(index_.expect(key_of(1), kStart).ok());
  ASSERT_TRUE(index_.expect(key_of(1), kStart).ok());
  ASSERT_TRUE(index_.expect(key_of(2), kStart).ok());
  EXPECT_EQ(index_.statistics().expected, 2u);
  ASSERT_TRUE(add(1, 10).ok());
  EXPECT_TRUE(index_.fail(key_of(2), {ErrorCode::kInternal, "it broke"}, kStart));
  EXPECT_EQ(index_.statistics().expected, 0u);
  EXPECT_FALSE(index_.fail(key_of(1), {ErrorCode::kInternal, "too late"}, kStart));
  EXPECT_EQ(index_.hold(key_of(2)).error().message, "it broke");
  EXPECT_EQ((*index_.find(key_of(1)))->state, ObjectState::kExists);
}

TEST_F(ObjectIndexTest, ObjectsExpireAndAreRememberedAsExpired) {
  ASSERT_TRUE(add(1, 10).ok());
  EXPECT_EQ(index_.next_expiry(), kStart + seconds(10));
  EXPECT_TRUE(index_.expire(kStart + seconds(9)).empty());
  EXPECT_EQ(index_.expire(kStart + seconds(10)).size(), 1u);
  EXPECT_EQ(index_.next_expiry(), kNever);
  EXPECT_NE(index_.find(key_of(1)).error().message.find("expired or was removed"),
            std::string::npos);
  EXPECT_EQ(index_.statistics().memory, Bytes(0));
  // It may be made again, and is then forgotten as expired.
  ASSERT_TRUE(add(1, 10).ok());
  EXPECT_TRUE(index_.find(key_of(1)).ok());
}

TEST_F(ObjectIndexTest, OnlySoManyExpiriesAreRemembered) {
  for (uint32_t i = 0; i <= limits::kForgottenObjects; ++i) {
    ASSERT_TRUE(add(i, 0).ok());
    index_.expire(kStart + seconds(10));
  }
  EXPECT_NE(index_.find(key_of(0)).error().message.find("not known"), std::string::npos);
  EXPECT_NE(index_.find(key_of(1)).error().message.find("expired"), std::string::npos);
}

TEST_F(ObjectIndexTest, WhatIsHeldStaysUntilItIsReleased) {
  ASSERT_TRUE(add(1, 10).ok());
  ASSERT_TRUE(index_.hold(key_of(1)).ok());
  ASSERT_TRUE(index_.hold(key_of(1)).ok());
  index_.release(key_of(1));
  ASSERT_TRUE(index_.remove(key_of(1), kStart).ok());
  EXPECT_TRUE(index_.expire(kStart + seconds(100)).empty());
  index_.release(key_of(1));
  EXPECT_EQ(index_.expire(kStart + seconds(100)).size(), 1u);
}

TEST_F(ObjectIndexTest, TheTimeToLiveOfWhatIsHeldMayBeginAnew) {
  const Duration lived = index_.options().time_to_live;
  for (const uint32_t number : {1u, 2u}) {
    ASSERT_TRUE(add(number, 10).ok());
    ASSERT_TRUE(index_.hold(key_of(number)).ok());
  }
  const Instant late = kStart + lived + lived;
  ASSERT_TRUE(index_.remove(key_of(2), kStart).ok());
  for (const uint32_t number : {1u, 2u, 3u}) {
    index_.renew(key_of(number), late);
    if (number != 3) index_.release(key_of(number));
  }
  // What was removed meanwhile stays removed.
  EXPECT_EQ(index_.expire(late), std::vector<ObjectKey>{key_of(2)});
  EXPECT_EQ(index_.next_expiry(), late + lived);
}

TEST_F(ObjectIndexTest, WhatIsStillMadeIsNotRemoved) {
  ASSERT_TRUE(index_.expect(key_of(1), kStart).ok());
  EXPECT_EQ(index_.remove(key_of(1), kStart).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(index_.remove(key_of(2), kStart).error().code, ErrorCode::kNotFound);
}

TEST_F(ObjectIndexTest, FromThreeQuartersOnTheLeastRecentlyUsedGo) {
  ASSERT_TRUE(add(1, 30).ok());
  ASSERT_TRUE(add(2, 30).ok());
  EXPECT_TRUE(index_.choose_spills(Bytes(0)).empty());
  ASSERT_TRUE(add(3, 30).ok());
  index_.touch(key_of(1));
  const auto chosen = index_.choose_spills(Bytes(0));
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0], key_of(2));
  EXPECT_EQ(place_of(2), ObjectPlace::kSpilling);
  index_.spilled(key_of(2));
  EXPECT_EQ(place_of(2), ObjectPlace::kDisk);
  EXPECT_EQ(index_.statistics().memory, Bytes(60));
  EXPECT_EQ(index_.statistics().disk, Bytes(30));
  EXPECT_EQ(index_.statistics().spilled, 1u);
}

TEST_F(ObjectIndexTest, TheLastOneUsedStaysUnlessItIsInTheWay) {
  ASSERT_TRUE(add(1, 90).ok());
  EXPECT_TRUE(index_.choose_spills(Bytes(0)).empty());
  EXPECT_TRUE(index_.choose_spills(Bytes(10)).empty());
  EXPECT_EQ(index_.choose_spills(Bytes(11)).size(), 1u);
}

TEST_F(ObjectIndexTest, WhatTheDiskDoesNotKeepUpWithIsRefusedForNow) {
  ASSERT_TRUE(add(1, 40).ok());
  ASSERT_TRUE(add(2, 40).ok());
  ASSERT_EQ(index_.choose_spills(Bytes(40)).size(), 1u);
  ASSERT_TRUE(add(3, 40).ok());
  // Half of memory at most is on its way: the next has to wait for the disk.
  EXPECT_TRUE(index_.choose_spills(Bytes(40)).empty());
  EXPECT_EQ(add(4, 40).error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(add(4, 40).error().message.find("keep up"), std::string::npos);
  index_.spilled(key_of(1));
  EXPECT_EQ(index_.choose_spills(Bytes(40)).size(), 1u);
  EXPECT_TRUE(add(4, 40).ok());
  EXPECT_EQ(index_.statistics().refused, 2u);
}

TEST_F(ObjectIndexTest, AFullDiskTakesNoMore) {
  for (uint32_t i = 0; i < 6; ++i) add_with_room(i, 50, 1 + i);
  EXPECT_EQ(index_.statistics().disk, Bytes(200));
  EXPECT_EQ(index_.statistics().memory, Bytes(100));
  EXPECT_TRUE(index_.choose_spills(Bytes(50)).empty());
  const auto refused = add(6, 50, 7);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("no room"), std::string::npos);
}

TEST_F(ObjectIndexTest, ATenantsQuotaCountsMemoryAndDisk) {
  for (uint32_t i = 0; i < 5; ++i) add_with_room(i, 50);
  index_.choose_spills(Bytes(1));
  const auto refused = add(5, 1);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("quota"), std::string::npos);
  EXPECT_TRUE(add(5, 1, 2).ok());
  index_.expire(kStart + seconds(10));
  EXPECT_TRUE(add(6, 50).ok());
}

TEST_F(ObjectIndexTest, ATenantMayHaveAQuotaOfItsOwn) {
  index_.set_quota(TenantId(1), Bytes(60));
  ASSERT_TRUE(add(1, 50).ok());
  EXPECT_EQ(add(2, 11).error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(add(2, 10).ok());
  EXPECT_EQ(index_.used(TenantId(1)), Bytes(60));
  index_.set_quota(TenantId(1), Bytes(0));
  EXPECT_EQ(place_of(1), ObjectPlace::kMemory);
  EXPECT_FALSE(add(3, 1).ok());
  index_.set_quota(TenantId(1), std::nullopt);
  EXPECT_TRUE(add(3, 1).ok());
}

TEST_F(ObjectIndexTest, TooManyOpenFilesArePressureToo) {
  IndexOptions options = small();
  options.most_in_memory = 2;
  ObjectIndex index(options);
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(index.add(key_of(i), raw_tensor(Bytes(1)), Bytes(1), std::nullopt, kStart).ok());
  }
  EXPECT_EQ(index.add(key_of(2), raw_tensor(Bytes(1)), Bytes(1), std::nullopt, kStart).error().code,
            ErrorCode::kResourceExhausted);
  EXPECT_EQ(index.choose_spills(Bytes(1)).size(), 1u);
  EXPECT_TRUE(index.add(key_of(2), raw_tensor(Bytes(1)), Bytes(1), std::nullopt, kStart).ok());
}

TEST_F(ObjectIndexTest, AnObjectComesBackWhenThereIsRoom) {
  add_with_room(1, 60);
  add_with_room(2, 60);
  ASSERT_EQ(place_of(1), ObjectPlace::kDisk);
  EXPECT_FALSE(index_.start_reading(key_of(1)));
  EXPECT_FALSE(index_.room_may_come());
  ASSERT_EQ(index_.choose_spills(Bytes(60)).size(), 1u);
  EXPECT_TRUE(index_.room_may_come());
  ASSERT_TRUE(index_.start_reading(key_of(1)));
  index_.spilled(key_of(2));
  index_.read_back(key_of(1));
  EXPECT_EQ(place_of(1), ObjectPlace::kMemory);
  EXPECT_EQ(index_.statistics().memory, Bytes(60));
  EXPECT_EQ(index_.statistics().disk, Bytes(60));
}

TEST_F(ObjectIndexTest, AFailedMoveLeavesAnObjectWhereItWas) {
  add_with_room(1, 60);
  ASSERT_EQ(index_.choose_spills(Bytes(60)).size(), 1u);
  index_.spill_failed(key_of(1));
  EXPECT_EQ(place_of(1), ObjectPlace::kMemory);
  EXPECT_EQ(index_.statistics().disk, Bytes(0));
  ASSERT_EQ(index_.choose_spills(Bytes(60)).size(), 1u);
  index_.spilled(key_of(1));
  ASSERT_TRUE(index_.start_reading(key_of(1)));
  index_.reading_failed(key_of(1));
  EXPECT_EQ(place_of(1), ObjectPlace::kDisk);
  EXPECT_EQ(index_.statistics().memory, Bytes(0));
}

TEST_F(ObjectIndexTest, ALostObjectSaysSoUntilItExpires) {
  add_with_room(1, 60);
  index_.choose_spills(Bytes(60));
  index_.spilled(key_of(1));
  ASSERT_TRUE(index_.start_reading(key_of(1)));
  index_.lose(key_of(1), {ErrorCode::kDataLoss, "damaged"}, kStart);
  EXPECT_EQ((*index_.find(key_of(1)))->cause->code, ErrorCode::kDataLoss);
  EXPECT_EQ(index_.statistics().disk, Bytes(0));
  EXPECT_EQ(index_.statistics().memory, Bytes(0));
  EXPECT_EQ(index_.expire(kStart + seconds(10)).size(), 1u);
}

TEST_F(ObjectIndexTest, WhatExpiresWhileItTravelsIsNotCountedAnyMore) {
  add_with_room(1, 60);
  index_.choose_spills(Bytes(60));
  index_.expire(kStart + seconds(10));
  EXPECT_FALSE(index_.room_may_come());
  EXPECT_EQ(index_.statistics().memory, Bytes(0));
  EXPECT_EQ(index_.statistics().disk, Bytes(0));
}

TEST_F(ObjectIndexTest, AListGoesOnAfterTheLastOneOfAPage) {
  for (uint32_t i = 0; i < 5; ++i) ASSERT_TRUE(add(i, 1).ok());
  const auto first = index_.list(TenantId(1), std::nullopt, 3);
  ASSERT_EQ(first.size(), 3u);
  const auto second = index_.list(TenantId(1), first.back().object, 3);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second.front().object.number, 3u);
}

TEST_F(ObjectIndexTest, ThereIsALimitToTheNumberOfObjects) {
  static_assert(limits::kObjects == 2 * limits::kObjectsOfTenant);
  constexpr uint32_t kHalf = limits::kObjectsOfTenant;
  for (uint32_t i = 0; i < kHalf; ++i) ASSERT_TRUE(index_.expect(key_of(i), kStart).ok());
  EXPECT_EQ(index_.expect(key_of(kHalf), kStart).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(add(kHalf, 1).error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(add(kHalf, 1).error().message.find("this tenant"), std::string::npos);
  for (uint32_t i = 0; i < kHalf; ++i) ASSERT_TRUE(index_.expect(key_of(i, 2), kStart).ok());
  EXPECT_EQ(index_.expect(key_of(0, 3), kStart).error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(add(0, 1, 3).error().message.find("the node"), std::string::npos);
  EXPECT_TRUE(add(0, 1).ok());
  // There is room again when one has gone.
  index_.expire(kStart + seconds(10));
  EXPECT_TRUE(add(kHalf, 1).ok());
  EXPECT_FALSE(add(kHalf + 1, 1).ok());
}

TEST_F(ObjectIndexTest, AFailureIsRememberedForMinutesOnly) {
  IndexOptions options = small();
  options.time_to_live = std::chrono::hours(1);
  ObjectIndex index(options);
  ASSERT_TRUE(index.expect(key_of(1), kStart).ok());
  ASSERT_TRUE(index.fail(key_of(1), {ErrorCode::kInternal, "it broke"}, kStart));
  EXPECT_EQ(index.next_expiry(), kStart + limits::kFailedObjectTimeToLive);
}

TEST_F(ObjectIndexTest, AnObjectBeyondEveryLimitIsOutOfRange) {
  EXPECT_EQ(add(1, limits::kObjectSize.count + 1).error().code, ErrorCode::kOutOfRange);
}

}  // namespace
}  // namespace lambent::objects
