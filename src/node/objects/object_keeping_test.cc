// Objects that are only on a device: how they come to the host, and what becomes of them.
#include <gmock/gmock.h>

#include "node/objects/testing/object_store_testing.h"

namespace lambent::objects {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ObjectKeepingTest : public ObjectStoreTest {
 protected:
  ObjectKeepingTest() {
    store_->bring_from_devices(
        [this](TenantId, ObjectId object) { brought_.push_back(object.number); });
  }
  Result<void> keep(uint32_t number, uint64_t size) {
    return store_->store_on_device(kTenant, id(number), raw_tensor(Bytes(size)));
  }
  Result<bool> come(uint32_t number, const std::string& bytes) {
    return store_->came(kTenant, id(number), std::move(*sealed_memory(bytes)));
  }
  ObjectPlace place(uint32_t number) { return store_->status(kTenant, id(number))->place; }

  std::vector<uint32_t> brought_;
};

TEST_F(ObjectKeepingTest, ItIsBroughtOnceForAllWhoWait) {
  ASSERT_TRUE(store_->expect(kTenant, id(1)).ok());
  ASSERT_TRUE(keep(1, 3).ok());
  EXPECT_EQ(place(1), ObjectPlace::kDevice);
  std::string one, two;
  get(1, one);
  get(1, two);
  EXPECT_THAT(brought_, ElementsAre(1));
  EXPECT_EQ(one + two, "");
  EXPECT_EQ(*come(1, "abc"), true);
  EXPECT_EQ(one, "abc");
  EXPECT_EQ(two, "abc");
  EXPECT_EQ(get_now(1), "abc");
  EXPECT_THAT(brought_, ElementsAre(1));
  EXPECT_EQ(*come(1, "abc"), false) << "it is there already";
}

TEST_F(ObjectKeepingTest, WhoOnlyAwaitsItDoesNotHaveItBrought) {
  ASSERT_TRUE(store_->expect(kTenant, id(1)).ok());
  bool there = false;
  store_->await(kTenant, id(1), kNever, [&](const Result<TensorType>& type) { there = type.ok(); });
  ASSERT_TRUE(keep(1, 3).ok());
  EXPECT_TRUE(there);
  EXPECT_THAT(brought_, IsEmpty());
}

TEST_F(ObjectKeepingTest, WhoWaitedForItToBeMadeHasItBrought) {
  ASSERT_TRUE(store_->expect(kTenant, id(1)).ok());
  std::string seen;
  get(1, seen);
  ASSERT_TRUE(keep(1, 3).ok());
  EXPECT_THAT(brought_, ElementsAre(1));
  ASSERT_TRUE(come(1, "abc").ok());
  EXPECT_EQ(seen, "abc");
}

TEST_F(ObjectKeepingTest, OneThatCouldNotBeBroughtIsAskedForAgain) {
  ASSERT_TRUE(keep(1, 3).ok());
  std::string seen;
  get(1, seen);
  store_->not_brought(kTenant, id(1), {ErrorCode::kUnavailable, "no answer"});
  EXPECT_THAT(seen, HasSubstr("no answer"));
  EXPECT_EQ(place(1), ObjectPlace::kDevice);
  std::string again;
  get(1, again);
  EXPECT_THAT(brought_, ElementsAre(1, 1));
  EXPECT_EQ(come(1, "four").error().code, ErrorCode::kInvalidArgument) << "it has three bytes";
  ASSERT_TRUE(come(1, "abc").ok());
  EXPECT_EQ(again, "abc");
}

TEST_F(ObjectKeepingTest, OneThatWentWithItsDeviceIsLostForAll) {
  ASSERT_TRUE(keep(1, 3).ok());
  std::string seen;
  get(1, seen);
  std::vector<ObjectId> gone;
  store_->on_gone([&](TenantId, ObjectId object) { gone.push_back(object); });
  store_->lose(kTenant, id(1), {ErrorCode::kDataLoss, "its executor was killed"});
  EXPECT_THAT(seen, HasSubstr("its executor was killed"));
  EXPECT_THAT(get_now(1), HasSubstr("DATA_LOSS"));
  EXPECT_THAT(gone, ElementsAre(id(1)));
  EXPECT_EQ(store_->statistics().lost, 1u);
  EXPECT_EQ(store_->used(kTenant), Bytes(0));
  // What is on the host is not lost with a device.
  ASSERT_TRUE(put(2, "abc").ok());
  store_->lose(kTenant, id(2), {ErrorCode::kDataLoss, "its executor was killed"});
  EXPECT_EQ(get_now(2), "abc");
}

TEST_F(ObjectKeepingTest, ItExpiresAndIsRemovedAsAnyOther) {
  ASSERT_TRUE(keep(1, 3).ok());
  ASSERT_TRUE(keep(2, 3).ok());
  ASSERT_TRUE(store_->remove(kTenant, id(1)).ok());
  EXPECT_EQ(*come(1, "abc"), false);
  pass(seconds(10));
  EXPECT_THAT(get_now(2), HasSubstr("has expired"));
  EXPECT_THAT(brought_, IsEmpty());
  EXPECT_EQ(store_->statistics().device, Bytes(0));
}

TEST_F(ObjectKeepingTest, AnotherTenantDoesNotSeeIt) {
  ASSERT_TRUE(keep(1, 3).ok());
  std::string seen;
  get(1, seen, kNever, TenantId(2));
  EXPECT_THAT(seen, HasSubstr("NOT_FOUND"));
  EXPECT_THAT(brought_, IsEmpty());
}

TEST_F(ObjectKeepingTest, ItsRoomOnTheHostIsKeptForIt) {
  ASSERT_TRUE(keep(1, 60).ok());
  EXPECT_EQ(store_->statistics().device, Bytes(60));
  EXPECT_EQ(store_->statistics().memory, Bytes(0));
  EXPECT_EQ(store_->used(kTenant), Bytes(60));
  EXPECT_EQ(put(2, std::string(60, 'b')).error().code, ErrorCode::kResourceExhausted);
  ASSERT_TRUE(come(1, std::string(60, 'a')).ok());
  EXPECT_EQ(get_now(1), std::string(60, 'a'));
}

TEST_F(ObjectKeepingTest, UnderPressureItComesAndGoesToDisk) {
  ASSERT_TRUE(keep(1, 60).ok());
  ASSERT_TRUE(put(2, std::string(30, 'b')).ok());
  EXPECT_THAT(brought_, ElementsAre(1));
  ASSERT_TRUE(come(1, std::string(60, 'a')).ok());
  disk_.work();
  ASSERT_TRUE(put(3, std::string(60, 'c')).ok());
  disk_.work();
  EXPECT_EQ(get_now(1), std::string(60, 'a'));
  EXPECT_EQ(get_now(2), std::string(30, 'b'));
  EXPECT_EQ(get_now(3), std::string(60, 'c'));
}

TEST_F(ObjectKeepingTest, AsManyComeAsAnObjectThatFindsNoRoomNeeds) {
  for (uint32_t i = 1; i <= 7; ++i) ASSERT_TRUE(keep(i, 10).ok());
  EXPECT_THAT(brought_, IsEmpty());
  const auto refused = put(8, std::string(40, 'b'));
  ASSERT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("try again later"));
  EXPECT_THAT(brought_, ElementsAre(1, 2, 3, 4)) << "with the quarter that stays free";
  for (uint32_t i = 1; i <= 4; ++i) ASSERT_TRUE(come(i, std::string(10, 'a')).ok());
  EXPECT_TRUE(put(8, std::string(40, 'b')).ok());
  disk_.work();
  EXPECT_EQ(get_now(1), std::string(10, 'a'));
  EXPECT_EQ(get_now(8), std::string(40, 'b'));
}

