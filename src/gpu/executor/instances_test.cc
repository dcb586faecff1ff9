#include "gpu/executor/instances.h"

#include "gpu/executor/testing/parts_testing.h"

namespace lambent::executor {
namespace {

using protocol::InstanceFailed;
using protocol::InstanceMoved;
using protocol::InstanceReady;

constexpr SandboxId kOne{1}, kOther{2};

class InstancesTest : public ExecutorParts {
 protected:
  void SetUp() override {
    ExecutorParts::SetUp();
    if (IsSkipped()) return;
    exports_.emplace(*store_, *pool_);
    shares_.emplace(*driver_, 0);
    trimmer_.emplace(loop_, *context_, *pool_, *store_,
                     MemoryTrimmer::Options{.rule = scheduling::PoolRule::kFineGrained},
                     MemoryTrimmer::Hooks{});
    requests_ = std::make_unique<Requests>(
        Requests::Dependencies{.loop = loop_,
                               .driver = *driver_,
                               .context = *context_,
                               .watch = watch_,
                               .connection = *connection_,
                               .store = *store_,
                               .contents = *contents_,
                               .layers = nullptr,
                               .exports = *exports_,
                               .kept = *kept_,
                               .to_device = *to_device_,
                               .to_host = *to_host_},
        true,
        Requests::Hooks{.ended = [this](SandboxId id) { instances_->request_ended(id); },
                        .progress = [] {}});
    on_progress_ = [this] {
      instances_->progress();
      requests_->progress();
    };
    start({});
  }
  void start(Instances::Options options) {
    instances_ = std::make_unique<Instances>(Instances::Dependencies{.loop = loop_,
                                                                     .context = *context_,
                                                                     .watch = watch_,
                                                                     .connection = *connection_,
                                                                     .pool = *pool_,
                                                                     .store = *store_,
                                                                     .contents = *contents_,
                                                                     .layers = nullptr,
                                                                     .trimmer = *trimmer_,
                                                                     .shares = *shares_,
                                                                     .requests = *requests_,
                                                                     .kept = *kept_},
                                             loader(), options);
  }
  void TearDown() override {
    // A thread of the driver may still be about to wake the loop.
    if (context_) (void)context_->synchronize();
    if (instances_ != nullptr) instances_->stop();
    if (requests_ != nullptr) requests_->stop();
    trimmer_.reset();
    to_device_.reset();
    to_host_.reset();
    instances_.reset();
    requests_.reset();
    ExecutorParts::TearDown();
  }
  static Files with_constant() {
    Files files = function(
        {buffer("w", "constant", 1 << 18, R"(, "file": "w.bin")"), buffer("y", "output", 1 << 18)},
        {scale("w", "y", 2, 0, 1 << 18)});
    files["w.bin"] = bytes_of(std::vector<int>(1 << 18, 21));
    return files;
  }
  // A package whose files are the same for all instances that are added with it.
  void add(SandboxId id, const Files& files, Bytes memory = Bytes::mib(16)) {
    protocol::AddInstance message;
    message.instance = id;
    message.graph = "graph.json";
    message.memory = memory;
    std::vector<OwnedFd> fds;
    for (const auto& [name, content] : files) {
      message.files.push_back(name);
      auto& file = package_[name];
      if (!file.valid()) {
        auto made = sealed_memory(content);
        ASSERT_TRUE(made.ok());
        file = std::move(*made);
      }
      fds.emplace_back(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
    }
    instances_->add(std::move(message), std::move(fds));
  }
  bool has_constants() {
    bool has = false;
    store_->for_each([&](const DeviceName& name, const DeviceStore::Entry& entry) {
      has = has || (name.kind == DeviceName::Kind::kConstant && entry.filled);
    });
    return has;
  }
  // Why a request cannot run there; none: it can.
  std::optional<ErrorCode> not_usable(SandboxId id) {
    const auto found = instances_->find_usable(id);
    return found.ok() ? std::nullopt : std::optional(found.error().code);
  }

  ContextWatch watch_{[] { return CUDA_SUCCESS; }, [](const auto&) {}};
  std::map<std::string, OwnedFd> package_;
  std::optional<Exports> exports_;
  std::optional<MultiprocessorShares> shares_;
  std::optional<MemoryTrimmer> trimmer_;
  std::unique_ptr<Requests> requests_;
  std::unique_ptr<Instances> instances_;
};

TEST_F(InstancesTest, AnInstanceIsReadyOnceItIsLoadedAndCountsInTheLimitFromTheBeginning) {
  instances_->set_object_room(Bytes::mib(2));
  add(kOne, affine(2));
  EXPECT_EQ(pool_->limit(), Bytes::mib(18));
  EXPECT_EQ(not_usable(kOne), ErrorCode::kFailedPrecondition);
  const auto ready = sent<InstanceReady>();
  ASSERT_TRUE(ready.has_value());
  EXPECT_EQ(ready->instance, kOne);
  const auto found = instances_->find_usable(kOne);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->memory, Bytes::mib(16));
  EXPECT_EQ(not_usable(kOther), ErrorCode::kNotFound);
}

TEST_F(InstancesTest, TwoInstancesOfOneNumberAreRefusedAndTheFirstStays) {
  add(kOne, affine(2));
  add(kOne, affine(2));
  const auto failed = sent<InstanceFailed>();
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->error.code, ErrorCode::kAlreadyExists);
  EXPECT_TRUE(sent<InstanceReady>().has_value());
}

TEST_F(InstancesTest, APackageThatCannotBeLoadedFailsAndCountsNoMore) {
  Files files = affine(2);
  files["graph.json"] = "{";
  add(kOne, files);
  const auto failed = sent<InstanceFailed>();
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->error.code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(instances_->has(kOne));
  EXPECT_EQ(pool_->limit(), Bytes(0));
}

TEST_F(InstancesTest, FilesThatDidNotComeAreNamedInTheError) {
  protocol::AddInstance message;
  message.instance = kOne;
  message.files = {"a", "b"};
  instances_->add(std::move(message), {});
  const auto failed = sent<InstanceFailed>();
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->error.message, "2 files were named and 0 came");
  EXPECT_FALSE(instances_->has(kOne));
}

