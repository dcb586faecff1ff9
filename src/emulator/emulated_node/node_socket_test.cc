// Nodes that a server keeps, as processes see them.
#include "emulator/emulated_node/node_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "emulator/emulated_node/byte_locks.h"
#include "emulator/emulated_node/node.h"

namespace lambent::emulated_node {
namespace {

// Hands out a node as a worker does, on a thread of its own.
class Served : public testing::Test {
 protected:
  Served() : path_(testing::TempDir() + "/served_" + std::to_string(getpid())) {
    unlink(path_.c_str());
    NodeSpec spec;
    std::string error;
    EXPECT_TRUE(read_node_spec("tiny", &spec, &error)) << error;
    auto state = std::make_unique<NodeState>();
    initialise(*state, spec);
    live_ = memory_file(*state, F_SEAL_SHRINK | F_SEAL_GROW);
    pristine_ = memory_file(*state, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    server_ = std::thread([this] { serve(); });
  }
  ~Served() override {
    shutdown(listener_, SHUT_RDWR);
    server_.join();
    for (const int fd : {listener_, live_, pristine_}) close(fd);
    unlink(path_.c_str());
  }
  std::unique_ptr<Node> open() {
    auto node = Node::open(path_, "tiny", &error_);
    EXPECT_TRUE(node) << error_;
    return node;
  }
  static int memory_file(const NodeState& state, int seals) {
    const int fd = memfd_create("node", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(write(fd, &state, sizeof state), static_cast<ssize_t>(sizeof state));
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
  }
  void serve() {
    for (int peer; (peer = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
      const std::string self = "/proc/self/fd/" + std::to_string(live_);
      int fds[2] = {::open(self.c_str(), O_RDWR | O_CLOEXEC), pristine_};
      if (given_ == 2) send(peer, fds);
      close(fds[0]);
      close(peer);
    }
  }
  static void send(int peer, const int (&fds)[2]) {
    char word = 'N';
    iovec piece{&word, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof fds);
    std::memcpy(CMSG_DATA(part), fds, sizeof fds);
    EXPECT_EQ(sendmsg(peer, &header, MSG_NOSIGNAL), 1);
  }

  const std::string path_;
  std::string error_;
  int live_ = -1, pristine_ = -1, listener_ = -1;
  std::atomic<int> given_ = 2;
  std::thread server_;
};

TEST_F(Served, ANodeIsSharedByAllWhoConnect) {
  auto first = open(), second = open();
  const uint32_t row = first->claim_row();
  { Node::Guard(*first)->rows[row].bytes[0] = 1000; }
  EXPECT_EQ(Node::Guard(*second).used_bytes(0), 1000u);
  first->abandon_after_fork();
  Node::Guard guard(*second);
  guard.reap(true);
  EXPECT_EQ(guard.used_bytes(0), 0u) << "its locks were its own";
}

TEST_F(Served, ADamagedNodeIsMadeAgainOnceNoProcessUsesIt) {
  auto watcher = open(), user = open();
  const uint32_t row = user->claim_row();
  ASSERT_NE(row, kNobody);
  { Node::Guard(*user)->rows[row].bytes[0] = 1000; }
  const std::string nonsense(4096, '\xa5');
  ASSERT_EQ(pwrite(live_, nonsense.data(), nonsense.size(), 0), 4096);
  {
    Node::Guard guard(*watcher);
    EXPECT_TRUE(watcher->is_cut_off());
    EXPECT_EQ(guard->devices[0].health.lost, 1u);
  }
  { Node::Guard guard(*user); }
  EXPECT_TRUE(user->is_cut_off());
  user->abandon_after_fork();
  Node::Guard guard(*watcher);
  EXPECT_FALSE(watcher->is_cut_off());
  EXPECT_EQ(guard.used_bytes(0), 0u);
  auto next = open();
  ASSERT_TRUE(next);
}

TEST_F(Served, AProcessThatComesToADamagedNodeInUseHasNone) {
  auto user = open();
  ASSERT_NE(user->claim_row(), kNobody);
  const std::string nonsense(4096, '\xa5');
  ASSERT_EQ(pwrite(live_, nonsense.data(), nonsense.size(), 0), 4096);
  auto next = open();
  EXPECT_EQ(next->spec().device_count, user->spec().device_count) << "what it is, it knows";
  EXPECT_EQ(next->claim_row(), kNobody);
  EXPECT_TRUE(next->is_cut_off());
}

TEST_F(Served, AServerThatGivesNothingIsAnErrorThatSaysSo) {
  given_ = 0;
  EXPECT_EQ(Node::open(path_, "tiny", &error_), nullptr);
  EXPECT_NE(error_.find("no node was given"), std::string::npos) << error_;
}

}  // namespace
}  // namespace lambent::emulated_node