TEST_F(ObjectKeepingTest, OneThatIsReadBackWaitsForThoseThatMakeRoom) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  ASSERT_TRUE(store_->remove(kTenant, id(2)).ok());
  ASSERT_TRUE(keep(3, 70).ok());
  std::string seen;
  get(1, seen);
  EXPECT_EQ(seen, "");
  EXPECT_THAT(brought_, ElementsAre(3));
  ASSERT_TRUE(come(3, std::string(70, 'c')).ok());
  disk_.work();
  EXPECT_EQ(seen, std::string(60, 'a'));
  EXPECT_EQ(store_->statistics().device, Bytes(0));
}

TEST_F(ObjectKeepingTest, WhoWaitsForRoomHearsWhenNoneComes) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  ASSERT_TRUE(store_->remove(kTenant, id(2)).ok());
  ASSERT_TRUE(keep(3, 70).ok());
  std::string seen, again;
  get(1, seen);
  store_->not_brought(kTenant, id(3), {ErrorCode::kUnavailable, "no answer"});
  EXPECT_THAT(seen, HasSubstr("there is no memory to read object"));
  EXPECT_THAT(brought_, ElementsAre(3)) << "it is left alone for a while";
  pass(seconds(1));
  get(1, again);
  EXPECT_THAT(brought_, ElementsAre(3, 3));
  store_->lose(kTenant, id(3), {ErrorCode::kDataLoss, "its executor was killed"});
  disk_.work();
  EXPECT_EQ(again, std::string(60, 'a'));
}

}  // namespace
}  // namespace lambent::objects
