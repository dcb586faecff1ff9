#include "objects/object_store.h"

#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "base/sealed_memory.h"
#include "base/testing.h"

namespace lambent::objects {
namespace {

constexpr TenantId kTenant(1);

ObjectId id(uint32_t number) { return {InvocationId{3, 4}, number}; }

// A disk that works when it is told to.
class HeldDisk {
 public:
  Disk disk() {
    return [this](std::function<void()> work, std::function<void()> completion) {
      if (full) return false;
      tasks_.emplace_back(std::move(work), std::move(completion));
      return true;
    };
  }
  // All that was asked for, and what comes of it.
  void work() {
    while (!tasks_.empty()) {
      auto [work, completion] = std::move(tasks_.front());
      tasks_.pop_front();
      work();
      completion();
    }
  }
  bool idle() const { return tasks_.empty(); }
  bool full = false;

 private:
  std::deque<std::pair<std::function<void()>, std::function<void()>>> tasks_;
};

class ObjectStoreTest : public testing::Test {
 protected:
  ObjectStoreTest() { start(); }

  void start() {
    ObjectStoreOptions options;
    options.folder = folder_ / "spill";
    options.index.memory = Bytes(100);
    options.index.disk = Bytes(1000);
    options.index.tenant_quota = Bytes(1000);
    options.index.time_to_live = seconds(10);
    store_ = std::make_unique<ObjectStore>(loop_, log_, disk_.disk(), options);
  }

  Result<void> put(uint32_t number, std::string bytes) {
    auto memfd = sealed_memory(bytes);
    return store_->store(kTenant, id(number), raw_tensor(Bytes(bytes.size())), std::move(*memfd));
  }
  // What somebody who opens it gets to see: its bytes or an error; "" before anything came.
  WaitId get(uint32_t number, std::string& seen, Instant deadline = kNever,
             TenantId tenant = kTenant) {
    return store_->open(tenant, id(number), deadline, [&seen](Result<OpenedObject> result) {
      ASSERT_EQ(seen, "") << "called twice";
      if (!result.ok()) {
        seen = to_string(result.error());
        return;
      }
      EXPECT_EQ(*check_sealed(result->memfd.get()), result->size);
      seen = *read_memory(result->memfd.get(), Bytes(0), result->size);
    });
  }
  std::string get_now(uint32_t number) {
    std::string seen;
    get(number, seen, loop_.now());
    disk_.work();
    return seen;
  }
  void pass(Duration time) {
    clock_.advance(time);
    loop_.run_once(Duration(0));
  }
  std::vector<std::string> files() {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "spill")) {
      paths.push_back(entry.path());
    }
    return paths;
  }

  TemporaryFolder folder_;
  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  NullLogSink log_;
  HeldDisk disk_;
  std::unique_ptr<ObjectStore> store_;
};

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

TEST_F(ObjectStoreTest, UnderPressureObjectsGoToDiskAndComeBackWhenAskedFor) {
  for (uint32_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(put(i, std::string(30, static_cast<char>('a' + i))).ok()) << i;
    disk_.work();
  }
  EXPECT_EQ(store_->statistics().objects, 8u);
  EXPECT_LE(store_->statistics().memory, Bytes(90));
  EXPECT_GE(store_->statistics().disk, Bytes(150));
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(get_now(i), std::string(30, static_cast<char>('a' + i)));
  }
  EXPECT_EQ(files().size(), store_->statistics().disk.count / 30);
  EXPECT_GE(store_->statistics().read_back, 5u);
  pass(seconds(10));
  disk_.work();
  EXPECT_TRUE(files().empty());
}

TEST_F(ObjectStoreTest, WhoOpensItWhileItIsWrittenGetsItFromMemory) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(30, 'b')).ok());
  ASSERT_EQ(store_->status(kTenant, id(1))->place, ObjectPlace::kSpilling);
  std::string seen;
  get(1, seen);
  EXPECT_EQ(seen, std::string(60, 'a'));
}

TEST_F(ObjectStoreTest, DamageOnDiskIsNoticed) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  ASSERT_EQ(files().size(), 1u);
  std::fstream(files()[0], std::ios::in | std::ios::out).put('x');
  EXPECT_EQ(get_now(1).substr(0, 9), "DATA_LOSS");
  EXPECT_EQ(get_now(1).substr(0, 9), "DATA_LOSS");
  EXPECT_EQ(files().size(), 1u);  // of the other, which had made way
  EXPECT_EQ(store_->statistics().lost, 1u);
}

TEST_F(ObjectStoreTest, AMissingFileIsALossToo) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  std::filesystem::remove(files().at(0));
  EXPECT_EQ(get_now(1).substr(0, 9), "DATA_LOSS");
}

