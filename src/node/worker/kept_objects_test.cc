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
    protocol::Finished message = begin(invocation);
    message.objects = {{{message.invocation, 0}, raw_tensor(kSize), 0, is_kept}};
    const OwnedFd file = memfd_with(std::string(kSize.count, 'x'), true);
    finish(message, is_kept ? std::vector<int>() : std::vector<int>{file.get()});
    return message.objects[0].object;
  }
  // What answers a request that the executor has by then.
  protocol::Finished begin(uint64_t invocation = 1) {
    InvocationRequest request;
    request.id = {9, invocation};
    request.payload = "{}";
    host->deliver(SandboxId(1), request, seconds(3));
    EXPECT_TRUE(hears<protocol::Run>().has_value());
    return finished(request.id);
  }
  void finish(const protocol::Finished& message, const std::vector<int>& files = {}) {
    const size_t before = answers.size();
    executor->say(message, files);
    EXPECT_TRUE(turn_until(loop, [&] { return answers.size() > before; }));
  }
  // So many, of a byte each, kept.
  void make_many(uint32_t count) {
    for (uint64_t invocation = 1; count > 0; ++invocation) {
      protocol::Finished message = begin(invocation);
      for (uint32_t i = 0; i < 500 && count > 0; ++i, --count) {
        message.objects.push_back({{message.invocation, i}, raw_tensor(Bytes(1)), i, true});
      }
      finish(message);
    }
  }
  void stop() {
    host->stop(SandboxId(1), Error{ErrorCode::kCancelled, "retired"}, "Sandbox.Stopped");
    ASSERT_TRUE(hears<protocol::RemoveInstance>().has_value());
    ASSERT_TRUE(turn_until(loop, [&] { return !ends.empty(); }));
    EXPECT_EQ(hears<protocol::DropObject>()->object, ObjectId{});
  }
  // All that the executor is told by now.
  template <typename Kind>
  std::vector<Kind> all_heard() {
    std::vector<Kind> all;
    for (;;) {
      auto heard = executor->hear();
      if (!heard) {
        turn();
        heard = executor->hear();
      }
      if (!heard) return all;
      if (auto* message = std::get_if<Kind>(&heard->message)) all.push_back(std::move(*message));
    }
  }
  void pass(Duration time) {
    clock.advance(time);
    turn();
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

TEST_F(KeptObjectsTest, TheExecutorHearsThatTheHostHasAnObjectOrCouldNotTakeIt) {
  const ObjectId object = make();
  executor->say(protocol::ObjectWritten{object});  // its file was lost
  const auto refused = hears<protocol::ObjectWritten>();
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->object, object);
  EXPECT_TRUE(refused->error.has_value());
  EXPECT_EQ(place(object), objects::ObjectPlace::kDevice);
  write(object);
  EXPECT_EQ(hears<protocol::ObjectWritten>(), (protocol::ObjectWritten{object}));
  EXPECT_EQ(place(object), objects::ObjectPlace::kMemory);
  write(object);  // once more: it need not stay there
  EXPECT_EQ(hears<protocol::ObjectWritten>(), (protocol::ObjectWritten{object}));
}

TEST_F(KeptObjectsTest, AnExecutorThatIsNotUsedHasTheTimeThatItsObjectsTake) {
  const ObjectId first = make(), second = make(true, 2), third = make(true, 3);
  stop();
  for (const ObjectId each : {first, second, third}) {
    EXPECT_EQ(launcher.kills, 0);
    pass(seconds(4));
    write(each);
  }
  EXPECT_EQ(launcher.kills, 1);
  EXPECT_EQ(count(Event::kEvicted), 3u);
  EXPECT_EQ(count(Event::kLost), 0u);
}

TEST_F(KeptObjectsTest, AnExecutorThatOnlySaysThatItCannotWriteEnds) {
  const ObjectId object = make();
  stop();
  for (int i = 0; i < 2; ++i) {
    pass(seconds(2));
    executor->say(protocol::ObjectWritten{object, Error{ErrorCode::kResourceExhausted, "files"}});
    turn();
  }
  EXPECT_EQ(launcher.kills, 0);
  pass(seconds(2));
  EXPECT_EQ(launcher.kills, 1);
}

