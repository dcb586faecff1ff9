#include "gpu/executor/requests.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "gpu/executor/testing/parts_testing.h"

namespace lambent::executor {
namespace {

using protocol::Finished;
using testing::ElementsAre;
using testing::HasSubstr;

class RequestsTest : public ExecutorParts {
 protected:
  void SetUp() override {
    ExecutorParts::SetUp();
    if (IsSkipped()) return;
    exports_.emplace(*store_, *pool_);
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
        Requests::Hooks{.ended = [this](SandboxId id) { ended_.push_back(id); },
                        .progress = [this] { requests_->progress(); }});
    on_progress_ = [this] { requests_->progress(); };
  }
  void TearDown() override {
    // A thread of the driver may still be about to wake the loop.
    if (context_) (void)context_->synchronize();
    if (requests_ != nullptr) requests_->stop();
    to_device_.reset();
    to_host_.reset();
    loaded_.clear();  // with their streams, on which a thread of the driver may still call back
    requests_.reset();
    ExecutorParts::TearDown();
  }
  void start(const RequestedInstance& instance, uint64_t invocation, const std::string& payload,
             const std::string& type = "application/octet-stream") {
    protocol::Run message;
    message.invocation = {7, invocation};
    message.instance = instance.id;
    message.content_type = type;
    std::vector<OwnedFd> fds;
    if (payload.size() <= protocol::kInlinePayload.count) {
      message.payload = payload;
    } else {
      message.payload_attached = true;
      auto file = sealed_memory(payload);
      ASSERT_TRUE(file.ok());
      fds.push_back(std::move(*file));
    }
    requests_->start(instance, clock_.now(), std::move(message), std::move(fds));
  }
  static std::string with_object(ObjectId object) {
    return R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(object) +
           R"("}}], "outputs": [{"name": "y"}]})";
  }
  // How many descriptors of this process are memory of objects of this size.
  static size_t memory_files(Bytes size) {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<size_t>(std::count_if(begin(all), end(all), [&](const auto& each) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(each.path(), gone).string();
      struct stat status {};
      return target.starts_with("/memfd:lambent-object") &&
             stat(each.path().c_str(), &status) == 0 &&
             static_cast<uint64_t>(status.st_size) == size.count;
    }));
  }
  // The error of the next Finished, which has one.
  Error failure() {
    const auto finished = sent<Finished>();
    if (!finished || !finished->error) return {};
    return *finished->error;
  }

  CUresult state_ = CUDA_SUCCESS;
  int broken_ = 0;
  ContextWatch watch_{[this] { return state_; }, [this](const auto&) { ++broken_; }};
  std::optional<Exports> exports_;
  std::unique_ptr<Requests> requests_;
  std::vector<SandboxId> ended_;
};

TEST_F(RequestsTest, ARequestRunsFromItsMessageToItsAnswerAndLeavesNothingPinned) {
  const RequestedInstance instance = load(1, affine(2));
  start(instance, 5, bytes_of({1, 2}));
  EXPECT_TRUE(requests_->has(instance.id));
  const auto finished = sent<Finished>();
  ASSERT_TRUE(finished && !finished->error);
  EXPECT_EQ(finished->invocation, (InvocationId{7, 5}));
  EXPECT_EQ(ints_of(finished->payload), (std::vector<int>{4, 7}));
  requests_->settle_answered();
  EXPECT_FALSE(requests_->has(instance.id));
  EXPECT_THAT(ended_, ElementsAre(instance.id));
  store_->set_limit(Bytes(0));
  EXPECT_EQ(store_->used(), Bytes(0));
}

TEST_F(RequestsTest, LongPayloadsAndAnswersTravelInFiles) {
  const size_t count = 1 << 18;
  const RequestedInstance instance = load(1, affine(count));
  start(instance, 1, bytes_of(std::vector<int>(count, 1)));
  std::vector<OwnedFd> fds;
  const auto finished = sent<Finished>(&fds);
  ASSERT_TRUE(finished && !finished->error);
  EXPECT_EQ(ints_of(ExecutorProcess::payload_of(*finished, fds)), std::vector<int>(count, 4));
  EXPECT_THAT(ended_, ElementsAre(instance.id));
}

