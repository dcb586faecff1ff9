#include <sys/resource.h>

#include "node/worker/testing/executor_testing.h"

namespace lambent::worker {
namespace {

// Two executors of one tenant, in two domains; the first has made an object.
class ObjectExportsTest : public ExecutorHostTest {
 protected:
  void SetUp() override { start_both(DeviceId(1)); }
  void start_both(DeviceId importers) {
    ExecutorHostTest::SetUp();
    instance(SandboxId(1));
    exporter = &launcher.latest();
    spec.gpu.domain = "other";
    start(SandboxId(2), spec, folder.path(), importers);
    ASSERT_TRUE(turn_until(loop, [&] { return launcher.running.size() == 2; }));
    ASSERT_TRUE(hears<protocol::AddInstance>().has_value());
    importer = &launcher.latest();
  }
  // Its object of `size` bytes.
  ObjectId make(Bytes size) {
    const InvocationId id = give(SandboxId(1));
    EXPECT_TRUE(hears_from<protocol::Run>(*exporter).has_value());
    protocol::Finished message = finished(id);
    const ObjectId object{id, 0};
    message.objects = {{object, raw_tensor(size)}};
    const OwnedFd file = memfd_with(std::string(size.count, 'x'), true);
    exporter->say(message, {file.get()});
    EXPECT_TRUE(turn_until(loop, [&] { return !answers.empty(); }));
    return object;
  }
  template <typename Kind>
  std::optional<Kind> hears_from(FakeExecutor& executor, std::vector<OwnedFd>* fds = nullptr) {
    std::optional<FakeExecutor::Heard> heard;
    if (!turn_until(loop, [&] { return (heard = executor.hear()).has_value(); })) {
      return std::nullopt;
    }
    if (fds != nullptr) *fds = std::move(heard->fds);
    const Kind* kind = std::get_if<Kind>(&heard->message);
    return kind != nullptr ? std::optional(*kind) : std::nullopt;
  }
  // The exporter is asked for the object.
  void ask_for(ObjectId object) {
    importer->say(protocol::OpenObject{object});
    const auto asked = hears_from<protocol::ShareObject>(*exporter);
    ASSERT_TRUE(asked.has_value());
    EXPECT_EQ(asked->object, object);
  }
  void share(ObjectId object) {
    const OwnedFd memory = memfd_with("device memory", false);
    exporter->say(protocol::ObjectShared{object, std::nullopt, Bytes::mib(4)}, {memory.get()});
  }
  // How much is shared with the object, which the importer gets now.
  std::optional<Bytes> shared_with(std::vector<OwnedFd>* fds = nullptr) {
    const auto opened = hears_from<protocol::ObjectOpened>(*importer, fds);
    return opened ? std::optional(opened->shared) : std::nullopt;
  }

