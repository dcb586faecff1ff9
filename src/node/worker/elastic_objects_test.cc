// Where objects lie on the devices of a node: tests speak as the executors, and look at the devices
// in the name of the worker.
#include "decide/scheduling/make_policy.h"
#include "node/worker/deferred_actions.h"
#include "node/worker/testing/executor_testing.h"

namespace lambent::worker {
namespace {

using protocol::DropObject;
using protocol::ObjectHeld;
using protocol::SetObjectRoom;

// With what an executor and an instance that is idle take, this leaves nothing of a device.
constexpr uint64_t kFull = 1024 + 64 - 24 - 16;

// Two devices of 1 GiB that reach each other, with an executor of one function on each. The first
// has made an object of 4 MiB.
class ElasticObjectsTest : public ExecutorHostTest {
 protected:
  ElasticObjectsTest() {
    setting.gpu.visible = {{DeviceId(1), "0"}, {DeviceId(2), "1"}};
    setting.context_memory = Bytes::mib(24);
  }
  void SetUp() override {
    launcher.peers = {1};
    start_both();
  }
  void start_both() {
    ExecutorHostTest::SetUp();
    start_on(DeviceId(1), one);
    start_on(DeviceId(2), other);
  }
  void start_on(DeviceId device, FakeExecutor*& executor) {
    const size_t before = launcher.running.size();
    const SandboxId instance(device.value);
    start(instance, spec, folder.path(), device);
    ASSERT_TRUE(turn_until(loop, [&] { return launcher.running.size() > before; }));
    executor = &launcher.latest();
    ASSERT_TRUE(hears<protocol::AddInstance>().has_value());
    executor->say(protocol::InstanceReady{instance, milliseconds(1), Bytes::mib(16)});
    const size_t readies_before = readies.size();
    ASSERT_TRUE(turn_until(loop, [&] { return readies.size() > readies_before; }));
  }
  ObjectId make(Bytes size = Bytes::mib(4)) {
    InvocationRequest request;
    request.id = {9, ++invocations};
    request.payload = "{}";
    host->deliver(SandboxId(1), request, seconds(3));
    EXPECT_TRUE(hears_from<protocol::Run>(*one).has_value());
    protocol::Finished message = finished(request.id);
    message.device_memory_peak = Bytes::mib(40);
    const ObjectId object{request.id, 0};
    message.objects = {{object, raw_tensor(size)}};
    const OwnedFd file = memfd_with(std::string(size.count, 'x'), true);
    const size_t before = answers.size();
    one->say(message, {file.get()});
    EXPECT_TRUE(turn_until(loop, [&] { return answers.size() > before; }));
    return object;
  }
  template <typename Kind>
  std::optional<Kind> hears_from(FakeExecutor& executor, std::vector<OwnedFd>* fds = nullptr) {
    std::optional<FakeExecutor::Heard> heard;
    if (!turn_until(loop, [&] { return (heard = hear(executor)).has_value(); })) {
      return std::nullopt;
    }
    if (fds != nullptr) *fds = std::move(heard->fds);
    const Kind* kind = std::get_if<Kind>(&heard->message);
    return kind != nullptr ? std::optional(*kind) : std::nullopt;
  }
  // But for the question whether it has made way.
  std::optional<FakeExecutor::Heard> hear(FakeExecutor& executor) {
    auto heard = executor.hear();
    const auto* drop = heard ? std::get_if<protocol::DropObject>(&heard->message) : nullptr;
    return drop != nullptr && drop->object == ObjectId{} ? executor.hear() : std::move(heard);
  }
  // What dispatch has promised of the two devices.
  void look(uint64_t claimed_mib, uint64_t claimed_of_other_mib, bool has_queue = false) {
    ASSERT_TRUE(host->objects().is_look_due());
    host->look_at_objects({{DeviceId(1), Bytes::gib(1), Bytes::mib(claimed_mib)},
                           {DeviceId(2), Bytes::gib(1), Bytes::mib(claimed_of_other_mib)}},
                          [has_queue](FunctionId) { return has_queue; });
  }
  // Of what is idle 80 % is for objects, in steps of 16 MiB.
  void have_rooms() {
    look(64, 64);
    for (FakeExecutor* each : {one, other}) {
      const auto room = hears_from<SetObjectRoom>(*each);
      ASSERT_TRUE(room.has_value());
      EXPECT_EQ(room->room, Bytes::mib((1024 - 64 - 24) * 8 / 10 / 16 * 16));
    }
  }
  void say(FakeExecutor& executor, const protocol::ExecutorMessage& message) {
    executor.say(message);
    turn();
  }
  void turn() {
    EXPECT_TRUE(turn_until(loop, [turns = 0]() mutable { return ++turns > 3; }));
  }
  const ElasticObjects::Moved& moved(size_t way) const { return host->objects().moves().at(way); }