TEST_F(KeptObjectsTest, AnExecutorThatIsNeededAgainWhileItWritesStays) {
  const ObjectId object = make();
  stop();
  EXPECT_EQ(hears<protocol::WriteObject>()->object, object);
  start(SandboxId(2), spec, folder.path(), DeviceId(1));
  ASSERT_TRUE(hears<protocol::AddInstance>().has_value());
  executor->say(protocol::InstanceReady{SandboxId(2), milliseconds(1)});
  ASSERT_TRUE(turn_until(loop, [&] { return readies.size() == 2; }));
  pass(seconds(6));
  EXPECT_EQ(launcher.kills, 0);
  write(object);
  EXPECT_EQ(launcher.kills, 0);
  EXPECT_EQ(launcher.launches, 1);
  open(object);
  EXPECT_THAT(seen, ::testing::ElementsAre("kkk"));
  // It ends as any other when it is not used again.
  host->stop(SandboxId(2), Error{ErrorCode::kCancelled, "retired"}, "Sandbox.Stopped");
  ASSERT_TRUE(turn_until(loop, [&] { return launcher.kills == 1; }));
}

TEST_F(KeptObjectsTest, AnExecutorThatEndsIsAskedForAFewAtOnceAndAgainAfterAnError) {
  make_many(70);
  stop();
  auto asked = all_heard<protocol::WriteObject>();
  ASSERT_THAT(asked, SizeIs(64));
  const ObjectId first = asked[0].object, second = asked[1].object;
  const OwnedFd file = memfd_with("k", true);
  executor->say(protocol::ObjectWritten{first}, {file.get()});
  EXPECT_THAT(all_heard<protocol::WriteObject>(), SizeIs(1));
  executor->say(protocol::ObjectWritten{second, Error{ErrorCode::kResourceExhausted, "files"}});
  EXPECT_THAT(all_heard<protocol::WriteObject>(), IsEmpty()) << "it would only fail again";
  pass(milliseconds(100));
  asked = all_heard<protocol::WriteObject>();
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].object, second);
}

TEST_F(KeptObjectsTest, ThousandsMayGoAtOnce) {
  make_many(6000);
  uint64_t removed = 0;
  for (const auto& each : store.list(kDefaultTenant, std::nullopt, 6000)) {
    if (store.remove(kDefaultTenant, each.object).ok()) ++removed;
  }
  EXPECT_EQ(removed, 6000u);
  EXPECT_THAT(all_heard<protocol::DropObject>(), SizeIs(6000));
  EXPECT_EQ(launcher.kills, 0);
}

TEST_F(KeptObjectsTest, AReaderWaitsAsLongAsTheExecutorWritesOthers) {
  const ObjectId first = make(), second = make(true, 2);
  open(first);
  open(second);
  pass(seconds(20));
  write(first);
  pass(seconds(20));
  EXPECT_THAT(seen, SizeIs(1));
  pass(seconds(11));
  ASSERT_THAT(seen, SizeIs(2));
  EXPECT_THAT(seen[1], HasSubstr("UNAVAILABLE"));
}

TEST_F(KeptObjectsTest, OneThatWasAskedForButIsNotWaitedForIsNotReadOnTheHost) {
  const ObjectId object = make();
  const auto wait =
      store.open(kDefaultTenant, object, loop.now(), [](const Result<objects::OpenedObject>&) {});
  EXPECT_EQ(hears<protocol::WriteObject>()->object, object);
  store.cancel(wait);
  write(object);
  EXPECT_EQ(count(Event::kRead), 0u);
  EXPECT_EQ(count(Event::kEvicted), 1u);
}

TEST_F(KeptObjectsTest, OfAnAnswerThatCannotBeTakenNothingStaysOnTheDevice) {
  protocol::Finished message = begin();
  message.objects = {{{message.invocation, 0}, raw_tensor(kSize), 0, true}};
  message.payload_attached = true;
  const OwnedFd unsealed = memfd_with("answer", false);
  for (const auto& files : {std::vector<int>(), std::vector<int>{unsealed.get()}}) {
    finish(message, files);
    EXPECT_FALSE(answers.back().succeeded);
    EXPECT_EQ(hears<protocol::DropObject>(),
              (protocol::DropObject{message.objects[0].object, true}));
    begin();
  }
}

TEST_F(KeptObjectsTest, OneThatWasLostIsNotMadeByARequestThatRunsAgain) {
  const ObjectId object = make();
  launcher.end(executor->id, {.signal = 9});
  turn();
  instance(SandboxId(1));
  executor = &launcher.latest();
  make();
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_FALSE(answers[1].succeeded);
  EXPECT_EQ(answers[1].error_type, "Object.Failed");
  EXPECT_THAT(all_heard<protocol::DropObject>(),
              ::testing::ElementsAre(protocol::DropObject{object, true}));
}

}  // namespace
}  // namespace lambent::worker
