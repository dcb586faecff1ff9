#include "gpu/executor/connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <optional>
#include <string>

#include "core/base/packet.h"

namespace lambent::executor {
namespace {

class ConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    worker_ = OwnedFd(ends[0]);
    connection_.emplace(
        loop_, OwnedFd(ends[1]),
        [this](protocol::ExecutorMessage message, std::vector<OwnedFd>) {
          got_.push_back(std::move(message));
        },
        [this] { ++ends_; });
  }
  template <typename Message>
  std::optional<Message> next() {
    std::vector<char> buffer(protocol::kExecutorMessage.count);
    auto packet = receive_packet(worker_.get(), buffer);
    if (!packet.ok() || !*packet || (*packet)->truncated) return std::nullopt;
    auto message = protocol::decode_executor_message({buffer.data(), (*packet)->size});
    if (!message.ok() || !std::holds_alternative<Message>(*message)) return std::nullopt;
    return std::get<Message>(std::move(*message));
  }
  // Sends `message` with descriptors, of which the other end has room for one.
  void send_without_room(protocol::ExecutorMessage message) {
    const std::vector<int> fds(8, worker_.get());
    ASSERT_TRUE(send_packet(worker_.get(), protocol::encode(std::move(message)), fds).ok());
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const OwnedFd lowest_free(fcntl(worker_.get(), F_DUPFD_CLOEXEC, 0));
    rlimit low = before;
    low.rlim_cur = static_cast<rlim_t>(lowest_free.get()) + 2;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    loop_.run_once(Duration{});
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  }

  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  OwnedFd worker_;
  std::optional<Connection> connection_;
  std::vector<protocol::ExecutorMessage> got_;
  int ends_ = 0;
};

TEST_F(ConnectionTest, AnAnswerThatIsTooLongForAMessageIsAnError) {
  // More than a message may have, and more than the socket takes.
  for (const size_t size : {size_t{150} << 10, size_t{8} << 20}) {
    protocol::Finished finished;
    finished.invocation = {7, size};
    finished.payload = std::string(size, 'x');
    connection_->send(std::move(finished));
    const auto got = next<protocol::Finished>();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->invocation, (InvocationId{7, size}));
    ASSERT_TRUE(got->error.has_value());
    EXPECT_EQ(got->error->code, ErrorCode::kResourceExhausted);
    EXPECT_TRUE(got->payload.empty());
  }
  EXPECT_EQ(ends_, 0);
}

TEST_F(ConnectionTest, ATooLongErrorIsCutAndKeepsItsCode) {
  connection_->send(protocol::InstanceFailed{
      SandboxId(3), {ErrorCode::kInvalidArgument, "graph.json: " + std::string(300'000, 'x')}});
  const auto got = next<protocol::InstanceFailed>();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->instance, SandboxId(3));
  EXPECT_EQ(got->error.code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(got->error.message.starts_with("graph.json: xxx"));
}

TEST_F(ConnectionTest, WhatWaitsBehindATooLongMessageIsSent) {
  protocol::Finished finished;
  finished.payload = std::string(size_t{1} << 20, 'x');
  connection_->send(std::move(finished));
  connection_->send(protocol::OpenObject{{{1, 2}, 3}});
  EXPECT_TRUE(next<protocol::Finished>().has_value());
  EXPECT_TRUE(next<protocol::OpenObject>().has_value());
}

TEST_F(ConnectionTest, WhatComesWithoutItsDescriptorsIsAnsweredWithThat) {
  protocol::AddInstance add;
  add.instance = SandboxId(3);
  ASSERT_NO_FATAL_FAILURE(send_without_room(add));
  const auto failed = next<protocol::InstanceFailed>();
  ASSERT_TRUE(failed.has_value());
  EXPECT_EQ(failed->instance, SandboxId(3));
  EXPECT_EQ(failed->error.code, ErrorCode::kResourceExhausted);

  protocol::Run run;
  run.invocation = {7, 9};
  run.payload_attached = true;
  ASSERT_NO_FATAL_FAILURE(send_without_room(run));
  const auto finished = next<protocol::Finished>();
  ASSERT_TRUE(finished && finished->error);
  EXPECT_EQ(finished->invocation, (InvocationId{7, 9}));
  EXPECT_EQ(finished->error->code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(got_.empty());

  protocol::ObjectOpened opened;
  opened.object = {{1, 2}, 3};
  opened.type = {DataType::kInt32, {2}};
  ASSERT_NO_FATAL_FAILURE(send_without_room(opened));
  ASSERT_EQ(got_.size(), 1u);
  const auto& taken = std::get<protocol::ObjectOpened>(got_[0]);
  ASSERT_TRUE(taken.error.has_value());
  EXPECT_EQ(taken.error->code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(ends_, 0);
}

}  // namespace
}  // namespace lambent::executor