TEST_F(RequestsTest, ARequestThatCannotBeDecodedIsAnsweredWithItsMistake) {
  const RequestedInstance instance = load(1, affine(2));
  start(instance, 1, bytes_of({1, 2, 3}));
  EXPECT_EQ(failure().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(requests_->has(instance.id));
  EXPECT_THAT(ended_, ElementsAre(instance.id));
}

TEST_F(RequestsTest, APayloadThatDidNotComeIsTheRequestsErrorAndNothingStarts) {
  const RequestedInstance instance = load(1, affine(2));
  protocol::Run message;
  message.payload_attached = true;
  requests_->start(instance, clock_.now(), std::move(message), {});
  EXPECT_EQ(failure().message, "a payload did not come");
  EXPECT_FALSE(requests_->has(instance.id));
  EXPECT_TRUE(ended_.empty());
}

TEST_F(RequestsTest, ARequestWaitsForAnObjectAndGoesOnWhenItHasCome) {
  const RequestedInstance instance = load(1, affine(2));
  const ObjectId x{{9, 9}, 0};
  start(instance, 1, with_object(x), "application/json");
  EXPECT_THAT(asked_, ElementsAre(x));
  auto file = sealed_memory(bytes_of({1, 2}));
  ASSERT_TRUE(file.ok());
  contents_->opened({.object = x, .error = std::nullopt, .type = {DataType::kInt32, {2}}},
                    std::move(*file), OwnedFd());
  const auto finished = sent<Finished>();
  ASSERT_TRUE(finished && !finished->error);
  EXPECT_THAT(finished->payload, HasSubstr("[4,7]"));
}

TEST_F(RequestsTest, ARequestOfARemovedInstanceThatWaitsEndsAtOnce) {
  const RequestedInstance instance = load(1, affine(2));
  start(instance, 1, with_object({{9, 9}, 0}), "application/json");
  requests_->withdraw(instance.id);
  EXPECT_EQ(failure().code, ErrorCode::kUnavailable);
  EXPECT_THAT(ended_, ElementsAre(instance.id));
}

TEST_F(RequestsTest, MemoryOfAnObjectThatItMakesIsThereBeforeItsKernelsHaveRun) {
  const uint64_t count = 1 << 18;
  const RequestedInstance instance = load(1, affine(count));
  const ObjectId x = object(0, {DataType::kInt32, {count}});
  ASSERT_EQ(memory_files(Bytes::mib(1)), 0u);
  start(instance, 1,
        R"({"inputs": [{"name": "x", "parameters": {"object": ")" + to_string(x) +
            R"("}}], "outputs": [{"name": "y", "parameters": {"object": true}}]})",
        "application/json");
  EXPECT_GE(memory_files(Bytes::mib(1)), 1u) << "without a turn of the loop";
  std::vector<OwnedFd> fds;
  const auto finished = sent<Finished>(&fds);
  ASSERT_TRUE(finished && !finished->error);
  ASSERT_EQ(fds.size(), 1u);
  EXPECT_EQ(ints_of(ExecutorProcess::content_of(fds[0].get())), std::vector<int>(count, 1));
}

TEST_F(RequestsTest, ARequestThatLacksMemoryWaitsWhileAnExportHoldsSome) {
  const RequestedInstance instance = load(1, affine(1 << 19));
  const ObjectId held = object(0, {DataType::kInt32, {1 << 19}});
  ASSERT_TRUE(exports_->begin(held).ok());
  store_->set_limit(Bytes::mib(6));  // what the request needs
  start(instance, 1, bytes_of(std::vector<int>(1 << 19, 1)));
  for (int i = 0; i < 20; ++i) loop_.run_once(milliseconds(10));
  ASSERT_TRUE(requests_->has(instance.id));
  ASSERT_TRUE(exports_->end(held));
  requests_->progress();
  const auto finished = sent<Finished>();
  ASSERT_TRUE(finished.has_value());
  EXPECT_FALSE(finished->error.has_value());
}

TEST_F(RequestsTest, ARequestThatLacksMemoryForGoodIsRefused) {
  const RequestedInstance instance = load(1, affine(1 << 19));
  store_->set_limit(Bytes::mib(2));
  start(instance, 1, bytes_of(std::vector<int>(1 << 19, 1)));
  EXPECT_EQ(failure().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(ended_, ElementsAre(instance.id));
}

TEST_F(RequestsTest, OnlyARequestThatRunsByItselfIsBlamedForAFault) {
  const RequestedInstance one = load(1, affine(2));
  const RequestedInstance other = load(2, affine(2));
  start(one, 1, with_object({{9, 9}, 0}), "application/json");
  start(other, 2, with_object({{9, 9}, 0}), "application/json");
  requests_->blame(one.id, {ErrorCode::kInternal, "a fault"});
  requests_->withdraw(other.id);
  EXPECT_EQ(failure().code, ErrorCode::kUnavailable) << "of the other: none was blamed";
  requests_->blame(one.id, {ErrorCode::kInternal, "a fault"});
  EXPECT_EQ(failure().message, "a fault");
}

TEST_F(RequestsTest, AFaultThatAFailingRequestMeetsEndsTheExecutorWithoutItsAnswer) {
  const RequestedInstance instance = load(1, affine(2));
  state_ = CUDA_ERROR_ILLEGAL_ADDRESS;
  start(instance, 1, bytes_of({1, 2, 3}));
  EXPECT_EQ(broken_, 1);
  EXPECT_TRUE(watch_.has_ended());
  EXPECT_TRUE(requests_->has(instance.id));
  state_ = CUDA_SUCCESS;
}

}  // namespace
}  // namespace lambent::executor
