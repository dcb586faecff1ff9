// Objects that are only on a device, as the worker sees them: tests speak as the executor.
#include <gmock/gmock.h>

#include "core/base/sealed_memory.h"
#include "node/worker/testing/executor_testing.h"

namespace lambent::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Event = KeptObjects::Event;

class KeptObjectsTest : public ExecutorHostTest {
 protected:
  void SetUp() override {
    ExecutorHostTest::SetUp();
    instance(SandboxId(1));
    executor = &launcher.latest();
  }
  ObjectId make(bool is_kept = true, uint64_t invocation = 1) {
    InvocationRequest request;
    request.id = {9, invocation};
    request.payload = "{}";
    host->deliver(SandboxId(1), request, seconds(3));
    EXPECT_TRUE(hears<protocol::Run>().has_value());
    protocol::Finished message = finished(request.id);
    message.objects = {{{request.id, 0}, raw_tensor(kSize), 0, is_kept}};
    const size_t before = answers.size();
    const OwnedFd file = memfd_with(std::string(kSize.count, 'x'), true);
    executor->say(message, is_kept ? std::vector<int>() : std::vector<int>{file.get()});
    EXPECT_TRUE(turn_until(loop, [&] { return answers.size() > before; }));
    return {request.id, 0};
  }
  void open(ObjectId object) {
    store.open(kDefaultTenant, object, loop.now(), [this](Result<objects::OpenedObject> opened) {
      seen.push_back(opened.ok() ? *read_memory(opened->memfd.get(), Bytes(0), Bytes(3))
                                 : to_string(opened.error()));
    });
  }
  // The executor writes what it is asked for.
  void write(ObjectId object) {
    const OwnedFd file = memfd_with(std::string(kSize.count, 'k'), true);
    executor->say(protocol::ObjectWritten{object}, {file.get()});
    turn();
  }
  void turn() {
    EXPECT_TRUE(turn_until(loop, [turns = 0]() mutable { return ++turns > 3; }));
  }
  objects::ObjectPlace place(ObjectId object) {
    return store.status(kDefaultTenant, object)->place;
  }
  uint64_t count(Event event) const {
    return host->objects().kept().at(static_cast<size_t>(event)).objects;
  }

  static constexpr Bytes kSize = Bytes::mib(2);
  FakeExecutor* executor = nullptr;
  std::vector<std::string> seen;
};

TEST_F(KeptObjectsTest, OneComesToTheHostWithItsFirstReaderThere) {
  const ObjectId object = make();
  EXPECT_TRUE(answers.at(0).succeeded);
  EXPECT_EQ(place(object), objects::ObjectPlace::kDevice);
  open(object);
  open(object);
  const auto asked = hears<protocol::WriteObject>();
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->object, object);
  EXPECT_THAT(seen, IsEmpty());
  write(object);
  EXPECT_THAT(seen, ::testing::ElementsAre("kkk", "kkk"));
  EXPECT_EQ(place(object), objects::ObjectPlace::kMemory);
  EXPECT_EQ(count(Event::kRead), 1u);
  launcher.end(executor->id, {.signal = 9});
  turn();
  open(object);
  EXPECT_EQ(seen.back(), "kkk") << "it is not lost with the executor any more";
}

TEST_F(KeptObjectsTest, OneThatItsExecutorWritesByItselfIsOnTheHost) {
  const ObjectId object = make();
  write(object);
  open(object);
  EXPECT_THAT(seen, ::testing::ElementsAre("kkk"));
  EXPECT_EQ(count(Event::kEvicted), 1u);
  write(object);  // once more, which is of no use
  EXPECT_EQ(count(Event::kEvicted), 1u);
}

TEST_F(KeptObjectsTest, ADeletedOneWasNeverCopied) {
  const ObjectId object = make();
  ASSERT_TRUE(store.remove(kDefaultTenant, object).ok());
  const auto dropped = hears<protocol::DropObject>();
  ASSERT_TRUE(dropped.has_value());
  EXPECT_EQ(*dropped, (protocol::DropObject{object, true}));
  EXPECT_EQ(count(Event::kAvoided), 1u);
  EXPECT_EQ(host->objects().kept()[0].bytes, kSize);
}

TEST_F(KeptObjectsTest, WithItsExecutorItIsLostAndSaysSo) {
  const ObjectId kept = make();
  const ObjectId on_host = make(false, 2);
  open(kept);
  launcher.end(executor->id, {.signal = 9});
  ASSERT_TRUE(turn_until(loop, [&] { return !seen.empty(); }));
  EXPECT_THAT(seen.at(0), HasSubstr("DATA_LOSS"));
  EXPECT_THAT(seen.at(0), HasSubstr("was kept on GPU 0 only, and is lost: lambent-executor ended"));
  open(kept);
  EXPECT_EQ(seen.at(1), seen.at(0));
  open(on_host);
  EXPECT_EQ(seen.at(2), "xxx");
  EXPECT_EQ(count(Event::kLost), 1u);
}

TEST_F(KeptObjectsTest, AnExecutorThatIsNotUsedEndsWhenAllIsWritten) {
  const ObjectId object = make();
  host->stop(SandboxId(1), Error{ErrorCode::kCancelled, "retired"}, "Sandbox.Stopped");
  ASSERT_TRUE(hears<protocol::RemoveInstance>().has_value());
  ASSERT_TRUE(turn_until(loop, [&] { return !ends.empty(); }));
  // What starts on the device waits for the memory.
  EXPECT_TRUE(host->objects().evicts(DeviceId(1)));
  EXPECT_EQ(hears<protocol::DropObject>()->object, ObjectId{});
  EXPECT_EQ(hears<protocol::WriteObject>()->object, object);
  turn();
  EXPECT_EQ(launcher.kills, 0);
  write(object);
  EXPECT_EQ(launcher.kills, 1);
  turn();
  open(object);
  EXPECT_THAT(seen, ::testing::ElementsAre("kkk"));
  EXPECT_FALSE(host->objects().evicts(DeviceId(1)));
}

TEST_F(KeptObjectsTest, AnExecutorThatDoesNotWriteEndsAllTheSame) {
  const ObjectId object = make();
  host->stop(SandboxId(1), Error{ErrorCode::kCancelled, "retired"}, "Sandbox.Stopped");
  ASSERT_TRUE(turn_until(loop, [&] { return !ends.empty(); }));
  clock.advance(seconds(6));
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.kills == 1; }));
  turn();
  open(object);
  EXPECT_THAT(seen.at(0), HasSubstr("DATA_LOSS"));
}

TEST_F(KeptObjectsTest, AReaderDoesNotWaitForEverForAnExecutorThatSaysNothing) {
  const ObjectId object = make();
  open(object);
  clock.advance(seconds(31));
  ASSERT_TRUE(turn_until(loop, [&] { return !seen.empty(); }));
  EXPECT_THAT(seen.at(0), HasSubstr("UNAVAILABLE"));
  open(object);
  write(object);
  EXPECT_EQ(seen.at(1), "kkk");
}

TEST_F(KeptObjectsTest, WhatAnExecutorDoesNotHaveAnyMoreIsLost) {
  const ObjectId object = make();
  open(object);
  executor->say(protocol::ObjectWritten{object, Error{ErrorCode::kNotFound, "evicted"}});
  turn();
  ASSERT_THAT(seen, SizeIs(1));
  EXPECT_THAT(seen[0], HasSubstr("DATA_LOSS"));
}

}  // namespace
}  // namespace lambent::worker