  FakeExecutor* exporter = nullptr;
  FakeExecutor* importer = nullptr;
};

TEST_F(ObjectExportsTest, WhoMadeAnObjectSharesItToAnotherUntilThatHasIt) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  share(object);
  std::vector<OwnedFd> fds;
  EXPECT_EQ(shared_with(&fds), Bytes::mib(4));
  EXPECT_EQ(fds.size(), 2u);
  importer->say(protocol::ExportEnded{object});
  EXPECT_EQ(hears_from<protocol::ExportEnded>(*exporter)->object, object);
}

TEST_F(ObjectExportsTest, WhatIsSmallComesFromTheHost) {
  importer->say(protocol::OpenObject{make(Bytes(100))});
  EXPECT_EQ(shared_with(), Bytes(0));
  EXPECT_FALSE(exporter->hear().has_value());
}

class ExportsBetweenDevicesTest : public ObjectExportsTest {
 protected:
  ExportsBetweenDevicesTest() {
    setting.gpu.visible = {{DeviceId(1), "GPU-a"}, {DeviceId(2), "GPU-b"}, {DeviceId(3), "GPU-c"}};
  }
  void SetUp() override {}
};

TEST_F(ExportsBetweenDevicesTest, WhoSeesTheOtherDeviceAndCanReachItImports) {
  launcher.peers = {1};
  start_both(DeviceId(2));
  EXPECT_EQ(exporter->plan.environment.at("CUDA_VISIBLE_DEVICES"), "GPU-a,GPU-b,GPU-c");
  EXPECT_EQ(importer->plan.environment.at("CUDA_VISIBLE_DEVICES"), "GPU-b,GPU-a,GPU-c");
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  share(object);
  EXPECT_EQ(shared_with(), Bytes::mib(4));
}

TEST_F(ExportsBetweenDevicesTest, WhoCannotReachTheOtherDeviceHasItFromTheHost) {
  launcher.peers = {2};  // only the third
  start_both(DeviceId(2));
  importer->say(protocol::OpenObject{make(Bytes::mib(2))});
  EXPECT_EQ(shared_with(), Bytes(0));
  EXPECT_FALSE(exporter->hear().has_value());
}

TEST_F(ExportsBetweenDevicesTest, ADeviceThatIsLeftIsSeenByNoneThatStartsUntilItIsWell) {
  ExecutorHostTest::SetUp();
  const auto visible_on = [&](uint32_t device) {
    const size_t before = launcher.running.size();
    start(SandboxId(10 + device), spec, folder.path(), DeviceId(device));
    EXPECT_TRUE(turn_until(loop, [&] { return launcher.running.size() > before; }));
    return launcher.latest().plan.environment.at("CUDA_VISIBLE_DEVICES");
  };
  host->leave(DeviceId(2));
  EXPECT_EQ(visible_on(1), "GPU-a,GPU-c");
  host->keep(spec, DeviceId(2));
  EXPECT_EQ(visible_on(3), "GPU-c,GPU-a,GPU-b");
}

TEST_F(ExportsBetweenDevicesTest, AnExecutorThatNamesADeviceItCannotSeeIsEnded) {
  launcher.peers = {3};
  ExecutorHostTest::SetUp();
  start(SandboxId(1), spec, folder.path(), DeviceId(1));
  EXPECT_TRUE(turn_until(loop, [&] { return launcher.kills == 1; }));
}

class ExportsBetweenInstancesTest : public ExportsBetweenDevicesTest {
 protected:
  ExportsBetweenInstancesTest() { setting.gpu.visible[DeviceId(2)] = "MIG-b"; }
};

TEST_F(ExportsBetweenInstancesTest, AnInstanceSeesItselfAloneAndIsSeenByNoOther) {
  start_both(DeviceId(2));
  EXPECT_EQ(exporter->plan.environment.at("CUDA_VISIBLE_DEVICES"), "GPU-a,GPU-c");
  EXPECT_EQ(importer->plan.environment.at("CUDA_VISIBLE_DEVICES"), "MIG-b");
}

class WithoutExportsTest : public ObjectExportsTest {
 protected:
  WithoutExportsTest() { setting.share_objects = false; }
};

TEST_F(WithoutExportsTest, EverythingComesFromTheHost) {
  importer->say(protocol::OpenObject{make(Bytes::mib(2))});
  EXPECT_EQ(shared_with(), Bytes(0));
  EXPECT_FALSE(exporter->hear().has_value());
  EXPECT_EQ(exporter->plan.environment.at("CUDA_VISIBLE_DEVICES"), "0");
}

TEST_F(ObjectExportsTest, WhatItsMakerHasNoMoreComesFromTheHostAndIsNotAskedForAgain) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  exporter->say(protocol::ObjectShared{object, Error{ErrorCode::kNotFound, "evicted"}, Bytes(0)});
  EXPECT_EQ(shared_with(), Bytes(0));
  importer->say(protocol::OpenObject{object});
  EXPECT_EQ(shared_with(), Bytes(0));
  EXPECT_FALSE(exporter->hear().has_value());
}

TEST_F(ObjectExportsTest, WhatItsMakerHasAndCouldNotShareIsAskedForAgain) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  exporter->say(
      protocol::ObjectShared{object, Error{ErrorCode::kResourceExhausted, "files"}, Bytes(0)});
  EXPECT_EQ(shared_with(), Bytes(0));
  EXPECT_EQ(host->objects().on_devices(), Bytes::mib(2));
  ask_for(object);
}

TEST_F(ObjectExportsTest, AnExportThatTheWorkerHasNoDescriptorsForGoesBackAndMayBeAskedForAgain) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  share(object);
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  rlimit none = files;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto ended = hears_from<protocol::ExportEnded>(*exporter);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  ASSERT_TRUE(ended.has_value()) << "its maker would keep it for good";
  EXPECT_EQ(ended->object, object);
  EXPECT_EQ(shared_with(), Bytes(0));
  EXPECT_EQ(launcher.kills, 0);
  ask_for(object);
}

TEST_F(ObjectExportsTest, AMakerThatDoesNotAnswerIsNotWaitedForAndItsExportGoesBack) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  clock.advance(milliseconds(21));
  EXPECT_EQ(shared_with(), Bytes(0));
  share(object);
  EXPECT_EQ(hears_from<protocol::ExportEnded>(*exporter)->object, object);
}

TEST_F(ObjectExportsTest, AnImporterHasOneExportOfAnObjectAtATime) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  importer->say(protocol::OpenObject{object});
  EXPECT_EQ(shared_with(), Bytes(0)) << "one is on its way";
  share(object);
  EXPECT_EQ(shared_with(), Bytes::mib(4));
  importer->say(protocol::OpenObject{object});
  EXPECT_EQ(shared_with(), Bytes(0)) << "one is out";
  EXPECT_FALSE(exporter->hear().has_value());
  importer->say(protocol::ExportEnded{object});
  EXPECT_TRUE(hears_from<protocol::ExportEnded>(*exporter).has_value());
  ask_for(object);
}

TEST_F(ObjectExportsTest, AMakerThatEndsKeepsNobodyWaiting) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  launcher.end(exporter->id, {.signal = 9});
  EXPECT_EQ(shared_with(), Bytes(0));
}

TEST_F(ObjectExportsTest, WhatAnImporterHadThatEndsGoesBack) {
  const ObjectId object = make(Bytes::mib(2));
  ask_for(object);
  share(object);
  EXPECT_EQ(shared_with(), Bytes::mib(4));
  launcher.end(importer->id, {.signal = 9});
  EXPECT_EQ(hears_from<protocol::ExportEnded>(*exporter)->object, object);
}

}  // namespace
}  // namespace lambent::worker