TEST_F(ObjectStoreTest, AFileThatCouldNotBeRemovedGoesLaterAndIsInNobodysWay) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  const std::string old = files().at(0);
  std::string seen;
  get(1, seen);
  disk_.full = true;  // when it is read, and its file may go
  disk_.work();
  ASSERT_EQ(seen, std::string(60, 'a'));
  EXPECT_TRUE(std::filesystem::exists(old));
  disk_.full = false;
  ASSERT_TRUE(put(3, std::string(60, 'c')).ok());
  disk_.work();
  EXPECT_EQ(store_->status(kTenant, id(1))->place, ObjectPlace::kDisk);
  EXPECT_TRUE(std::filesystem::exists(old));
  pass(seconds(1));
  disk_.work();
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_EQ(get_now(1), std::string(60, 'a'));
}

TEST_F(ObjectStoreTest, WhatTheDiskCannotTakeStaysInMemory) {
  std::filesystem::remove_all(folder_ / "spill");
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(30, 'b')).ok());
  disk_.work();
  EXPECT_EQ(store_->status(kTenant, id(1))->place, ObjectPlace::kMemory);
  EXPECT_EQ(get_now(1), std::string(60, 'a'));
  EXPECT_EQ(put(3, std::string(40, 'c')).error().code, ErrorCode::kResourceExhausted);
  // Once the disk is well again, it is tried again.
  std::filesystem::create_directories(folder_ / "spill");
  pass(seconds(1));
  EXPECT_TRUE(put(3, std::string(40, 'c')).ok());
  disk_.work();
  EXPECT_EQ(get_now(1), std::string(60, 'a'));
  EXPECT_EQ(get_now(3), std::string(40, 'c'));
}

TEST_F(ObjectStoreTest, ADiskWithTooMuchToDoIsNotWaitedFor) {
  disk_.full = true;
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  EXPECT_EQ(put(2, std::string(60, 'b')).error().code, ErrorCode::kResourceExhausted);
  disk_.full = false;
  pass(seconds(1));
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  disk_.full = true;
  EXPECT_EQ(get_now(1).substr(0, 18), "RESOURCE_EXHAUSTED");
  disk_.full = false;
  pass(seconds(1));
  EXPECT_EQ(get_now(1), std::string(60, 'a'));
}

TEST_F(ObjectStoreTest, AnObjectThatGoesWhileItTravelsLeavesNothingBehind) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(30, 'b')).ok());
  ASSERT_EQ(store_->status(kTenant, id(1))->place, ObjectPlace::kSpilling);
  ASSERT_TRUE(store_->remove(kTenant, id(1)).ok());
  // The same name again, before the disk is done with the old one.
  ASSERT_TRUE(put(1, "new").ok());
  disk_.work();
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(get_now(1), "new");
}

TEST_F(ObjectStoreTest, MemoryIsGivenBackOffTheLoop) {
  ASSERT_TRUE(put(1, "x").ok());
  ASSERT_TRUE(disk_.idle());
  ASSERT_TRUE(store_->remove(kTenant, id(1)).ok());
  EXPECT_FALSE(disk_.idle());
  disk_.work();
}

TEST_F(ObjectStoreTest, WhoWaitsForAnObjectFromDiskHearsThatItWent) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  std::string seen;
  get(1, seen);
  EXPECT_EQ(seen, "");
  ASSERT_TRUE(store_->remove(kTenant, id(1)).ok());
  EXPECT_NE(seen.find("removed"), std::string::npos);
  disk_.work();
}

TEST_F(ObjectStoreTest, ManyReadsTakeTurnsInLittleMemory) {
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(put(i, std::string(80, static_cast<char>('a' + i))).ok());
    disk_.work();
  }
  std::vector<std::string> seen(5);
  for (uint32_t i = 0; i < 5; ++i) get(i, seen[i]);
  disk_.work();
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(seen[i], std::string(80, static_cast<char>('a' + i)));
  }
}

TEST_F(ObjectStoreTest, NothingOfAnEarlierWorkerIsLeft) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  store_.reset();
  ASSERT_EQ(files().size(), 1u);
  start();
  EXPECT_TRUE(files().empty());
  EXPECT_NE(get_now(1).find("lost when the worker stopped"), std::string::npos);
}

TEST_F(ObjectStoreTest, WhatTheDiskDoesLastFindsNoStore) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(30, 'b')).ok());
  ASSERT_FALSE(disk_.idle());
  store_.reset();
  disk_.work();
}

TEST_F(ObjectStoreTest, WithoutAFolderNothingIsSpilled) {
  ObjectStore store(loop_, log_, disk_.disk(), {.folder = "", .index = {.memory = Bytes(10)}});
  auto one = sealed_memory("12345678");
  auto two = sealed_memory("12345678");
  ASSERT_TRUE(store.store(kTenant, id(1), raw_tensor(Bytes(8)), std::move(*one)).ok());
  EXPECT_EQ(store.store(kTenant, id(2), raw_tensor(Bytes(8)), std::move(*two)).error().code,
            ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace lambent::objects
