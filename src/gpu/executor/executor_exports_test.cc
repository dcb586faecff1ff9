// Objects that one real lambent-executor exports to another, on one emulated device or another.
#include <gmock/gmock.h>

#include "gpu/executor/testing/function_testing.h"

namespace lambent::executor {
namespace {

using protocol::Finished;
using protocol::ObjectShared;

constexpr size_t kCount = 1 << 20;  // 4 MiB: it has memory of its own

class ExecutorExportsTest : public ExecutorTest {
 protected:
  void SetUp() override { start_exporter("tiny", "0"); }
  // Which devices it sees, its own first.
  void start_exporter(const std::string& machine, const std::string& visible) {
    machine_ = machine;
    start(settings(visible));
    add(1, process_->package(affine(kCount)));
  }
  std::vector<std::pair<std::string, std::string>> settings(const std::string& visible) const {
    return {{"EMULATED_CUDA_NODE", node_},
            {"EMULATED_CUDA_CONFIG", machine_},
            {"CUDA_VISIBLE_DEVICES", visible}};
  }
  // Asks for y = 3x + 1 for x = 2, as an object.
  void begin_to_make(uint64_t invocation, uint64_t instance) {
    std::string request = R"({"inputs": [{"name": "x", "data": [2)";
    for (size_t i = 1; i < kCount; ++i) request += ",2";
    request += R"(]}], "outputs": [{"name": "y", "parameters": {"object": true}}]})";
    process_->run(invocation, instance, request, "application/json");
  }
  ObjectId make(uint64_t invocation = 1, uint64_t instance = 1) {
    begin_to_make(invocation, instance);
    return made();
  }
  ObjectId made() {
    const auto finished = process_->expect<Finished>();
    EXPECT_TRUE(finished && !finished->error && finished->objects.size() == 1);
    return finished->objects.at(0).object;
  }
  std::optional<ObjectShared> share(ObjectId object, std::vector<OwnedFd>* fds) {
    process_->send(protocol::ShareObject{object});
    return process_->expect<ObjectShared>(fds);
  }

  // A request that reads the object.
  static std::string of(ObjectId object) {
    return R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(object) +
           R"("}}], "outputs": [{"name": "y", "parameters": {"object": true}}]})";
  }
  struct Imported {
    std::vector<uint32_t> peers;  // as the importer says
    bool from_device = false;     // else from the host
  };
  // What comes of it when an executor that sees these devices asks for the exporter's object.
  Imported import(const std::string& visible) {
    const ObjectId object = make();
    std::vector<OwnedFd> shared;
    EXPECT_FALSE(share(object, &shared)->error.has_value());

    ExecutorProcess importer(settings(visible));
    const auto hello = importer.expect<protocol::ExecutorHello>();
    importer.add_instance(5, importer.package(affine(kCount)), Bytes::mib(64));
    EXPECT_TRUE(importer.expect<protocol::InstanceReady>().has_value());
    importer.run(1, 5, of(object), "application/json");
    EXPECT_TRUE(importer.expect<protocol::OpenObject>().has_value());
    // What the host has is another content, so that one sees which of the two was taken.
    const auto host = sealed_memory(std::string(kCount * sizeof(int), '\0'));
    EXPECT_TRUE(host.ok());
    importer.send(
        protocol::ObjectOpened{object, std::nullopt, {DataType::kInt32, {kCount}}, Bytes::mib(4)},
        {host->get(), shared.at(0).get()});
    EXPECT_EQ(importer.expect<protocol::ExportEnded>()->object, object);
    std::vector<OwnedFd> fds;
    const auto finished = importer.expect<Finished>(&fds);
    EXPECT_TRUE(finished && !finished->error);
    const auto y = ints_of(ExecutorProcess::content_of(fds.at(0).get()));
    const bool from_device = y == std::vector<int>(kCount, 22);
    EXPECT_TRUE(from_device || y == std::vector<int>(kCount, 1));
    return {hello->peers, from_device};
  }

  TemporaryFolder folder_;
  const std::string node_ = folder_ / "node";
  std::string machine_;
};

