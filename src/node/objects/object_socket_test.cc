#include "node/objects/object_socket.h"
#include "node/objects/limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/base/sealed_memory.h"
#include "core/base/testing/testing.h"

namespace lambent::objects {
namespace {

constexpr TenantId kTenant(1);
constexpr ObjectId kObject{{1, 2}, 3};

class CountingLog final : public LogSink {
 public:
  void write(LogLevel, std::string_view, std::initializer_list<LogField>) override { ++count; }
  bool wants(LogLevel) const override { return true; }
  int count = 0;
};

class ObjectSocketTest : public testing::Test {
 protected:
  OwnedFd connect() {
    OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    connect(fd);
    return fd;
  }
  void connect(const OwnedFd& fd) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    turn();
  }
  void turn() {
    for (int i = 0; i < 4; ++i) loop_.run_once(Duration(0));
  }
  static void send(const OwnedFd& client, const protocol::ObjectMessage& message, int fd = -1) {
    ASSERT_TRUE(send_packet(client.get(), encode(message), std::span(&fd, fd >= 0 ? 1 : 0)).ok());
  }
  struct Received {
    protocol::ObjectReply reply;
    std::vector<OwnedFd> fds;
  };
  // None: nothing came.
  std::optional<Received> receive(const OwnedFd& client) {
    turn();
    char buffer[4096];
    auto packet = receive_packet(client.get(), buffer);
    if (!packet.ok() || !packet->has_value()) return std::nullopt;
    auto message = protocol::decode_object_message({buffer, (*packet)->size});
    EXPECT_TRUE(message.ok());
    return Received{std::get<protocol::ObjectReply>(*message), std::move((*packet)->fds)};
  }
  bool is_closed(const OwnedFd& client) {
    turn();
    char buffer[16];
    return !receive_packet(client.get(), buffer).ok();
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "objects.sock";
  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  CountingLog log_;
  SeededRandom random_{1};
  ObjectStore store_{loop_, log_, [](auto, auto) { return false; }, {}};
  ObjectSocket socket_{loop_, log_, store_, random_, kTenant, *listen_packets(path_, 0600)};
};

TEST_F(ObjectSocketTest, WhatOneClientPutsAnotherGetsAsTheSameMemory) {
  const OwnedFd first = connect();
  const OwnedFd second = connect();
  const auto memory = sealed_memory("12345678");
  send(first, protocol::PutObject{7, std::nullopt, {DataType::kFp32, {2}}, 0}, memory->get());
  const auto put = receive(first);
  ASSERT_TRUE(put && !put->reply.error);
  EXPECT_EQ(put->reply.ticket, 7u);
  send(second, protocol::GetObject{8, put->reply.object, 0});
  const auto got = receive(second);
  ASSERT_TRUE(got && !got->reply.error);
  EXPECT_EQ(got->reply.type, (TensorType{DataType::kFp32, {2}}));
  ASSERT_EQ(got->fds.size(), 1u);
  EXPECT_EQ(*read_memory(got->fds[0].get(), Bytes(0), Bytes(8)), "12345678");
}

TEST_F(ObjectSocketTest, MistakesAreAnsweredAndForgiven) {
  const OwnedFd client = connect();
  send(client, protocol::PutObject{1, kObject, raw_tensor(Bytes(1)), 0});
  EXPECT_EQ(receive(client)->reply.error->code, ErrorCode::kInvalidArgument);
  const auto open_memory = new_memory(Bytes(1));
  send(client, protocol::PutObject{2, kObject, raw_tensor(Bytes(1)), 0}, open_memory->get());
  EXPECT_EQ(receive(client)->reply.error->code, ErrorCode::kInvalidArgument);
  send(client, protocol::GetObject{3, kObject, 1000});
  EXPECT_EQ(receive(client)->reply.error->code, ErrorCode::kNotFound);
  const auto memory = sealed_memory("x");
  send(client, protocol::PutObject{4, kObject, raw_tensor(Bytes(1)), UINT64_MAX}, memory->get());
  EXPECT_EQ(receive(client)->reply.error->code, ErrorCode::kInvalidArgument);
  send(client, protocol::PutObject{5, kObject, raw_tensor(Bytes(1)), 60'000}, memory->get());
  EXPECT_FALSE(receive(client)->reply.error);
  send(client, protocol::PutObject{6, kObject, raw_tensor(Bytes(1)), 0}, memory->get());
  EXPECT_EQ(receive(client)->reply.error->code, ErrorCode::kAlreadyExists);
}

TEST_F(ObjectSocketTest, AGetWaitsAndOthersOvertakeIt) {
  const OwnedFd client = connect();
  ASSERT_TRUE(store_.expect(kTenant, kObject).ok());
  send(client, protocol::GetObject{1, kObject, 60'000});
  send(client, protocol::GetObject{2, kObject, 0});
  EXPECT_EQ(receive(client)->reply.error->code, ErrorCode::kDeadlineExceeded);
  ASSERT_TRUE(store_.store(kTenant, kObject, raw_tensor(Bytes(1)), *sealed_memory("x")).ok());
  const auto got = receive(client);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->reply.ticket, 1u);
  EXPECT_EQ(got->fds.size(), 1u);
}

TEST_F(ObjectSocketTest, AClientThatLeavesWaitsNoMore) {
  OwnedFd client = connect();
  ASSERT_TRUE(store_.expect(kTenant, kObject).ok());
  send(client, protocol::GetObject{1, kObject, 60'000});
  turn();
  EXPECT_EQ(store_.statistics().waiting, 1u);
  client.reset();
  turn();
  EXPECT_EQ(store_.statistics().waiting, 0u);
  EXPECT_EQ(socket_.connections(), 0u);
}

TEST_F(ObjectSocketTest, NonsenseEndsAConnection) {
  const OwnedFd client = connect();
  ASSERT_TRUE(send_packet(client.get(), "\x09nonsense").ok());
  EXPECT_TRUE(is_closed(client));
  const OwnedFd other = connect();
  send(other, protocol::ObjectReply{});
  EXPECT_TRUE(is_closed(other));
  const OwnedFd long_winded = connect();
  ASSERT_TRUE(send_packet(long_winded.get(), std::string(8192, 'x')).ok());
  EXPECT_TRUE(is_closed(long_winded));
}

TEST_F(ObjectSocketTest, WithoutDescriptorsAcceptingTakesAPause) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  rlimit none = files;
  none.rlim_cur = 0;
  const OwnedFd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  connect(client);
  turn();
  setrlimit(RLIMIT_NOFILE, &files);
  EXPECT_EQ(socket_.connections(), 0u);
  EXPECT_EQ(log_.count, 1);
  clock_.advance(milliseconds(100));
  turn();
  EXPECT_EQ(socket_.connections(), 1u);
}

TEST_F(ObjectSocketTest, OneClientWaitsForOnlySoMany) {
  const OwnedFd client = connect();
  ASSERT_TRUE(store_.expect(kTenant, kObject).ok());
  for (uint64_t i = 0; i < limits::kObjectGets; ++i) {
    send(client, protocol::GetObject{i, kObject, 60'000});
    loop_.run_once(Duration(0));
  }
  send(client, protocol::GetObject{9999, kObject, 60'000});
  const auto refused = receive(client);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->reply.error->code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace lambent::objects