  FakeExecutor* one = nullptr;
  FakeExecutor* other = nullptr;
  uint64_t invocations = 0;
};

TEST_F(ElasticObjectsTest, ObjectsHaveAShareOfWhatIsPromisedToNobody) {
  have_rooms();
  make();
  EXPECT_EQ(host->objects().on_devices(), Bytes::mib(4));
  look(64, 64);  // nothing has changed
  EXPECT_FALSE(hear(*one).has_value());
  look(1000, 64);
  EXPECT_EQ(hears_from<SetObjectRoom>(*one)->room, Bytes(0));
}

TEST_F(ElasticObjectsTest, ADeviceHasBeenMadeWayOnWhenItsExecutorsHaveSaidSo) {
  have_rooms();
  EXPECT_FALSE(host->objects().evicts(DeviceId(1))) << "no request waits for a larger region";
  make();
  look(500, 64);
  look(1000, 64);
  EXPECT_TRUE(host->objects().evicts(DeviceId(1)));
  EXPECT_FALSE(host->objects().evicts(DeviceId(2)));
  say(*one, protocol::ObjectHeld{ObjectId{}, Bytes(0)});
  EXPECT_TRUE(host->objects().evicts(DeviceId(1))) << "it was asked twice";
  say(*one, protocol::ObjectHeld{ObjectId{}, Bytes(0)});
  EXPECT_FALSE(host->objects().evicts(DeviceId(1)));
  say(*one, protocol::ObjectHeld{ObjectId{}, Bytes(0)});  // more often than it was asked
  EXPECT_FALSE(host->objects().evicts(DeviceId(1)));
  look(64, 64);
  look(1000, 64);
  EXPECT_TRUE(host->objects().evicts(DeviceId(1)));
  launcher.end(one->id, {.signal = 9});
  EXPECT_TRUE(turn_until(loop, [&] { return !host->objects().evicts(DeviceId(1)); }));
}

TEST_F(ElasticObjectsTest, AStartOnSeveralDevicesWaitsUntilAllHaveGivenWay) {
  const dispatch::Dispatcher dispatcher({}, std::move(*scheduling::make_policy("density", {})));
  size_t started = 0;
  DeferredActions deferred(loop, dispatcher, *host, [&](const dispatch::Action&) { ++started; });
  have_rooms();
  make();
  look(500, 500);
  look(1000, 1000);
  ASSERT_TRUE(host->objects().evicts(DeviceId(1)) && host->objects().evicts(DeviceId(2)));
  const dispatch::StartSandbox start{.sandbox = SandboxId(9)};
  ASSERT_TRUE(deferred.defer(start.sandbox, {DeviceId(1), DeviceId(2)}, start));
  const auto wait = [&] {
    clock.advance(milliseconds(10));
    turn();
  };
  for (int answer = 0; answer < 2; ++answer) say(*one, protocol::ObjectHeld{ObjectId{}, Bytes(0)});
  ASSERT_FALSE(host->objects().evicts(DeviceId(1)));
  wait();
  EXPECT_EQ(started, 0U);
  for (int answer = 0; answer < 2; ++answer) {
    say(*other, protocol::ObjectHeld{ObjectId{}, Bytes(0)});
  }
  wait();
  EXPECT_EQ(started, 1U);
  EXPECT_FALSE(deferred.defer(start.sandbox, {DeviceId(1), DeviceId(2)}, start));
}

TEST_F(ElasticObjectsTest, AMoveOntoSeveralDevicesWaitsUntilAllHaveGivenWay) {
  dispatch::DispatchOptions options;
  for (const uint32_t id : {1u, 2u}) {
    options.fleet.devices.push_back({.id = DeviceId(id), .memory = Bytes::gib(1)});
  }
  dispatch::Dispatcher dispatcher(options, std::move(*scheduling::make_policy("density", {})));
  std::vector<dispatch::Action> actions;
  const dispatch::FunctionProfile profile{
      .id = FunctionId(5), .tenant = TenantId(1), .device_memory = Bytes::mib(512), .gpu_count = 2};
  dispatcher.handle(dispatch::FunctionRegistered{profile}, clock.now(), actions);
  dispatcher.handle(dispatch::InvocationSubmitted{InvocationId(9, 99), FunctionId(5)}, clock.now(),
                    actions);
  const auto start = std::ranges::find_if(actions, [](const dispatch::Action& action) {
    return std::holds_alternative<dispatch::StartSandbox>(action);
  });
  ASSERT_NE(start, actions.end());
  const dispatch::MoveMemoryIn move{std::get<dispatch::StartSandbox>(*start).sandbox};
  size_t moved = 0;
  DeferredActions deferred(loop, dispatcher, *host, [&](const dispatch::Action&) { ++moved; });
  have_rooms();
  EXPECT_FALSE(deferred.defer_move(move));
  make();
  for (const uint64_t full : {1, 2}) {
    SCOPED_TRACE(full);
    for (const uint64_t claimed : {500, 1000}) {
      look(full == 1 ? claimed : 1000, full == 1 ? 64 : claimed);
    }
    ASSERT_EQ(host->objects().evicts(DeviceId(1)), full == 1);
    ASSERT_EQ(host->objects().evicts(DeviceId(2)), full == 2);
    ASSERT_TRUE(deferred.defer_move(move));
    FakeExecutor& executor = full == 1 ? *one : *other;
    for (int answer = 0; answer < 2; ++answer) {
      EXPECT_EQ(moved, full - 1);
      say(executor, protocol::ObjectHeld{ObjectId{}, Bytes(0)});
    }
    clock.advance(milliseconds(10));
    turn();
    EXPECT_EQ(moved, full);
  }
}

TEST_F(ElasticObjectsTest, OneThatSaysNothingForLongIsWaitedForNoMore) {
  have_rooms();
  make();
  look(500, 64);
  clock.advance(seconds(6));
  EXPECT_FALSE(host->objects().evicts(DeviceId(1)));
  look(1000, 64);
  EXPECT_FALSE(host->objects().evicts(DeviceId(1))) << "it still hangs";
  say(*one, protocol::ObjectHeld{ObjectId{}, Bytes(0)});
  EXPECT_TRUE(host->objects().evicts(DeviceId(1))) << "it does not, and will answer";
  say(*one, protocol::ObjectHeld{ObjectId{}, Bytes(0)});
  EXPECT_FALSE(host->objects().evicts(DeviceId(1)));
}

TEST_F(ElasticObjectsTest, AnObjectMakesWayToANeighbourAndIsReleasedWhenItHasArrived) {
  have_rooms();
  const ObjectId object = make();
  look(kFull, 64);
  EXPECT_EQ(hears_from<protocol::ShareObject>(*one)->object, object);
  EXPECT_FALSE(hear(*one).has_value()) << "the room is taken back when it has left";
  const OwnedFd memory = memfd_with("device memory", false);
  one->say(protocol::ObjectShared{object, std::nullopt, Bytes::mib(4)}, {memory.get()});
  std::vector<OwnedFd> fds;
  const auto taken = hears_from<protocol::TakeObject>(*other, &fds);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(*taken, (protocol::TakeObject{object, raw_tensor(Bytes::mib(4)), Bytes::mib(4)}));
  EXPECT_EQ(fds.size(), 1u);
  look(kFull, 64);
  EXPECT_FALSE(hear(*one).has_value()) << "once is enough";
  other->say(ObjectHeld{object, Bytes::mib(4)});
  other->say(protocol::ExportEnded{object});
  EXPECT_TRUE(hears_from<protocol::ExportEnded>(*one).has_value());
  EXPECT_EQ(*hears_from<DropObject>(*one), (DropObject{object, false}));
  EXPECT_EQ(moved(1).objects, 0u);
  say(*one, ObjectHeld{object, Bytes(0)});
  EXPECT_EQ(moved(1).objects, 1u);
  EXPECT_EQ(moved(1).bytes, Bytes::mib(4));
  EXPECT_EQ(host->objects().on_devices(), Bytes::mib(4));
  look(kFull, 64);
  EXPECT_EQ(hears_from<SetObjectRoom>(*one)->room, Bytes(0));
}

TEST_F(ElasticObjectsTest, TheRoomIsTakenBackAfterTheLookAheadWhetherAllHasLeftOrNot) {
  have_rooms();
  make();
  look(kFull, 64);
  EXPECT_TRUE(hears_from<protocol::ShareObject>(*one).has_value());
  clock.advance(milliseconds(19));
  turn();
  EXPECT_FALSE(hear(*one).has_value());
  clock.advance(milliseconds(2));
  // Who does not answer in this time is not waited for.
  EXPECT_TRUE(hears_from<DropObject>(*one).has_value());
  look(kFull, 64);
  EXPECT_EQ(hears_from<SetObjectRoom>(*one)->room, Bytes(0));
}

TEST_F(ElasticObjectsTest, WithoutRoomElsewhereTheHostAloneHasIt) {
  have_rooms();
  const ObjectId object = make();
  look(kFull, kFull);
  EXPECT_EQ(*hears_from<DropObject>(*one), (DropObject{object, false}));
  say(*one, ObjectHeld{object, Bytes(0)});
  EXPECT_EQ(moved(2).objects, 1u);
  EXPECT_EQ(host->objects().on_devices(), Bytes(0));
  // It is read from there.
  other->say(protocol::OpenObject{object});
  EXPECT_EQ(hears_from<SetObjectRoom>(*other)->room, Bytes(0));
  const auto opened = hears_from<protocol::ObjectOpened>(*other);
  ASSERT_TRUE(opened.has_value());
  EXPECT_FALSE(opened->error.has_value());
  EXPECT_EQ(opened->shared, Bytes(0));
}

TEST_F(ElasticObjectsTest, WhatIsInUseStaysAndIsAskedForAgainAfterTheNextRequest) {
  have_rooms();
  const ObjectId object = make();
  look(kFull, kFull);
  EXPECT_TRUE(hears_from<DropObject>(*one).has_value());
  EXPECT_TRUE(hears_from<SetObjectRoom>(*one).has_value());
  say(*one, ObjectHeld{object, Bytes::mib(4)});
  EXPECT_EQ(moved(2).objects, 0u);
  look(kFull, kFull);
  EXPECT_FALSE(hear(*one).has_value());
  make(Bytes(10));
  look(kFull, kFull);
  EXPECT_EQ(hears_from<DropObject>(*one)->object, object);
}

// Of device 1 everything but 64 MiB is others'; the instance's requests need 40 of these, and its
// constants 16.
TEST_F(ElasticObjectsTest, AFunctionThatHasAQueueHasItsMemoryBeforeItRuns) {
  make(Bytes::mib(8));
  look(1024 - 24, 1024 - 24);
  EXPECT_FALSE(hear(*one).has_value()) << "48 MiB of its share are idle";
  const ObjectId object = make(Bytes::mib(16));
  look(1024 - 24, 1024 - 24);
  EXPECT_FALSE(hear(*one).has_value());
  look(1024 - 24, 1024 - 24, /*has_queue=*/true);
  EXPECT_EQ(hears_from<DropObject>(*one)->object, object) << "the larger one";
  EXPECT_FALSE(hear(*one).has_value());
}

TEST_F(ElasticObjectsTest, WhatLiesWithAReaderTooMakesWayFirstAndGoesNowhere) {
  have_rooms();
  make(Bytes::mib(8));
  const ObjectId object = make();
  other->say(protocol::OpenObject{object});
  EXPECT_TRUE(hears_from<protocol::ShareObject>(*one).has_value());
  const OwnedFd memory = memfd_with("device memory", false);
  one->say(protocol::ObjectShared{object, std::nullopt, Bytes::mib(4)}, {memory.get()});
  EXPECT_EQ(hears_from<protocol::ObjectOpened>(*other)->shared, Bytes::mib(4));
  EXPECT_EQ(host->objects().reads()[1].bytes, Bytes::mib(4));
  other->say(ObjectHeld{object, Bytes::mib(4)});
  other->say(protocol::ExportEnded{object});
  EXPECT_TRUE(hears_from<protocol::ExportEnded>(*one).has_value());
  EXPECT_FALSE(hear(*one).has_value()) << "nothing presses";
  EXPECT_EQ(host->objects().on_devices(), Bytes::mib(16));
  look(kFull - 11, 64);  // 80 % of 11 MiB
  EXPECT_EQ(*hears_from<DropObject>(*one), (DropObject{object, false}));
  EXPECT_EQ(hears_from<SetObjectRoom>(*one)->room, Bytes(0));
  EXPECT_FALSE(hear(*other).has_value()) << "of two copies one stays";
  say(*one, ObjectHeld{object, Bytes(0)});
  EXPECT_EQ(moved(0).objects, 1u);
  // The one that has it now shares it.
  one->say(protocol::OpenObject{object});
  EXPECT_EQ(hears_from<protocol::ShareObject>(*other)->object, object);
}

TEST_F(ElasticObjectsTest, WhoIsToTakeAnObjectAndEndsKeepsItFromNobody) {
  have_rooms();
  const ObjectId object = make();
  look(kFull, 64);
  EXPECT_TRUE(hears_from<protocol::ShareObject>(*one).has_value());
  const OwnedFd memory = memfd_with("device memory", false);
  one->say(protocol::ObjectShared{object, std::nullopt, Bytes::mib(4)}, {memory.get()});
  EXPECT_TRUE(hears_from<protocol::TakeObject>(*other).has_value());
  launcher.end(other->id, {.signal = 9});
  EXPECT_TRUE(hears_from<protocol::ExportEnded>(*one).has_value());
  EXPECT_TRUE(hears_from<DropObject>(*one).has_value());
}

TEST_F(ElasticObjectsTest, WhatNobodyIsLeftToTakeBeforeItIsSharedGoesToTheHost) {
  have_rooms();
  const ObjectId object = make();
  look(kFull, 64);
  EXPECT_TRUE(hears_from<protocol::ShareObject>(*one).has_value());
  launcher.end(other->id, {.signal = 9});
  EXPECT_EQ(*hears_from<DropObject>(*one), (DropObject{object, false}));
  const OwnedFd memory = memfd_with("device memory", false);
  one->say(protocol::ObjectShared{object, std::nullopt, Bytes::mib(4)}, {memory.get()});
  EXPECT_TRUE(hears_from<protocol::ExportEnded>(*one).has_value());
  say(*one, ObjectHeld{object, Bytes(0)});
  EXPECT_EQ(moved(2).objects, 1u);
  clock.advance(milliseconds(21));
  EXPECT_EQ(hears_from<SetObjectRoom>(*one)->room, Bytes(0));
}

TEST_F(ElasticObjectsTest, WhoIsAboutToReadAnObjectDoesNotTakeItAsWell) {
  have_rooms();
  const ObjectId object = make();
  other->say(protocol::OpenObject{object});
  EXPECT_TRUE(hears_from<protocol::ShareObject>(*one).has_value());
  look(kFull, 64);
  EXPECT_EQ(*hears_from<DropObject>(*one), (DropObject{object, false}));
  const OwnedFd memory = memfd_with("device memory", false);
  one->say(protocol::ObjectShared{object, std::nullopt, Bytes::mib(4)}, {memory.get()});
  EXPECT_EQ(hears_from<protocol::ObjectOpened>(*other)->shared, Bytes::mib(4));
  EXPECT_FALSE(hear(*other).has_value());
}

TEST_F(ElasticObjectsTest, WhatIsDeletedBeforeItIsSharedMovesNowhere) {
  have_rooms();
  const ObjectId object = make();
  look(kFull, 64);
  EXPECT_TRUE(hears_from<protocol::ShareObject>(*one).has_value());
  ASSERT_TRUE(store.remove(kDefaultTenant, object).ok());
  EXPECT_EQ(*hears_from<DropObject>(*one), (DropObject{object, true}));
  const OwnedFd memory = memfd_with("device memory", false);
  one->say(protocol::ObjectShared{object, std::nullopt, Bytes::mib(4)}, {memory.get()});
  EXPECT_TRUE(hears_from<protocol::ExportEnded>(*one).has_value());
  EXPECT_FALSE(hear(*other).has_value());
}

TEST_F(ElasticObjectsTest, WhoHasTakenWhatWasDeletedMeanwhileForgetsIt) {
  have_rooms();
  const ObjectId object = make();
  look(kFull, 64);
  EXPECT_TRUE(hears_from<protocol::ShareObject>(*one).has_value());
  const OwnedFd memory = memfd_with("device memory", false);
  one->say(protocol::ObjectShared{object, std::nullopt, Bytes::mib(4)}, {memory.get()});
  EXPECT_TRUE(hears_from<protocol::TakeObject>(*other).has_value());
  ASSERT_TRUE(store.remove(kDefaultTenant, object).ok());
  other->say(ObjectHeld{object, Bytes::mib(4)});
  EXPECT_EQ(*hears_from<DropObject>(*other), (DropObject{object, true}));
  EXPECT_EQ(host->objects().on_devices(), Bytes(0));
}

TEST_F(ElasticObjectsTest, WhatWasSharedWhenItWasToGoIsAskedForAgainWhenItIsBack) {
  have_rooms();
  const ObjectId object = make();
  other->say(protocol::OpenObject{object});
  EXPECT_TRUE(hears_from<protocol::ShareObject>(*one).has_value());
  look(kFull, kFull);
  EXPECT_TRUE(hears_from<DropObject>(*one).has_value());
  EXPECT_TRUE(hears_from<SetObjectRoom>(*one).has_value());
  const OwnedFd memory = memfd_with("device memory", false);
  one->say(protocol::ObjectShared{object, std::nullopt, Bytes::mib(4)}, {memory.get()});
  say(*one, ObjectHeld{object, Bytes::mib(4)});
  look(kFull, kFull);
  EXPECT_FALSE(hear(*one).has_value()) << "it is shared";
  other->say(protocol::ExportEnded{object});
  EXPECT_TRUE(hears_from<protocol::ExportEnded>(*one).has_value());
  look(kFull, kFull);
  EXPECT_EQ(*hears_from<DropObject>(*one), (DropObject{object, false}));
}

// However an executor may come to say so.
TEST_F(ElasticObjectsTest, AnExportThatEndsWhileTheExporterSaysItHasNothingIsCountedAllTheSame) {
  have_rooms();
  const ObjectId object = make();
  other->say(protocol::OpenObject{object});
  EXPECT_TRUE(hears_from<protocol::ShareObject>(*one).has_value());
  const OwnedFd memory = memfd_with("device memory", false);
  one->say(protocol::ObjectShared{object, std::nullopt, Bytes::mib(4)}, {memory.get()});
  EXPECT_TRUE(hears_from<protocol::ObjectOpened>(*other).has_value());
  say(*one, ObjectHeld{object, Bytes(0)});
  other->say(protocol::ExportEnded{object});
  EXPECT_TRUE(hears_from<protocol::ExportEnded>(*one).has_value());
  say(*one, ObjectHeld{object, Bytes::mib(4)});
  look(kFull, kFull);
  EXPECT_EQ(*hears_from<DropObject>(*one), (DropObject{object, false})) << "it is in use for ever";
}

TEST_F(ElasticObjectsTest, WhatIsMadeTakesWholeUnitsOfTheDevice) {
  make(Bytes::mib(3));
  EXPECT_EQ(host->objects().on_devices(), Bytes::mib(4));
}

// One that is made again has the size that it had, whatever is said of it then.
TEST_F(ElasticObjectsTest, WhatIsMadeAgainTakesWhatItTook) {
  const ObjectId object = make(Bytes::mib(4));
  --invocations;
  EXPECT_EQ(make(Bytes::mib(64)), object);
  EXPECT_EQ(host->objects().on_devices(), Bytes::mib(4));
}

TEST_F(ElasticObjectsTest, AnExecutorThatEndsTakesItsCopiesWithIt) {
  have_rooms();
  const ObjectId object = make();
  launcher.end(one->id, {.signal = 9});
  EXPECT_TRUE(turn_until(loop, [&] { return host->objects().on_devices() == Bytes(0); }));
  other->say(protocol::OpenObject{object});
  const auto opened = hears_from<protocol::ObjectOpened>(*other);
  ASSERT_TRUE(opened.has_value());
  EXPECT_FALSE(opened->error.has_value()) << "the host has it";
  EXPECT_EQ(opened->shared, Bytes(0));
}

TEST_F(ElasticObjectsTest, AllWhoMayHaveADeletedObjectForgetIt) {
  const ObjectId large = make(), small = make(Bytes(10));
  other->say(protocol::OpenObject{small});
  EXPECT_TRUE(hears_from<protocol::ObjectOpened>(*other).has_value());
  ASSERT_TRUE(store.remove(kDefaultTenant, large).ok());
  EXPECT_EQ(*hears_from<DropObject>(*one), (DropObject{large, true}));
  EXPECT_EQ(host->objects().on_devices(), Bytes(0));
  ASSERT_TRUE(store.remove(kDefaultTenant, small).ok());
  EXPECT_EQ(*hears_from<DropObject>(*one), (DropObject{small, true}));
  EXPECT_EQ(*hears_from<DropObject>(*other), (DropObject{small, true}));
  EXPECT_FALSE(hear(*other).has_value());
}

TEST_F(ElasticObjectsTest, AnObjectThatExpiresIsForgotten) {
  const ObjectId object = make();
  clock.advance(std::chrono::hours(1) + seconds(1));
  EXPECT_EQ(*hears_from<DropObject>(*one), (DropObject{object, true}));
}

class DevicesApartTest : public ElasticObjectsTest {
 protected:
  void SetUp() override { start_both(); }
};

TEST_F(DevicesApartTest, WhatCannotReachAnotherDeviceGoesToTheHost) {
  have_rooms();
  make();
  look(kFull, 64);
  EXPECT_TRUE(hears_from<DropObject>(*one).has_value());
}

class NotElasticTest : public ElasticObjectsTest {
 protected:
  NotElasticTest() { setting.elastic_objects = false; }
};

TEST_F(NotElasticTest, NobodyLooksAndDeletedObjectsAreForgottenAllTheSame) {
  const ObjectId object = make();
  EXPECT_FALSE(host->objects().is_look_due());
  ASSERT_TRUE(store.remove(kDefaultTenant, object).ok());
  EXPECT_EQ(*hears_from<DropObject>(*one), (DropObject{object, true}));
}

}  // namespace
}  // namespace lambent::worker