TEST_F(ExecutorExportsTest, AnObjectOnTheDeviceIsSharedWithTheMemoryThatItLiesIn) {
  const ObjectId object = make();
  std::vector<OwnedFd> fds;
  const auto shared = share(object, &fds);
  ASSERT_TRUE(shared.has_value());
  EXPECT_FALSE(shared->error.has_value());
  EXPECT_EQ(shared->shared, Bytes::mib(4));
  EXPECT_EQ(fds.size(), 1u);
  // It stays while it is shared, and can go afterwards.
  process_->send(protocol::MoveInstance{SandboxId(1), true});
  EXPECT_TRUE(process_->expect<protocol::InstanceMoved>()->done);
  EXPECT_FALSE(share(object, &fds)->error.has_value());
  process_->send(protocol::ExportEnded{object});
  process_->send(protocol::ExportEnded{object});
  const auto gone = share(object, &fds);
  ASSERT_TRUE(gone->error.has_value());
  EXPECT_EQ(gone->error->code, ErrorCode::kNotFound);
}

TEST_F(ExecutorExportsTest, TheImporterHasItWithoutTheLink) {
  const Imported imported = import("0");
  EXPECT_TRUE(imported.from_device);
  EXPECT_TRUE(imported.peers.empty());
}

TEST_F(ExecutorExportsTest, WhatCannotBeImportedComesFromTheHost) {
  const ObjectId object{{3, 4}, 0};
  process_->run(2, 1,
                R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(object) +
                    R"("}}], "outputs": [{"name": "y", "parameters": {"object": true}}]})",
                "application/json");
  ASSERT_TRUE(process_->expect<protocol::OpenObject>().has_value());
  const auto host = sealed_memory(std::string(kCount * sizeof(int), '\0'));
  ASSERT_TRUE(host.ok());
  process_->send(
      protocol::ObjectOpened{object, std::nullopt, {DataType::kInt32, {kCount}}, Bytes::mib(4)},
      {host->get(), host->get()});
  EXPECT_EQ(process_->expect<protocol::ExportEnded>()->object, object);
  std::vector<OwnedFd> fds;
  const auto finished = process_->expect<Finished>(&fds);
  ASSERT_TRUE(finished && !finished->error);
  EXPECT_EQ(ints_of(ExecutorProcess::content_of(fds.at(0).get())), std::vector<int>(kCount, 1));
}

TEST_F(ExecutorExportsTest, WhatDoesNotLieThereIsNotSharedAndWhatWasNotSharedDoesNotComeBack) {
  std::vector<OwnedFd> fds;
  EXPECT_EQ(share({{1, 2}, 3}, &fds)->error->code, ErrorCode::kNotFound);
  EXPECT_TRUE(fds.empty());
  process_->send(protocol::ExportEnded{{{1, 2}, 3}});
  process_->run(2, 1, std::string(kCount * sizeof(int), '\0'));
  EXPECT_FALSE(process_->expect<Finished>()->error.has_value());
}

// Four devices: 0 and 1 are joined by NVLink, all others are peers over PCIe.
class ExportsBetweenDevicesTest : public ExecutorExportsTest {
 protected:
  void SetUp() override {}
};

TEST_F(ExportsBetweenDevicesTest, AnImporterOnAPeerHasItOverNvlink) {
  start_exporter("tiny-x4", "0,1,2,3");
  const Imported imported = import("1,0,2,3");
  EXPECT_TRUE(imported.from_device);
  EXPECT_EQ(imported.peers, (std::vector<uint32_t>{1, 2, 3}));
}

TEST_F(ExportsBetweenDevicesTest, AnImporterOnAPeerHasItOverPcie) {
  start_exporter("tiny-x4", "0,1,2,3");
  EXPECT_TRUE(import("3,0,1,2").from_device);
}