TEST_F(InstancesTest, MemoryThatIsMovedOutComesBackAndNoRequestIsTakenMeanwhile) {
  add(kOne, with_constant());
  ASSERT_TRUE(sent<InstanceReady>().has_value());
  ASSERT_TRUE(turn_until([&] { return has_constants(); }));
  instances_->move({kOne, true});
  const auto out = sent<InstanceMoved>();
  ASSERT_TRUE(out && out->done && out->out);
  EXPECT_EQ(out->moved, Bytes::mib(2));
  EXPECT_EQ(out->left, Bytes(0));
  EXPECT_EQ(pool_->limit(), Bytes(0));
  EXPECT_FALSE(has_constants());
  EXPECT_EQ(not_usable(kOne), ErrorCode::kFailedPrecondition);
  instances_->move({kOne, false});
  const auto in = sent<InstanceMoved>();
  ASSERT_TRUE(in && in->done && !in->out);
  EXPECT_TRUE(turn_until([&] { return has_constants(); }));
  EXPECT_EQ(not_usable(kOne), std::nullopt);
}

TEST_F(InstancesTest, ConstantsThatAnotherInstanceHasStayWhenOneIsRemoved) {
  for (const SandboxId id : {kOne, kOther}) {
    add(id, with_constant());
    ASSERT_TRUE(sent<InstanceReady>().has_value());
  }
  ASSERT_TRUE(turn_until([&] { return has_constants(); }));
  instances_->remove(kOne);
  EXPECT_FALSE(instances_->has(kOne));
  EXPECT_TRUE(has_constants());
  instances_->remove(kOther);
  EXPECT_FALSE(has_constants());
}

TEST_F(InstancesTest, AnInstanceThatIsRemovedWhileItIsLoadedIsGoneAfterwards) {
  add(kOne, affine(2));
  instances_->remove(kOne);
  EXPECT_TRUE(instances_->has(kOne));
  EXPECT_TRUE(turn_until([&] { return !instances_->has(kOne); }));
  EXPECT_EQ(pool_->limit(), Bytes(0));
}

TEST_F(InstancesTest, AnInstanceWithARequestIsRemovedWhenThatHasEnded) {
  add(kOne, affine(2));
  ASSERT_TRUE(sent<InstanceReady>().has_value());
  const auto instance = instances_->find_usable(kOne);
  ASSERT_TRUE(instance.ok());
  protocol::Run message;
  message.invocation = {7, 1};
  message.payload = bytes_of({1, 2});
  message.content_type = "application/octet-stream";
  requests_->start(*instance, clock_.now(), std::move(message), {});
  EXPECT_EQ(not_usable(kOne), ErrorCode::kFailedPrecondition);
  EXPECT_FALSE(instances_->is_idle(kOne, Duration(0)));
  instances_->move({kOne, true});
  const auto moved = sent<InstanceMoved>();
  ASSERT_TRUE(moved.has_value());
  EXPECT_FALSE(moved->done);
  instances_->remove(kOne);
  EXPECT_TRUE(sent<protocol::Finished>().has_value());
  requests_->settle_answered();
  EXPECT_FALSE(instances_->has(kOne));
}

TEST_F(InstancesTest, AnInstanceWithoutRequestsIsIdleAfterTheHold) {
  add(kOne, affine(2));
  ASSERT_TRUE(sent<InstanceReady>().has_value());
  EXPECT_TRUE(instances_->is_idle(kOne, Duration(0)));
  EXPECT_FALSE(instances_->is_idle(kOne, Duration::max()));
  EXPECT_TRUE(instances_->is_idle(kOther, Duration::max())) << "there is none";
}

TEST_F(InstancesTest, AStaticPoolHasMemoryForBuffersBeforeTheFirstRequest) {
  start({.reserves = true});
  add(kOne, affine(1 << 18));
  ASSERT_TRUE(sent<InstanceReady>().has_value());
  EXPECT_EQ(pool_->used(), Bytes::mib(6)) << "a temporary, an input and an output";
  instances_->remove(kOne);
  EXPECT_EQ(pool_->used(), Bytes(0));
}

}  // namespace
}  // namespace lambent::executor