TEST_F(ExportsBetweenDevicesTest, AnImporterThatIsNoPeerHasItFromTheHost) {
  const std::string machine = folder_ / "two.toml";
  auto text = read_file(LAMBENT_BINARY_DIR "/lib/emulated/presets/tiny.toml", 1 << 16);
  ASSERT_TRUE(text.ok());
  const std::string one = "devices = 1";
  ASSERT_NE(text->find(one), std::string::npos);
  text->replace(text->find(one), one.size(), "devices = 2");
  ASSERT_TRUE(write_file_atomically(machine, *text, false).ok());
  start_exporter(machine, "0,1");
  const Imported imported = import("1,0");
  EXPECT_FALSE(imported.from_device);
  EXPECT_TRUE(imported.peers.empty());
}

TEST_F(ExportsBetweenDevicesTest, AnImporterThatDoesNotSeeTheDeviceHasItFromTheHost) {
  start_exporter("tiny-x4", "0");
  EXPECT_FALSE(import("1").from_device);
}

class ExecutorObjectsRoomTest : public ExecutorExportsTest {
 protected:
  // Takes the exporter's object; what it says of it then.
  std::optional<protocol::ObjectHeld> take(ExecutorProcess& taker, ObjectId object) {
    std::vector<OwnedFd> shared;
    EXPECT_FALSE(share(object, &shared)->error.has_value());
    taker.send(protocol::TakeObject{object, {DataType::kInt32, {kCount}}, Bytes::mib(4)},
               {shared.at(0).get()});
    std::optional<protocol::ObjectHeld> held;
    for (;;) {
      const auto next = taker.receive();
      if (!next) return std::nullopt;
      if (const auto* said = std::get_if<protocol::ObjectHeld>(&next->message)) held = *said;
      if (!std::holds_alternative<protocol::ExportEnded>(next->message)) continue;
      process_->send(protocol::ExportEnded{object});
      return held;
    }
  }
  protocol::ObjectHeld held() { return process_->expect<protocol::ObjectHeld>().value(); }
  // The instance's memory leaves the device; what it made may stay.
  void move_instance(bool out) {
    process_->send(protocol::MoveInstance{SandboxId(1), out});
    EXPECT_TRUE(process_->expect<protocol::InstanceMoved>()->done);
  }
};

TEST_F(ExecutorObjectsRoomTest, AnObjectIsTakenWhereThereIsRoomForIt) {
  const ObjectId object = make();
  ExecutorProcess taker(settings("0"));
  ASSERT_TRUE(taker.expect<protocol::ExecutorHello>().has_value());
  EXPECT_EQ(take(taker, object), std::nullopt);
  taker.send(protocol::SetObjectRoom{Bytes::mib(6)});
  EXPECT_EQ(take(taker, object), (protocol::ObjectHeld{object, Bytes::mib(4)}));
  EXPECT_EQ(take(taker, object), std::nullopt) << "it is there";
  EXPECT_EQ(take(taker, make(2)), std::nullopt) << "another would have to go for it";
  // It is read where it lies, and is what it was.
  taker.add_instance(5, taker.package(affine(kCount)), Bytes::mib(64));
  ASSERT_TRUE(taker.expect<protocol::InstanceReady>().has_value());
  taker.run(3, 5, of(object), "application/json");
  std::vector<OwnedFd> fds;
  const auto finished = taker.expect<Finished>(&fds);
  ASSERT_TRUE(finished && !finished->error);
  EXPECT_EQ(ints_of(ExecutorProcess::content_of(fds.at(0).get())), std::vector<int>(kCount, 22));
}

TEST_F(ExecutorObjectsRoomTest, AnObjectThatIsDroppedGoesUnlessItIsShared) {
  const ObjectId object = make();
  std::vector<OwnedFd> fds;
  ASSERT_FALSE(share(object, &fds)->error.has_value());
  process_->send(protocol::DropObject{object, false});
  EXPECT_EQ(held(), (protocol::ObjectHeld{object, Bytes::mib(4)}));
  process_->send(protocol::ExportEnded{object});
  process_->send(protocol::DropObject{object, false});
  EXPECT_EQ(held(), (protocol::ObjectHeld{object, Bytes(0)}));
  EXPECT_TRUE(share(object, &fds)->error.has_value());
}

TEST_F(ExecutorObjectsRoomTest, ADeletedObjectGoesAsSoonAsNobodyUsesIt) {
  const ObjectId shared = make(1), free = make(2);
  std::vector<OwnedFd> fds;
  ASSERT_FALSE(share(shared, &fds)->error.has_value());
  process_->send(protocol::DropObject{shared, true});
  process_->send(protocol::DropObject{free, true});
  EXPECT_EQ(held(), (protocol::ObjectHeld{free, Bytes(0)}));
  process_->send(protocol::ExportEnded{shared});
  EXPECT_EQ(held(), (protocol::ObjectHeld{shared, Bytes(0)}));
}

TEST_F(ExecutorObjectsRoomTest, ADeletedObjectIsAskedForAgain) {
  const ObjectId object{{3, 4}, 0};
  const std::string content(kCount * sizeof(int), '\0');
  for (uint64_t invocation = 1; invocation <= 2; ++invocation) {
    process_->run(invocation, 1, of(object), "application/json");
    EXPECT_EQ(process_->give_object({DataType::kInt32, {kCount}}, content), object);
    EXPECT_EQ(held(), (protocol::ObjectHeld{object, Bytes::mib(4)}));
    EXPECT_FALSE(process_->expect<Finished>()->error.has_value());
    process_->send(protocol::DropObject{object, true});
    EXPECT_EQ(held(), (protocol::ObjectHeld{object, Bytes(0)}));
  }
}

TEST_F(ExecutorObjectsRoomTest, AnObjectStaysBeyondItsMakersMemoryAsLongAsThereIsRoom) {
  process_->send(protocol::SetObjectRoom{Bytes::mib(4)});
  const ObjectId object = make();
  move_instance(true);
  std::vector<OwnedFd> fds;
  EXPECT_FALSE(share(object, &fds)->error.has_value());
  process_->send(protocol::ExportEnded{object});
  process_->send(protocol::SetObjectRoom{Bytes(0)});
  EXPECT_EQ(held(), (protocol::ObjectHeld{object, Bytes(0)}));
}

// The instance's share has room for three such buffers. Of its second request the input has come,
// and the first one's output, which is shared, is in the way of the last of its own.
TEST_F(ExecutorObjectsRoomTest, ARequestWaitsForMemoryThatIsShared) {
  add(2, process_->package(affine(kCount)), Bytes::mib(12));
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  const ObjectId made = make(1, 2);
  std::vector<OwnedFd> fds;
  ASSERT_FALSE(share(made, &fds)->error.has_value());
  const ObjectId input{{3, 4}, 0};
  process_->run(2, 2, of(input), "application/json");
  process_->give_object({DataType::kInt32, {kCount}}, std::string(kCount * sizeof(int), '\0'));
  EXPECT_EQ(held(), (protocol::ObjectHeld{input, Bytes::mib(4)}));
  process_->send(protocol::ExportEnded{made});
  EXPECT_EQ(held(), (protocol::ObjectHeld{made, Bytes(0)}));
  const auto finished = process_->expect<Finished>();
  ASSERT_TRUE(finished.has_value());
  EXPECT_FALSE(finished->error.has_value()) << to_string(*finished->error);
}

// The limit falls while a request runs, below what it uses and what is shared: its output has to go
// as soon as it is there.
TEST_F(ExecutorObjectsRoomTest, WhatWasMadeIsSaidBeforeThatItHasGone) {
  // It runs long enough to hear of the limit; else it says nothing of a limit.
  const std::string rounds = R"({"repeat": 4, "steps": [)" + increment("t", kCount) + "]}";
  add(2,
      process_->package(function({buffer("t", "temporary", kCount), buffer("y", "output", kCount)},
                                 {rounds, scale("t", "y", 1, 0, kCount)})),
      Bytes::mib(8));
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  process_->send(protocol::SetObjectRoom{Bytes::mib(8)});
  const std::string request =
      R"({"inputs": [], "outputs": [{"name": "y", "parameters": {"object": true}}]})";
  std::vector<OwnedFd> fds;
  for (uint64_t invocation = 1; invocation <= 2; ++invocation) {
    process_->run(invocation, 2, request, "application/json");
    ASSERT_FALSE(share(made(), &fds)->error.has_value());
  }
  process_->run(3, 2, request, "application/json");
  process_->send(protocol::SetObjectRoom{Bytes(0)});
  const auto first = process_->receive();
  ASSERT_TRUE(first.has_value());
  const auto* finished = std::get_if<Finished>(&first->message);
  ASSERT_NE(finished, nullptr) << "it has gone before it was there";
  ASSERT_EQ(finished->objects.size(), 1u);
  EXPECT_EQ(held(), (protocol::ObjectHeld{finished->objects[0].object, Bytes(0)}));
}

// Of the second request all but the input have a place: the first one's output, which is shared, is
// in the way. What has one becomes an object under another name, and is in use no more afterwards.
TEST_F(ExecutorObjectsRoomTest, ARequestThatWaitedForAnExportUsesEachOfItsPlacesOnce) {
  add(3, process_->package(affine(2)), Bytes::mib(2));
  add(2, process_->package(affine(kCount)), Bytes::mib(12));
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  const ObjectId first = make(1, 2);
  std::vector<OwnedFd> fds;
  ASSERT_FALSE(share(first, &fds)->error.has_value());
  begin_to_make(2, 2);
  // Long requests are read one after the other: when this one is answered, the other one waits.
  std::string small = R"({"inputs": [{"name": "x", "data": [1, 2]}]})";
  small.resize(protocol::kInlinePayload.count + 1, ' ');
  process_->run(3, 3, small, "application/json");
  const auto answered = process_->expect<Finished>();
  ASSERT_TRUE(answered.has_value());
  EXPECT_EQ(answered->invocation, (InvocationId{7, 3}));
  process_->send(protocol::ExportEnded{first});
  EXPECT_EQ(held(), (protocol::ObjectHeld{first, Bytes(0)}));
  const ObjectId second = made();
  process_->send(protocol::DropObject{second, false});
  EXPECT_EQ(held(), (protocol::ObjectHeld{second, Bytes(0)}));
}

TEST_F(ExecutorObjectsRoomTest, AnInstanceThatIsRemovedWhileItsRequestWaitsForAnExportAnswersIt) {
  add(2, process_->package(affine(kCount)), Bytes::mib(12));
  process_->send(protocol::RemoveInstance{SandboxId(1)});
  const ObjectId made = make(1, 2);
  std::vector<OwnedFd> fds;
  ASSERT_FALSE(share(made, &fds)->error.has_value());
  const ObjectId input{{3, 4}, 0};
  process_->run(2, 2, of(input), "application/json");
  process_->give_object({DataType::kInt32, {kCount}}, std::string(kCount * sizeof(int), '\0'));
  EXPECT_EQ(held().object, input);
  process_->send(protocol::RemoveInstance{SandboxId(2)});
  EXPECT_EQ(process_->expect<Finished>()->error->code, ErrorCode::kUnavailable);
  process_->send(protocol::ExportEnded{made});
  add(3, process_->package(affine(2)));
  works(3);
}

}  // namespace
}  // namespace lambent::executor
